"""Vector ALU, 16-bit integers. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3".

What becomes of the register's other half: LLVM GCNSubtarget::zeroesHigh16BitsOfDest. The forms that came with gfx9 keep
it, the older ones clear it.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.lanewise import lanewise, saturating
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA; other half: LLVM GCNSubtarget::zeroesHigh16BitsOfDest"
_KEPT = (
    "AMD CDNA4 ISA; that the other half is kept: LLVM GCNSubtarget::zeroesHigh16BitsOfDest doesn't list it as cleared"
)
U16, I16, I64 = np.uint16, np.int16, np.int64
_FIFTEEN = U16(15)


def _add(a: Any, b: Any) -> Any:
    return a.astype(I64) + b


def _subtract(a: Any, b: Any) -> Any:
    return a.astype(I64) - b


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return a.astype(I64) * b + c


def _median(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


lanewise(
    "u16 u16 -> u16",
    {
        "v_add_u16": saturating(_add, U16),
        "v_sub_u16": saturating(_subtract, U16),
        "v_subrev_u16": saturating(lambda a, b: _subtract(b, a), U16),
    },
    CERTAIN,
    _ISA,
    clamps=True,
)
lanewise(
    "u16 u16 -> u16",
    {
        "v_mul_lo_u16": np.multiply,
        "v_max_u16": np.maximum,
        "v_min_u16": np.minimum,
        "v_lshlrev_b16": lambda a, b: b << (a & _FIFTEEN),
        "v_lshrrev_b16": lambda a, b: b >> (a & _FIFTEEN),
    },
    CERTAIN,
    _ISA,
)
lanewise("i16 i16 -> i16", {"v_max_i16": np.maximum, "v_min_i16": np.minimum}, CERTAIN, _ISA)
lanewise("u16 i16 -> i16", {"v_ashrrev_i16": lambda a, b: b >> (a & _FIFTEEN).view(I16)}, CERTAIN, _ISA)
lanewise(
    "i16 i16 -> i16",
    {"v_add_i16": saturating(_add, I16), "v_sub_i16": saturating(_subtract, I16)},
    INFERRED,
    _KEPT,
    keep=True,
    clamps=True,
)
for _kind, _type in (("u16", U16), ("i16", I16)):
    _three = f"{_kind} {_kind} {_kind} -> {_kind}"
    _mad = saturating(_multiply_add, _type)
    lanewise(_three, {f"v_mad_legacy_{_kind}": _mad}, CERTAIN, _ISA)
    lanewise(_three, {f"v_mad_{_kind}": _mad}, CERTAIN, _ISA, keep=True, clamps=True)
    lanewise(
        _three,
        {
            f"v_max3_{_kind}": lambda a, b, c: np.maximum(np.maximum(a, b), c),
            f"v_min3_{_kind}": lambda a, b, c: np.minimum(np.minimum(a, b), c),
            f"v_med3_{_kind}": _median,
        },
        INFERRED,
        _KEPT,
        keep=True,
    )
lanewise("u16 u16 u32 -> u32", {"v_mad_u32_u16": saturating(_multiply_add, np.uint32)}, CERTAIN, _ISA, clamps=True)
lanewise("i16 i16 i32 -> i32", {"v_mad_i32_i16": saturating(_multiply_add, np.int32)}, CERTAIN, _ISA, clamps=True)


def _join(low: Any, high: Any) -> Any:
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


lanewise("b16 b16 -> b32", {"v_pack_b32_f16": _join}, CERTAIN, _ISA)


def _two_bytes(low: Any, high: Any, limits: Any) -> Any:
    """Both saturated to `limits`, the low byte first."""
    bytes_ = [np.clip(x, limits.min, limits.max).astype(U16) & U16(0xFF) for x in (low, high)]
    return bytes_[0] | bytes_[1] << U16(8)


def _shifted_bytes(dtype: Any) -> Any:
    limits = np.iinfo(dtype)

    def function(a: Any, b: Any, amount: Any) -> Any:
        places = (amount & np.uint32(31)).view(np.int32)
        return _two_bytes(a >> places, b >> places, limits)

    return function


lanewise(
    "i32 i32 u32 -> u16",
    {"v_ashr_pk_i8_i32": _shifted_bytes(np.int8), "v_ashr_pk_u8_i32": _shifted_bytes(np.uint8)},
    CERTAIN,
    "AMD CDNA4 ISA, V_ASHR_PK_I8_I32, V_ASHR_PK_U8_I32",
    keep=True,
)


def _saturated_pair(x: Any) -> Any:
    low, high = ((x >> np.uint32(16 * half)).astype(U16).view(I16) for half in (0, 1))
    return _two_bytes(low, high, np.iinfo(np.uint8))


lanewise(
    "u32 -> u16",
    {"v_sat_pk_u8_i16": _saturated_pair},
    INFERRED,
    "AMD CDNA4 ISA, V_SAT_PK_U8_I16; that the other half is cleared: as the older 16-bit operations do",
)
