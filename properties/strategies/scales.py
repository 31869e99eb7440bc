"""Tables of scale bytes, and how far they may spread while every output stays certified."""

import math

import torch


def safe_spread(k: int) -> int:
    """Bits that sa + sb may spread over the blocks of one output while the certificate holds whatever the codes.

    Products are at most 36 and multiples of 0.25, so K products fit into 2^24 units if 144 K 2^spread does.

    >>> [safe_spread(k) for k in (128, 512, 2048, 7168)]
    [9, 7, 5, 4]
    """
    return int(math.log2(2**24 / (144 * k)))


def ramp(rows: int, groups: int, spread: int, base: torch.Tensor | int) -> torch.Tensor:
    """uint8 (rows, groups): neighbours along both axes, and rows 16 apart, differ; within `spread` above `base`.

    `base` is one byte, or one for each row.

    >>> ramp(2, 3, 6, 127).tolist()
    [[127, 130, 133], [132, 128, 131]]
    """
    row, group = torch.arange(rows).unsqueeze(1), torch.arange(groups)
    return (torch.as_tensor(base).reshape(-1, 1) + (5 * row + 3 * group + row // 16) % (spread + 1)).to(torch.uint8)


def sweep(rows: int, lowest: int, highest: int, start: int) -> torch.Tensor:
    """int64 (rows,): consecutive bytes from `start` on, round and round in lowest..highest.

    >>> sweep(4, 0, 2, 1).tolist()
    [1, 2, 0, 1]
    """
    return lowest + (start - lowest + torch.arange(rows)) % (highest - lowest + 1)
