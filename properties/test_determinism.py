"""Determinism: repeats, the order in which workgroups run, and what uninitialised registers hold."""

from hypothesis import given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_relation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.observers import emulation
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import certified_operands, launches, wide_operands


@claim("repeats", examples=0.4)
@given(operands=certified_operands() | wide_operands(), launch=launches(entries=True))
def test_repeats_are_equal(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    first = mx_kernel.run(operands, launch)
    for _ in range(2):
        other = mx_kernel.run(operands, launch)
        assert_relation("the same call again", other.out, first.out, other, first)


@claim("order-of-waves", examples=0.4)
@given(
    operands=certified_operands(most=1 << 20) | wide_operands(most=1 << 20),
    launch=launches(),
    fill=st.sampled_from((0xFFFFFFFF, 0x7FC00000, 0x7F7F7F7F)),
    waves=st.sampled_from((4, 32, 1024)),
)
def test_neither_order_nor_garbage_matters(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, fill: int, waves: int
) -> None:
    first = mx_kernel.run(operands, launch)
    with emulation(fill=fill, waves_per_batch=waves):
        other = mx_kernel.run(operands, launch)
    relation = f"registers and LDS start as {fill:#010x}, {waves} waves run together"
    assert_relation(relation, other.out, first.out, other, first)
