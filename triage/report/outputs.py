"""The outputs of one call beside what they must be: which are wrong, by how much, and how many steps away."""

from dataclasses import dataclass

import torch

from mxassay.reference import Expectation
from mxassay.triage.failure import Failure


@dataclass(frozen=True, eq=False)
class Outputs:
    """All tensors are (M, N).

    Attributes:
        out: bfloat16, what came out.
        expectation: what must.
        wrong: bool.
        steps: int64, how many bfloat16 lie between an output and the nearest admissible one; 0 where right.
        special: bool, wrong outputs of which either side is NaN, so that steps mean nothing.
    """

    out: torch.Tensor
    expectation: Expectation
    wrong: torch.Tensor
    steps: torch.Tensor
    special: torch.Tensor

    @property
    def count(self) -> int:
        """How many outputs are wrong."""
        return int(self.wrong.sum())

    @property
    def first(self) -> tuple[int, int] | None:
        """(row, column) of the first wrong output in row-major order."""
        found = self.wrong.nonzero()
        return (int(found[0, 0]), int(found[0, 1])) if len(found) else None


def outputs_of(failure: Failure) -> Outputs | None:
    """The outputs of a failure; None where the kernel gave none of the right shape and type."""
    out, expectation = failure.out, failure.operands.expectation
    if out is None or out.dtype != torch.bfloat16 or out.shape != expectation.exact.shape:
        return None
    out = out.detach().resolve_neg().cpu().contiguous()
    wrong = expectation.wrong(out)
    place, lower, upper = (bfloat16_place(x) for x in (out, expectation.lower, expectation.upper))
    steps = torch.where(place > upper, place - upper, torch.where(place < lower, lower - place, 0))
    special = wrong & (out.isnan() | expectation.exact.isnan())
    return Outputs(out, expectation, wrong, torch.where(wrong & ~special, steps, 0), special)


def bfloat16_place(x: torch.Tensor) -> torch.Tensor:
    """int64: the number of each bfloat16 in the order of values; +0 and -0 are 0.

    >>> bfloat16_place(torch.tensor([1.0, -0.0]).bfloat16()).tolist()
    [16256, 0]
    """
    bits = x.view(torch.int16).long()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def bfloat16_words(value: torch.Tensor) -> str:
    """One bfloat16 in decimal and as bits.

    >>> bfloat16_words(torch.tensor(-276.0).bfloat16())
    '-276 (0xC38A)'
    """
    return f"{float(value):g} ({bfloat16_hex(value)})"


def bfloat16_hex(value: torch.Tensor) -> str:
    """The bits of one bfloat16 as 0x and four digits."""
    return f"0x{int(value.view(torch.int16)) & 0xFFFF:04X}"


def ranges(mask: torch.Tensor, most: int = 8) -> str:
    """The True places of a vector, as ranges or as the pattern that they repeat.

    >>> ranges(torch.tensor([True, True, True, False, True]))
    '0–2, 4'
    >>> ranges(torch.arange(64) % 16 >= 8)
    '8–15 of every 16'
    """
    runs = _runs(mask)
    if len(runs) > 2 and (period := _period(mask)):
        return f"{ranges(mask[:period], most)} of every {period}"
    words = [str(first) if first == last else f"{first}–{last}" for first, last in runs[:most]]
    more = [f"and {len(runs) - most} more ranges"] if len(runs) > most else []
    return ", ".join([*words, *more]) or "none"


def _runs(mask: torch.Tensor) -> list[tuple[int, int]]:
    padded = torch.nn.functional.pad(mask.to(torch.int8), (1, 1))
    edges = padded.diff()
    firsts, ends = (edges == 1).nonzero().flatten().tolist(), (edges == -1).nonzero().flatten().tolist()
    return [(first, end - 1) for first, end in zip(firsts, ends, strict=True)]


def _period(mask: torch.Tensor) -> int | None:
    size = len(mask)
    periods = (1 << bit for bit in range(1, size.bit_length()) if 2 << bit <= size)
    return next((p for p in periods if torch.equal(mask, mask[torch.arange(size) % p])), None)
