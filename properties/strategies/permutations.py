"""Orders of rows, columns and blocks."""

import torch
from hypothesis import strategies as st


@st.composite
def permutations(draw: st.DrawFn, size: int) -> torch.Tensor:
    """An order of range(size), int64. Shrinks towards one swap of neighbours, the least that is no identity."""
    kind = draw(st.sampled_from(["swap", "rotation", "reversal", "shuffle"]), label="kind of order")
    order = torch.arange(size)
    if size < 2:
        return order
    if kind == "swap":
        at = draw(st.integers(0, size - 2), label="first of the two")
        order[[at, at + 1]] = order[[at + 1, at]]
        return order
    if kind == "rotation":
        return order.roll(draw(st.integers(1, size - 1), label="steps"))
    if kind == "reversal":
        return order.flip(0)
    return torch.randperm(size, generator=torch.Generator().manual_seed(draw(st.integers(0, 99), label="seed")))
