"""Questions on conversions to FP4, FP8, BF16 and back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.question import REFUSED, Program, Question, Reading, Words
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

_OLD = 0xA5C3E17B  # what the destination holds before
_POINTS = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])  # midpoints of E2M1's magnitudes (OCP MX spec 1.0, 5.3.3)
Values = NDArray[np.float64]
Encode = Callable[[Any, Any], Any]  # bf16 bits, scale byte -> code, -1 where untouched


def _widened(bits: NDArray[np.uint32]) -> Values:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _nearest(value: Values) -> NDArray[np.int64]:
    """Nearest, ties to even, saturating; the sign of zero stays."""
    size = np.abs(value)
    code = sum((size > point) | ((size == point) & (place % 2 == 1)) for place, point in enumerate(_POINTS))
    codes: NDArray[np.int64] = code + 8 * np.signbit(value)
    return codes


def _plain(bits: Any, scale: Any) -> NDArray[np.int64]:
    """The rule for finite values and scale bytes 1 to 254, where AMD's and others' public codes agree."""
    return _nearest(_widened(bits) * np.exp2(127.0 - scale.astype(np.float64)))


def _pairs(codes: Encode) -> Reading:
    """Lane words: two bf16, the scale's float32 bits, the old destination. The byte is the lowest one."""

    def outputs(words: Words) -> Words:
        scale, old = words[..., 1] >> np.uint32(23) & np.uint32(255), words[..., 2]
        low, high = (np.asarray(codes(half, scale)) for half in (words[..., 0] & 0xFFFF, words[..., 0] >> 16))
        byte = (low & 15 | (high & 15) << 4).astype(np.uint32)
        new = np.where((low < 0) | (high < 0), old, old & np.uint32(0xFFFFFF00) | byte)
        return new[..., None].astype(np.uint32)

    return outputs


def _everywhere(bits: Any, scale: Any) -> Any:
    return np.ones(bits.shape, np.bool_)


def _grid(bits: Any, scales: Any, where: Callable[[Any, Any], Any] = _everywhere) -> Callable[[], Words]:
    """Every bf16 with every scale byte where the condition holds, as first element and as second of another pair; from
    the start again where lanes are left."""

    def inputs() -> Words:
        scale, first = (part.ravel() for part in np.meshgrid(scales, bits, indexing="ij"))
        first, scale = first[where(first, scale)], scale[where(first, scale)]
        lanes = -(-first.size // 64) * 64
        # The neighbour has the same scale, or is the first of the next one's.
        second = np.where(scale == np.roll(scale, 1), np.roll(first, 1), first)
        both, scale = first | second << 16, scale.astype(np.uint32) << 23
        words = [np.resize(part, lanes) for part in (both, scale, np.array([_OLD]))]
        return np.stack(words, axis=1).astype(np.uint32).reshape(-1, 64, 3)

    return inputs


def _both_signs(bits: Any) -> NDArray[np.uint32]:
    magnitudes = np.asarray(bits, np.uint32)
    return np.concatenate([magnitudes, magnitudes | 0x8000])


def _where(condition: Callable[[NDArray[np.uint32], NDArray[np.uint32]], Any], other: Encode) -> Encode:
    """The plain rule, but `other` where the condition holds."""
    return lambda bits, scale: np.where(condition(bits, scale), other(bits, scale), _plain(bits, scale))


def _readings(condition: Callable[..., Any], **others: Encode) -> Mapping[str, Reading]:
    return {name.replace("_", " "): _pairs(_where(condition, other)) for name, other in others.items()}


def _sign(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    return (bits >> 15 & 1).astype(np.int64) * 8


def _is_nan(bits: NDArray[np.uint32], scale: Any = None) -> Any:
    return (bits & 0x7FFF) > 0x7F80


def _is_denormal(bits: NDArray[np.uint32], scale: Any = None) -> Any:
    return ((bits & 0x7F80) == 0) & ((bits & 0x7F) != 0)


_CONVERT = "v_mov_b32_e32 v64, v18\ns_nop 7\nv_cvt_scalef32_pk_fp4_bf16 v64, v16, v17"
_SATURATES = "saturates with its sign"


def _plus_zero(bits: NDArray[np.uint32], scale: Any) -> NDArray[np.int64]:
    return np.zeros(bits.shape, np.int64)


def _unsigned_zero(bits: NDArray[np.uint32], scale: NDArray[np.uint32]) -> Any:
    code = _plain(bits, scale)
    return np.where(code == 8, 0, code)


def _fixed(exponent: int) -> Encode:
    return lambda bits, scale: _plain(bits, np.full(scale.shape, exponent))


_KEPT: Encode = lambda bits, scale: np.full(bits.shape, -1)  # noqa: E731
_ALL_NAN = _both_signs(np.arange(0x7F81, 0x8000))
_SHARP = _both_signs(
    [0, 0x0001, 0x007F, 0x0080, 0x3E7F, 0x3E80, 0x3E81, 0x3F3F, 0x3F40, 0x3F41, 0x3F9F, 0x3FA0, 0x3FA1, 0x3FDF, 0x3FE0,
     0x3FE1, 0x401F, 0x4020, 0x4021, 0x405F, 0x4060, 0x4061, 0x409F, 0x40A0, 0x40A1, 0x40C0, 0x40E0, 0x7F7F]
)  # fmt: skip
# Normal numbers and 0: denormals and the sign of zero have their own questions. The steady ones never round to -0 under
# scales up to 1.
_ORDINARY = _SHARP[~_is_denormal(_SHARP) & (_SHARP != 0x8000)]
_STEADY = _ORDINARY[(_ORDINARY < 0x8000) | (_ORDINARY > 0xC05F)]
_ISA = "AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_BF16: the pseudocode calls a function that it doesn't define"


def _fp4(name: str, statement: str, matters: str, sources: str, policy: str, status: Any, bits: Any, scales: Any,
         readings: Mapping[str, Reading], where: Callable[[Any, Any], Any] = _everywhere) -> Question:  # fmt: skip
    program = Program(_CONVERT, _grid(np.asarray(bits, np.uint32), np.asarray(scales, np.uint32), where), 1)
    return Question(f"cvt.fp4.{name}", statement, matters, sources, policy, status, program, readings)


_RULE = "nearest, ties to even, saturating"
_AGREE = "AMD's HIP header, composable_kernel, aiter and ml_dtypes agree"

_FP4 = (
    _fp4(
        "finite", "How are finite values rounded at each scale byte from 1 to 254?",
        "Every quantized element depends on it.", f"{_AGREE}; a control.", _RULE, CERTAIN,
        _SHARP[~_is_denormal(_SHARP)], np.arange(1, 255),
        {_RULE: _pairs(_plain)}, where=lambda bits, scale: _plain(bits, scale) != 8,
    ),
    _fp4(
        "nan", "What does a NaN become, of either sign and any payload?",
        "A NaN in an activation must not turn into an ordinary number unseen, and the emulator must show what happens.",
        "A test for real silicon asserts +6 for +NaN (float32 form); nothing says what -NaN or a payload does.",
        _SATURATES, UNKNOWN, _ALL_NAN, [1, 127, 254],
        _readings(
            _is_nan, saturates_with_its_sign=lambda bits, scale: 7 + _sign(bits),
            becomes_plus_6=lambda bits, scale: np.full(bits.shape, 7),
            becomes_plus_0=_plus_zero,
            leaves_the_byte_alone=_KEPT,
        ),
    ),
    _fp4(
        "inf", "What does an infinity become?", "Overflowed activations reach the conversion.",
        "A test for real silicon asserts +-6 (float32 form).", _SATURATES, INFERRED, [0x7F80, 0xFF80],
        np.arange(1, 255),
        _readings(
            lambda bits, scale: (bits & 0x7FFF) == 0x7F80, saturates_with_its_sign=lambda bits, scale: 7 + _sign(bits),
            becomes_plus_0=_plus_zero, leaves_the_byte_alone=_KEPT,
        ),
    ),
    _fp4(
        "negative_zero", "Do -0 and negative values that round to zero keep their sign?",
        "The code is 8 or 0: packed bytes are compared bit for bit.", "Implementations keep the sign; no source says.",
        "keeps the sign", UNKNOWN, [0x8000, 0xBE80, 0xBC00, 0xBE7F, 0x0000, 0x3C00], [1, 64, 127, 200, 254],
        {
            "keeps the sign": _pairs(_plain),
            "zero is always plus": _pairs(_unsigned_zero),
            "an exact -0 becomes plus": _pairs(_where(lambda bits, scale: bits == 0x8000, _plus_zero)),
        },
    ),
    _fp4(
        "denormal", "Are bfloat16 denormals (all 254) kept under the smallest scales?",
        "Tiny blocks have scale bytes near 0, where a denormal is an ordinary code.", "No source says.",
        "kept", UNKNOWN, _both_signs(np.arange(1, 128)), [1, 2, 3, 4, 5, 6, 127],
        _readings(
            _is_denormal, kept=_plain, flushed_with_the_sign=lambda bits, scale: _sign(bits),
            flushed_to_plus_zero=_plus_zero,
        ),
    ),
    _fp4(
        "scale_0", "What scale does byte 0 mean?",
        "Blocks of zeros and tiny blocks have scale byte 0.",
        "OCP MX spec 1.0, 5.4.1: 2^-127; as float32 bits it is 0.",
        "2^-127", UNKNOWN, np.concatenate([_both_signs(np.arange(0x0080, 0x0200, 7)), _ORDINARY]), [0],
        {
            "2^-127": _pairs(_plain),
            "2^-126": _pairs(lambda bits, scale: _plain(bits, scale + 1)),
            "zero: what isn't zero saturates": _pairs(
                lambda bits, scale: np.where((bits & 0x7FFF) > 0, 7 + _sign(bits), _sign(bits))
            ),
            "leaves the byte alone": _pairs(_KEPT),
        },
    ),
    _fp4(
        "scale_255", "What scale does byte 255 (NaN) mean?",
        "A NaN block's scale byte is 255 in some dialects.",
        "OCP MX spec 1.0, 5.4.1: NaN. rocjitsu leaves the byte alone, AMD's HIP header writes the largest magnitude.",
        _SATURATES, UNKNOWN, _ORDINARY, [255],
        {
            _SATURATES: _pairs(lambda bits, scale: 7 + _sign(bits)),
            "leaves the byte alone": _pairs(_KEPT),
            "2^128": _pairs(_plain),
            "becomes plus 6": _pairs(lambda bits, scale: np.full(bits.shape, 7)),
        },
    ),
)  # fmt: skip


def _scale_bits() -> Words:
    words = np.zeros((1, 64, 3), np.uint32)
    lane = np.arange(64, dtype=np.uint32)
    words[0, :, 0] = _STEADY[lane % _STEADY.size] | np.uint32(0x3F80) << np.uint32(16)
    words[0, :, 1] = (112 + lane % 16) << 23 | lane * 0x1FFFF & 0x7FFFFF | lane % 2 << 31
    words[0, :, 2] = _OLD
    return words


def _wide_range() -> Words:
    """Numbers 1.25 * 2^j, j from -126 to 126: each scale makes others of them ordinary codes."""
    words = np.zeros((1, 64, 3), np.uint32)
    lane = np.arange(64, dtype=np.uint32)
    words[0, :, 0] = (4 * lane + 1) << 7 | 0x20 | ((4 * lane + 2) << 7 | 0x20) << 16
    words[0, :, 1], words[0, :, 2] = 120 << 23, _OLD
    return words


def _at_byte(place: int) -> Reading:
    def outputs(words: Words) -> Words:
        byte = _pairs(_plain)(words) & np.uint32(0xFF)
        shift = np.uint32(8 * place)
        return words[..., 2:3] & ~np.uint32(0xFF << 8 * place) | byte << shift

    return outputs


def _odd_lanes(words: Words) -> Words:
    new = _pairs(_plain)(words)
    new[:, ::2] = words[:, ::2, 2:3]
    return new


_LANES = "s_mov_b32 exec_lo, 0xaaaaaaaa\ns_mov_b32 exec_hi, 0xaaaaaaaa\n"
_SELECT = ("0,0", "1,0", "0,1", "1,1")
_MANNERS = (
    Question(
        "cvt.fp4.scale_bits", "Do the sign and the mantissa of the scale count?",
        "Kernels pass a float32 scale with only its exponent meant.", f"{_AGREE}; a control.", "only bits 30:23 count",
        CERTAIN, Program(_CONVERT, _scale_bits, 1), {"only bits 30:23 count": _pairs(_plain)},
    ),
    *(
        Question(
            f"cvt.fp4.byte_{place}", f"With OPSEL[3:2] = {place}, is byte {place} written and are the others kept?",
            "Four conversions share a register.", "AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_BF16; a control.",
            "others kept", CERTAIN, Program(f"{_CONVERT} op_sel:[0,0,{_SELECT[place]}]", _scale_bits, 1),
            {"others kept": _at_byte(place)},
        )
        for place in range(4)
    ),
    Question(
        "cvt.fp4.exec", "Are lanes that EXEC has off left alone?", "Tails of a tile.", "AMD CDNA4 ISA; a control.",
        "left alone", CERTAIN,
        Program(_CONVERT.replace("s_nop 7\n", f"s_nop 7\n{_LANES}s_nop 7\n"), _scale_bits, 1),
        {"left alone": _odd_lanes},
    ),
    *(
        Question(
            f"cvt.fp4.scale_{word}", f"What does the conversion read for a scale in {what}?",
            "Inline assembly with a constraint too loose puts the scale there.",
            "Known to differ from a VGPR; which bits are read is not public.", REFUSED, UNKNOWN,
            Program(
                f"v_mov_b32_e32 v64, v18\nv_readfirstlane_b32 s20, v17\ns_nop 7\n"
                f"v_cvt_scalef32_pk_fp4_bf16 v64, v16, {operand}", _wide_range, 1,
            ),
            {
                f"2^{exponent - 127}": _pairs(_fixed(exponent))
                for exponent in (0, 1, 4, 120, 124, 127, 128, 129, 131, 254)
            } | {_SATURATES: _pairs(lambda bits, scale: 7 + _sign(bits)), "leaves the byte alone": _pairs(_KEPT)},
        )
        for word, what, operand in (
            ("sgpr", "an SGPR (2^-7)", "s20"), ("inline_1_0", "the inline constant 1.0", "1.0"),
            ("inline_4_0", "the inline constant 4.0", "4.0"), ("inline_4", "the inline integer 4", "4"),
        )
    ),
)  # fmt: skip


def _hazard(states: int) -> Question:
    wait = {0: "", 1: "s_nop 0\n", 2: "s_nop 1\n"}[states]
    status = UNKNOWN if states == 0 else INFERRED
    return Question(
        f"cvt.fp4.hazard_{states}", f"What does a reader see with {states} wait states behind the conversion?",
        "Compilers can't see into inline assembly, so the wait may be missing.",
        "LLVM PRs #117844, #118589, #140218: one wait state, or another instruction, must come between.",
        "the new byte", status, Program(f"{_CONVERT}\n{wait}v_mov_b32_e32 v65, v64", _scale_bits, 2),
        {
            "the new byte": lambda words: np.repeat(_pairs(_plain)(words), 2, axis=2),
            "the old register": lambda words: np.concatenate([_pairs(_plain)(words), words[..., 2:3]], axis=2),
        },
    )  # fmt: skip


QUESTIONS: tuple[Question, ...] = (*_FP4, *_MANNERS, *(_hazard(states) for states in (0, 1, 2)))
