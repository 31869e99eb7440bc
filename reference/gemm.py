"""The MXFP4 matrix product: exact sums, rounded once."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from mxassay.errors import ContractError
from mxassay.reference.formats import E8M0
from mxassay.reference.operands import Operand, check_operands
from mxassay.reference.rounding import power_of_two, round_to_bfloat16
from mxassay.reference.superaccumulator import exact_sums

# Elements held at a time of one dequantized operand, and the most outputs of a tile: an eighth of the operand keeps
# temporaries in proportion to the input, and the limits are 1 MiB and 8 MiB of float64.
_TILE_SHARE = 8
_TILE_ELEMENTS = (1 << 17, 1 << 20)
_TILE_ROWS = 256


class Tile(NamedTuple):
    """The sums of the outputs out[rows, columns], and the operands they come from.

    total: float64, the exact sum, rounded to odd where float64 can't hold it, so that one more rounding to at most 29
        bits is the rounding of the exact sum. Scale byte 255 counts as 0 in it; see `nan`.
    magnitude: float64, the sum of |a*b|: exact where at most 2^53 units, elsewhere within relative K * 2^-53.
    nan: bool, the outputs that a scale byte 255 touches.
    """

    rows: slice
    columns: slice
    left: Operand
    right: Operand
    total: torch.Tensor
    magnitude: torch.Tensor
    nan: torch.Tensor


def tiles(left: Operand, right: Operand) -> Iterator[Tile]:
    """Sum every output exactly, a tile of outputs at a time.

    The fast path multiplies in float64. It is exact where it is used:

    1. A value code * 2^(e-127) has at most 2 significant bits and an exponent within -128..129, a product at most 4
       significant bits and an exponent within -256..258. float64 holds both exactly, and no sum of them overflows.
    2. Let u = 2^(alpha + beta), where alpha is the least exponent of row i as `least_exponents` has it and beta that of
       column j: every product is a multiple of u. Let T = sum |a*b|. If T <= 2^53 u, every sum of some of the products
       is a multiple of u of magnitude at most 2^53 u, hence a float64. So no addition rounds, in whatever order BLAS
       adds, fused or not.
    3. T itself is computed in float64, as T', and the test is T' < 2^53 u. It implies T < 2^53 u: otherwise take an
       addition whose exact result is 2^53 u or more while its operands are below (one exists on the way to the root of
       the summation tree). By 2 its operands are exact, so its rounded result is at least 2^53 u, which is a float64;
       adding nonnegative numbers never makes a rounded sum smaller, so T' >= 2^53 u.

    It relies on BLAS adding products (no Strassen-like and no emulated float64). Outputs that fail the test of 3 go
    through `exact_sums`, which is exact for every input.
    """
    least, most = _TILE_ELEMENTS
    size = min(max(right.rows * right.k // _TILE_SHARE, least), most)
    row_step = min(_TILE_ROWS, max(1, size // left.k))
    column_step = max(1, size // max(left.k, min(row_step, left.rows)))
    for rows, band in _cut(left, row_step):
        values = band.values()
        sizes = values.abs()
        limits = band.least_exponents().unsqueeze(1) + 53
        nan = band.has_nan_scale().unsqueeze(1)
        for columns, strip in _cut(right, column_step):
            others = strip.values().T
            total = values @ others
            magnitude = sizes @ others.abs_()
            wide = magnitude >= power_of_two(limits + strip.least_exponents())
            if wide.any():
                i, j = wide.any(1).nonzero(), wide.any(0).nonzero().squeeze(1)
                total[i, j] = exact_sums(band[i.squeeze(1)], strip[j])
            yield Tile(rows, columns, band, strip, total, magnitude, nan | strip.has_nan_scale())


def _cut(operand: Operand, step: int) -> Iterator[tuple[slice, Operand]]:
    for start in range(0, operand.rows, step):
        rows = slice(start, min(start + step, operand.rows))
        yield rows, operand[rows]


def matmul(a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor) -> torch.Tensor:
    """out[i, j] = sum over k of a[i, k] * b[j, k], summed exactly and rounded once to bfloat16.

    Args, all uint8 and linear (neither preshuffled nor padded), on one device that has float64:
        a: packed (M, K/2); a_scales: (M, K/32); b: packed (N, K/2); b_scales: (N, K/32). M and N may be 0, K may not.

    Returns bfloat16 (M, N): the exact sum rounded to nearest, ties to even, subnormals included, Inf from
    2^128 - 2^119 on. A sum of exactly zero is +0. An output whose row or column has a scale byte 255 is NaN, zero codes
    included (OCP MX specification 1.0, 5.4.1 and 6.1: the whole block is NaN). Exact for every input: see `tiles` for
    the proof.

    Raises ContractError on dtypes, shapes or devices that don't fit.

    >>> codes = torch.full((1, 16), 0x22, dtype=torch.uint8)
    >>> one = torch.full((1, 1), 127, dtype=torch.uint8)
    >>> matmul(codes, one, codes, one).item()
    32.0
    """
    left, right = check_operands(a, a_scales, b, b_scales)
    out = torch.empty(left.rows, right.rows, dtype=torch.bfloat16, device=a.device)
    for tile in tiles(left, right):
        out[tile.rows, tile.columns] = rounded(tile)
    return out


def rounded(tile: Tile) -> torch.Tensor:
    """The bfloat16 outputs of a tile."""
    return round_to_bfloat16(tile.total).masked_fill_(tile.nan, float("nan"))


def partials(
    a: torch.Tensor,
    a_scales: torch.Tensor,
    b: torch.Tensor,
    b_scales: torch.Tensor,
    splits: int | None = None,
    *,
    span: int | None = None,
) -> torch.Tensor:
    """The exact sums over contiguous spans of K, each rounded once to float32.

    Args as for `matmul`, and one of:
        splits: how many spans. Each has ceil(K/32 / splits) blocks; the last nonempty one may be shorter, and spans
            behind the end of K are empty (their partials are +0).
        span: elements of K in each span, a multiple of 32; there are ceil(K / span) spans.

    Returns float32 (splits, M, N), rounded to nearest even, overflow to Inf. A partial is NaN where a scale byte 255
    lies inside its span. Adding the partials in float32 gives the bits of `matmul` wherever `certificate` says so, and
    not always elsewhere. Under torch.set_flush_denormal(True) partials below 2^-126 vanish.

    Raises ContractError as `matmul` does, and unless exactly one of splits and span is given and legal.

    >>> codes = torch.full((1, 32), 0x22, dtype=torch.uint8)
    >>> ones = torch.full((1, 2), 127, dtype=torch.uint8)
    >>> partials(codes, ones, codes, ones, 2).flatten().tolist()
    [32.0, 32.0]
    """
    left, right = check_operands(a, a_scales, b, b_scales)
    width, count = _span(left.blocks, splits, span)
    out = torch.zeros(count, left.rows, right.rows, dtype=torch.float32, device=a.device)
    for index, start in enumerate(range(0, left.blocks, width)):
        blocks = slice(start, start + width)
        for tile in tiles(left.along_k(blocks), right.along_k(blocks)):
            sums = tile.total.to(torch.float32).masked_fill_(tile.nan, float("nan"))
            out[index, tile.rows, tile.columns] = sums
    return out


def _span(blocks: int, splits: int | None, span: int | None) -> tuple[int, int]:
    """Blocks per span, and how many spans."""
    if splits is not None and span is None:
        if splits < 1:
            raise ContractError(f"splits must be at least 1, not {splits}")
        return -(-blocks // splits), splits
    if span is not None and splits is None:
        if span < 1 or span % E8M0.block:
            raise ContractError(f"span must be a positive multiple of {E8M0.block} elements, not {span}")
        width = span // E8M0.block
        return width, -(-blocks // width)
    raise ContractError(f"exactly one of splits and span must be given, not splits = {splits} and span = {span}")
