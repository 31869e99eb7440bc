"""How a matrix instruction adds up: c + sum over k of a * b to one float32, by one of three models.

No public source says how CDNA4 adds. `exact`: the sum without rounding, rounded once. `sequential-f32`: one fused
multiply-add after another, k ascending. `truncating`: groups of k whose products are cut to 24 bits below the largest,
then joined to c, as MI300X was measured to do (MMA-Sim, arXiv:2511.10909); for gfx950 all three are inferred.

Arrays: a (n, rows, K) and b (n, columns, K) float64 whose products float64 holds exactly, c (n, rows, columns) float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.errors import ContractError
from mxassay.gfx950.floating import fma_f32, narrowed, two_sum

__all__ = [
    "MODELS",
    "Accumulate",
    "Differences",
    "Groups",
    "accumulation",
    "exact",
    "exact_sums",
    "sequential",
    "truncating",
]

Floats = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Groups:
    """How `truncating` takes k: `size` products a group, even and odd k apart where `halves`. `least`: the exponents at
    which a's and b's denormals begin."""

    size: int
    halves: bool
    least: tuple[int, int]


Accumulate = Callable[[Floats, Floats, Floats, Groups], NDArray[np.float32]]
_UNIT = 2.0**-53
_DEFAULT_NAN = np.uint32(0x7FC00000)  # inferred: AMD's default NaN; no source says what a matrix instruction writes
_TERMS = 1 << 20  # products a time
_PASSES = 24


def exact(a: Floats, b: Floats, c: Floats, groups: Groups | None = None) -> NDArray[np.float32]:
    """RNE to float32 of the exact c + sum over k of a * b. NaN and infinities as IEEE 754 has them, default NaN.

    A float64 product comes with a bound of its error. Where both ends of the bound round alike, that is the result;
    elsewhere (ties, cancellation) the terms are added without error.
    """
    total = np.matmul(a, b.transpose(0, 2, 1))
    total += c
    # |error| <= (K + 2) u (sum |a||b| + |c|), for any order of adding (Higham, "Accuracy and Stability", 3.1).
    largest = np.abs(a).max(axis=2)[:, :, None] * np.abs(b).sum(axis=2)[:, None, :]
    bound = (a.shape[2] + 3) * _UNIT * (largest + np.abs(c, dtype=np.float64)) * 1.0001
    result: NDArray[np.float32] = total.astype(np.float32)
    unsure = ((total - bound).astype(np.float32) != (total + bound).astype(np.float32)) & np.isfinite(total)
    if unsure.any():
        where = np.nonzero(unsure)
        step = max(1, _TERMS // (a.shape[2] + 1))
        for start in range(0, len(where[0]), step):
            n, i, j = (axis[start : start + step] for axis in where)
            terms = np.empty((a.shape[2] + 1, len(n)))
            np.multiply(a[n, i].T, b[n, j].T, out=terms[:-1])
            terms[-1] = c[n, i, j]
            result[n, i, j] = narrowed(*exact_sums(terms))
    return _plain_nans(result)


def exact_sums(terms: Floats) -> tuple[Floats, Floats]:
    """high, low of each column's sum: high is a float64 next to the sum, and low has the sign of what is missing, or is
    zero. That is what rounding to odd needs.

    `terms` (count, columns), finite, whose sums don't overflow. Pairs are added without error until no two numbers of a
    column overlap.
    """
    parts = _distilled(terms)
    for _ in range(_PASSES):
        changed = False
        for index in range(len(parts) - 1, 0, -1):
            high, low = two_sum(parts[index - 1], parts[index])
            changed = changed or bool((high != parts[index - 1]).any())
            parts[index - 1], parts[index] = high, low
        if not changed:
            break
    else:
        return _by_fractions(parts)
    low = np.zeros_like(parts[0])
    for part in reversed(parts[1:]):
        low = np.where(part != 0, part, low)
    return parts[0], low


def _distilled(terms: Floats) -> list[Floats]:
    """The column sums as few numbers: the float64 sum, the sum of its errors, the errors of that, and so on."""
    found: list[Floats] = []
    while len(terms) and (not found or terms.any()):
        errors: list[Floats] = []
        while len(terms) > 1:
            half = len(terms) // 2
            total, error = two_sum(terms[:half], terms[half : 2 * half])
            errors.append(error)
            terms = np.concatenate([total, terms[2 * half :]]) if len(terms) % 2 else total
        found.append(terms[0])
        terms = np.concatenate(errors) if errors else terms[:0]
    return found


def _by_fractions(parts: list[Floats]) -> tuple[Floats, Floats]:
    """The same by rational numbers."""
    high, low = np.empty_like(parts[0]), np.empty_like(parts[0])
    for column in range(high.size):
        total = sum((Fraction(float(part[column])) for part in parts), Fraction(0))
        high[column] = float(total)
        low[column] = float(total - Fraction(float(high[column])))
    return high, low


def sequential(a: Floats, b: Floats, c: Floats, groups: Groups | None = None) -> NDArray[np.float32]:
    """fma(a[k], b[k], ...) in float32, k ascending, starting from c."""
    total = np.asarray(c, np.float32)
    for k in range(a.shape[2]):
        total = fma_f32(a[:, :, None, k], b[:, None, :, k], total)
    return _plain_nans(np.array(total, np.float32))


def truncating(a: Floats, b: Floats, c: Floats, groups: Groups) -> NDArray[np.float32]:
    """Group by group, k ascending: products cut (toward zero) to 24 bits below the largest exponent and added; that sum
    cut (down) to 31 bits and c to 24 below the larger of theirs; their sum rounded to nearest even."""
    total = np.asarray(c, np.float32)
    for first in range(0, a.shape[2], groups.size):
        k = slice(first, first + groups.size)
        total = _joined(a[:, :, k], b[:, :, k], total, groups)
    return _plain_nans(np.array(total, np.float32))


def _joined(a: Floats, b: Floats, c: Floats, groups: Groups) -> NDArray[np.float32]:
    plain = np.matmul(a, b.transpose(0, 2, 1)) + c
    parts = [_cut_sum(a[:, :, half::2], b[:, :, half::2], groups) for half in (0, 1)] if groups.halves else []
    if parts:
        top = np.maximum(parts[0][1], parts[1][1])
        whole = sum(np.floor(np.ldexp(part, exponent - top)) for part, exponent in parts)
    else:
        whole, top = _cut_sum(a, b, groups)
    exponent_c = _exponent(c, -126)
    common = np.maximum(top, exponent_c)
    addend = np.floor(np.ldexp(c.astype(np.float64), 24 - common))
    if groups.halves:
        addend = np.where(exponent_c >= common - 25, addend, 0.0)
    joined = np.floor(np.ldexp(whole, 7 + top - common)) + addend * 128.0
    result: NDArray[np.float32] = np.where(np.isfinite(plain), np.ldexp(joined, common - 31), plain).astype(np.float32)
    return result


def _cut_sum(a: Floats, b: Floats, groups: Groups) -> tuple[Floats, Any]:
    """The sum of the cut products in units of 2^(exponent - 24), and that exponent."""
    exponents = _exponent(a, groups.least[0])[:, :, None] + _exponent(b, groups.least[1])[:, None]
    top = exponents.max(axis=3)
    cut = np.trunc(np.ldexp(a[:, :, None] * b[:, None], (24 - top)[..., None]))
    return cut.sum(axis=3), top


def _exponent(x: Floats, least: int) -> Any:
    exponent = np.frexp(x)[1] - 1
    return np.where(x == 0, -126, np.maximum(exponent, least))


def _plain_nans(result: NDArray[np.float32]) -> NDArray[np.float32]:
    nan = np.isnan(result)
    if nan.any():
        result.view(np.uint32)[nan] = _DEFAULT_NAN
    return result


MODELS: dict[str, Accumulate] = {"exact": exact, "sequential-f32": sequential, "truncating": truncating}


@dataclass(slots=True)
class Differences:
    """How many results of matrix instructions were computed, and for how many the models don't agree."""

    results: int = 0
    differing: int = 0

    def restart(self) -> "Differences":
        """Count from zero again, in place; steps keep the object."""
        self.results = self.differing = 0
        return self


def accumulation(model: str, differences: Differences | None) -> Accumulate:
    """The model of that name; with `differences`, all of them run and are compared bit by bit.

    Raises:
        ContractError: there is no such model.
    """
    if model not in MODELS:
        raise ContractError(f"accumulation must be one of {', '.join(MODELS)}, not {model}")
    if differences is None:
        return MODELS[model]

    def compared(a: Floats, b: Floats, c: Floats, groups: Groups) -> NDArray[np.float32]:
        found = {name: add(a, b, c, groups) for name, add in MODELS.items()}
        chosen = found[model]
        other = [result.view(np.uint32) != chosen.view(np.uint32) for result in found.values()]
        differences.results += chosen.size
        differences.differing += int(np.logical_or.reduce(other).sum())
        return chosen

    return compared
