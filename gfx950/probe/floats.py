"""Questions on float arithmetic: NaN bits, maximum, denormal modes, clamping, output modifiers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.lanewise import SPECIAL_F32, columns, each, every_pair, is_nan, is_signalling, quieted
from mxassay.gfx950.probe.question import Program, Question, Reading
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

Bits = NDArray[np.uint32]
_NAN = np.uint32(0x7FC00000)
_PAIRS = every_pair(SPECIAL_F32, SPECIAL_F32)
_ISA = "AMD CDNA4 ISA"


def _f(bits: Any) -> Any:
    return np.ascontiguousarray(bits, np.uint32).view(np.float32)


def _b(values: Any) -> Any:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def _ordered(sign: int, *, ieee: bool, nan_wins: bool = False) -> Callable[[Bits, Bits], Any]:
    """Maximum (sign 1) or minimum (sign -1) of bits."""

    def pick(a: Bits, b: Bits) -> Any:
        key_a, key_b = (sign * np.where(x >> 31, -(x & 0x7FFFFFFF).astype(np.int64) - 1, x) for x in (a, b))
        best = np.where(key_a >= key_b, a, b)
        if nan_wins:
            return np.where(is_nan(a), quieted(a), np.where(is_nan(b), quieted(b), best))
        best = np.where(is_nan(a), b, np.where(is_nan(b), a, best))
        if ieee:
            best = np.where(is_signalling(a), quieted(a), np.where(is_signalling(b), quieted(b), best))
        return best

    return pick


def _extremes(**how: bool) -> Reading:
    return each(_ordered(1, **how), _ordered(-1, **how))


def _maximum(mode: str, ieee: bool) -> Question:
    rule = "a signalling NaN comes out quiet, a quiet one loses" if ieee else "every NaN loses"
    return Question(
        f"float.max_nan_{mode}", f"What do v_max_f32 and v_min_f32 give for NaNs and zeros with IEEE mode {mode}?",
        "amax of a block decides its scale: a NaN must not vanish unnoticed.", f"{_ISA}, V_MAX_F32 (pseudocode).",
        rule, CERTAIN,
        Program("v_max_f32_e32 v64, v16, v17\nv_min_f32_e32 v65, v16, v17", _PAIRS, 2, settings={"ieee": ieee}),
        {
            "a signalling NaN comes out quiet, a quiet one loses": _extremes(ieee=True),
            "every NaN loses": _extremes(ieee=False), "a NaN wins, quiet": _extremes(ieee=False, nan_wins=True),
        },
    )  # fmt: skip


def _arithmetic(a: Bits, b: Bits) -> tuple[Any, Any, Any]:
    x, y = _f(a), _f(b)
    fused = (x.astype(np.float64) * y + 1.0).astype(np.float32)
    return x + y, x * y, fused


def _with_nans(choose: Callable[[Bits, Bits], Any]) -> Reading:
    def at(place: int) -> Callable[[Bits, Bits], Any]:
        def value(a: Bits, b: Bits) -> Any:
            result = _b(_arithmetic(a, b)[place])
            return np.where(is_nan(result), np.where(is_nan(a) | is_nan(b), choose(a, b), _NAN), result)

        return value

    return each(at(0), at(1), at(2))


def _nan_is(bits: int) -> Reading:
    def at(place: int) -> Callable[[Bits, Bits], Any]:
        def value(a: Bits, b: Bits) -> Any:
            result = _b(_arithmetic(a, b)[place])
            return np.where(is_nan(result), np.uint32(bits), result)

        return value

    return each(at(0), at(1), at(2))


_MADE = {"0x7fc00000": _nan_is(0x7FC00000), "0xffc00000": _nan_is(0xFFC00000), "0x7fffffff": _nan_is(0x7FFFFFFF)}


def _first_nan(a: Bits, b: Bits) -> Any:
    return np.where(is_nan(a), quieted(a), quieted(b))


def _first_nan_signless(a: Bits, b: Bits) -> Any:
    """x86 marks a NaN it makes with a set sign; the emulator clears that pattern wherever it stands."""
    first = _first_nan(a, b)
    return np.where(first == 0xFFC00000, _NAN, first)


_SIGNALLED = {
    "the first NaN operand, made quiet; else 0x7fc00000": _with_nans(_first_nan),
    "the last NaN operand, made quiet; else 0x7fc00000": _with_nans(
        lambda a, b: np.where(is_nan(b), quieted(b), quieted(a))
    ),
    "always 0x7fc00000": _with_nans(lambda a, b: _NAN),
}
_PASSED = {
    "the first NaN operand, made quiet, 0xffc00000 as 0x7fc00000; else 0x7fc00000": _with_nans(_first_nan_signless),
} | _SIGNALLED


def _nan_bits(name: str, statement: str, first: Any, second: Any, readings: Mapping[str, Reading]) -> Question:
    return Question(
        f"float.nan_{name}", statement, "Bit-exact comparison of outputs that hold NaN.",
        "No source fixes the bits; IEEE 754 leaves them open.", next(iter(readings)),
        UNKNOWN,
        Program(
            "v_add_f32_e32 v64, v16, v17\nv_mul_f32_e32 v65, v16, v17\nv_fma_f32 v66, v16, v17, 1.0",
            every_pair(first, second), 3,
        ),
        readings,
        "f32",
    )  # fmt: skip


_NUMBERS = SPECIAL_F32[~is_nan(SPECIAL_F32)]
_QUIET = SPECIAL_F32[is_nan(SPECIAL_F32) & ~is_signalling(SPECIAL_F32)]
_SIGNALLING = np.array([0x7F800001, 0x7FBFFFFF, 0xFFA00000, 0xFF812345, 0x7FA00001], np.uint32)
_NANS = (
    _nan_bits("made", "Which bits has a NaN that add, mul or fma makes of numbers?", _NUMBERS, _NUMBERS, _MADE),
    _nan_bits("passed", "Which of two quiet NaNs do add, mul and fma pass on?", _QUIET, np.append(_NUMBERS, _QUIET),
              _PASSED),
    _nan_bits(
        "signalling", "What becomes of a signalling NaN?", np.append(_SIGNALLING, _NUMBERS[4:8]),
        np.append(_SIGNALLING, _NUMBERS[4:8]), _SIGNALLED,
    ),
)  # fmt: skip

_TINY = np.array([0x00000001, 0x80000001, 0x00400000, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x00800001, 0x80FFFFFF,
                  0x01000000, 0x3F000000, 0x3F800000, 0xBF800000, 0x3FFFFFFF, 0x00000000, 0x80000000, 0x4B000000],
                 np.uint32)  # fmt: skip


def _flush(bits: Any) -> Any:
    return np.where((bits & 0x7F800000) == 0, bits & np.uint32(0x80000000), bits)


def _modal(sources: bool, results: bool, moves: bool) -> Reading:
    """Denormals of sources and of results flushed, or not; `moves`: of v_max_f32 too."""

    def at(place: int) -> Callable[[Bits, Bits], Any]:
        def value(a: Bits, b: Bits) -> Any:
            a, b = (_flush(x) if sources and (place < 3 or moves) else x for x in (a, b))
            result = _b(_arithmetic(a, b)[place]) if place < 3 else _ordered(1, ieee=True)(a, b)
            return _flush(result) if results and (place < 3 or moves) else result

        return value

    return each(*(at(place) for place in range(4)))


def _denormal_mode(mode: int) -> Question:
    sources, results = mode in (0, 2), mode in (0, 1)
    words = {0: "sources and results flushed", 1: "results flushed", 2: "sources flushed", 3: "all kept"}
    readings = {
        f"{words[m]}{'' if moves else ', v_max_f32 moves bits'}": _modal(m in (0, 2), m in (0, 1), moves)
        for m in range(4)
        for moves in ((True, False) if m != 3 else (True,))
    }
    return Question(
        f"float.denormal_mode_{mode}", f"Which float32 denormals do add, mul, fma and max flush with FP_DENORM {mode}?",
        "Triton flushes nothing by default; other compilers do.", f'{_ISA}, "MODE register".',
        words[mode], CERTAIN if mode == 3 else INFERRED,
        Program(
            "v_add_f32_e32 v64, v16, v17\nv_mul_f32_e32 v65, v16, v17\nv_fma_f32 v66, v16, v17, 1.0\n"
            "v_max_f32_e32 v67, v16, v17",
            every_pair(_TINY, _TINY), 4, settings={"denorm_32": mode},
        ),
        readings if sources or results else {words[3]: readings[words[3]], words[0]: readings[words[0]]}, "f32",
    )  # fmt: skip


def _clamp(dx10: int) -> Question:
    def clamped(keep: bool) -> Reading:
        def value(a: Bits) -> Any:
            low = np.where(_f(a) > 0, np.minimum(_f(a), np.float32(1)), np.float32(0))
            return np.where(is_nan(a), quieted(a) if keep else np.uint32(0), _b(low))

        return each(value)

    return Question(
        f"float.clamp_nan_{dx10}", f"What does CLAMP make of a NaN with DX10_CLAMP {dx10}?", "Saturating epilogues.",
        f'{_ISA}, "MODE register".', "0" if dx10 else "the NaN, quiet", CERTAIN if dx10 else INFERRED,
        Program("v_max_f32_e64 v64, v16, v16 clamp", columns(SPECIAL_F32), 1, settings={"dx10_clamp": bool(dx10)}),
        {"0": clamped(False), "the NaN, quiet": clamped(True)}, "f32",
    )  # fmt: skip


_OMOD = Question(
    "float.omod", "Does OMOD (times 2) work while denormals are kept?", "A compiler may fold a multiplication.",
    f'{_ISA}, "Output modifiers": ignored where denormals are kept.', "ignored", CERTAIN,
    Program("v_add_f32_e64 v64, v16, v17 mul:2", every_pair(_TINY, _TINY), 1),
    {"ignored": each(lambda a, b: _f(a) + _f(b)), "applied": each(lambda a, b: (_f(a) + _f(b)) * np.float32(2))}, "f32",
)  # fmt: skip


QUESTIONS: tuple[Question, ...] = (
    _maximum("1", True), _maximum("0", False), *_NANS, *(_denormal_mode(mode) for mode in range(4)), _clamp(1),
    _clamp(0), _OMOD,
)  # fmt: skip
