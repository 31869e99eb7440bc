"""Every bfloat16 under every finite scale through the emulated conversion, held against the reference."""

from functools import lru_cache
from typing import TYPE_CHECKING

from mxassay.errors import MxassayError

if TYPE_CHECKING:
    from mxassay.gfx950 import Kernel

__all__ = ["sweep"]

SCALES = 254  # bytes 1 to 254
_PAIRS = 1 << 15
_GROUP = 256

# Workgroup g converts pairs (g % 128) * 256 ... under scale byte g // 128 + 1, and stores a byte a lane.
_BODY = f"""
s_load_dwordx4 s[4:7], s[0:1], 0x0
s_and_b32 s8, s2, {_PAIRS // _GROUP - 1}
s_lshl_b32 s8, s8, 10
v_and_b32 v0, 0x3ff, v0
v_lshlrev_b32 v1, 2, v0
v_add_u32 v1, s8, v1
s_lshr_b32 s9, s2, {(_PAIRS // _GROUP).bit_length() - 1}
s_add_u32 s9, s9, 1
s_lshl_b32 s9, s9, 23
v_mov_b32 v3, s9
s_lshl_b32 s10, s2, 8
v_add_u32 v5, s10, v0
v_mov_b32 v4, 0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cvt_scalef32_pk_fp4_bf16 v4, v2, v3
s_nop 1
global_store_byte v5, v4, s[6:7]
"""


@lru_cache
def _kernel() -> "Kernel":
    from mxassay.gfx950 import Kernel, load_code_object
    from mxassay.gfx950.assembler import KernelText, assemble, module

    return Kernel(load_code_object(assemble(module(KernelText("convert_all", _BODY)))))


def sweep() -> int:
    """How many of 65,536 x 254 codes were compared.

    Raises MxassayError where one differs: a figure of a wrong sweep would mean nothing.
    """
    import numpy as np
    import torch

    from mxassay.gfx950 import launch
    from mxassay.reference.formats import encode

    pairs = np.arange(1 << 16, dtype=np.uint16)
    packed = np.zeros((SCALES, _PAIRS), np.uint8)
    launch(_kernel(), (SCALES * _PAIRS // _GROUP,), (_GROUP,), [pairs.view(np.uint32), packed])
    values = torch.from_numpy(pairs.view(np.int16)).view(torch.bfloat16)
    scales = torch.arange(1, SCALES + 1, dtype=torch.uint8).unsqueeze(1).expand(SCALES, len(pairs) // 32)
    codes = encode(values.expand(SCALES, -1), scales)
    wanted = codes[:, 0::2] | codes[:, 1::2] << 4
    if not torch.equal(torch.from_numpy(packed), wanted):
        raise MxassayError("the emulated conversion must equal the reference on every value, not differ somewhere")
    return codes.numel()
