"""Inputs of matrix questions, as the values of A, B and C: sums that hypotheses about adding disagree on."""

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

__all__ = ["LENGTHS", "SMALL", "Terms", "cancellation", "many_small", "ties"]

Values = NDArray[np.float64]
Terms = tuple[Values, Values, NDArray[np.float32]]  # a (waves, 16, K), b (waves, 16, K), c (waves, 16, 16)

# Distances between the large terms and the small one, in bits.
LENGTHS = (10, 14, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 36)
SMALL = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.5, 1.0, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0, -0.5, -1.0)
_LIMIT = 60  # waves


def cancellation(depth: int, positions: tuple[int, ...], top: int, reach: int) -> Terms:
    """A large term, a small one, and minus the large one, each at every place of `positions` or in C; 0 elsewhere.

    Row i of A has the large term 2^`LENGTHS[i]` (2^`reach` at most) times the small one's unit, column j of B the
    small term `SMALL[j]`. B holds up to 2^`top`. The exact sum is the small term. Orders of the three are spread evenly
    where there are more than can be asked.
    """
    orders = list(permutations((*positions, None), 3))
    orders = orders[:: max(1, -(-len(orders) // _LIMIT))]
    a, b = np.zeros((len(orders), 16, depth)), np.zeros((len(orders), 16, depth))
    c = np.zeros((len(orders), 16, 16))
    large = np.exp2(np.minimum(LENGTHS, reach))
    for wave, (plus, small, minus) in enumerate(orders):
        for place, sign in ((plus, 1.0), (minus, -1.0)):
            if place is None:
                c[wave] = sign * large[:, None]
            else:
                a[wave, :, place], b[wave, :, place] = sign * large * 2.0**-top, 2.0**top
        if small is None:
            c[wave] = SMALL
        else:
            a[wave, :, small], b[wave, :, small] = 1.0, SMALL
    return a, b, c.astype(np.float32)


def ties(depth: int, places: tuple[int, int], least: int) -> Terms:
    """C with a unit of 1, a product that makes ties of it, and a far smaller one, 2^-1 to 2^`least`, that breaks
    them."""
    waves = 8
    a, b = np.zeros((waves, 16, depth)), np.zeros((waves, 16, depth))
    half, sticky = places
    a[:, :, half], b[:, :, half] = 0.5, np.array([1.0, -1.0, 3.0, 0.5] * 4)
    sizes = np.linspace(1, -least, 4).astype(int)
    for wave in range(waves):
        a[wave, :, sticky] = (1.0, -1.0)[wave % 2] * 2.0 ** -(sizes[wave // 2] // 2)
        b[wave, :, sticky] = np.repeat([0.0, 1.0, -1.0, 1.0], 4) * 2.0 ** (-sizes[wave // 2] // 2)
    whole = 2.0**23 + np.array([0, 1, 2, 3, 4, 5, 2**22, 2**22 + 1])
    c = np.broadcast_to(np.concatenate([whole, -whole])[None, :, None], (waves, 16, 16))
    return a, b, c.astype(np.float32)


def many_small(depth: int) -> Terms:
    """C near 2^24, where a unit is 2, and more and more small products in neighbouring or alternate k: how many are
    added before the first rounding shows. Row i has about (i + 1) / 16 of the products that are there."""
    waves = 8
    a, b = np.zeros((waves, 16, depth)), np.zeros((waves, 16, depth))
    b[:] = np.array(SMALL)[:, None]
    for wave in range(waves):
        start, step = (0, 1) if wave < 2 else (depth // 4, 1) if wave < 4 else (wave % 2, 2)
        places = range(start, depth, step)
        for row in range(16):
            a[wave, row, list(places)[: max(1, (row + 1) * len(places) // 16)]] = 1.0
    c = np.empty((waves, 16, 16))
    whole = 2.0**24
    c[:] = np.array([whole, -whole, whole + 2, whole - 1, 2 * whole, 2 * whole + 4, -2 * whole, 4 * whole])[
        :, None, None
    ]
    return a, b, c.astype(np.float32)
