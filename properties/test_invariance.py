"""Invariances: what must not change, or change in a known way, when the operands do."""

from dataclasses import replace

import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation, assert_same_bits
from mxassay.properties.claims import claim, quick
from mxassay.properties.fpsan import sanitized
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import (
    PLANS,
    certified_operands,
    launches,
    permutations,
    splits,
    wide_operands,
)
from mxassay.properties.strategies.matrices import ramped
from mxassay.properties.strategies.plans import plan


@claim("permuted-rows", examples=0.4)
@given(operands=certified_operands() | wide_operands(), launch=launches(), data=st.data())
def test_rows_of_a_in_another_order(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, data: st.DataObject
) -> None:
    assume(operands.shape[0] > 1)
    order = data.draw(permutations(operands.shape[0]), label="order of rows")
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(operands.rows(order), launch)
    assert_relation("rows of A in another order", other.out, first.out[order], other, first)


@claim("permuted-columns", examples=0.4)
@given(operands=certified_operands() | wide_operands(), launch=launches(), data=st.data())
def test_rows_of_w_in_another_order(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, data: st.DataObject
) -> None:
    order = data.draw(permutations(operands.shape[1]), label="order of columns")
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(operands.columns(order), launch)
    assert_relation("rows of W in another order", other.out, first.out[:, order], other, first)


@claim("permuted-blocks", examples=0.4)
@given(operands=certified_operands(), launch=launches(), data=st.data())
def test_blocks_along_k_in_another_order(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, data: st.DataObject
) -> None:
    order = data.draw(permutations(operands.shape[2] // 32), label="order of blocks")
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(operands.blocks(order), launch)
    assert_relation("blocks along K in another order", other.out, first.out, other, first)


@claim("scaled-rows", examples=0.5)
@given(operands=certified_operands(), launch=launches(), what=st.sampled_from(("rows", "columns", "blocks")))
def test_powers_of_two(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, what: str) -> None:
    (m, n, k), first = operands.shape, mx_kernel.run(operands, launch)
    rows, columns, blocks = torch.arange(m) % 9 - 4, torch.arange(n) % 11 - 5, torch.arange(k // 32) % 7 - 3
    if what == "rows":
        scaled = replace(operands, a=torch.ldexp(operands.a.float(), rows.unsqueeze(1)).bfloat16())
        expected = torch.ldexp(first.out.float(), rows.unsqueeze(1)).bfloat16()
    elif what == "columns":
        scaled = replace(operands, scales=(operands.scales + columns.unsqueeze(1)).to(torch.uint8))
        expected = torch.ldexp(first.out.float(), columns).bfloat16()
    else:
        factors = blocks.repeat_interleave(32)
        scaled = replace(
            operands,
            a=torch.ldexp(operands.a.float(), factors).bfloat16(),
            scales=(operands.scales - blocks).to(torch.uint8),
        )
        expected = first.out
    other = mx_kernel.run(scaled, launch)
    assert_relation(f"{what} scaled by powers of two", other.out, expected, other, first)


@claim("negated", examples=0.4)
@given(operands=certified_operands() | wide_operands(), launch=launches(), weights=st.booleans())
def test_signs(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, weights: bool) -> None:
    changed = replace(operands, codes=operands.codes ^ 0x88) if weights else replace(operands, a=-operands.a)
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(changed, launch)
    assert_relation(f"{'W' if weights else 'A'} negated", other.out, -first.out, other, first)


@claim("inserted-zeros", examples=0.4)
@given(operands=certified_operands(most=1 << 21), launch=launches(), data=st.data())
def test_blocks_of_zeros(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, data: st.DataObject) -> None:
    m, n, k = operands.shape
    step = mx_kernel.contract.k // 32
    extra = step * data.draw(st.integers(1, 3), label=f"zero blocks / {step}")
    at = torch.tensor(data.draw(st.lists(st.integers(0, k // 32), min_size=extra, max_size=extra), label="in front of"))
    scale = data.draw(st.sampled_from((127, 0, 254, 200)), label="their scale")
    scale = scale if mx_kernel.full_range else min(max(scale, 1), 250)
    order = torch.cat((torch.arange(k // 32), at)).argsort(stable=True)
    zero = order >= k // 32
    grown = operands.blocks(order.clamp(max=k // 32 - 1))
    grown.a.view(m, -1, 32)[:, zero] = 0
    grown.codes.view(n, -1, 16)[:, zero] = 0
    grown.scales[:, zero] = scale
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(grown, launch)
    assert_product(other)
    assert_relation(f"{extra} blocks of zeros inserted along K", other.out, first.out, other, first)


@claim("slice-of-a-batch", examples=0.5)
@given(operands=certified_operands() | wide_operands(), launch=launches(), data=st.data())
def test_rows_alone(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, data: st.DataObject) -> None:
    m, multiple = operands.shape[0], mx_kernel.contract.m
    assume(m > multiple)
    count = multiple * data.draw(st.integers(1, (m - 1) // multiple), label="rows")
    start = data.draw(st.integers(0, m - count), label="first row")
    rows = torch.arange(start, start + count)
    batch, alone = mx_kernel.run(operands, launch), mx_kernel.run(operands.rows(rows), launch)
    certified = operands.expectation.certified[rows]
    same = torch.ones_like(certified) if launch.plan is not None else certified  # its own plan depends on M
    relation = f"rows {start} to {start + count - 1} of the batch, alone"
    assert_relation(relation, alone.out[same].unsqueeze(1), batch.out[rows][same].unsqueeze(1), alone, batch)


@claim("plans-agree", examples=0.3, seconds=6)
@given(operands=certified_operands(), count=splits())
def test_any_plan_any_split(mx_kernel: KernelUnderTest, operands: Operands, count: int) -> None:
    first = mx_kernel.run(operands)
    for index in range(len(PLANS)):
        other = mx_kernel.run(operands, Launch(plan(index)))
        assert_relation("another plan", other.out, first.out, other, first)
    split = Launch(replace(plan(1), splits=count))
    other = mx_kernel.run(operands, split)
    assert_relation("another count of splits", other.out, first.out, other, first)


@claim("plans-agree")
def test_a_last_split_that_is_shorter(mx_kernel: KernelUnderTest) -> None:
    """K is whole tiles, and not whole splits: the last one ends early without a ragged tile to give it away."""
    for k, index, count in ((384, 1, 2), (1280, 2, 2), (640, 3, 3), (384, 8, 2)):
        assert_product(mx_kernel.run(ramped((3, 16, k), 0), Launch(replace(plan(index), splits=count))))


# The sanitizer's kernels take seconds to compile, once for each plan and shape, and as long to run, in proportion to a
# tile. The quick profile has small ones: two steps along K, against linear weights and two splits.
_RING_SHAPES = ((3, 16, 256),) if quick() else ((3, 16, 256), (5, 48, 320), (17, 32, 576))
_RING_PLANS = (1, 8) if quick() else (0, 1, 3, 7, 8)


@claim("plans-agree-in-a-ring", examples=0.1, seconds=4)
@given(shape=st.sampled_from(_RING_SHAPES), spread=st.sampled_from((90, 200)), seed=st.integers(0, 9))
@example(shape=_RING_SHAPES[0], spread=90, seed=0)
def test_any_plan_in_a_ring(mx_kernel: KernelUnderTest, shape: tuple[int, int, int], spread: int, seed: int) -> None:
    certified = ramped(shape, seed)
    far = (9 * torch.arange(shape[2] // 32) + torch.arange(shape[1]).unsqueeze(1)) % spread
    wide = replace(certified, scales=(20 + far).to(torch.uint8), words=f"scales {spread} bits apart, seed {seed}")
    with sanitized():
        first = mx_kernel.run(wide, Launch(plan(_RING_PLANS[0])))
        for index in _RING_PLANS[1:]:
            other = mx_kernel.run(wide, Launch(plan(index)))
            assert_same_bits(
                ring_elements(other.out),
                ring_elements(first.out),
                ("row", "column"),
                why="floats are elements of a ring, where sums in any order are equal",
                call_1=other.words,
                call_2=first.words,
            )


def ring_elements(out: torch.Tensor) -> torch.Tensor:
    """int32: outputs are elements of the ring, not floats; bit patterns of NaN and zeros count too."""
    return out.view(torch.int16).int() & 0xFFFF
