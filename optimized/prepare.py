"""Weights brought into row-major order once, for kernels that read them linearly."""

from dataclasses import dataclass

import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized.contracts import check_preshuffled_pair


@dataclass(frozen=True, eq=False)
class PreparedWeights:
    """A snapshot of weights in row-major order.

    packed: uint8 (N, K // 2), contiguous. scales: uint8 (N, K // 32), contiguous, no padding. Both are copies,
    owned by this object: what happens to the tensors they were made from has no effect on them.
    """

    packed: torch.Tensor
    scales: torch.Tensor

    @property
    def n(self) -> int:
        """Rows of W, columns of the output."""
        return self.packed.shape[0]

    @property
    def k(self) -> int:
        """Elements of one row."""
        return 2 * self.packed.shape[1]


def prepare(b_preshuffled: torch.Tensor, b_scales_shuffled: torch.Tensor) -> PreparedWeights:
    """Materialize linear weights and scales from preshuffled ones.

    b_preshuffled: uint8 or float4_e2m1fn_x2 (N, K // 2) in the (16,16) preshuffle, N % 16 == 0, K % 64 == 0.
    b_scales_shuffled: uint8 or float8_e8m0fnu (N padded to 256, K // 32 padded to 8), e8m0-shuffled; padding is
    dropped unread. Both contiguous, on one device.

    Raises ContractError otherwise.

    >>> weights = torch.zeros((16, 32), dtype=torch.uint8)
    >>> scales = torch.full((256, 8), 127, dtype=torch.uint8)
    >>> prepare(weights, scales).scales.shape
    torch.Size([16, 2])
    """
    b, scales = check_preshuffled_pair(b_preshuffled, b_scales_shuffled)
    n, k = b.shape[0], 2 * b.shape[1]
    return PreparedWeights(WEIGHT_PRESHUFFLE.invert(b, (n, k // 2)), SCALE_SHUFFLE.invert(scales, (n, k // 32)))
