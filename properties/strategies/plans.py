"""Launches: entry points and plans of our own kernel; nothing to choose for any other one."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import KernelUnderTest, Launch, under_test

# A small lattice: each of its rows compiles anew for each kind of shape. It covers both ways to read scales, both
# MFMAs, linear weights, tiles from one row up, bands, splits with whole and with ragged spans, and layouts by hand,
# which take the launches whose K suits them.
PLANS: tuple[dict[str, Any], ...] = (
    {"tile_m": 16, "tile_n": 32, "tile_k": 256},
    {"tile_m": 4, "tile_n": 16, "tile_k": 128},
    {"tile_m": 16, "tile_n": 32, "tile_k": 256, "splits": 2},
    {"tile_m": 8, "tile_n": 64, "tile_k": 128, "splits": 3, "group_m": 2},
    {"tile_m": 32, "tile_n": 32, "tile_k": 64, "matrix_instr_nonkdim": 32},
    {"tile_m": 1, "tile_n": 32, "tile_k": 256, "group_m": 3},
    {"tile_m": 16, "tile_n": 64, "tile_k": 512, "splits": 7},
    {"tile_m": 16, "tile_n": 32, "tile_k": 256, "linear": True},
    {"tile_m": 8, "tile_n": 16, "tile_k": 128, "splits": 5, "linear": True},
    {"tile_m": 32, "tile_n": 64, "tile_k": 256, "matrix_instr_nonkdim": 32, "num_warps": 8, "group_m": 2},
    {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2, "direct": True},
    {"tile_m": 32, "tile_n": 128, "tile_k": 512, "splits": 2, "direct": True, "joined": True},
)


def plan(index: int) -> Any:
    """The plan in row `index` of PLANS."""
    from mxassay.optimized import Plan

    return Plan(**PLANS[index])


def every_launch(kernel: KernelUnderTest) -> Iterator[Launch]:
    """One with its own plan, and of our own kernel one with each plan of PLANS: for tests that leave none out."""
    yield Launch()
    if kernel.own:
        yield from (Launch(plan(index)) for index in range(len(PLANS)))


@st.composite
def launches(draw: st.DrawFn, entries: bool = False, planned: bool = True) -> Launch:
    """How to call the kernel under test. With `entries`, any entry point; without `planned`, its own plan.

    Shrinks towards `matmul` with its own plan.
    """
    if not under_test().own:
        return Launch()
    chosen = draw(st.sampled_from([None, *range(len(PLANS))]), label="plan") if planned else None
    entry = draw(st.sampled_from(list(ENTRIES)), label="entry") if entries else "matmul"
    return Launch(None if chosen is None else plan(chosen), entry)


def splits() -> st.SearchStrategy[int]:
    """Counts of splits, around powers of two and with primes."""
    return st.sampled_from((1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 64))
