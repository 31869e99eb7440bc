"""The same product through aiter's kernels: quantize, shuffle scales, `gemm_a4w4`.

aiter is imported at the first call, because it needs a ROCm machine.
"""

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch

from mxassay.errors import ContractError, UnsupportedError
from mxassay.optimized.contracts import check_activations, check_preshuffled
from mxassay.optimized.plans import LEADERBOARD, TEST_SHAPES, Shape

# The 32x128 tile of aiter's f4gemm, as its tuned-config table names it (aiter
# configs/a4w4_blockscale_tuned_gemm.csv).
KERNEL_32X128 = "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
_KERNEL_ID = 21
_ARCH, _COMPUTE_UNITS = "gfx950", 256
# A shape of that table: looking it up makes aiter read the table.
_KNOWN_SHAPE = (1, 512, 4096)


def matmul(a: torch.Tensor, b_preshuffled: torch.Tensor, b_scales_shuffled: torch.Tensor) -> torch.Tensor:
    """bfloat16 (M, N) product as `mxassay.optimized.matmul` takes and gives it, computed by aiter.

    Activations are made contiguous and quantized by aiter's `dynamic_mxfp4_quant`, whose scale bytes differ from
    ours for blocks whose amax is at least 1.75 * 2^127, Inf or NaN (254, not 253). Their scales are shuffled with
    aiter's `e8m0_shuffle`, which leaves its padding uninitialised. M must be positive.

    Raises ContractError outside the contract of `mxassay.optimized.matmul`, before aiter is asked for;
    UnsupportedError where aiter cannot be imported or lacks a function.
    """
    a = check_activations("a", a, 64)
    b, scales = check_preshuffled(a, b_preshuffled, b_scales_shuffled)
    if a.shape[0] == 0:
        raise ContractError("a.shape[0] (M) must be positive for aiter, not 0; use mxassay.optimized.matmul")
    quantize = _function("aiter.ops.triton.quant", "dynamic_mxfp4_quant")
    shuffle = _function("aiter.utility.fp4_utils", "e8m0_shuffle")
    gemm = _function("aiter", "gemm_a4w4")
    codes_type, scale_type = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
    packed, a_scales = quantize(a.contiguous())
    product: torch.Tensor = gemm(
        packed.view(codes_type),
        b.view(codes_type),
        shuffle(a_scales).view(scale_type),
        scales.view(scale_type),
        dtype=torch.bfloat16,
        bpreshuffle=True,
    )
    return product


def prime_tuned_configs(shapes: Iterable[Shape] = (*LEADERBOARD, *TEST_SHAPES)) -> None:
    """Make aiter take its 32x128 kernel without split-K for the given (M, N, K), whatever its tuned-config table "
    "says."

    Changes aiter's table in this process, for an MI355X (256 compute units). aiter's lookup cache is cleared, so
    shapes asked for before are looked up anew. Both forms of the table's key are known: with the architecture,
    (gfx, cu_num, M,
    N, K), and the older one without.

    Raises UnsupportedError where aiter cannot be imported or its lookup has no table; ContractError on a shape that
    is not three positive integers.
    """
    wanted = [tuple(shape) for shape in shapes]
    for shape in wanted:
        if len(shape) != 3 or not all(type(size) is int and size > 0 for size in shape):
            raise ContractError(f"shapes must hold (M, N, K) of positive integers, not {shape}")
    lookup = _function("aiter.ops.gemm_op_a4w4", "get_GEMM_config")
    lookup(*_KNOWN_SHAPE)
    table = getattr(lookup, "gemm_dict", None)
    if not isinstance(table, dict):
        raise UnsupportedError(
            f"aiter's get_GEMM_config must keep its table in gemm_dict, not in {type(table).__name__}; this aiter is "
            "not the one that priming was written for"
        )
    prefix = (_ARCH, _COMPUTE_UNITS) if getattr(lookup, "has_gfx", False) else (_COMPUTE_UNITS,)
    for shape in wanted:
        table[(*prefix, *shape)] = {
            "kernelId": _KERNEL_ID,
            "splitK": 0,
            "us": 0.0,
            "kernelName": KERNEL_32X128,
            "tflops": 0.0,
            "bw": 0.0,
            "errRatio": 0.0,
        }
    lookup.cache_clear()


def _function(module_name: str, name: str) -> Any:
    try:
        module: ModuleType = importlib.import_module(module_name)
    except Exception as error:  # aiter raises other errors than ImportError where ROCm is missing
        raise UnsupportedError(
            f"{module_name} must be importable, not failing with {type(error).__name__}: {error}; install aiter on a "
            "ROCm machine, or use mxassay.optimized.matmul"
        ) from error
    if not hasattr(module, name):
        raise UnsupportedError(
            f"{module_name} must have {name}, but this version of aiter has not; install one of 2025 or 2026"
        )
    return getattr(module, name)
