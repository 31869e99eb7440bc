"""Clocks of hand-written kernels against sums made by hand: 4 cycles an instruction, latencies where a wait says so."""

import numpy as np
import pytest

from mxassay.gfx950 import Options, launch
from mxassay.gfx950.assembler import KernelText, assemble, module
from mxassay.gfx950.timing import CARD, WorkObserver

MEMORY, SCALAR, LDS, AFTER = 1000, 300, 50, 8
CHOSEN = CARD.but(memory_latency=MEMORY, scalar_latency=SCALAR, lds_latency=LDS, after_matrix=AFTER)
# Two instructions, the kernel arguments, and the wait itself: what every planted kernel begins with.
START = 4 + SCALAR


def work_of(plant, text, *, grid=1, block=64, words=4096, **options):
    watch = WorkObserver(CHOSEN)
    buffers = [np.zeros(words, np.uint32) for _ in range(2)]
    plant(text, **options).run(watch, *buffers, grid=grid, block=block)
    (work,) = watch.work
    return work


def test_a_wave_waits_for_its_arguments(plant):
    work = work_of(plant, "v_mov_b32 v2, 0")
    # The scalar load is issued at 4 and there at 4 + SCALAR; then v_mov and s_endpgm.
    assert work.longest == START + 4 + 4
    assert (work.trips, work.local_trips) == (1, 0)


def test_two_loads_under_way_are_one_trip_and_two_in_turn_are_two(plant):
    together = """
    global_load_dword v2, v1, s[4:5]
    global_load_dword v3, v1, s[4:5] offset:256
    s_waitcnt vmcnt(0)
    """
    in_turn = """
    global_load_dword v2, v1, s[4:5]
    s_waitcnt vmcnt(0)
    global_load_dword v3, v1, s[4:5] offset:256
    s_waitcnt vmcnt(0)
    """
    one, two = work_of(plant, together), work_of(plant, in_turn)
    assert one.longest == START + 2 * 4 + MEMORY + 4
    assert two.longest == START + 4 + MEMORY + 4 + MEMORY + 4
    assert (one.trips, two.trips) == (2, 3)  # with the one for the arguments


def test_a_count_above_zero_waits_for_the_older_load_only(plant):
    text = "global_load_dword v2, v1, s[4:5]\n" + 10 * "v_mov_b32 v4, 0\n"
    text += "global_load_dword v3, v1, s[4:5] offset:256\ns_waitcnt vmcnt(1)"
    work = work_of(plant, text)
    # After the wait comes s_endpgm; the kernel is over when the second load is.
    first, second = START + 4 + MEMORY, START + 4 + 40 + 4 + MEMORY
    assert first + 4 < second == work.longest


def test_lds_answers_sooner_than_memory(plant):
    work = work_of(plant, "ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)", lds=1024)
    assert work.longest == START + 4 + LDS + 4
    assert (work.trips, work.local_trips) == (1, 1)


def test_a_barrier_waits_for_the_last_wave(plant):
    # Only the first wave of each workgroup goes round the loop.
    text = """
    v_readfirstlane_b32 s8, v0
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc0 meet
    s_nop 15
    s_nop 15
    meet:
    s_barrier
    """
    work = work_of(plant, text, grid=3, block=128)
    assert work.longest == START + 3 * 4 + 2 * 16 * 4 + 4 + 4
    assert work.longest_issue == 3 * 4 + 3 * 4 + 2 * 16 * 4 + 4 + 4


@pytest.mark.parametrize(
    ("op", "busy", "d", "a"),
    [
        ("v_mfma_scale_f32_16x16x128_f8f6f4", 16, 3, 3),
        ("v_mfma_scale_f32_32x32x64_f8f6f4", 32, 15, 3),
    ],
)
def test_matrix_instructions_queue_for_their_unit(plant, op, busy, d, a):
    line = f"{op} v[16:{16 + d}], v[4:{4 + a}], v[8:{8 + a}], v[16:{16 + d}], v2, v3 op_sel_hi:[0,0,0] cbsz:4 blgp:4\n"
    one, three = work_of(plant, line), work_of(plant, 3 * line)
    assert (one.matrix, three.matrix) == (busy, 3 * busy)
    assert three.longest - one.longest == 2 * busy
    assert one.vector_per_matrix == 1  # v_lshlrev of the planted beginning
    assert three.vector_per_matrix == pytest.approx(1 / 3)


def test_slow_instructions_take_longer(plant):
    plain, slow = work_of(plant, "v_mov_b32 v2, v0"), work_of(plant, "v_mul_lo_u32 v2, v0, v0")
    assert slow.longest - plain.longest == CARD["slow_vector"] - CARD["issue"]
    assert slow.vector - plain.vector == CARD["slow_vector"] - CARD["issue"]


def test_lines_are_counted_once_a_die(plant):
    # Nine workgroups read the same 256 bytes: eight dies, and die 0 twice.
    work = work_of(plant, "global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)", grid=9)
    buffer_lines = work.lines["loaded_once"] - 1  # the kernel arguments lie in one
    assert buffer_lines in (2, 3)
    assert work.lines["loaded"] == 8 * work.lines["loaded_once"]
    assert work.needed == 256 + 16
    assert work.asked == 9 * (256 + 16)
    assert work.lines["stored"] == 0


def test_stores_are_lines_too_and_end_with_the_kernel(plant):
    work = work_of(plant, "global_store_dword v1, v0, s[6:7]", grid=2)
    assert work.lines["stored"] == 2 * work.lines["stored_once"]  # by two dies
    assert work.longest == START + 4 + MEMORY


def test_lines_requested_in_all_and_by_the_busiest_workgroup(plant):
    # Every workgroup asks for 256 bytes, the last of three for them twice.
    text = """
    global_load_dword v2, v1, s[4:5]
    s_cmp_lg_u32 s2, 2
    s_cbranch_scc1 done
    global_load_dword v3, v1, s[4:5]
    done:
    s_nop 0
    """
    work = work_of(plant, text, grid=3)
    each = work.lines["requested"] // 4
    assert each in (2, 3)
    assert work.lines["requested"] == 4 * each
    assert work.lines["busiest"] == 2 * each


def test_a_cache_written_back_takes_a_trip(plant):
    # The counter of vector memory knows of it, as LLVM's releases suppose.
    work = work_of(plant, "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)")
    assert work.longest == START + 4 + MEMORY + 4


@pytest.mark.parametrize(("skipped", "cycles"), [(256, 2 * 4 + MEMORY), (0, 4 * 4 + SCALAR + 4 + 2 * 4 + MEMORY)])
def test_a_kernel_with_preloaded_arguments_is_entered_behind_their_loading(skipped, cycles):
    # The loading: four scalar loads, the wait, a branch.
    body = """
v_mov_b32_e32 v1, 0
global_store_dword v1, v1, s[4:5]
"""
    text = module(KernelText("k", body, preload=4))
    watch = WorkObserver(CHOSEN.but(preload=skipped))
    launch(assemble(text), (1,), (64,), [np.zeros(4, np.uint32) for _ in range(2)], options=Options(observer=watch))
    assert watch.work[0].longest == cycles
