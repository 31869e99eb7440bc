"""The stand-alone quantizer, block by block: the scale rule, the elements, and what a block may depend on."""

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_same_bits
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, viewed
from mxassay.properties.strategies import blocks
from mxassay.properties.strategies.blocks import SPECIAL, Block, stacked
from mxassay.properties.sweeps import every_amax, every_ratio, matrix_of
from mxassay.reference import DIALECTS, quantize


def assert_quantized(kernel: KernelUnderTest, x: torch.Tensor, case: str) -> None:
    """Packed bytes and scale bytes of the kernel's quantizer are those of the dialect."""
    from mxassay.optimized import quantize as kernel_quantize

    found = kernel_quantize(x.to(kernel.tensors_on))
    expected = quantize(x, DIALECTS[kernel.kernel.dialect])
    scales = found.scales.cpu()
    assert_same_bits(scales, expected.scales, ("row", "group"), case=case)
    assert_same_bits(found.packed.cpu(), expected.packed, ("row", "byte"), case=case)


@claim("scale-rule")
def test_every_largest_magnitude(mx_kernel: KernelUnderTest) -> None:
    for columns in (8, 3):
        assert_quantized(mx_kernel, matrix_of(every_amax(), columns), f"every finite amax, {columns} blocks a row")


@claim("ratio-sweep")
def test_every_ratio_under_every_scale(mx_kernel: KernelUnderTest) -> None:
    dialect = DIALECTS[mx_kernel.kernel.dialect]
    blocks_of = [every_ratio(byte, dialect) for byte in range(255)]
    assert_quantized(mx_kernel, matrix_of(torch.cat(blocks_of), 16), "every ratio under every scale byte")


@claim("block-quantization", examples=3)
@given(drawn=st.lists(blocks(), min_size=1, max_size=4), columns=st.sampled_from((1, 2, 9)))
@example(drawn=list(SPECIAL.values()), columns=1)
@example(drawn=list(SPECIAL.values()), columns=9)
def test_any_block(mx_kernel: KernelUnderTest, drawn: list[Block], columns: int) -> None:
    assert_quantized(mx_kernel, matrix_of(stacked(drawn), columns), f"{len(drawn)} drawn blocks")


@claim("block-locality", examples=0.6)
@given(
    one=blocks(), others=st.lists(blocks(), min_size=1, max_size=3), view=st.sampled_from(("contiguous", "transposed"))
)
def test_a_block_depends_on_itself_alone(
    mx_kernel: KernelUnderTest, one: Block, others: list[Block], view: str
) -> None:
    from mxassay.optimized import quantize as kernel_quantize

    x = matrix_of(stacked([*others, one, *others]), 3)
    found = kernel_quantize(viewed(x, view).to(mx_kernel.tensors_on))
    alone = kernel_quantize(one.values.unsqueeze(0).to(mx_kernel.tensors_on))
    at = len(others)
    packed, scales = found.packed.reshape(-1, 16)[at : at + 1], found.scales.reshape(-1, 1)[at : at + 1]
    assert_same_bits(scales, alone.scales, ("row", "group"), case="the block alone, and between others")
    assert_same_bits(packed, alone.packed, ("row", "byte"), case="the block alone, and between others")
