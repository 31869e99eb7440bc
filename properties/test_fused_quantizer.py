"""The quantizer inside the fused kernel: seen through outputs on any device, and at the matrix instructions on the
emulated one."""

from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_same_values, violation
from mxassay.properties.claims import claim, quick
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.observers import MatrixOperands, watched
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import PLANS, block_matrices, launches, placements, usable_blocks
from mxassay.properties.strategies.blocks import SPECIAL, Block, fits_bfloat16, stacked
from mxassay.properties.strategies.plans import plan
from mxassay.properties.sweeps import every_amax, every_ratio, matrix_of
from mxassay.reference import DIALECTS, dequantize

# One observer a process: the emulated card keeps a kernel's steps for each observer it met.
_operands = MatrixOperands()
_WEIGHT_SCALE = 130  # what marks a block as one of the weights; see `marked_weights`


def identity_weights(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of W with W[n, n] = 1 alone: (K, K/2) and (K, K/32)."""
    codes = torch.zeros(k, k // 2, dtype=torch.uint8)
    n = torch.arange(k)
    codes[n, n // 2] = (2 << 4 * (n % 2)).to(torch.uint8)
    return codes, torch.full((k, k // 32), 127, dtype=torch.uint8)


def assert_quantized_inside(
    kernel: KernelUnderTest, a: torch.Tensor, launch: Launch, placement: Placement, words: str
) -> None:
    """Output [m, n] under identity weights is activation [m, n], quantized and dequantized.

    A block that holds the NaN scale makes its whole row NaN, as every product of the row meets it.
    """
    m, _, k = kernel.contract.fitted((a.shape[0], 16, a.shape[1]))
    padded = torch.zeros(m, k, dtype=torch.bfloat16)
    padded[: a.shape[0], : a.shape[1]] = a
    operands = Operands(padded, *identity_weights(k), kernel.kernel.dialect, words)
    outcome = kernel.run(operands, launch, placement)
    packed, scales = operands.quantized
    expected = dequantize(packed, scales, torch.float64)
    expected[(scales == 255).any(1)] = float("nan")
    names = ("row", "k of the activation")
    assert_same_values(outcome.out, expected.to(torch.bfloat16), names, case=outcome.words)


@claim("quantizer-through-outputs", examples=0.8)
@given(drawn=st.lists(usable_blocks(), min_size=1, max_size=6), launch=launches(), placement=placements())
@example(drawn=list(SPECIAL.values()), launch=Launch(), placement=Placement())
def test_activations_come_back_quantized(
    mx_kernel: KernelUnderTest, drawn: list[Block], launch: Launch, placement: Placement
) -> None:
    # A row for each block, since the NaN of one block fills its row.
    a = matrix_of(stacked(drawn), 1)
    if not mx_kernel.full_range:
        a = matrix_of(stacked(block for block in drawn if fits_bfloat16(block)), 1)
    assert_quantized_inside(mx_kernel, a, launch, placement, f"{len(drawn)} drawn blocks")


@claim("fused-ratio-sweep")
@pytest.mark.parametrize("part", range(4))
def test_every_ratio_inside_the_kernel(mx_kernel: KernelUnderTest, part: int) -> None:
    dialect = DIALECTS[mx_kernel.kernel.dialect]
    lowest, highest = (0, 255) if mx_kernel.full_range else (4, 250)
    step = 32 if mx_kernel.slow else 4
    sweep = torch.cat([every_ratio(byte, dialect) for byte in range(lowest + part, highest, step)])
    launch = Launch(plan((0, 1, 4, 7)[part])) if mx_kernel.own else Launch()
    a = matrix_of(sweep, 10)
    assert_quantized_inside(
        mx_kernel, a, launch, Placement(), f"every ratio, scale bytes {lowest + part}, + {step}, ..."
    )


@claim("fused-ratio-sweep")
def test_every_largest_magnitude_inside_the_kernel(mx_kernel: KernelUnderTest) -> None:
    sweep = every_amax()[:: 31 if mx_kernel.slow else 3 if quick() else 1]
    sweep = sweep if mx_kernel.full_range else sweep[len(sweep) // 16 : -len(sweep) // 16]
    assert_quantized_inside(mx_kernel, matrix_of(sweep, 18), Launch(), Placement(), "every finite amax")


@claim("operands-of-the-mfma", examples=0.8)
@given(operands=block_matrices(most=1 << 19), index=st.integers(0, len(PLANS) - 1))
@example(operands=SPECIAL.values(), index=0)
@example(operands=SPECIAL.values(), index=4)
@example(operands=[SPECIAL["zeros"]], index=0)
def test_what_reaches_the_matrix_instructions(
    mx_kernel: KernelUnderTest, operands: Operands | Iterable[Block], index: int
) -> None:
    made = operands if isinstance(operands, Operands) else block_rows(operands, mx_kernel.kernel.dialect)
    marked = marked_weights(made)
    _operands.forget()
    with watched(_operands):
        outcome = mx_kernel.run(marked, Launch(plan(index)))
    if not _operands.instructions:
        raise violation("scaled FP4 matrix instructions must run, but none did", case=outcome.words)
    weights = Counter(_bytes_of(marked.codes, marked.scales))
    # Columns behind N may keep any scale, since nobody stores them.
    # Blocks of zeros may be either's, so that W is where there are others.
    sides = [
        side
        for side in _operands.blocks
        if all(block in weights or not any(block[1:]) for block in side) and not weights.keys().isdisjoint(side)
    ]
    others = [side for side in _operands.blocks if side not in sides]
    if len(others) != 1:
        raise violation("one side of every matrix instruction must be W, but neither or both are", case=outcome.words)
    expected = Counter(_bytes_of(*marked.quantized))
    assert_each_as_often(Counter(others[0]), expected, outcome.words)


# What masks leave out, besides zero activations: zero codes under the neutral scale, or under the scale of zeros.
_PADDING = {bytes([127, *[0] * 16]), bytes([0, *[0] * 16])}


def marked_weights(operands: Operands) -> Operands:
    """The same product with weights that no quantized block of activations equals: all codes 0.5 and scale 130."""
    n, half = operands.codes.shape
    codes = torch.full((n, half), 0x11, dtype=torch.uint8)
    scales = torch.full((n, half // 16), _WEIGHT_SCALE, dtype=torch.uint8)
    return Operands(operands.a, codes, scales, operands.dialect, f"{operands.words}, W of 0.5 * 2^3")


def block_rows(blocks: Iterable[Block], dialect: str) -> Operands:
    """A product whose activations are these blocks, each twice, two in a row."""
    a = stacked([*blocks] * 2).reshape(-1, 2, 32).flatten(1)
    codes, scales = torch.zeros(16, 32, dtype=torch.uint8), torch.zeros(16, 2, dtype=torch.uint8)
    return Operands(a, codes, scales, dialect, "blocks by hand")


def _bytes_of(packed: torch.Tensor, scales: torch.Tensor) -> list[bytes]:
    rows = torch.cat((scales.reshape(-1, 1), packed.reshape(-1, 16)), dim=1).numpy()
    found: list[bytes] = rows.view("V17")[:, 0].tolist()
    return found


def assert_each_as_often(found: Counter[bytes], expected: Counter[bytes], case: str) -> None:
    """`found` is `expected`, each block times one and the same factor; padding may come on top."""
    strange = [block for block in found if block not in expected and block not in _PADDING]
    if strange:
        block = strange[0]
        raise violation(
            f"{len(strange)} blocks reach a matrix instruction that the dialect does not give; first: scale byte "
            f"{block[0]}, packed {block[1:].hex(' ')}",
            case=case,
        )
    data = {block: count for block, count in expected.items() if block not in _PADDING}
    if not data:
        return
    factors = {found[block] / count for block, count in data.items()}
    if len(factors) > 1 or 0 in factors:
        block = min(data, key=lambda one: found[one] / data[one])
        raise violation(
            f"each block must be read as often as every other, but counts differ by factors {sorted(factors)[:4]}; "
            f"fewest: scale byte {block[0]}, packed {block[1:].hex(' ')}",
            case=case,
        )
