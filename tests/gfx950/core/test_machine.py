"""The scheduler: loops of different lengths, barriers, waits between workgroups, exits, and the faults of each."""

import numpy as np
import pytest

from mxassay.gfx950.decode import UndecodableError
from mxassay.gfx950.faults import EndlessLoop, KernelFault, MemoryFault, UnsupportedInstruction

# out[64 * (group * waves + wave) + lane], with v2 as the value; `waves` is a power of two given by its shift.
STORE = """
s_lshl_b32 s10, s4, {shift}
s_add_u32 s10, s10, s5
s_lshl_b32 s10, s10, 6
v_add_u32 v1, s10, v0
v_lshlrev_b32 v1, 2, v1
global_store_dword v1, v2, s[2:3]
s_endpgm
"""


def store(waves: int = 1) -> str:
    return STORE.format(shift=waves.bit_length() - 1)


def test_waves_that_loop_for_different_times_each_get_their_own_count(run):
    text = "s_mul_i32 s8, s4, 7\ns_and_b32 s8, s8, 15\nv_mov_b32 v2, 0\ntop:\nv_add_u32 v2, 1, v2\n"
    text += "s_sub_u32 s8, s8, 1\ns_cmp_gt_i32 s8, 0\ns_cbranch_scc1 top\n" + store()
    finished = run(text, groups=16)
    assert finished.out.reshape(16, 64)[:, 5].tolist() == [max(1, 7 * group & 15) for group in range(16)]


def test_waves_that_parted_run_together_again_after_the_branches_meet(run):
    text = "s_cmp_gt_i32 s4, 2\ns_cbranch_scc1 other\nv_mov_b32 v2, 1\ns_branch meet\nother:\nv_mov_b32 v2, 2\nmeet:\n"
    finished = run(text + "s_nop 0\n" * 40 + store(), groups=8)
    assert finished.out[:512].reshape(8, 64)[:, 0].tolist() == [1] * 3 + [2] * 5
    # Parted for good, the 40 no-ops would count twice.
    assert finished.machine.counts.steps < 60
    assert finished.machine.counts.lane_instructions == finished.machine.counts.wave_instructions * 64


LDS_EXCHANGE = """
s_lshl_b32 s6, s5, 8
v_lshlrev_b32 v3, 2, v0
v_add_u32 v3, s6, v3
v_mov_b32 v4, s5
v_lshl_or_b32 v4, s4, 8, v4
{delay}
ds_write_b32 v3, v4
s_barrier
s_xor_b32 s7, s5, 1
s_lshl_b32 s7, s7, 8
v_lshlrev_b32 v3, 2, v0
v_add_u32 v3, s7, v3
ds_read_b32 v2, v3
"""
DELAY = "s_mul_i32 s8, s5, 20\nwait:\ns_sub_u32 s8, s8, 1\ns_cmp_gt_i32 s8, 0\ns_cbranch_scc1 wait"


@pytest.mark.parametrize("delay", ["", DELAY], ids=["together", "apart"])
def test_a_barrier_shows_each_wave_what_its_neighbour_wrote_before(run, delay):
    finished = run(LDS_EXCHANGE.format(delay=delay) + store(2), groups=5, waves=2, lds=512)
    got = finished.out[: 5 * 2 * 64].reshape(5, 2, 64)
    assert (got == (np.arange(5)[:, None] * 256 + [1, 0])[..., None]).all()


def test_waves_may_wait_at_different_barriers(run):
    text = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 first\nv_mov_b32 v2, 1\ns_barrier\ns_branch done\nfirst:\n"
    finished = run(text + "v_mov_b32 v2, 2\ns_barrier\ndone:\n" + store(2), groups=3, waves=2)
    assert finished.out[: 3 * 2 * 64].reshape(3, 2, 64)[..., 0].tolist() == [[2, 1]] * 3


def test_a_wave_that_ended_is_not_waited_for(run):
    text = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc0 stay\ns_endpgm\nstay:\nv_mov_b32 v2, 9\ns_barrier\n" + store(2)
    assert run(text, groups=2, waves=2).out[: 2 * 2 * 64].reshape(2, 2, 64)[..., 0].tolist() == [[0, 9]] * 2


SPIN = """
v_mov_b32 v3, 0
v_mov_b32 v4, 1
s_mov_b64 exec, 1
global_atomic_add v3, v4, s[2:3]
spin:
s_load_dword s8, s[2:3], 0x0
s_cmp_lt_u32 s8, {groups}
s_cbranch_scc1 spin
v_mov_b32 v2, s8
s_add_u32 s2, s2, 4
s_addc_u32 s3, s3, 0
v_mov_b32 v1, s4
v_lshlrev_b32 v1, 2, v1
global_store_dword v1, v2, s[2:3]
s_endpgm
"""


def test_a_workgroup_that_waits_for_one_of_a_later_batch_gets_it(run):
    finished = run(SPIN.format(groups=6), groups=6, per_batch=2)
    assert finished.out[:7].tolist() == [6] * 7


def test_within_a_batch_a_spinning_wave_does_not_starve_the_one_it_waits_for(run):
    # Wave 1 spins at a lower pc than wave 0, which sets the flag: lowest pc first alone would hang.
    text = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 setter\nspin:\ns_load_dword s8, s[2:3], 0x0\ns_cmp_eq_u32 s8, 0\n"
    text += (
        "s_cbranch_scc1 spin\ns_endpgm\nsetter:\nv_mov_b32 v3, 0\nv_mov_b32 v4, 7\nglobal_store_dword v3, v4, s[2:3]\n"
    )
    text += "s_endpgm"
    finished = run(text, waves=2)
    assert finished.out[0] == 7
    assert finished.machine.counts.steps < 10_000


def test_an_endless_loop_is_named(run):
    with pytest.raises(
        EndlessLoop, match=r"must end within 5,000 steps, but still runs at pc 0x1004 of test: `s_branch"
    ):
        run("top:\ns_nop 1\ns_branch top", budget=5_000)


def test_a_barrier_that_can_not_open_is_named(run):
    text = "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 spin\ns_barrier\ns_endpgm\nspin:\ns_branch spin"
    with pytest.raises(EndlessLoop):
        run(text, waves=2, budget=50_000)


def test_an_unknown_instruction_stops_only_what_reaches_it(run):
    text = "s_cmp_eq_u32 s4, 9\ns_cbranch_scc1 bad\ns_endpgm\nbad:\ns_rfe_b64 s[0:1]\ns_endpgm"
    assert run(text, groups=9).machine.counts.steps > 0
    with pytest.raises(UnsupportedInstruction, match=r"pc 0x100c: `s_rfe_b64 s\[0:1\]` \(SOP1\): no semantics"):
        run(text, groups=10)


def test_a_load_outside_every_buffer_names_wave_lane_and_buffer(run):
    text = "v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3] offset:64\ns_endpgm"
    assert run(text, out=80).machine.counts.steps == 3
    with pytest.raises(MemoryFault) as caught:
        run(text, out=79, groups=2)
    fault = caught.value
    assert (fault.wave, fault.lane, fault.size) == (0, 63, 4)
    assert "0 bytes past the end of out of 316 bytes" in str(fault)
    assert "at pc 0x1004 of test: `global_load_dword v2, v1, s[2:3] offset:0x40`" in str(fault)


def test_lanes_that_exec_has_off_do_not_fault(run):
    text = "v_lshlrev_b32 v1, 2, v0\nv_cmp_gt_u32 vcc, 16, v0\ns_and_saveexec_b64 s[6:7], vcc\n"
    text += "v_mov_b32 v2, 3\nglobal_store_dword v1, v2, s[2:3]\ns_endpgm"
    assert run(text, out=16).out.tolist() == [3] * 16


def test_an_lds_access_past_the_workgroups_lds_stops(run):
    with pytest.raises(MemoryFault, match=r"an LDS load must stay inside 256 bytes, not at 0x100 for 4 bytes"):
        run("v_lshlrev_b32 v1, 2, v0\nds_read_b32 v2, v1 offset:4\ns_endpgm", lds=256)


def test_fill_is_what_uninitialised_registers_hold(run):
    finished = run("v_mov_b32 v2, v20\n" + store(), fill=0xABCD1234)
    assert finished.out[:64].tolist() == [0xABCD1234] * 64


class Log:
    """An observer that writes down what it is told."""

    def __init__(self):
        self.said = []

    def before(self, cohort, inst):
        self.said.append(("before", inst.op))

    def access(self, cohort, inst, access):
        self.said.append((access.kind, access.space, access.size, int(access.mask.sum())))

    def after(self, cohort, inst):
        self.said.append(("after", inst.op))

    def barrier(self, groups):
        self.said.append(("barrier", groups.tolist()))


def test_an_observer_hears_of_every_instruction_access_and_barrier(run):
    log = Log()
    run(
        "v_lshlrev_b32 v1, 2, v0\ns_waitcnt 0\nds_write_b32 v1, v0\ns_barrier\ns_endpgm",
        groups=2,
        lds=256,
        observer=log,
    )
    assert log.said == [
        ("before", "v_lshlrev_b32"), ("after", "v_lshlrev_b32"), ("before", "s_waitcnt"), ("after", "s_waitcnt"),
        ("before", "ds_write_b32"), ("store", "lds", 4, 128), ("after", "ds_write_b32"),
        ("before", "s_barrier"), ("after", "s_barrier"), ("barrier", [0, 1]),
        ("before", "s_endpgm"), ("after", "s_endpgm"),
    ]  # fmt: skip


def test_kernel_fault_is_the_family_of_what_a_kernel_does_wrong():
    assert issubclass(MemoryFault, KernelFault)
    assert issubclass(EndlessLoop, KernelFault)


def test_bytes_that_are_no_instruction_stop_only_what_reaches_them(run):
    text = "s_cmp_eq_u32 s4, 9\ns_cbranch_scc1 bad\ns_endpgm\nbad:\n.long 0xffffffff\ns_endpgm"
    assert run(text, groups=9).machine.counts.steps > 0
    with pytest.raises(UndecodableError, match="not the word 0xffffffff at pc 0x100c of test"):
        run(text, groups=10)


def test_each_lane_has_its_own_scratch(run):
    text = "v_lshl_or_b32 v3, s4, 8, v0\nscratch_store_dword off, v3, off offset:8\nv_mov_b32 v8, 12\n"
    text += "scratch_store_dwordx3 v8, v[4:6], off\ns_mov_b32 s9, 4\nscratch_load_dword v2, off, s9 offset:4\n"
    finished = run(text + store(), groups=3, scratch=24)
    assert (finished.out[:192].reshape(3, 64) == np.arange(3)[:, None] * 256 + np.arange(64)).all()
    with pytest.raises(MemoryFault, match="a scratch store must stay inside 20 bytes a lane, not at 0xc for 12 bytes"):
        run(text + store(), scratch=20)
