"""Questions on the functions that a card approximates: reciprocals, roots, exponential, logarithm, sine, cosine."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.probe.lanewise import SPECIAL_F32, columns, each, is_nan
from mxassay.gfx950.probe.question import Program, Question, Reading
from mxassay.gfx950.registry import INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

Bits = NDArray[np.uint32]
_NAN = np.uint32(0x7FC00000)
_NUMBERS = SPECIAL_F32[~is_nan(SPECIAL_F32)]
_ISA = "AMD CDNA4 ISA"


def _f(bits: Any) -> Any:
    return np.ascontiguousarray(bits, np.uint32).view(np.float32)


def _b(values: Any) -> Any:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def _flush(bits: Any) -> Any:
    return np.where((bits & 0x7F800000) == 0, bits & np.uint32(0x80000000), bits)


def _grid() -> tuple[Bits, Bits, Bits]:
    """1,024 numbers for each kind of function: positive of all exponents, exponents of 2, and turns."""
    step = np.arange(1024, dtype=np.uint64)
    spread = (step * 2654435761 % (1 << 32)).astype(np.uint32)
    positive = (1 + step * 253 // 1024).astype(np.uint32) << np.uint32(23) | spread >> np.uint32(9)
    exponents = (spread.astype(np.float64) / 2**32 * 256 - 128).astype(np.float32)
    turns = (spread[::-1].astype(np.float64) / 2**32 * 8 - 4).astype(np.float32)
    turns[turns == np.rint(turns)] = 0.3  # the sign of a zero is another question
    return positive, _b(exponents), _b(turns)


def _rounded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda bits: function(_f(bits).astype(np.float64)).astype(np.float32)


# Written by other means than the emulator's: sin and cos by complex exponentials of the reduced turn.
def _turn(bits: Any) -> Any:
    whole = _f(bits).astype(np.float64)
    return np.exp(2j * np.pi * (whole - np.rint(whole)))


_FUNCTIONS: Mapping[str, tuple[int, Callable[[Any], Any]]] = {
    "rcp": (0, _rounded(lambda x: 1 / x)), "rsq": (0, _rounded(lambda x: x**-0.5)), "sqrt": (0, _rounded(np.sqrt)),
    "log": (0, _rounded(np.log2)), "exp": (1, _rounded(np.exp2)),
    "sin": (2, lambda x: _turn(x).imag.astype(np.float32)),
    "cos": (2, lambda x: _turn(x).real.astype(np.float32)),
}  # fmt: skip


def _approximation(name: str) -> Question:
    column, function = _FUNCTIONS[name]
    inputs = columns(_grid()[column])
    return Question(
        f"float.{name}", f"Which bits does v_{name}_f32 give on a grid of 1,024 numbers?",
        "Softmax, layer norm and activations end in it; the last bit decides ties later.",
        f"{_ISA}: an accuracy (1 ulp), no bits.", "correctly rounded", INFERRED,
        Program(f"v_{name}_f32_e32 v64, v16", inputs, 1), {"correctly rounded": each(function)}, "f32",
    )  # fmt: skip


def _limits(flushed: bool) -> Reading:
    functions: Mapping[str, Callable[[Any], Any]] = {
        "rcp": lambda x: 1 / x, "rsq": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "log": np.log2, "exp": np.exp2,
        "sin": lambda x: np.where(np.isinf(x), np.nan, np.copysign(np.sin(2 * np.pi * np.fmod(x, 1)), x)),
        "cos": lambda x: np.where(np.isinf(x), np.nan, np.cos(2 * np.pi * np.fmod(x, 1))),
    }  # fmt: skip

    def at(name: str) -> Callable[[Bits], Any]:
        def value(bits: Bits) -> Any:
            source = _flush(bits) if flushed and name not in ("sqrt", "exp", "sin", "cos") else bits
            result = _b(functions[name](_f(source).astype(np.float64)).astype(np.float32))
            return np.where(is_nan(result), _NAN, result)

        return value

    return each(*(at(name) for name in _FUNCTIONS))


_SPECIAL_VALUES = Question(
    "float.special_values", "What do rcp, rsq, sqrt, log, exp, sin and cos give for zeros, denormals and infinities?",
    "Empty rows of a softmax, zero variances.", f"{_ISA}: partly; the sign of zeros and denormal sources are open.",
    "limits, NaN 0x7fc00000, denormals kept", UNKNOWN,
    Program(
        "\n".join(f"v_{name}_f32_e32 v{64 + place}, v16" for place, name in enumerate(_FUNCTIONS)),
        columns(_NUMBERS), len(_FUNCTIONS),
    ),
    {"limits, NaN 0x7fc00000, denormals kept": _limits(False),
     "limits, NaN 0x7fc00000, denormal sources of rcp, rsq and log flushed": _limits(True)}, "f32",
)  # fmt: skip

QUESTIONS: tuple[Question, ...] = (*(_approximation(name) for name in _FUNCTIONS), _SPECIAL_VALUES)
