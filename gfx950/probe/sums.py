"""Ways in which a matrix unit may add: hypotheses, as functions of the terms, to tell a card's answers apart.

Each takes products float64 (..., K), k ascending, and c float32 (...), and returns float32 (...). Exact where every
partial sum fits into 53 bits and stays finite; the questions' inputs see to that.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

__all__ = ["SUMS", "Sum", "blockwise"]

Floats = Any  # arrays; numpy's own types say no more here
Sum = Callable[[Floats, Floats], Floats]


def _f32(x: Floats) -> Floats:
    """RNE to float32, as float64."""
    return x.astype(np.float32).astype(np.float64)


def exact(products: Floats, c: Floats) -> Floats:
    return (products.sum(axis=-1) + c).astype(np.float32)


def products_first(products: Floats, c: Floats) -> Floats:
    """The products' exact sum is rounded to float32, then c is added."""
    return (_f32(products.sum(axis=-1)) + c).astype(np.float32)


def groups(products: Floats, c: Floats, *, size: int, descending: bool = False) -> Floats:
    """Groups of `size` neighbours added exactly, then to the accumulator, which starts at c, each time rounded."""
    parts = products.reshape(*products.shape[:-1], -1, size).sum(axis=-1)
    total = c.astype(np.float64)
    order = range(parts.shape[-1])
    for index in reversed(order) if descending else order:
        total = _f32(total + parts[..., index])
    return total.astype(np.float32)


def tree(products: Floats, c: Floats, *, c_last: bool) -> Floats:
    """Neighbours added in float32, then their sums, and so on; c joins the last sum, or the first product."""
    level = products.copy()
    if not c_last:
        level[..., 0] = _f32(level[..., 0] + c)
    while level.shape[-1] > 1:
        level = _f32(level[..., 0::2] + level[..., 1::2])
    return (level[..., 0] + (c if c_last else 0)).astype(np.float32)


def aligned(products: Floats, c: Floats, *, bits: int, down: bool = False, with_c: bool = True) -> Floats:
    """All terms cut to `bits` bits below the largest one's exponent (toward zero, or down), added, and rounded.

    `with_c`: c is one of the terms; else it is added to the rounded sum of the others.
    """
    terms = np.concatenate([products, c.astype(np.float64)[..., None]], axis=-1) if with_c else products
    exponent = np.frexp(np.abs(terms).max(axis=-1))[1] - 1
    scaled = np.ldexp(terms, (bits - exponent)[..., None])
    whole = (np.floor(scaled) if down else np.trunc(scaled)).sum(axis=-1)
    total = np.ldexp(whole, exponent - bits)
    return total.astype(np.float32) if with_c else (_f32(total) + c).astype(np.float32)


def _named() -> Mapping[str, Sum]:
    found: dict[str, Sum] = {
        "exact, rounded once": exact,
        "products exact and rounded, then C": products_first,
        "one product after another in float32": partial(groups, size=1),
        "one product after another in float32, k descending": partial(groups, size=1, descending=True),
        "tree in float32, C last": partial(tree, c_last=True),
        "tree in float32, C first": partial(tree, c_last=False),
    }
    for size in (2, 4, 8, 16, 32, 64):
        found[f"groups of {size} exact, each rounded into C"] = partial(groups, size=size)
    for bits in (23, 24, 25, 26, 27, 28, 30, 31, 32):
        for down in (False, True):
            word = "down" if down else "toward zero"
            found[f"all terms and C cut {word} at {bits} bits"] = partial(aligned, bits=bits, down=down)
            found[f"all terms cut {word} at {bits} bits, then C"] = partial(aligned, bits=bits, down=down, with_c=False)
    return found


SUMS: Mapping[str, Sum] = _named()
"""By name, simplest first."""


def blockwise(rule: Sum, size: int) -> Sum:
    """`rule` applied to `size` products at a time, the accumulator in between float32."""

    def add(products: Floats, c: Floats) -> Floats:
        total = c
        for first in range(0, products.shape[-1], size):
            total = rule(products[..., first : first + size], total)
        return total

    return add
