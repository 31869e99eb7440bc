"""The entry point of the GPU MODE contest "amd-mxfp4-mm"."""

import torch

from mxassay.errors import ContractError
from mxassay.optimized.gemm import matmul

Data = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def custom_kernel(data: Data) -> torch.Tensor:
    """`matmul` on the contest's five-tuple (A, B, B_q, B_shuffle, B_scale_sh).

    A: bfloat16 (M, K). B, the bfloat16 weights, and B_q, their linear codes, are not looked at. B_shuffle and
    B_scale_sh are `matmul`'s preshuffled weights and shuffled scales. Returns a fresh bfloat16 (M, N) tensor at
    each call.

    Raises ContractError when `data` is no five-tuple, and as `matmul` does.
    """
    if not isinstance(data, (tuple, list)) or len(data) != 5:
        found = f"{len(data)} items" if isinstance(data, (tuple, list)) else type(data).__name__
        raise ContractError(f"data must be the five-tuple (A, B, B_q, B_shuffle, B_scale_sh), not {found}")
    activations, _, _, weights, scales = data
    return matmul(activations, weights, scales)
