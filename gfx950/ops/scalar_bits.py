"""Scalar ALU: bits found, counted, set, spread and gathered. Source: AMD CDNA4 ISA, "SOP1", "SOP2", "SOPC"."""

from typing import Any

import numpy as np

from mxassay.gfx950.bits import leading_zeros, reversed_bits, sign_bits, trailing_zeros
from mxassay.gfx950.registry import CERTAIN
from mxassay.gfx950.scalarwise import scalarwise

_ISA = "AMD CDNA4 ISA, SOP1/SOP2/SOPC"
U32, U64, I64 = np.uint32, np.uint64, np.int64


def _bfe_u64(a: Any, b: Any) -> Any:
    width = np.minimum(b >> U32(16) & U32(0x7F), U32(64)).astype(U64)
    mask = np.where(width == 64, ~U64(0), (U64(1) << np.minimum(width, U64(63))) - U64(1))
    return a >> (b & U32(63)).astype(U64) & mask


def _bfe_i64(a: Any, b: Any) -> Any:
    """The field's top bit is its sign; a width of 0 gives 0."""
    width = np.minimum(b >> U32(16) & U32(0x7F), U32(64)).astype(U64)
    shifted = a >> (b & U32(63)).astype(I64)
    up = (U64(64) - np.maximum(width, U64(1))).astype(I64)
    return np.where(width == 0, I64(0), shifted << up >> up)


scalarwise("u64 u32 -> u64", {"s_bfe_u64": _bfe_u64}, CERTAIN, _ISA, scc="nonzero")
scalarwise("i64 u32 -> i64", {"s_bfe_i64": _bfe_i64}, CERTAIN, _ISA, scc="nonzero")


def _fours(a: Any) -> Any:
    """Bit 4 i tells whether any of bits 4 i to 4 i + 3 is set."""
    kind = a.dtype.type
    pairs = a | a >> kind(1)
    return (pairs | pairs >> kind(2)) & kind(0x1111111111111111 & ~(~0 << a.dtype.itemsize * 8))


def _gathered_fours(a: Any) -> Any:
    """Every fourth bit, from bit 0 on, moved together."""
    kind, bits = a.dtype.type, _fours(a)
    for shift, mask in ((3, 0x0303030303030303), (6, 0x000F000F000F000F), (12, 0x000000FF000000FF), (24, 0xFFFF)):
        if shift < a.dtype.itemsize * 8:
            bits = (bits | bits >> kind(shift)) & kind(mask & ~(~0 << a.dtype.itemsize * 8))
    return bits


def _doubled(a: Any) -> Any:
    """Each bit of 32 twice, side by side."""
    bits = a.astype(U64)
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):  # fmt: skip
        bits = (bits | bits << U64(shift)) & U64(mask)
    return bits | bits << U64(1)


for _width, _kind in (("b32", "u32"), ("b64", "u64")):
    _type: Any = U32 if _kind == "u32" else U64
    _last = U32(_type(0).itemsize * 8 - 1)
    scalarwise(
        f"{_kind} -> i32",
        {
            f"s_ff1_i32_{_width}": trailing_zeros,
            f"s_ff0_i32_{_width}": lambda a: trailing_zeros(~a),
            f"s_flbit_i32_{_width}": leading_zeros,
            "s_flbit_i32" if _kind == "u32" else "s_flbit_i32_i64": sign_bits,
        },
        CERTAIN,
        _ISA,
    )
    scalarwise(
        f"{_kind} -> u32",
        {
            f"s_bcnt1_i32_{_width}": lambda a: np.bitwise_count(a).astype(U32),
            f"s_bcnt0_i32_{_width}": lambda a: np.bitwise_count(~a).astype(U32),
        },
        CERTAIN,
        _ISA,
        scc="nonzero",
    )
    scalarwise(
        f"{_kind} -> {_kind}",
        {f"s_wqm_{_width}": lambda a: _fours(a) * a.dtype.type(15), f"s_quadmask_{_width}": _gathered_fours},
        CERTAIN,
        _ISA,
        scc="nonzero",
    )
    scalarwise(f"{_kind} -> {_kind}", {f"s_brev_{_width}": reversed_bits}, CERTAIN, _ISA)
    scalarwise(
        f"u32 dst:{_kind} -> {_kind}",
        {
            f"s_bitset0_{_width}": lambda a, old, t=_type, n=_last: old & ~(t(1) << (a & n).astype(t)),
            f"s_bitset1_{_width}": lambda a, old, t=_type, n=_last: old | t(1) << (a & n).astype(t),
        },
        CERTAIN,
        _ISA,
    )
    scalarwise(
        f"{_kind} u32 -> scc",
        {
            f"s_bitcmp0_{_width}": lambda a, b, t=_type, n=_last: a >> (b & n).astype(t) & t(1) == 0,
            f"s_bitcmp1_{_width}": lambda a, b, t=_type, n=_last: a >> (b & n).astype(t) & t(1) != 0,
        },
        CERTAIN,
        _ISA,
    )
    scalarwise(
        "u32 u32 -> " + _kind,
        {f"s_bfm_{_width}": lambda a, b, t=_type, n=_last: ((t(1) << (a & n).astype(t)) - t(1)) << (b & n).astype(t)},
        CERTAIN,
        _ISA,
    )
scalarwise("u32 -> u64", {"s_bitreplicate_b64_b32": _doubled}, CERTAIN, _ISA)
