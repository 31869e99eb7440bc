"""Scalar ALU: arithmetic, logic, compares. Source: AMD CDNA4 ISA, "SOP1", "SOP2", "SOPC", "SOPK"."""

from typing import Any

import numpy as np

from mxassay.gfx950.registry import CERTAIN
from mxassay.gfx950.scalarwise import scalarwise

_ISA = "AMD CDNA4 ISA, SOP1/SOP2/SOPC/SOPK"
U32, I32, U64 = np.uint32, np.int32, np.uint64


def _add_u32(a: Any, b: Any) -> Any:
    total = a + b
    return total, total < a


def _addc_u32(a: Any, b: Any, scc: Any) -> Any:
    total = a.astype(U64) + b + scc
    return total.astype(U32), total > 0xFFFFFFFF


def _subb_u32(a: Any, b: Any, scc: Any) -> Any:
    total = a.astype(np.int64) - b - scc
    return (total & 0xFFFFFFFF).astype(U32), total < 0


def _add_i32(a: Any, b: Any) -> Any:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _sub_i32(a: Any, b: Any) -> Any:
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def _shift_add(bits: int) -> Any:
    def shifted(a: Any, b: Any) -> Any:
        total = (a.astype(U64) << U64(bits)) + b
        return total.astype(U32), total > 0xFFFFFFFF

    return shifted


def _mul_hi_u32(a: Any, b: Any) -> Any:
    return (np.multiply(a, b, dtype=U64) >> U64(32)).astype(U32)


def _mul_hi_i32(a: Any, b: Any) -> Any:
    return (np.multiply(a, b, dtype=np.int64) >> np.int64(32)).astype(I32)


def _bfe_u32(a: Any, b: Any) -> Any:
    """Offset in bits 4:0, width in 22:16 of S1."""
    width = np.minimum(b >> U32(16) & U32(0x7F), U32(32)).astype(U64)
    mask = ((U64(1) << width) - U64(1)).astype(U32)
    return a >> (b & U32(31)) & mask


def _bfe_i32(a: Any, b: Any) -> Any:
    width = np.minimum(b >> U32(16) & U32(0x7F), U32(32)).astype(np.int64)
    field = (a.astype(np.int64) >> (b & U32(31)).astype(np.int64)) & ((np.int64(1) << width) - 1)
    negative = (width > 0) & ((field >> np.maximum(width - 1, 0)) & 1 == 1)
    return np.where(negative, field - (np.int64(1) << width), field).astype(I32)


scalarwise(
    "u32 u32 -> u32", {"s_add_u32": _add_u32, "s_sub_u32": lambda a, b: (a - b, a < b)}, CERTAIN, _ISA, scc="pair"
)
scalarwise("u32 u32 scc -> u32", {"s_addc_u32": _addc_u32, "s_subb_u32": _subb_u32}, CERTAIN, _ISA, scc="pair")
scalarwise("i32 i32 -> i32", {"s_add_i32": _add_i32, "s_sub_i32": _sub_i32}, CERTAIN, _ISA, scc="pair")
scalarwise(
    "i32 i32 -> i32",
    {
        "s_min_i32": lambda a, b: (np.minimum(a, b), a < b),
        "s_max_i32": lambda a, b: (np.maximum(a, b), a >= b),
        "s_absdiff_i32": lambda a, b: (np.abs(a - b), a != b),
    },
    CERTAIN,
    _ISA,
    scc="pair",
)
scalarwise(
    "u32 u32 -> u32",
    {
        "s_min_u32": lambda a, b: (np.minimum(a, b), a < b),
        "s_max_u32": lambda a, b: (np.maximum(a, b), a >= b),
        **{f"s_lshl{bits}_add_u32": _shift_add(bits) for bits in (1, 2, 3, 4)},
    },
    CERTAIN,
    _ISA,
    scc="pair",
)
scalarwise("i32 i32 -> i32", {"s_mul_i32": np.multiply, "s_mul_hi_i32": _mul_hi_i32}, CERTAIN, _ISA)
scalarwise("u32 u32 -> u32", {"s_mul_hi_u32": _mul_hi_u32}, CERTAIN, _ISA)
scalarwise(
    "u32 u32 -> u32",
    {
        "s_lshl_b32": lambda a, b: a << (b & U32(31)),
        "s_lshr_b32": lambda a, b: a >> (b & U32(31)),
        "s_bfe_u32": _bfe_u32,
    },
    CERTAIN,
    _ISA,
    scc="nonzero",
)
scalarwise(
    "i32 u32 -> i32",
    {"s_ashr_i32": lambda a, b: a >> (b & U32(31)).astype(I32), "s_bfe_i32": _bfe_i32},
    CERTAIN,
    _ISA,
    scc="nonzero",
)
scalarwise(
    "u64 u32 -> u64",
    {
        "s_lshl_b64": lambda a, b: a << (b & U32(63)).astype(U64),
        "s_lshr_b64": lambda a, b: a >> (b & U32(63)).astype(U64),
    },
    CERTAIN,
    _ISA,
    scc="nonzero",
)
scalarwise(
    "i64 u32 -> i64", {"s_ashr_i64": lambda a, b: a >> (b & U32(63)).astype(np.int64)}, CERTAIN, _ISA, scc="nonzero"
)

BITWISE: dict[str, Any] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
for _width, _kind in (("b32", "u32"), ("b64", "u64")):
    scalarwise(
        f"{_kind} {_kind} -> {_kind}",
        {f"s_{name}_{_width}": fn for name, fn in BITWISE.items()},
        CERTAIN,
        _ISA,
        scc="nonzero",
    )
    scalarwise(f"{_kind} -> {_kind}", {f"s_not_{_width}": np.invert}, CERTAIN, _ISA, scc="nonzero")
    scalarwise(f"{_kind} -> {_kind}", {f"s_mov_{_width}": np.positive}, CERTAIN, _ISA)
    scalarwise(
        f"{_kind} {_kind} scc -> {_kind}", {f"s_cselect_{_width}": lambda a, b, scc: np.where(scc, a, b)}, CERTAIN, _ISA
    )
    scalarwise(
        f"{_kind} scc dst:{_kind} -> {_kind}",
        {f"s_cmov_{_width}": lambda a, scc, old: np.where(scc, a, old)},
        CERTAIN,
        _ISA,
    )
    scalarwise(
        f"{_kind} {_kind} -> scc",
        {f"s_cmp_lg_{_kind}": np.not_equal, f"s_cmp_eq_{_kind}": np.equal},
        CERTAIN,
        _ISA,
    )
scalarwise("i32 -> i32", {"s_abs_i32": np.abs}, CERTAIN, _ISA, scc="nonzero")
scalarwise(
    "u32 -> i32",
    {
        "s_sext_i32_i8": lambda a: a.astype(np.int8).astype(I32),
        "s_sext_i32_i16": lambda a: a.astype(np.int16).astype(I32),
    },
    CERTAIN,
    _ISA,
)
scalarwise("u32 u32 -> u32", {
    "s_pack_ll_b32_b16": lambda a, b: a & U32(0xFFFF) | b << U32(16),
    "s_pack_lh_b32_b16": lambda a, b: a & U32(0xFFFF) | b & U32(0xFFFF0000),
    "s_pack_hh_b32_b16": lambda a, b: a >> U32(16) | b & U32(0xFFFF0000),
}, CERTAIN, _ISA)  # fmt: skip


_ORDER = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}
for _kind in ("i32", "u32"):
    _table = {f"s_cmp_{name}_{_kind}": function for name, function in _ORDER.items()}
    if _kind == "u32":
        _table = {op: function for op, function in _table.items() if op not in ("s_cmp_eq_u32", "s_cmp_lg_u32")}
    scalarwise(f"{_kind} {_kind} -> scc", _table, CERTAIN, _ISA)
scalarwise("imm -> i32", {"s_movk_i32": np.positive}, CERTAIN, _ISA)
scalarwise("dst:i32 imm -> i32", {"s_addk_i32": _add_i32}, CERTAIN, _ISA, scc="pair")
scalarwise("dst:i32 imm -> i32", {"s_mulk_i32": np.multiply}, CERTAIN, _ISA)
scalarwise("imm scc dst:i32 -> i32", {"s_cmovk_i32": lambda k, scc, old: np.where(scc, k, old)}, CERTAIN, _ISA)
scalarwise("i32 imm -> scc", {f"s_cmpk_{name}_i32": function for name, function in _ORDER.items()}, CERTAIN, _ISA)
scalarwise(
    "u32 imm -> scc",
    {
        f"s_cmpk_{name}_u32": lambda a, k, function=function: function(a, U32(int(k) & 0xFFFF))
        for name, function in _ORDER.items()
    },
    CERTAIN,
    _ISA,
)
