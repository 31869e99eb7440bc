"""Tables of scale bytes, and how far they may spread while every output stays certified."""

import math
from functools import cache
from itertools import product

import torch


def safe_spread(k: int) -> int:
    """Bits that sa + sb may spread over the blocks of one output while the certificate holds whatever the codes.

    Products are at most 36 and multiples of 0.25, so K products fit into 2^24 units if 144 K 2^spread does.

    >>> [safe_spread(k) for k in (128, 512, 2048, 7168)]
    [9, 7, 5, 4]
    """
    return int(math.log2(2**24 / (144 * k)))


def ramp(rows: int, groups: int, spread: int, base: torch.Tensor | int) -> torch.Tensor:
    """uint8 (rows, groups), within `spread` above `base`: one byte, or one for each row.

    From a spread of 2 on, bytes differ between rows 1, 2, 16 and 32 apart and between groups 1, 2, 4 and 8 apart, the
    steps of the scale shuffle and of tiles: whichever are exchanged, it shows.

    >>> ramp(2, 3, 6, 127).tolist()
    [[127, 129, 131], [128, 130, 132]]
    """
    row, group = torch.arange(rows).unsqueeze(1), torch.arange(groups)
    a, a16, b, b4 = _steps(spread + 1)
    step = a * row + a16 * (row // 16) + b * group + b4 * (group // 4)
    return (torch.as_tensor(base).reshape(-1, 1) + step % (spread + 1)).to(torch.uint8)


@cache
def _steps(modulus: int) -> tuple[int, int, int, int]:
    """What one row, sixteen rows, one group and four groups add, so that the steps of `ramp` leave no rest of zero.

    A modulus of 2 cannot tell two steps from none, so only one step counts there.
    """
    for a, b, a16, b4 in product(range(1, modulus), range(modulus - 1, 0, -1), range(modulus), range(modulus)):
        steps = [a, b]
        if modulus > 2:
            steps += [2 * a, a + a16, 2 * a + a16, 16 * a + a16, 32 * a + 2 * a16]
            steps += [2 * b, b + b4, 2 * b + b4, 4 * b + b4, 8 * b + 2 * b4]
        if all(step % modulus for step in steps) and (a != b or modulus < 4):
            return a, a16, b, b4
    return 0, 0, 0, 0


def sweep(rows: int, lowest: int, highest: int, start: int) -> torch.Tensor:
    """int64 (rows,): consecutive bytes from `start` on, round and round in lowest..highest.

    >>> sweep(4, 0, 2, 1).tolist()
    [1, 2, 0, 1]
    """
    return lowest + (start - lowest + torch.arange(rows)) % (highest - lowest + 1)
