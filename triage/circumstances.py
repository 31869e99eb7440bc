"""What a failure needs in order to happen: splits, or a K, N or M that ends inside a tile."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from mxassay.errors import MxassayError
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, again, fails


class Circumstance(NamedTuple):
    """A class of faults, and what its circumstance is, as the end of "it fails only where"."""

    class_: str
    words: str


def circumstance(failure: Failure, run: Run, until: Callable[[], bool] = lambda: False) -> Circumstance | None:
    """The first circumstance without which the call is right; None where each can be done without, or has no meaning.

    A few calls more, of other shapes; none once `until` holds.
    """
    for found, call in _without(failure):
        if until():
            return None
        if not fails(again(call, run)):
            return found
    return None


def _without(failure: Failure) -> Iterator[tuple[Circumstance, Failure]]:
    """The call without each of its circumstances."""
    plan, operands = failure.launch.plan, failure.operands
    tile_m, tile_n, tile_k = (plan.tile_m, plan.tile_n, plan.tile_k) if plan is not None else (16, 128, 256)
    m, n, k = operands.shape
    if plan is not None and plan.splits > 1:
        try:
            alone = replace(failure, launch=replace(failure.launch, plan=replace(plan, splits=1)))
        except MxassayError:  # such a plan is not legal
            pass
        else:
            yield Circumstance("split-span", "K is split"), alone
    if k % tile_k:
        whole = replace(failure, operands=operands.blocks(_repeated(k // 32, tile_k // 32)))
        yield Circumstance("k-tail", "K ends inside a step"), whole
    if n % tile_n:
        whole = replace(failure, operands=operands.columns(_repeated(n, tile_n)))
        yield Circumstance("n-tail", "N ends inside a tile"), whole
    if m % tile_m:
        whole = replace(failure, operands=operands.rows(_repeated(m, tile_m)))
        yield Circumstance("small-m", "M ends inside a tile"), whole


def _repeated(size: int, multiple: int) -> torch.Tensor:
    """All indices below `size`, and from the first on again up to the next multiple."""
    return torch.arange(-(-size // multiple) * multiple) % size
