"""Questions on the scaled matrix instruction with FP4 operands, V_MFMA_SCALE_F32_16X16X128_F8F6F4."""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from mxassay.gfx950.probe.operand import accumulator
from mxassay.gfx950.probe.question import UNANSWERED, Program, Question, Reading, Words
from mxassay.gfx950.probe.scaled_case import (
    BLOCKS,
    DEPTH,
    E2M1,
    INSTRUCTION,
    ROWS,
    ScaledCase,
    adding,
    inputs_of,
    made,
    plain_nans,
)
from mxassay.gfx950.probe.sums import SUMS, blockwise, exact
from mxassay.gfx950.probe.terms import LENGTHS, SMALL, many_small
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

_ADDING: Mapping[str, Reading] = {
    **{name: adding(rule) for name, rule in SUMS.items()},
    **{
        f"block by block: {name}": adding(blockwise(rule, 32))
        for name, rule in SUMS.items()
        if "cut" in name and ("24" in name or "31" in name)
    },
}
_UNKNOWN_SUM = (
    "No public measurement for CDNA4. MI300X cuts terms at 24 bits in groups (MMA-Sim, arXiv:2511.10909); AMD's ISA "
    "document does not say."
)


def _far_apart(case: ScaledCase) -> None:
    """A large block, a small one and minus the large one, at every three places of the four blocks and C."""
    for wave, (plus, small, minus) in enumerate(permutations(range(BLOCKS + 1), 3)):
        k = 7 * wave % 32
        for place, sign in ((plus, 1), (minus, -1)):
            if place == BLOCKS:
                case.c[wave] = sign * np.exp2(LENGTHS)[:, None]
            else:
                case.a[wave, :, 32 * place + k], case.b[wave, :, 32 * place + k] = sign, 1
                case.sa[wave, :, place] = 127 + np.array(LENGTHS)
        if small == BLOCKS:
            case.c[wave] = SMALL
        else:
            case.a[wave, :, 32 * small + k], case.b[wave, :, 32 * small + k] = 1, SMALL


def _ties(case: ScaledCase) -> None:
    case.a[:, :, 3], case.b[:, :, 3] = 0.5, np.array([1.0, -1.0, 3.0, 0.5] * 4)
    case.a[:, :, 70], case.b[:, :, 70] = 1.0, np.repeat([0.0, 1.0, -1.0, 0.5], 4)
    case.sb[:, :, 2] = 127 - np.array([1, 4, 8, 12, 16, 20, 24, 27])[:, None]
    whole = 2.0**23 + np.array([0, 1, 2, 3, 4, 5, 2**22, 2**22 + 1])
    case.c[:] = np.concatenate([whole, -whole])[:, None]


def _few(case: ScaledCase) -> None:
    case.a[:], case.b[:], case.c[:] = many_small(DEPTH)


def _denormals(case: ScaledCase) -> None:
    """Wave 0: sums below 2^-126. Wave 1: nothing but C is denormal. Wave 2: C denormal, the sum normal."""
    case.a[:, :, 5], case.b[:, :, 5] = E2M1, np.roll(E2M1, 3)
    case.sa[0, :, 0], case.sb[0, :, 0] = 127 - 8 * np.arange(ROWS), 1
    denormal = (np.arange(256).reshape(16, 16) * 0x7FF7 + 1 & 0x7FFFFF).astype(np.uint32)
    case.c[1:] = (denormal | np.eye(16, dtype=np.uint32) << np.uint32(31)).view(np.float32)
    case.a[1] = 0
    case.sa[2, :, 0], case.sb[2, :, 0] = 2, 127


def _flushed(x: Any) -> Any:
    x = np.asarray(x, np.float32)
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


_EDGES = np.array([0, 1, 2, 3, 63, 64, 120, 126, 127, 128, 134, 190, 200, 252, 253, 254])


def _scale_edges(case: ScaledCase) -> None:
    case.a[:, :, 40], case.b[:, :, 40] = 1.5, 1.0
    case.sa[:, :, 1], case.sb[:, :, 1] = _EDGES, _EDGES


def _beyond(case: ScaledCase) -> None:
    """Blocks of +-2^(sa + sb - 254) beyond float32's range that cancel, and a third of 1."""
    for block, value in ((0, 1.0), (1, -1.0), (2, 1.0)):
        case.a[:, :, 32 * block], case.b[:, :, 32 * block] = value, 1.0
    for block in (0, 1):
        case.sa[:, :, block], case.sb[:, :, block] = _EDGES, 254


def _nan_scales(case: ScaledCase) -> None:
    """A NaN scale over zeros, over values, and beside an infinite C."""
    case.a[:, :, 0], case.b[:, :, 0] = 1.0, 1.0
    case.sa[:, 2, 0] = case.sa[:, 5, 1] = case.sb[:, 7, 3] = case.sb[:, 9, 0] = 255
    case.c[:, :, 9:11] = np.inf


def _signed_zeros(case: ScaledCase) -> None:
    """Wave 0 and 1: every product -0 (or none is), C of either zero. Wave 2: a sum that cancels."""
    case.a[0], case.b[0] = -0.0, np.where(np.arange(16) % 2, 1.0, -1.0)[:, None]
    case.a[1, :, 0], case.b[1, :, 0] = -1.0, np.where(np.arange(16) % 2, 0.0, -0.0)
    case.a[2, :, 0], case.b[2, :, 0] = 1.0, 2.0
    case.a[2, :, 33], case.b[2, :, 33] = -1.0, 2.0
    case.c[:] = np.where(np.arange(16) // 2 % 2, 0.0, -0.0)[:, None]


def _all_minus(case: ScaledCase) -> Any:
    """IEEE 754: -0 only where every term is -0, C included."""
    products = case.products()
    minus = (np.signbit(products) & (products == 0)).all(axis=3) & np.signbit(case.c) & (case.c == 0)
    total = exact(products, case.c) + np.float32(0)
    return np.where(minus, np.float32(-0.0), total)


_NANS = np.array([0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345, 0xFF800001, 0xFFC00000, 0xFFFFFFFF, 0x7F800000,
                  0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00000000, 0x80000000, 0x7FFFFFFF, 0xFFC12345, 0x3F800000],
                 np.uint32)  # fmt: skip


def _special_c(case: ScaledCase) -> None:
    case.a[:, :, 0], case.b[:, :, 0] = 1.0, SMALL
    case.c[:] = _NANS.view(np.float32)[:, None]


def _with_nans(keep: Callable[[Any], Any]) -> Reading:
    def outputs(words: Words) -> Words:
        case = ScaledCase.of(words)
        total = accumulator(exact(case.products(), case.c))
        bits = accumulator(case.c)
        return np.where((bits & 0x7FFFFFFF) > 0x7F800000, keep(bits), total).astype(np.uint32)

    return outputs


def _ramp(case: ScaledCase) -> None:
    """Everything at once, certified: all orders of adding agree (codes and scales repeat with coprime periods)."""
    codes = np.arange(ROWS * DEPTH).reshape(ROWS, DEPTH)
    case.a[:], case.b[:] = E2M1[codes * 5 % 16], E2M1[(codes * 11 + codes // 128) % 16]
    group = np.arange(ROWS * BLOCKS).reshape(ROWS, BLOCKS)
    case.sa[:], case.sb[:] = 125 + group * 7 % 5, 126 + group * 3 % 4
    case.c[:] = np.arange(256).reshape(16, 16) - 100.0


def _byte(words: Words, place: int) -> Words:
    """The same scales in another byte of their register, the other bytes disagreeing."""
    moved = words.copy()
    moved[..., 12:] = np.uint32(0x81000000 >> 8 * ((place + 1) % 4)) | words[..., 12:] << np.uint32(8 * place)
    return moved


def _in_byte(place: int) -> Callable[[], Words]:
    return lambda: _byte(inputs_of(_ramp, 1)(), place)


def _from_byte(place: int) -> Reading:
    def outputs(words: Words) -> Words:
        plain = words.copy()
        plain[..., 12:] = words[..., 12:] >> np.uint32(8 * place) & 0xFF
        return adding(exact)(plain)

    return outputs


def _clamped_scales(case: ScaledCase) -> Any:
    exponent = np.clip(case.sa[:, :, None, 1] + case.sb[:, None, :, 1] - 127, 0, 254)
    return 1.5 * np.exp2(exponent - 127.0)


def _overflowed(case: ScaledCase) -> Any:
    """Blocks 0 and 1 are +-2^sa; infinity minus infinity is NaN."""
    return plain_nans(np.where(case.sa[:, :, None, 0] >= 128, np.nan, np.ones(case.c.shape)))


def _poisoned(case: ScaledCase) -> Any:
    nan = (case.sa == 255).any(axis=2)[:, :, None] | (case.sb == 255).any(axis=2)[:, None]
    return plain_nans(np.where(nan, np.nan, exact(np.nan_to_num(case.products()), case.c)))


def _unless_zero(case: ScaledCase) -> Any:
    products = case.products()
    return plain_nans(exact(np.where((case.a[:, :, None] * case.b[:, None]) == 0, 0.0, products), case.c))


def _sign_of_c(case: ScaledCase) -> Any:
    products = case.products()
    return np.where((products == 0).all(axis=3), case.c, exact(products, case.c) + np.float32(0))


def _alternate(words: Words) -> Words:
    outputs = adding(exact)(words)
    outputs[:, 1::2] = UNANSWERED
    return outputs


def _question(name: str, statement: str, matters: str, sources: str, policy: str, status: Any,
              inputs: Callable[[], Words], readings: Mapping[str, Reading], text: str = INSTRUCTION,
              **settings: int) -> Question:  # fmt: skip
    return Question(
        f"mfma.scaled.{name}", statement, matters, sources, policy, status,
        Program(text, inputs, 4, settings=settings), readings, "f32",
    )  # fmt: skip


_ONCE = "exact, rounded once"
_SELECT = "op_sel:[{low},{low},0] op_sel_hi:[{high},{high},0]"
_FLUSHING: Mapping[str, Reading] = {
    "kept": adding(exact),
    "results flushed": made(lambda case: _flushed(exact(case.products(), case.c))),
    "C flushed": made(lambda case: exact(case.products(), _flushed(case.c))),
    "C and results flushed": made(lambda case: _flushed(exact(case.products(), _flushed(case.c)))),
}
_DENORMAL_SOURCE = "At second hand: MODE is ignored and nothing is flushed; MI200 flushed, MI300X does not."

QUESTIONS: tuple[Question, ...] = (
    _question(
        "layout", "Do all operands, scales and results lie where we think?", "Nothing else here can be read otherwise.",
        "AMD CDNA4 ISA; confirmed by running AMD's prebuilt kernels against a reference; a control.", _ONCE, CERTAIN,
        inputs_of(_ramp, 1), {_ONCE: adding(exact)},
    ),
    *(
        _question(
            f"scale_byte_{place}", f"Do OP_SEL and OP_SEL_HI choose byte {place} of the scale registers?",
            "Four scale tiles share a register.", "AMD CDNA4 ISA, OP_SEL of scaled MFMA; a control.", "they do",
            CERTAIN, _in_byte(place), {"they do": _from_byte(place)},
            INSTRUCTION.replace("op_sel_hi:[0,0,0]", _SELECT.format(low=place & 1, high=place >> 1)),
        )
        for place in range(4)
    ),
    _question(
        "exec", "Do lanes that EXEC has off take part all the same?", "A kernel may mask lanes around it.",
        "At second hand: EXEC is ignored.", "they take part", INFERRED, inputs_of(_ramp, 1),
        {"they take part": adding(exact), "D of lanes that are off is left alone": _alternate},
        "s_mov_b32 exec_lo, 0x55555555\ns_mov_b32 exec_hi, 0x55555555\ns_nop 7\n" + INSTRUCTION,
    ),
    _question(
        "order", "In what order and how wide are the four block sums and C added?",
        "Outside the certified region the last bits, and after cancellation all of them, depend on it.", _UNKNOWN_SUM,
        _ONCE, UNKNOWN, inputs_of(_far_apart, 60), _ADDING,
    ),
    _question(
        "ties", "How is the last sum rounded at ties, and is a far smaller term still seen there?",
        "One ulp of a float32 sum.", _UNKNOWN_SUM, _ONCE, UNKNOWN, inputs_of(_ties, 8), _ADDING,
    ),
    _question(
        "small", "How many small products are added before the first rounding?", "As above.", _UNKNOWN_SUM, _ONCE,
        UNKNOWN, inputs_of(_few, 8), _ADDING,
    ),
    _question(
        "denormal", "Are denormal C and denormal sums kept?", "Tiny blocks vanish otherwise.", _DENORMAL_SOURCE, "kept",
        INFERRED, inputs_of(_denormals, 3), _FLUSHING,
    ),
    _question(
        "denormal_mode_0", "Are they kept when MODE flushes float32 denormals?", "Kernels with flush-to-zero.",
        _DENORMAL_SOURCE, "kept", INFERRED, inputs_of(_denormals, 3), _FLUSHING, denorm_32=0, denorm_16_64=0,
    ),
    _question(
        "scale_sum", "What does 1.5 * 2^(sa + sb - 254) become where the exponents' sum leaves float32's range?",
        "Scale bytes near both ends.", "No source says whether the sum of exponents is clamped.",
        "as wide as needed", UNKNOWN, inputs_of(_scale_edges, 1),
        {
            "as wide as needed": adding(exact),
            "the sum clamped to an E8M0 byte": made(_clamped_scales),
            "below 2^-126 flushed": made(lambda case: _flushed(exact(case.products(), case.c))),
        },
    ),
    _question(
        "beyond_range", "Do blocks beyond float32's range cancel, or overflow before they are added?",
        "Large scales give NaN where the sum is small.", "No source says.", "they cancel", UNKNOWN,
        inputs_of(_beyond, 1),
        {"they cancel": made(lambda case: np.ones(case.c.shape)), "they overflow": made(_overflowed)},
    ),
    _question(
        "scale_nan", "What does scale byte 255 give, over zeros too?", "A NaN block must poison its outputs.",
        "At second hand: NaN.", "NaN 0x7fc00000 for every output of the row or column", INFERRED,
        inputs_of(_nan_scales, 1),
        {
            "NaN 0x7fc00000 for every output of the row or column": made(_poisoned),
            "NaN unless the block is all zeros": made(_unless_zero),
        },
    ),
    _question(
        "zero_sign", "What sign has a sum of zeros?", "Bit-exact comparison of zeros.",
        "IEEE 754 for additions; no source.", "always +0", UNKNOWN, inputs_of(_signed_zeros, 3),
        {"+0, or -0 where every term is -0": made(_all_minus),
         "always +0": made(lambda case: exact(case.products(), case.c) + np.float32(0)),
         "C's sign where all products are zero": made(_sign_of_c)},
    ),
    _question(
        "c_special", "What becomes of NaN and infinities in C?", "NaN bits in outputs.", "No source gives the bits.",
        "NaN kept, made quiet", UNKNOWN, inputs_of(_special_c, 1),
        {
            "NaN becomes 0x7fc00000": _with_nans(lambda bits: np.uint32(0x7FC00000)),
            "NaN kept, made quiet": _with_nans(lambda bits: bits | np.uint32(0x400000)),
            "NaN kept as it is": _with_nans(lambda bits: bits),
        },
    ),
    _question(
        "unscaled", "Is the instruction without scales the one with scale bytes 127?",
        "Two literal zero scales compile to it.", "LLVM drops scales that are literal zeros.", _ONCE, INFERRED,
        inputs_of(_ramp, 1), {_ONCE: made(lambda case: exact(case.a[:, :, None] * case.b[:, None], case.c))},
        "v_mfma_f32_16x16x128_f8f6f4 v[64:67], v[16:19], v[20:23], v[24:27] cbsz:4 blgp:4",
    ),
)  # fmt: skip
