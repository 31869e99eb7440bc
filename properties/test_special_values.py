"""Special values: Inf, NaN, subnormals and zeros in activations; the ends of the scale table in weights."""

from dataclasses import replace

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation, assert_same_values, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import block_matrices, certified_operands, launches, special_blocks, usable_blocks
from mxassay.properties.strategies.blocks import Block


@claim("special-activations", examples=0.8)
@given(
    operands=certified_operands(most=1 << 20), launch=launches(), block=usable_blocks(special_blocks()), data=st.data()
)
def test_a_special_block_stays_in_its_row(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, block: Block, data: st.DataObject
) -> None:
    m, _, k = operands.shape
    row = data.draw(st.integers(0, m - 1), label="row")
    group = data.draw(st.integers(0, k // 32 - 1), label="block")
    a = operands.a.clone()
    a[row, 32 * group : 32 * group + 32] = block.values
    changed = replace(operands, a=a, words=f"{operands.words}; block ({row}, {group}): {block.name}")
    first, other = mx_kernel.run(operands, launch), mx_kernel.run(changed, launch)
    assert_product(other)
    rest = torch.arange(m) != row
    assert_relation(f"row {row} alone holds {block.name}", other.out[rest], first.out[rest], other, first)


@claim("special-activations", examples=0.4)
@given(operands=block_matrices(special_blocks(), most=1 << 19), launch=launches())
def test_rows_of_special_blocks(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("scale-255", examples=0.6)
@given(operands=certified_operands(most=1 << 20), launch=launches(), zero=st.booleans(), data=st.data())
def test_scale_255_makes_a_column_nan(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, zero: bool, data: st.DataObject
) -> None:
    _, n, k = operands.shape
    column = data.draw(st.integers(0, n - 1), label="column")
    group = data.draw(st.integers(0, k // 32 - 1), label="block")
    scales, codes = operands.scales.clone(), operands.codes.clone()
    scales[column, group] = 255
    if zero:
        codes[column, 16 * group : 16 * group + 16] = 0
    words = f"{operands.words}; scale ({column}, {group}) is 255{', its codes 0' if zero else ''}"
    changed = replace(operands, scales=scales, codes=codes, words=words)
    outcome, before = mx_kernel.run(changed, launch), mx_kernel.run(operands, launch)
    if not outcome.out[:, column].isnan().all():
        raise violation(f"every output of column {column} must be NaN, not {outcome.out[:, column]}", case=words)
    assert_product(outcome)
    rest = torch.arange(n) != column
    assert_relation("another column has the NaN", outcome.out[:, rest], before.out[:, rest], outcome, before)


@claim("scale-extremes", examples=0.8)
@given(
    byte=st.sampled_from((0, 254, 1, 253, 2, 252)),
    level=st.sampled_from((127, 107, 110, 121, 150, 252)),
    launch=launches(),
    k=st.sampled_from((64, 320)),
)
@example(byte=254, level=252, launch=Launch(), k=64)
@example(byte=0, level=110, launch=Launch(), k=64)
@example(byte=0, level=121, launch=Launch(), k=64)  # products that are subnormal numbers of bfloat16
def test_the_ends_of_the_scale_table(mx_kernel: KernelUnderTest, byte: int, level: int, launch: Launch, k: int) -> None:
    """One-hot rows of A at the level, every code of W under the byte: an output is one product, exact or Inf."""
    m, n, k = mx_kernel.contract.fitted((8, 16, k))
    a = torch.zeros(m, k, dtype=torch.float64)
    a[torch.arange(m), (torch.arange(m) * 37) % k] = 2.0 ** (level - 127) * 4
    codes = (torch.arange(n).unsqueeze(1) + torch.zeros(k // 2)).to(torch.uint8) % 16 * 0x11
    scales = torch.full((n, k // 32), byte, dtype=torch.uint8)
    words = f"one-hot A of byte {level}, W under byte {byte}"
    operands = Operands(a.bfloat16(), codes.contiguous(), scales, mx_kernel.kernel.dialect, words)
    assert_product(mx_kernel.run(operands, launch))


@claim("zero-rows", examples=0.6)
@given(operands=certified_operands(most=1 << 20), launch=launches(), weights=st.booleans(), minus=st.booleans())
def test_zeros_give_zeros(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, weights: bool, minus: bool
) -> None:
    m, n, _ = operands.shape
    if weights:
        zero = torch.arange(n) % 3 == 1
        codes = operands.codes.clone()
        codes[zero] = 0x88 if minus else 0
        changed = replace(operands, codes=codes, words=f"{operands.words}; every third row of W zero")
        found = mx_kernel.run(changed, launch)
        part = found.out[:, zero]
    else:
        zero = torch.arange(m) % 3 == 0
        a = operands.a.clone()
        a[zero] = -0.0 if minus else 0.0
        changed = replace(operands, a=a, words=f"{operands.words}; every third row of A zero")
        found = mx_kernel.run(changed, launch)
        part = found.out[zero]
    assert_product(found)
    assert_same_values(part, torch.zeros_like(part), ("zero row or row", "column"), case=found.words)
