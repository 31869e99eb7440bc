"""Answers of a real card that replace declared policies: pins.

A pin names a behaviour (a reading) for a question of `mxassay.gfx950.probe`. Behaviours are a closed set: an answer
that none of them gives can't be pinned, and what public sources say for certain can't be pinned away.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.errors import ContractError

__all__ = ["PINNABLE", "Pins"]

SCHEMA_VERSION = 1
Where = Callable[[Any, Any], Any]  # value float32, scale exponent -> which lanes a question is about
# value, scale exponent, the rule for ordinary values -> codes; -1 leaves the register's byte alone
Codes = Callable[[Any, Any, Callable[[Any, Any], Any]], Any]


def _sign(x: Any) -> Any:
    return np.signbit(x) * np.int8(8)


_KEPT: Codes = lambda x, e, rule: np.full(np.shape(x), -1, np.int8)  # noqa: E731
_SATURATES: Codes = lambda x, e, rule: 7 + _sign(x)  # noqa: E731
_PLUS_SIX: Codes = lambda x, e, rule: np.full(np.shape(x), 7, np.int8)  # noqa: E731
_PLUS_ZERO: Codes = lambda x, e, rule: np.zeros(np.shape(x), np.int8)  # noqa: E731
_RULE: Codes = lambda x, e, rule: rule(x, e)  # noqa: E731
_SIGNED_ZERO: Codes = lambda x, e, rule: _sign(x)  # noqa: E731


def _unsigned_zero(x: Any, e: Any, rule: Callable[[Any, Any], Any]) -> Any:
    code = rule(x, e)
    return np.where(code == 8, 0, code)


_FP4: Mapping[str, tuple[Where, Mapping[str, Codes]]] = {
    "cvt.fp4.negative_zero": (
        lambda x, e: np.signbit(x) & ~np.isnan(x),
        {
            "keeps the sign": _RULE,
            "zero is always plus": _unsigned_zero,
            "an exact -0 becomes plus": lambda x, e, rule: np.where(x == 0, 0, rule(x, e)),
        },
    ),
    "cvt.fp4.denormal": (
        lambda x, e: (np.abs(x) < np.float32(2.0**-126)) & (x != 0),
        {"kept": _RULE, "flushed with the sign": _SIGNED_ZERO, "flushed to plus zero": _PLUS_ZERO},
    ),
    "cvt.fp4.inf": (
        lambda x, e: np.isinf(x),
        {
            "saturates with its sign": _SATURATES,
            "becomes plus 0": _PLUS_ZERO,
            "leaves the byte alone": _KEPT,
        },
    ),
    "cvt.fp4.nan": (
        lambda x, e: np.isnan(x),
        {
            "saturates with its sign": _SATURATES,
            "becomes plus 6": _PLUS_SIX,
            "becomes plus 0": _PLUS_ZERO,
            "leaves the byte alone": _KEPT,
        },
    ),
    "cvt.fp4.scale_0": (
        lambda x, e: e == 0,
        {
            "2^-127": _RULE,
            "2^-126": lambda x, e, rule: rule(x, e + 1),
            "zero: what isn't zero saturates": lambda x, e, rule: np.where(x != 0, 7, 0) + _sign(x),
            "leaves the byte alone": _KEPT,
        },
    ),
    "cvt.fp4.scale_255": (
        lambda x, e: e == 255,
        {
            "saturates with its sign": _SATURATES,
            "leaves the byte alone": _KEPT,
            "2^128": _RULE,
            "becomes plus 6": _PLUS_SIX,
        },
    ),
}
PINNABLE: Mapping[str, tuple[str, ...]] = {identity: tuple(codes) for identity, (_, codes) in _FP4.items()}
"""The behaviours that the emulator can take on, by question."""


@dataclass(frozen=True, slots=True)
class Pins:
    """Pinned behaviours: `readings` as (question id, reading) pairs; `accumulation`: a model of
    `mxassay.gfx950.accumulate`, or None.

    Later questions of `PINNABLE` win where two apply to one value (a scale byte of 255 over a NaN).

    Raises:
        ContractError: a question or behaviour that the emulator does not know.

    >>> Pins((("cvt.fp4.nan", "becomes plus 6"),)).readings
    (('cvt.fp4.nan', 'becomes plus 6'),)
    """

    readings: tuple[tuple[str, str], ...] = ()
    accumulation: str | None = None

    def __post_init__(self) -> None:
        for identity, reading in self.readings:
            if identity not in PINNABLE:
                raise ContractError(f"a pinned question must be one of {', '.join(PINNABLE)}, not {identity}")
            if reading not in PINNABLE[identity]:
                known = "; ".join(PINNABLE[identity])
                raise ContractError(f"the pin of {identity} must be one of {known}; not {reading}")

    def fp4(self, x: NDArray[Any], exponent: NDArray[Any], rule: Callable[[Any, Any], Any]) -> NDArray[np.int8]:
        """E2M1 codes of float32 `x` under scale exponents, int8; -1 where the byte is left alone. `rule(x, exponent)`
        is what holds where nothing is pinned."""
        codes = np.asarray(rule(x, exponent)).astype(np.int8)
        pinned = dict(self.readings)
        for identity, (where, behaviours) in _FP4.items():
            if identity in pinned:
                chosen = behaviours[pinned[identity]](x, exponent, rule)
                codes = np.where(where(x, exponent), chosen, codes).astype(np.int8)
        return codes

    def write(self, path: "str | PathLike[str]") -> None:
        document = {
            "schema_version": SCHEMA_VERSION,
            "pinned": dict(self.readings),
            "accumulation": self.accumulation,
        }
        Path(path).write_text(json.dumps(document, indent=1) + "\n")

    @staticmethod
    def read(path: "str | PathLike[str]") -> "Pins":
        """Raises `ContractError` for a file that `write` did not make."""
        try:
            document = json.loads(Path(path).read_text())
            version, pinned, accumulation = (document[key] for key in ("schema_version", "pinned", "accumulation"))
            readings = tuple((str(identity), str(reading)) for identity, reading in pinned.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ContractError(f"the pins must be a file that mxassay wrote, not {path} ({error})") from error
        if version != SCHEMA_VERSION:
            raise ContractError(f"the pins must have schema_version {SCHEMA_VERSION}, not {version}")
        return Pins(readings, accumulation)
