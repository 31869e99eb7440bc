"""The model of VMCNT and LGKMCNT alone, and what instructions touch."""

import numpy as np
import pytest
from assemble import machine_code

from mxassay.gfx950.checks.counters import Counters, waits_of
from mxassay.gfx950.checks.effects import SCC, effects_of, register_name
from mxassay.gfx950.decode import decode_one

ROWS = slice(0, 2)


def decoded(text):
    return decode_one(machine_code(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s_waitcnt 0", (0, 0)), ("s_waitcnt vmcnt(63)", (63, 15)), ("s_waitcnt vmcnt(17)", (17, 15)),
     ("s_waitcnt lgkmcnt(3)", (63, 3)), ("s_waitcnt vmcnt(33) lgkmcnt(14)", (33, 14))],
)  # fmt: skip
def test_fields_of_a_wait(text, expected):
    assert waits_of(decoded(text)) == expected


def issued(*names):
    counters = Counters(2)
    for name in names:
        counters.issue(ROWS, name)
    return counters


def ended(counters):
    return {name: column.tolist() for name, column in counters.ended.items()}


def test_a_wait_tells_of_the_oldest():
    counters = issued("vm", "vm", "vm", "lds", "lds")
    counters.wait(slice(0, 1), 1, 15)
    assert ended(counters) == {"vm": [2, 0], "lds": [0, 0], "smem": [0, 0]}
    counters.wait(ROWS, 63, 1)
    assert ended(counters) == {"vm": [2, 0], "lds": [1, 1], "smem": [0, 0]}


def test_a_weaker_wait_takes_nothing_back():
    counters = issued("vm", "vm")
    counters.wait(ROWS, 0, 15)
    counters.wait(ROWS, 2, 15)
    assert ended(counters)["vm"] == [2, 2]


def test_scalar_loads_need_a_wait_for_all():
    counters = issued("smem", "smem", "lds")
    counters.wait(ROWS, 63, 1)
    assert ended(counters) == {"vm": [0, 0], "lds": [0, 0], "smem": [0, 0]}
    counters.wait(ROWS, 63, 0)
    assert ended(counters) == {"vm": [0, 0], "lds": [1, 1], "smem": [2, 2]}


def test_a_flat_load_under_way_makes_vmcnt_above_0_worthless():
    counters = issued("vm", "flat", "vm")
    counters.wait(ROWS, 1, 15)
    assert ended(counters)["vm"] == [0, 0]
    counters.wait(ROWS, 0, 15)
    assert ended(counters)["vm"] == [3, 3]
    counters.issue(ROWS, "vm")
    counters.issue(ROWS, "vm")
    counters.wait(ROWS, 1, 15)
    assert ended(counters)["vm"] == [4, 4]


def test_slots_may_be_scattered():
    counters = Counters(4)
    rows = np.array([0, 3])
    counters.issue(rows, "vm")
    counters.wait(rows, 0, 0)
    assert ended(counters)["vm"] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "reads", "writes", "counter"),
    [
        ("v_add_u32 v1, v2, v3", "v2 v3", "v1", ""),
        ("v_fmac_f32 v1, v2, s3", "v2 s3 v1", "v1", ""),
        ("v_addc_co_u32 v1, vcc, v2, v3, vcc", "v2 v3 vcc_lo vcc_hi", "v1 vcc_lo vcc_hi", ""),
        ("v_swap_b32 v1, v2", "v2 v1", "v2 v1", ""),
        ("s_addc_u32 s1, s2, s3", "s2 s3 scc", "s1 scc", ""),
        ("s_addk_i32 s1, 0x10", "s1", "s1 scc", ""),
        ("s_and_saveexec_b64 s[2:3], vcc", "vcc_lo vcc_hi exec_lo exec_hi", "s2 s3 exec_lo exec_hi scc", ""),
        ("s_cbranch_vccz 4", "vcc_lo vcc_hi", "", ""),
        ("s_cmp_eq_u32 s1, s2", "s1 s2", "scc", ""),
        ("s_mul_i32 s1, s2, s3", "s2 s3", "s1", ""),
        ("s_load_dwordx2 s[2:3], s[4:5], 0x0", "s4 s5", "s2 s3", "smem"),
        ("buffer_load_dword v1, off, s[4:7], 0", "s4 s5 s6 s7", "v1", "vm"),
        ("buffer_load_dwordx2 v[2:3], v9, s[4:7], s8 offen", "v9 s4 s5 s6 s7 s8", "v2 v3", "vm"),
        ("buffer_load_dword v9, s[4:7], 0 offen lds", "v9 s4 s5 s6 s7 m0", "", "vm"),
        ("global_store_dwordx2 v[2:3], v[4:5], off", "v2 v3 v4 v5", "", "vm"),
        ("global_load_short_d16_hi v1, v[2:3], off", "v2 v3", "v1", "vm"),
        ("global_atomic_add v1, v2, s[4:5]", "v1 v2 s4 s5", "", "vm"),
        ("global_atomic_add v3, v1, v2, s[4:5] sc0", "v1 v2 s4 s5", "v3", "vm"),
        ("buffer_atomic_add v1, v2, s[4:7], 0 offen sc0", "v2 v1 s4 s5 s6 s7", "v1", "vm"),
        ("scratch_load_dword v1, off, s3", "s3", "v1", "vm"),
        ("flat_load_dword v1, v[2:3]", "v2 v3", "v1", "flat"),
        ("ds_read2_b32 v[2:3], v1 offset1:1", "v1", "v2 v3", "lds"),
        ("v_accvgpr_read_b32 v1, a2", "a2", "v1", ""),
        ("v_mfma_f32_16x16x32_bf16 a[0:3], v[4:7], a[8:11], a[0:3]",
         "v4 v5 v6 v7 a8 a9 a10 a11 a0 a1 a2 a3", "a0 a1 a2 a3", ""),
        ("s_waitcnt 0", "", "", ""),
    ],
)  # fmt: skip
def test_what_an_instruction_touches(text, reads, writes, counter):
    effects = effects_of(decoded(text))
    assert sorted(map(register_name, effects.reads)) == sorted(reads.split())
    assert sorted(map(register_name, effects.writes)) == sorted(writes.split())
    assert effects.counter == counter


@pytest.mark.parametrize(
    ("text", "writes"),
    [("s_and_b64 s[0:1], s[2:3], s[4:5]", True), ("s_mov_b32 s0, s1", False), ("s_bitcmp1_b32 s0, s1", True),
     ("s_bfm_b32 s0, s1, s2", False), ("s_cselect_b32 s0, s1, s2", False), ("s_abs_i32 s0, s1", True),
     ("s_ashr_i32 s0, s1, 3", True), ("s_pack_ll_b32_b16 s0, s1, s2", False), ("s_lshl2_add_u32 s0, s1, s2", True),
     ("s_not_b32 s0, s1", True), ("s_mul_hi_u32 s0, s1, s2", False), ("s_ff1_i32_b64 s0, s[2:3]", False),
     ("s_bcnt1_i32_b64 s0, s[2:3]", True), ("s_cmpk_lt_i32 s0, 3", True), ("s_andn2_b64 s[0:1], s[2:3], vcc", True)],
)  # fmt: skip
def test_which_scalar_operations_write_scc(text, writes):
    assert (SCC in effects_of(decoded(text)).writes) == writes
