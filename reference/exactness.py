"""Which outputs are one fixed bit pattern whatever the order of summation, and how far the others may stray."""

import math
from typing import NamedTuple

import torch

from mxassay.errors import ContractError
from mxassay.reference.formats import E2M1, E8M0, unpack
from mxassay.reference.gemm import Tile, rounded, tiles
from mxassay.reference.operands import Operand, check_operands
from mxassay.reference.rounding import power_of_two, round_to_bfloat16

# float32: bits of the significand, exponent of the least subnormal, the largest number.
_SIGNIFICAND = 24
_LEAST_EXPONENT = -149
_LARGEST = 2.0**128 - 2.0**104

# The exponent of a block without nonzero codes: less the 128 of the other side, it still exceeds every true sum (260).
_NO_UNIT = 400


class Interval(NamedTuple):
    """Admissible outputs: bfloat16 (M, N) `lower` and `upper`, both included, and bool (M, N) `may_be_nan`."""

    lower: torch.Tensor
    upper: torch.Tensor
    may_be_nan: torch.Tensor


class Expectation(NamedTuple):
    """Everything that decides whether a product is right, from one pass over the operands. All tensors are (M, N).

    exact: bfloat16, as `matmul`. certified: bool, as `certificate`. lower, upper, may_be_nan: as `error_bound`, and
    equal to `exact` where certified.
    """

    exact: torch.Tensor
    certified: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor
    may_be_nan: torch.Tensor

    def wrong(self, out: torch.Tensor) -> torch.Tensor:
        """bool (M, N): which outputs no admissible summation explains.

        Certified outputs must have the exact bits, except that -0 passes for +0: when every product is -0, the sign of
        the sum depends on whether the accumulator starts at +0 or at the first product, and both are sums (IEEE
        754-2019, 6.3). A NaN is right only where NaN is expected or admissible, and where it is expected nothing else
        passes.

        Raises ContractError unless `out` is bfloat16 (M, N).

        >>> codes = torch.full((1, 16), 0x22, dtype=torch.uint8)
        >>> one = torch.full((1, 1), 127, dtype=torch.uint8)
        >>> expected = expectation(codes, one, codes, one)
        >>> expected.wrong(torch.tensor([[32.25]], dtype=torch.bfloat16)).item()
        True
        """
        if out.dtype != torch.bfloat16 or out.shape != self.exact.shape:
            found = f"{str(out.dtype).removeprefix('torch.')} {tuple(out.shape)}"
            raise ContractError(f"out must be bfloat16 {tuple(self.exact.shape)}, not {found}")
        place = _order(out)
        outside = (place < _order(self.lower)) | (place > _order(self.upper)) | self.exact.isnan()
        return torch.where(out.isnan(), ~self.may_be_nan, outside)


def _order(x: torch.Tensor) -> torch.Tensor:
    """int16 that order as the bfloat16 values do, -0 with +0; float comparison would depend on flush-to-zero modes."""
    bits = x.view(torch.int16)
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def certificate(a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor) -> torch.Tensor:
    """bool (M, N): outputs whose bits do not depend on the order of summation. Args and Raises as for `matmul`.

    Let the terms of an output be its products a*b, T the sum of their magnitudes, and U a power of two of which every
    term is a multiple. An output is certified when T <= 2^24 U, U >= 2^-149 and T <= 2^128 - 2^104.

    Then every sum of any of the terms is a multiple of U of magnitude at most T: an integer of at most 24 bits (or 2^24
    itself) times U. U >= 2^-149 keeps that multiple on float32's grid down to the subnormals, and T within its range:
    it is a float32. So no float32 addition rounds, whatever the order, the grouping, the number of splits, the rounding
    mode, fused or not. Nor does an adder lose anything that aligns its inputs to the largest one and keeps 24 bits or
    more: where all inputs are below 2^24 U, the last kept bit is U or lower, and where one is 2^24 U the others are
    zero. What remains is the one rounding to bfloat16. Assumed: products are exact, subnormals are not flushed, and
    partial sums are not stored in fewer than 24 bits.

    U is taken block by block: a nonzero code is an odd integer times 2^-1, 2^0, 2^1 or 2^2, so a block's elements share
    the least of these times the scale, and their products the product of the two. A block in which one side has no
    nonzero code has no nonzero term and sets no U. Thus one-hot and power-of-two data are certified over nearly all
    scales.

    An output that is NaN by scale byte 255 is certified (as NaN): no order avoids the block.

    >>> codes = torch.full((1, 32), 0x22, dtype=torch.uint8)
    >>> near, far = (torch.tensor([[127, byte]], dtype=torch.uint8) for byte in (130, 160))
    >>> certificate(codes, near, codes, near).item(), certificate(codes, far, codes, far).item()
    (True, False)
    """
    left, right = check_operands(a, a_scales, b, b_scales)
    certified = torch.empty(left.rows, right.rows, dtype=torch.bool, device=a.device)
    for tile in tiles(left, right):
        certified[tile.rows, tile.columns] = _certified(tile)
    return certified


def error_bound(a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor) -> Interval:
    """The bfloat16 outputs that a float32 summation of the exact products may give. Args and Raises as for `matmul`.

    Model: exact products enter a tree of adders of any shape, splits and their reduction included. An adder of m inputs
    returns their sum with an error of
        (i)  m = 2: at most u |sum|, u = 2^-23: float32 addition, rounded to nearest or toward zero;
        (ii) m > 2: the m - 1 others are cut to the 24-bit grid of the largest input, an error of at most (m-1) u
             max|input|, then their sum is rounded as in (i);
    and in both cases at most 2^-149 more for each input and result below float32's normal range. Adding zero costs
    nothing. Overflow gives Inf. The last float32 is rounded once to bfloat16, to nearest even.

    Derivation. Let n be the number of nonzero products, at most the smaller of the two counts of nonzero codes. An
    adder's error is at most 2(m-1) u times the sum of its inputs' magnitudes: in case (i) as 1 <= 2, in case (ii) as
    1 + (m-1)(1+u) <= 2(m-1) for m >= 3. So one adder multiplies errors by at most 1 + 2(m-1)u <= (1+u)^(2(m-1)). Over a
    tree with n leaves the m - 1 add up to n - 1, so |result - S| <= ((1+u)^(2(n-1)) - 1) T, with S the exact sum and T
    as in `certificate`, plus the absolute part: at most 3n inputs and results, each 2^-149, grown by the same factor,
    which is below 2 for n < 2^21. That is E = growth T + 6n 2^-149.

    Rounding is monotone, so the output lies between S - E and S + E, both rounded to bfloat16. E is inflated by
    1 + 2^-10, which exceeds by far what float64 adds (K 2^-52 of T); n = 1 has no growth, and an exact S.

    Overflow: a partial sum lies between -N - E and P + E, with P and N the sums of the positive and of the negative
    magnitudes. If P + E reaches float32's largest number, some order may reach +Inf and keeps it; then upper is +Inf.
    Likewise lower. Where both may happen, Inf - Inf may, and `may_be_nan` is set. It is set too where scale byte 255
    demands NaN; lower and upper are NaN there.

    Every result of the model lies in the interval; not every value in it is reached.

    Raises ContractError also for K >= 2^21.

    >>> codes = torch.full((1, 32), 0x22, dtype=torch.uint8)
    >>> far = torch.tensor([[127, 160]], dtype=torch.uint8)
    >>> bound = error_bound(codes, far, codes, far)
    >>> bound.lower.item() == bound.upper.item() == 2.0**71
    True
    """
    left, right = check_operands(a, a_scales, b, b_scales)
    bound = Interval(*_empty(left, right))
    for tile in tiles(left, right):
        _store(bound, tile, _interval(tile))
    return bound


def expectation(a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor) -> Expectation:
    """`matmul`, `certificate` and `error_bound` from one pass. Args and Raises as for these.

    >>> codes = torch.full((1, 16), 0x22, dtype=torch.uint8)
    >>> one = torch.full((1, 1), 127, dtype=torch.uint8)
    >>> found = expectation(codes, one, codes, one)
    >>> found.exact.item(), found.certified.item()
    (32.0, True)
    """
    left, right = check_operands(a, a_scales, b, b_scales)
    lower, upper, may_be_nan = _empty(left, right)
    found = Expectation(torch.empty_like(lower), torch.empty_like(may_be_nan), lower, upper, may_be_nan)
    for tile in tiles(left, right):
        exact, certified = rounded(tile), _certified(tile)
        bound = Interval(exact, exact, tile.nan)
        if not certified.all():
            bound = Interval(*(torch.where(certified, *pair) for pair in zip(bound, _interval(tile), strict=True)))
        _store(found, tile, (exact, certified, *bound))
    return found


def _empty(left: Operand, right: Operand) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lower = torch.empty(left.rows, right.rows, dtype=torch.bfloat16, device=left.packed.device)
    return lower, torch.empty_like(lower), torch.empty_like(lower, dtype=torch.bool)


def _store(whole: tuple[torch.Tensor, ...], tile: Tile, parts: tuple[torch.Tensor, ...]) -> None:
    for tensor, part in zip(whole, parts, strict=True):
        tensor[tile.rows, tile.columns] = part


def _certified(tile: Tile) -> torch.Tensor:
    rows, columns = _block_units(tile.left), _block_units(tile.right)
    # The least units of row and column bound U from below, and mostly suffice.
    certified = _fits(tile, rows.amin(1, keepdim=True) + columns.amin(1)) | tile.nan
    return certified if certified.all() else _fits(tile, _unit_exponents(rows, columns)) | tile.nan


def _fits(tile: Tile, units: torch.Tensor) -> torch.Tensor:
    """The magnitude in float64 decides as T would: while T <= 2^53 U it is T, and otherwise it is at least 2^53 U."""
    fits = tile.magnitude <= power_of_two(units.long() + _SIGNIFICAND)
    return fits & (units >= _LEAST_EXPONENT) & (tile.magnitude <= _LARGEST)


def _unit_exponents(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """int16 (M, N): log2 of U; an output without nonzero terms has an exponent above all true ones."""
    by_block = columns.T.contiguous()
    least = rows[:, :1] + by_block[:1]
    both = torch.empty_like(least)
    for block in range(1, len(by_block)):
        torch.add(rows[:, block : block + 1], by_block[block : block + 1], out=both)
        torch.minimum(least, both, out=least)
    return least


def _block_units(operand: Operand) -> torch.Tensor:
    """int16 (rows, blocks): the exponent of the largest power of two that divides all elements of each block."""
    device = operand.packed.device
    by_code = torch.tensor([_divisor_exponent(value) for value in E2M1.values], dtype=torch.int16, device=device)
    by_byte = by_code[_codes_by_byte(device).long()].amin(1)
    exponents = operand.per_byte(by_byte).amin(2)
    return torch.where(exponents == _NO_UNIT, exponents, exponents + operand.scales.short() - E8M0.bias)


def _divisor_exponent(value: float) -> int:
    """log2 of the largest power of two that divides an E2M1 value."""
    halves = abs(int(2 * value))
    return (halves & -halves).bit_length() - 2 if halves else _NO_UNIT


def _codes_by_byte(device: torch.device) -> torch.Tensor:
    return unpack(torch.arange(256, dtype=torch.uint8, device=device).unsqueeze(1))


def _interval(tile: Tile) -> Interval:
    if tile.left.k >= 1 << 21:
        raise ContractError(f"K must be below 2^21 for the error bound, not {tile.left.k}; split the product")
    terms = torch.minimum(_nonzero_codes(tile.left).unsqueeze(1), _nonzero_codes(tile.right))
    growth = torch.expm1(2 * (terms - 1).clamp(min=0) * math.log1p(2.0**-23))
    error = (growth * tile.magnitude + 6 * terms * 2.0**_LEAST_EXPONENT) * (1 + 2.0**-10)
    lower, upper = round_to_bfloat16(tile.total - error), round_to_bfloat16(tile.total + error)
    may_be_inf = (tile.magnitude + tile.total) / 2 + error >= _LARGEST
    may_be_minus_inf = (tile.magnitude - tile.total) / 2 + error >= _LARGEST
    upper.masked_fill_(may_be_inf, float("inf")).masked_fill_(tile.nan, float("nan"))
    lower.masked_fill_(may_be_minus_inf, float("-inf")).masked_fill_(tile.nan, float("nan"))
    return Interval(lower, upper, tile.nan | (may_be_inf & may_be_minus_inf))


def _nonzero_codes(operand: Operand) -> torch.Tensor:
    """float64 (rows,): how many codes of each row are not zero."""
    by_byte = (_codes_by_byte(operand.packed.device) & 7).ne(0).sum(1)
    return operand.per_byte(by_byte).sum((1, 2)).double()
