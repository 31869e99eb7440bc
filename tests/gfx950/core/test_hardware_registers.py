"""MODE and the other hardware registers, traps, calls, and relative scalar moves."""

import numpy as np
import pytest

from mxassay.gfx950 import KernelFault, UnsupportedInstruction
from mxassay.gfx950.registry import Mode

STORE = """
v_mov_b32_e32 v2, s2
v_mov_b32_e32 v3, s3
s_lshl_b32 s6, s4, 8
v_lshlrev_b32_e32 v4, 2, v0
v_add_u32_e32 v4, s6, v4
v_add_co_u32_e32 v2, vcc, v2, v4
v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
global_store_dword v[2:3], v1, off
s_endpgm
"""


@pytest.fixture
def value(run):
    """What a program leaves in v1, lane 0 of each workgroup."""

    def value(text: str, groups: int = 1) -> list[int]:
        return [int(word) for word in run(text + STORE, groups=groups).out[: 64 * groups : 64]]

    return value


def scalar(text: str) -> str:
    return text + "\nv_mov_b32_e32 v1, s20\n"


def test_mode_reads_back_as_it_was_set(value):
    assert value(scalar("s_getreg_b32 s20, hwreg(HW_REG_MODE)")) == [Mode().bits]
    assert value(scalar("s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)")) == [0xF]
    text = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\ns_getreg_b32 s20, hwreg(HW_REG_MODE)"
    assert value(scalar(text)) == [Mode().bits | 1 << 23]


HALVED = "v_mov_b32_e32 v5, 0x00800000\n{before}v_mul_f32_e32 v1, 0.5, v5\n{after}"
FLUSH = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
KEEP = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\n"


def test_denormals_follow_mode_within_a_block(value):
    assert value(HALVED.format(before="", after="")) == [0x00400000]
    assert value(HALVED.format(before=FLUSH, after=KEEP)) == [0]
    assert value(HALVED.format(before=FLUSH + KEEP, after="")) == [0x00400000]


def test_a_mode_that_outlives_its_block_is_refused(value):
    with pytest.raises(UnsupportedInstruction, match="a changed MODE that holds across a branch"):
        value(HALVED.format(before=FLUSH, after="s_branch next\nnext:\n"))


def test_mode_from_a_register_must_be_the_one_that_holds(value):
    text = "s_movk_i32 s21, {bits}\ns_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s21\ns_mov_b32 s20, 7"
    assert value(scalar(text.format(bits=15))) == [7]
    with pytest.raises(UnsupportedInstruction, match="other than the one that holds"):
        value(scalar(text.format(bits=12)))


LARGEST, INFINITY = 0x7BFF, 0x7C00
OVERFLOWS = {
    "v_add_f16_e32 v1, v5, v5": LARGEST,
    "v_pk_add_f16 v1, v5, v5": LARGEST << 16 | LARGEST,
    "v_pk_mul_f16 v1, v5, v6": INFINITY << 16 | INFINITY,  # an infinite operand
    "v_add_f16_e32 v1, v5, v6": INFINITY,
    "v_rcp_f16_e32 v1, 0": INFINITY,  # a pole
    "v_cvt_f16_f32_e32 v1, v7": LARGEST,
    "v_cvt_pk_f16_f32 v1, v7, -v7": (LARGEST | 0x8000) << 16 | LARGEST,
    "v_fma_mixlo_f16 v1, v7, v7, v7": LARGEST,
    "v_mul_f32_e32 v1, v7, v7": int(np.float32(1e12).view(np.uint32)),
}


@pytest.mark.parametrize("text", list(OVERFLOWS))
def test_fp16_ovfl_keeps_overflows_finite(value, text):
    setup = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v5, 0x7bff7bff\nv_mov_b32_e32 v6, 0x7c007c00\n"
    setup += "v_mov_b32_e32 v7, 0x49742400\n"  # a million
    on, off = (f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), {bit}\n" for bit in (1, 0))
    infinite = OVERFLOWS[text]
    for half in (0, 16):
        if infinite >> half & 0x7FFF == LARGEST:
            infinite += 1 << half
    assert [hex(x) for x in value(setup + on + text + "\n")] == [hex(OVERFLOWS[text])]
    assert [hex(x) for x in value(setup + on + off + text + "\n")] == [hex(infinite)]


def test_workgroups_are_dealt_to_xcds_in_turn(value):
    assert value(scalar("s_getreg_b32 s20, hwreg(20, 0, 4)"), groups=10) == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]


def test_status_has_scc_and_the_zero_flags(value):
    text = "s_cmp_eq_u32 s4, s4\ns_mov_b64 vcc, {vcc}\ns_getreg_b32 s20, hwreg(HW_REG_STATUS)"
    assert value(scalar(text.format(vcc=0))) == [1 | 1 << 10]
    assert value(scalar(text.format(vcc=-1))) == [1]


@pytest.mark.parametrize("text", ["s_getreg_b32 s20, hwreg(HW_REG_GPR_ALLOC)", "s_setreg_b32 hwreg(HW_REG_HW_ID), s21"])
def test_other_registers_are_refused_by_number(value, text):
    with pytest.raises(UnsupportedInstruction, match="hardware register"):
        value(scalar(text))


def test_a_trap_stops_the_kernel_and_a_debuggers_does_not(value):
    with pytest.raises(KernelFault, match=r"a kernel must not trap, but wave 0 does \(number 2\)"):
        value(scalar("s_trap 2"))
    assert value(scalar("s_trap 3\ns_movk_i32 s20, 5")) == [5]


def test_calls_return(value):
    text = """
s_movk_i32 s20, 1
s_call_b64 s[30:31], function
s_add_u32 s20, s20, 10
s_branch done
function:
s_add_u32 s20, s20, 100
s_setpc_b64 s[30:31]
done:
"""
    assert value(scalar(text)) == [111]


def test_relative_moves_add_m0_to_the_register_number(value):
    text = "s_mov_b32 m0, s4\ns_movk_i32 s21, 50\ns_movk_i32 s22, 60\ns_movk_i32 s23, 70\n"
    assert value(scalar(text + "s_movrels_b32 s20, s21"), groups=3) == [50, 60, 70]
    stored = "s_mov_b32 s26, 0\ns_mov_b32 s27, 0\ns_movk_i32 s28, 9\ns_movreld_b32 s26, s28\ns_lshl_b32 s27, s27, 4\n"
    assert value(scalar(text + stored + "s_or_b32 s20, s26, s27"), groups=2) == [9, 0x90]
    wide = text + "s_movrels_b64 s[30:31], s[22:23]\ns_mov_b32 s20, s31"
    assert value(scalar(wide)) == [70]


def test_relative_moves_stay_within_the_sgprs(value):
    with pytest.raises(KernelFault, match="a relative register number must name an SGPR"):
        value(scalar("s_movk_i32 m0, 100\ns_movrels_b32 s20, s21"))
