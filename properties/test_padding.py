"""Padding, surroundings, strides: what lies beside the data has no influence."""

from collections.abc import Callable

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation, assert_same_bits
from mxassay.properties.claims import claim
from mxassay.properties.kernel import VIEWS, KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import certified_operands, launches, wide_operands
from mxassay.properties.strategies.buffers import FILLS
from mxassay.properties.strategies.matrices import ramped


@claim("padding-bytes", examples=0.4)
@given(operands=certified_operands() | wide_operands(), launch=launches())
def test_padding_bytes_change_no_bit(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    first, *others = (mx_kernel.run(operands, launch, Placement(padding=fill)) for fill in FILLS)
    for other in others:
        assert_relation("only the padding of the scale table differs", other.out, first.out, other, first)


@claim("surroundings", examples=0.6)
@given(operands=certified_operands(most=1 << 20), launch=launches(entries=True))
def test_nothing_beside_the_buffers_is_read_or_written(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch
) -> None:
    # Every buffer stands among NaN: what a kernel reads beside it shows in a product, and `run` sees what it writes.
    assert_product(mx_kernel.run(operands, launch, Placement(padding=0xFF)))


@claim("views", examples=0.6)
@given(operands=certified_operands(most=1 << 20), launch=launches(), view=st.sampled_from(list(VIEWS)))
@example(operands=None, launch=None, view="columns of a wider buffer")
def test_strides_change_no_bit(
    mx_kernel: KernelUnderTest, operands: Operands | None, launch: Launch | None, view: str
) -> None:
    operands = operands or _rows_that_differ(mx_kernel)
    first = mx_kernel.run(operands, launch)
    other = mx_kernel.run(operands, launch, Placement(view=view))
    assert_product(other)
    assert_relation(f"A lies in memory otherwise: {view}", other.out, first.out, other, first)


@claim("views")
def test_a_lazy_negation_is_read_with_its_sign(mx_kernel: KernelUnderTest) -> None:
    """torch negates the imaginary part of a conjugate lazily: a view whose bytes have the other sign."""
    from mxassay.optimized import matmul, matmul_prepared, prepare, quantize, reduce_partials

    device = mx_kernel.tensors_on
    operands = ramped((3, 16, 320), 0)
    a, parts = operands.a.to(device), torch.arange(96.0, device=device).reshape(2, 3, 16)
    weights = operands.stored(device)
    calls: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
        "matmul": (lambda x: matmul(x, *weights), a),
        "matmul_prepared": (lambda x: matmul_prepared(x, prepare(*weights)), a),
        "quantize": (lambda x: quantize(x).packed, a),
        "reduce_partials": (reduce_partials, parts),
    }
    for name, (call, x) in calls.items():
        assert_same_bits(call(torch._neg_view(-x)), call(x), ("row", "column"), case=f"{name} of a lazy negation")


def _rows_that_differ(kernel: KernelUnderTest) -> Operands:
    """Row 0 is right and all others are not where a kernel takes the pitch of the rows for their length."""
    m, n, k = kernel.contract.fitted((5, 16, 64))
    a = torch.arange(1, m + 1, dtype=torch.bfloat16).unsqueeze(1).expand(m, k).contiguous()
    codes = torch.full((n, k // 2), 0x22, dtype=torch.uint8)
    return Operands(a, codes, torch.full((n, k // 32), 127, dtype=torch.uint8), kernel.kernel.dialect, "row i is i + 1")
