"""Orders of rows, columns and blocks."""

import torch
from hypothesis import strategies as st


@st.composite
def permutations(draw: st.DrawFn, size: int) -> torch.Tensor:
    """An order of range(size), int64. Shrinks towards the swap of the first two, the least that is no identity."""
    kind = draw(st.sampled_from(["swap", "rotation", "reversal", "shuffle"]), label="kind of order")
    number = draw(st.integers(0, 99), label="which of its kind")
    order = torch.arange(size)
    if size < 2:
        return order
    if kind == "swap":
        at = number % (size - 1)
        order[[at, at + 1]] = order[[at + 1, at]]
        return order
    if kind == "rotation":
        return order.roll(1 + number % (size - 1))
    if kind == "reversal":
        return order.flip(0)
    return torch.randperm(size, generator=torch.Generator().manual_seed(number))
