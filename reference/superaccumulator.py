"""Sums over the whole range of scales, exact: fixed-point numbers of 576 bits, in limbs."""

import torch

from mxassay.reference.formats import E8M0, decode_packed
from mxassay.reference.operands import Operand
from mxassay.reference.rounding import power_of_two

_LIMB_BITS = 32
_LIMBS = 18
_LIMB_MASK = (1 << _LIMB_BITS) - 1
# The weight of the accumulator's last bit: half times half, both under scale byte 0.
_UNIT_EXPONENT = -2 - 2 * E8M0.bias
_CHUNK_TERMS = 1 << 17


def exact_sums(left: Operand, right: Operand) -> torch.Tensor:
    """float64 (M, N): the exact sums of products, rounded to odd at 31 bits or more. Scale byte 255 counts as 0.

    A block's sum of products is an integer D, |D| <= 32 * 144 = 4608, times 2^(ea + eb - 256), ea + eb within 0..508.
    Limb l counts multiples of 2^(32 l - 256). D is shifted left by (ea + eb) % 32 and added to limb (ea + eb) // 32:
    |D| * 2^31 < 2^44, so 2^19 blocks (K = 2^24) can't overflow a signed 64-bit limb, and 18 limbs hold the total, below
    2^(508 + 13 + 19). All is integer until the end, where at most 53 leading bits are taken and the last of them is set
    if anything nonzero lies below: rounding to odd. At least 31 bits are taken, so a following rounding to 29 bits or
    fewer is the rounding of the exact sum (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    out = torch.empty(left.rows, right.rows, dtype=torch.float64, device=left.packed.device)
    row_step = max(1, min(left.rows, _CHUNK_TERMS // left.blocks))
    column_step = max(1, _CHUNK_TERMS // (left.blocks * row_step))
    for i in range(0, left.rows, row_step):
        for j in range(0, right.rows, column_step):
            rows, columns = slice(i, i + row_step), slice(j, j + column_step)
            out[rows, columns] = _to_float64(_accumulate(left[rows], right[columns]))
    return out


def _accumulate(left: Operand, right: Operand) -> torch.Tensor:
    terms = _block_sums(left, right)
    exponents = left.finite_scales().T.long().unsqueeze(2) + right.finite_scales().T.long().unsqueeze(1)
    limbs = torch.zeros(_LIMBS, left.rows, right.rows, dtype=torch.int64, device=left.packed.device)
    return limbs.scatter_add_(0, exponents // _LIMB_BITS, terms << exponents % _LIMB_BITS)


def _block_sums(left: Operand, right: Operand) -> torch.Tensor:
    """int64 (blocks, M, N): each block's unscaled sum in quarters. float32 holds every partial one, at most 4608."""
    halves = [
        (2 * decode_packed(side.packed, torch.float32)).view(side.rows, side.blocks, E8M0.block)
        for side in (left, right)
    ]
    return torch.bmm(halves[0].transpose(0, 1), halves[1].permute(1, 2, 0)).long()


def _carry(limbs: torch.Tensor) -> torch.Tensor:
    """Bring all limbs but the last into 0..2^32-1, in place; the last one keeps the sign."""
    for index in range(_LIMBS - 1):
        limbs[index + 1] += limbs[index] >> _LIMB_BITS
        limbs[index] &= _LIMB_MASK
    return limbs


def _to_float64(limbs: torch.Tensor) -> torch.Tensor:
    negative = _carry(limbs)[-1] < 0
    limbs = _carry(torch.where(negative, -limbs, limbs))
    index = torch.arange(_LIMBS, device=limbs.device).view(-1, 1, 1)
    top = torch.where(limbs != 0, index, 0).amax(0, keepdim=True)
    first = limbs.gather(0, top)
    second = torch.where(top > 0, limbs.gather(0, (top - 1).clamp(min=0)), 0)
    rest = ((limbs != 0) & (index < top - 1)).any(0, keepdim=True)
    # 62 bits of the two leading limbs, of which float64 takes at most 53 from the first set one.
    head = (first << 30) | (second >> 2)
    length = 30 + torch.frexp(first.double()).exponent.long()
    drop = (length - 53).clamp(min=0)
    sticky = rest | (second & 3 != 0) | (head & ((1 << drop) - 1) != 0)
    magnitude = ((head >> drop) | sticky).double()
    value = magnitude * power_of_two(_UNIT_EXPONENT + _LIMB_BITS * (top - 1) + 2 + drop)
    return torch.where(negative, -value, value).squeeze(0)
