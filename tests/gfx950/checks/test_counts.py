"""Counts against hand-made numbers and against slow formulas."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.checks import Checks
from mxassay.gfx950.checks.traffic import lds_cycles, lines_of


def test_instructions_and_bytes_of_a_launch(plant, words):
    checks = Checks("counts")
    text = """
    global_load_dwordx2 v[2:3], v1, s[4:5]
    v_cmp_gt_u32 vcc, 16, v0
    s_waitcnt vmcnt(0)
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_read2_b32 v[4:5], v1 offset1:1
    v_mfma_f32_16x16x32_bf16 v[12:15], v[2:5], v[2:5], 0
    s_and_saveexec_b64 s[8:9], vcc
    global_store_dword v1, v4, s[6:7]
    global_atomic_add v1, v4, s[6:7] offset:4
    scratch_store_dword off, v4, off
    scratch_load_dword v4, off, off
    s_mov_b64 exec, s[8:9]
    s_lshr_b32 s10, s2, 1
    again:
    s_sub_u32 s10, s10, 1
    s_cbranch_scc0 again
    """
    plant(text, lds=1024, scratch=16).run(checks, words(256), words(256), grid=3, block=128)
    (counts,) = checks.counts
    assert counts.waves == 6
    # Workgroup 2 goes round the loop once more than 0 and 1.
    assert counts.instructions == {
        "valu": 6 * 2, "mfma": 6, "salu": 6 * 3 + 8, "smem": 6, "vmem": 6 * 5, "lds": 6 * 2, "branch": 8, "barrier": 6,
        "wait": 6 * 3, "other": 6,
    }  # fmt: skip
    assert counts.mfma == 6
    assert counts.busiest_wave["salu"] == 3 + 2
    assert counts.per_wave.sum(axis=0).tolist() == [21, 21, 21, 21, 23, 23]
    assert counts.loaded == {"argument 0": 6 * 64 * 8, "the kernel arguments": 6 * 16}
    # Work-items 0..15 lie in each workgroup's first wave.
    assert counts.stored == {"argument 1": 3 * 16 * 4}
    assert counts.atomic == {"argument 1": 3 * 16 * 4}
    assert (counts.lds_read, counts.lds_written) == (6 * 64 * 8, 6 * 64 * 4)
    assert (counts.scratch_read, counts.scratch_written) == (3 * 16 * 4, 3 * 16 * 4)
    assert counts.text().splitlines()[0] == "planted: 130 instructions in 6 waves"


def slow_cycles(address, size, mask):
    """Lane by lane: each group's busiest bank."""
    words = max(1, size // 4)
    group = {1: 64, 2: 32}.get(words, 16)
    rows = []
    for row, on in zip(address.tolist(), mask.tolist(), strict=True):
        cycles = []
        for start in range(0, 64, group):
            dwords = {row[i] // 4 + w for i in range(start, start + group) if on[i] for w in range(words)}
            banks = [dword % 64 for dword in dwords]
            cycles.append(max((banks.count(bank) for bank in set(banks)), default=0))
        rows.append(cycles)
    return rows


def slow_lines(address, size, mask):
    lines, needed = [], []
    for row, on in zip(address.tolist(), mask.tolist(), strict=True):
        active = [a for a, flag in zip(row, on, strict=True) if flag]
        lines.append(len({byte // 128 for a in active for byte in (a, a + size - 1)}))
        needed.append(-(-len(set(active)) * size // 128))
    return lines, needed


accesses = st.tuples(
    st.sampled_from([1, 2, 4, 8, 12, 16]), st.sampled_from([0, 1, 4, 64, 68, 128, 256, 1028]), st.integers(0, 2**32)
)


@given(accesses)
@example((4, 4, 0))
@example((16, 16, 0))
@example((4, 256, 0))
def test_costs_are_those_of_the_slow_formulas(drawn):
    size, step, seed = drawn
    rng = np.random.default_rng(seed)
    address = np.arange(64) * step + size * rng.integers(0, 3, (3, 64))
    mask = rng.random((3, 64)) < rng.choice([0.0, 0.3, 1.0], (3, 1))
    assert lds_cycles(address, size, mask).tolist() == slow_cycles(address, size, mask)
    assert [part.tolist() for part in lines_of(address, size, mask)] == list(slow_lines(address, size, mask))


@pytest.mark.parametrize(
    ("step", "size", "cost", "ideal"),
    [(4, 4, 1, 1), (128, 4, 32, 1), (8, 8, 2, 2), (16, 16, 4, 4), (512, 16, 64, 4), (0, 4, 1, 1)],
)
def test_bank_conflicts_of_an_lds_read(plant, words, step, size, cost, ideal):
    checks = Checks("bank-conflicts")
    width = {4: "b32 v4", 8: "b64 v[4:5]", 16: "b128 v[4:7]"}[size]
    kernel = plant(f"v_mul_u32_u24 v2, {step}, v0\nds_read_{width}, v2 ; <- here", lds=64 * 512)
    kernel.run(checks, words(), words(), grid=2)
    (place,) = checks.places
    assert (place.check, place.pc, place.accesses) == ("bank-conflicts", kernel.pc(), 2)
    assert (place.cost, place.ideal, place.extra) == (2 * cost, 2 * ideal, 2 * (cost - ideal))


@pytest.mark.parametrize(("step", "cost", "ideal"), [(4, 2, 2), (8, 4, 2), (128, 64, 2), (0, 1, 1)])
def test_lines_of_a_global_load(plant, words, step, cost, ideal):
    checks = Checks("coalescing")
    kernel = plant(f"v_mul_u32_u24 v2, {step}, v0\nglobal_load_dword v3, v2, s[4:5] ; <- here", lds=64 * 512)
    memory = np.zeros(64 * 128 + 128, np.uint8)
    aligned = memory[-memory.ctypes.data % 128 :][: 64 * 128]
    kernel.run(checks, aligned, words())
    (place,) = checks.places
    # The address space keeps 64 bytes of a pointer's alignment: a line may begin in the middle.
    assert (place.pc, place.accesses, place.ideal) == (kernel.pc(), 1, ideal)
    assert cost <= place.cost <= cost + 1
