"""One side of a matrix product: packed codes and their scales, checked."""

from dataclasses import dataclass

import torch

from mxassay.errors import ContractError
from mxassay.reference.formats import E8M0, as_bytes, decode_packed, decode_scales


@dataclass(frozen=True)
class Operand:
    """`packed` uint8 (rows, K/2) and `scales` uint8 (rows, K/32), contiguous, linear, K/32 at least 1."""

    packed: torch.Tensor
    scales: torch.Tensor

    @property
    def rows(self) -> int:
        return self.packed.shape[0]

    @property
    def blocks(self) -> int:
        return self.scales.shape[1]

    @property
    def k(self) -> int:
        return self.blocks * E8M0.block

    def __getitem__(self, rows: slice | torch.Tensor) -> "Operand":
        return Operand(self.packed[rows], self.scales[rows])

    def along_k(self, blocks: slice) -> "Operand":
        """The operand cut to a slice of blocks."""
        packed = self.packed.view(self.rows, self.blocks, E8M0.block // 2)[:, blocks].flatten(1)
        return Operand(packed, self.scales[:, blocks].contiguous())

    def has_nan_scale(self) -> torch.Tensor:
        """bool (rows,)."""
        return (self.scales == E8M0.nan).any(1)

    def finite_scales(self) -> torch.Tensor:
        """The scales with 0 for NaN."""
        return self.scales.masked_fill(self.scales == E8M0.nan, 0)

    def values(self) -> torch.Tensor:
        """float64 (rows, K), exact; scale byte 255 counts as 0."""
        values = decode_packed(self.packed, torch.float64).view(self.rows, self.blocks, E8M0.block)
        return values.mul_(decode_scales(self.finite_scales()).unsqueeze(2)).view(self.rows, self.k)

    def least_exponents(self) -> torch.Tensor:
        """int64 (rows,): every value of the row is a multiple of 2 to this, since codes are multiples of 1/2."""
        return self.finite_scales().amin(1).long() - E8M0.bias - 1

    def per_byte(self, table: torch.Tensor) -> torch.Tensor:
        """`table[packed]` for a table of 256 entries, shape (rows, blocks, 16)."""
        return table.index_select(0, self.packed.flatten().int()).view(self.rows, self.blocks, E8M0.block // 2)


def check_operands(
    a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor
) -> tuple[Operand, Operand]:
    """The two operands, made contiguous, or ContractError naming what does not fit."""
    left, right = _checked("a", a, a_scales), _checked("b", b, b_scales)
    if left.k != right.k:
        raise ContractError(f"a and b must have the same K, not {left.k} and {right.k}; both are packed along K")
    devices = sorted({str(tensor.device) for tensor in (a, a_scales, b, b_scales)})
    if len(devices) > 1:
        raise ContractError(f"all four tensors must be on one device, not on {', '.join(devices)}; move them")
    return left, right


def _checked(name: str, packed: torch.Tensor, scales: torch.Tensor) -> Operand:
    packed = as_bytes(name, packed)
    if packed.ndim != 2:
        raise ContractError(
            f"{name} must have two dimensions (rows, K/2), not shape {tuple(packed.shape)}; flatten leading ones"
        )
    rows, width = packed.shape
    if width == 0 or width % (E8M0.block // 2):
        raise ContractError(
            f"{name}'s K must be a positive multiple of {E8M0.block}, not {2 * width}; pad K with zero codes"
        )
    scales = as_bytes(f"{name}_scales", scales, (rows, 2 * width // E8M0.block))
    return Operand(packed.contiguous(), scales.contiguous())
