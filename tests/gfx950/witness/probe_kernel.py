"""A whole kernel that runs instructions under test between loads and stores that are trusted.

Each workgroup is one wave. For instruction i it loads S0, S1, S2 and D for every lane and a uniform record (the same as
SGPRs, then VCC, EXEC, M0, SCC), sets them, executes, and stores D, VCC, EXEC, SCC and the SGPR destination.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from assemble import code_object
from forms import SCALAR, VECTOR

LIMIT = 32  # instructions a kernel: the stores' 12-bit offsets end there
IN_WORDS, OUT_WORDS, UNIFORM_WORDS = 8, 16, 16
PROLOGUE = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_load_dwordx2 s[8:9], s[0:1], 0x10
v_lshlrev_b32_e32 v2, 10, v0
v_lshlrev_b32_e32 v3, 11, v0
s_lshl_b32 s10, s2, 16
v_add_u32_e32 v2, s10, v2
s_lshl_b32 s10, s2, 17
v_add_u32_e32 v3, s10, v3
s_lshl_b32 s10, s2, 11
s_waitcnt lgkmcnt(0)
s_add_u32 s8, s8, s10
s_addc_u32 s9, s9, 0
"""
PROBE = """
s_load_dwordx16 s[32:47], s[8:9], {uniform:#x}
global_load_dwordx2 v[16:17], v2, s[4:5] offset:{load}
global_load_dwordx2 v[48:49], v2, s[4:5] offset:{load}+8
global_load_dwordx2 v[80:81], v2, s[4:5] offset:{load}+16
global_load_dwordx2 v[96:97], v2, s[4:5] offset:{load}+24
s_waitcnt vmcnt(0) lgkmcnt(0)
s_mov_b64 vcc, s[40:41]
s_mov_b32 m0, s44
s_cmp_lg_u32 s45, 0
s_mov_b64 exec, s[42:43]
s_nop 7
{instruction}
s_nop 7
s_cselect_b32 s48, 1, 0
s_mov_b64 s[50:51], exec
s_mov_b64 exec, -1
v_mov_b32_e32 v100, vcc_lo
v_mov_b32_e32 v101, vcc_hi
v_mov_b32_e32 v102, s50
v_mov_b32_e32 v103, s51
v_mov_b32_e32 v104, s48
v_mov_b32_e32 v105, s38
v_mov_b32_e32 v106, s39
v_mov_b32_e32 v107, 0
global_store_dwordx2 v3, v[96:97], s[6:7] offset:{store}
global_store_dwordx4 v3, v[100:103], s[6:7] offset:{store}+16
global_store_dwordx4 v3, v[104:107], s[6:7] offset:{store}+32
"""
assert VECTOR == {"S0": 16, "S1": 48, "S2": 80, "D": 96}, "the kernel's registers are the forms' registers"
assert SCALAR == {"S0": 32, "S1": 34, "S2": 36, "D": 38}, "the kernel's registers are the forms' registers"


@dataclass
class ProbeKernel:
    """`code` is the hsaco; arguments are inputs (waves, 64, LIMIT, IN_WORDS), outputs (waves, 64, LIMIT, OUT_WORDS) and
    uniforms (waves, LIMIT, UNIFORM_WORDS), all uint32. One workgroup of 64 a wave."""

    code: bytes
    instructions: tuple[str, ...]

    def inputs(self, waves: int) -> np.ndarray:
        return np.zeros((waves, 64, LIMIT, IN_WORDS), np.uint32)

    def outputs(self, waves: int) -> np.ndarray:
        return np.full((waves, 64, LIMIT, OUT_WORDS), 0x5A5A5A5A, np.uint32)

    def uniforms(self, waves: int) -> np.ndarray:
        return np.zeros((waves, LIMIT, UNIFORM_WORDS), np.uint32)


def probe_kernel(instructions: Sequence[str]) -> ProbeKernel:
    """A kernel for up to LIMIT instructions written with the registers of `forms`."""
    assert len(instructions) <= LIMIT
    body = [PROLOGUE]
    for i, instruction in enumerate(instructions):
        body.append(PROBE.format(uniform=64 * i, load=32 * i, store=64 * i, instruction=instruction))
    return ProbeKernel(code_object("".join(body)), tuple(instructions))
