"""Questions on float atomics: rounding, denormals and NaN, in memory and in LDS."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.lanewise import SPECIAL_F32, each, every_pair, is_nan, quieted
from mxassay.gfx950.probe.question import Program, Question, Reading, Words
from mxassay.gfx950.registry import INFERRED, UNKNOWN, Fidelity

__all__ = ["QUESTIONS"]

Bits = NDArray[np.uint32]
# Lane l's own word: stored, added to, and read back past the caches. v65 is what the atomic returns.
_GLOBAL = """
global_store_dword v2, v16, s[6:7] sc0 sc1
s_waitcnt vmcnt(0)
global_atomic_{op} v65, v2, v17, s[6:7] sc0
s_waitcnt vmcnt(0)
global_load_dword v64, v2, s[6:7] sc0 sc1
"""
_LDS = """
s_mov_b32 m0, -1
v_lshlrev_b32_e32 v4, 2, v0
ds_write_b32 v4, v16
s_waitcnt lgkmcnt(0)
ds_{op} v65, v4, v17
s_waitcnt lgkmcnt(0)
ds_read_b32 v64, v4
"""
# bfloat16: ties of both parities, denormals, a denormal sum of normal numbers, overflow, infinities.
_SHORTS = np.array([0x3F80, 0xBF80, 0x3B80, 0x3B81, 0x3F81, 0xBB80, 0x0001, 0x8001, 0x007F, 0x0080, 0x8081, 0x7F7F,
                    0xFF7F, 0x7F80, 0x0000, 0x8000], np.uint32)  # fmt: skip
# float16 alike.
_HALVES = np.array([0x3C00, 0xBC00, 0x1000, 0x1001, 0x3C01, 0x9000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x8401, 0x7BFF,
                    0xFBFF, 0x7C00, 0x0000, 0x8000], np.uint32)  # fmt: skip


def _packed_pairs(items: Bits) -> Callable[[], Words]:
    return every_pair(items | items[::-1] << np.uint32(16), items | np.roll(items, 5) << np.uint32(16))


def _wide(half: Any) -> Any:
    return (half.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _flush(x: Any, least: float) -> Any:
    return np.where(np.abs(x) < least, np.copysign(0.0, x), x)


def _bf16_sum(a: Any, b: Any, *, flushed: bool, nearest: bool) -> Any:
    x, y = _wide(a), _wide(b)
    if flushed:
        x, y = _flush(x, 2.0**-126), _flush(y, 2.0**-126)
    total = (x + y).astype(np.float32)
    if flushed:
        total = _flush(total, 2.0**-126).astype(np.float32)
    bits = np.ascontiguousarray(total).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1) if nearest else bits) >> 16
    return np.where(np.isnan(total), 0x7FC0, rounded).astype(np.uint32)


def _f16_sum(a: Any, b: Any, *, flushed: bool, nearest: bool) -> Any:
    x, y = (np.ascontiguousarray(half.astype(np.uint16)).view(np.float16).astype(np.float64) for half in (a, b))
    if flushed:
        x, y = _flush(x, 2.0**-14), _flush(y, 2.0**-14)
    total = np.asarray((x + y).astype(np.float16))
    if not nearest:
        exact = x + y
        over = np.abs(total.astype(np.float64)) > np.abs(exact)
        total = np.where(over, np.nextafter(total, np.float16(0)), total)
    if flushed:
        total = _flush(total, 2.0**-14).astype(np.float16)
    bits = np.ascontiguousarray(total).view(np.uint16).astype(np.uint32)
    return np.where(np.isnan(total), 0x7E00, bits)


def _packed(add: Callable[..., Any], **how: bool) -> Reading:
    def total(a: Bits, b: Bits) -> Any:
        return add(a & 0xFFFF, b & 0xFFFF, **how) | add(a >> 16, b >> 16, **how) << np.uint32(16)

    return each(total, lambda a, b: a)


def _packed_readings(add: Callable[..., Any]) -> Mapping[str, Reading]:
    return {
        "nearest even, denormals kept": _packed(add, flushed=False, nearest=True),
        "nearest even, denormals flushed": _packed(add, flushed=True, nearest=True),
        "toward zero, denormals kept": _packed(add, flushed=False, nearest=False),
        "toward zero, denormals flushed": _packed(add, flushed=True, nearest=False),
    }


def _f32(flushed: bool, plain_nan: bool) -> Reading:
    def total(a: Bits, b: Bits) -> Any:
        if flushed:
            a, b = (np.where((x & 0x7F800000) == 0, x & np.uint32(0x80000000), x) for x in (a, b))
        bits = (a.view(np.float32) + b.view(np.float32)).view(np.uint32)
        if flushed:
            bits = np.where((bits & 0x7F800000) == 0, bits & np.uint32(0x80000000), bits)
        kept = np.where(is_nan(a), quieted(a), np.where(is_nan(b), quieted(b), np.uint32(0x7FC00000)))
        return np.where(is_nan(bits), np.uint32(0x7FC00000) if plain_nan else kept, bits)

    return each(total, lambda a, b: a)


_WORDS = SPECIAL_F32[~is_nan(SPECIAL_F32)]
_F32_READINGS = {
    "denormals kept": _f32(False, False), "denormals flushed": _f32(True, False),
}  # fmt: skip


def _question(name: str, where: str, op: str, what: str, status: Fidelity, policy: str,
              readings: Mapping[str, Reading]) -> Question:  # fmt: skip
    text = (_GLOBAL if where == "global" else _LDS).format(op=op)
    inputs = {"f32": every_pair(_WORDS, _WORDS), "f16": _packed_pairs(_HALVES)}.get(op[-3:], _packed_pairs(_SHORTS))
    settings = {"lds_bytes": 256} if where == "lds" else {}
    return Question(
        f"atomic.{where}_{name}", f"How does {what} round, and does it keep denormals?",
        "Split-K kernels add their partial results with it.",
        "AMD CDNA4 ISA gives no rounding or denormal mode for memory atomics.", policy, status,
        Program(text, inputs, 2, settings=settings), readings,
    )  # fmt: skip


_BF16, _F16 = _packed_readings(_bf16_sum), _packed_readings(_f16_sum)
_NEAREST = "nearest even, denormals kept"
QUESTIONS: tuple[Question, ...] = (
    _question("pk_add_bf16", "global", "pk_add_bf16", "global_atomic_pk_add_bf16", UNKNOWN, _NEAREST, _BF16),
    _question("pk_add_f16", "global", "pk_add_f16", "global_atomic_pk_add_f16", UNKNOWN, _NEAREST, _F16),
    _question("add_f32", "global", "add_f32", "global_atomic_add_f32", INFERRED, "denormals kept", _F32_READINGS),
    _question("pk_add_bf16", "lds", "pk_add_rtn_bf16", "ds_pk_add_rtn_bf16", UNKNOWN, _NEAREST, _BF16),
    _question("pk_add_f16", "lds", "pk_add_rtn_f16", "ds_pk_add_rtn_f16", UNKNOWN, _NEAREST, _F16),
    _question("add_f32", "lds", "add_rtn_f32", "ds_add_rtn_f32", UNKNOWN, "denormals kept", _F32_READINGS),
)  # fmt: skip
