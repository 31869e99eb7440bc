"""GEMM agreement: exact where the certificate holds, within the derived bound elsewhere, through every entry point."""

from hypothesis import given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation
from mxassay.properties.claims import claim
from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import (
    block_matrices,
    certified_operands,
    launches,
    placements,
    ramped_operands,
    sharp_blocks,
    wide_operands,
)


@claim("gemm-certified", examples=1.5)
@given(operands=certified_operands(), launch=launches(entries=True), placement=placements())
def test_certified_outputs_are_exact(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, placement: Placement
) -> None:
    assert_product(mx_kernel.run(operands, launch, placement))


@claim("gemm-bounded", examples=0.5)
@given(operands=wide_operands(), launch=launches())
def test_other_outputs_stay_within_the_bound(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("gemm-scale-ramp")
@given(operands=ramped_operands(), launch=launches())
def test_every_scale_byte(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("gemm-sharp-blocks")
@given(operands=block_matrices(sharp_blocks()), launch=launches())
def test_sharp_blocks(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("entry-points-agree", examples=0.2)
@given(operands=st.one_of(certified_operands(), wide_operands()), launch=launches())
def test_entry_points_agree(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    first = mx_kernel.run(operands, launch)
    for entry in ENTRIES:
        plan = None if entry == "custom_kernel" else launch.plan
        other = mx_kernel.run(operands, Launch(plan, entry))
        assert_product(other)
        if plan is launch.plan and not operands.expectation.certified.all():
            continue
        certified = operands.expectation.certified
        relation = f"matmul and {entry} implement one product"
        assert_relation(relation, other.out[certified], first.out[certified], other, first)
