"""Conversions between number formats. Source: AMD CDNA4 ISA, V_CVT_*; other sources stand beside their entry."""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import f32_to_bf16
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.registry import CERTAIN

_ISA = "AMD CDNA4 ISA, V_CVT_*"


def _to_integer(low: int, high: int, dtype: Any) -> Any:
    """Toward zero, saturating, NaN to 0."""

    def convert(x: Any) -> Any:
        wide = np.nan_to_num(np.trunc(np.asarray(x, np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.clip(wide, low, high).astype(dtype)

    return convert


lanewise("u32 -> f32", {"v_cvt_f32_u32": lambda x: x.astype(np.float32)}, CERTAIN, _ISA)
lanewise("i32 -> f32", {"v_cvt_f32_i32": lambda x: x.astype(np.float32)}, CERTAIN, _ISA)
lanewise("f32 -> u32", {"v_cvt_u32_f32": _to_integer(0, 2**32 - 1, np.uint32)}, CERTAIN, _ISA)
lanewise("f32 -> i32", {"v_cvt_i32_f32": _to_integer(-(2**31), 2**31 - 1, np.int32)}, CERTAIN, _ISA)


def _pack(low: Any, high: Any) -> Any:
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


lanewise("f32 f32 -> u32", {"v_cvt_pk_bf16_f32": lambda a, b: _pack(f32_to_bf16(a), f32_to_bf16(b))}, CERTAIN, _ISA)
