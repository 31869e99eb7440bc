"""The public GEMM: contract checks, plan, launch."""

import torch
import triton

from mxassay.errors import ContractError
from mxassay.optimized.contracts import (
    check_activations,
    check_device,
    check_output,
    check_preshuffled,
    check_same_device,
)
from mxassay.optimized.device import Target, check_multiplies, current_target, launching, note_write
from mxassay.optimized.fused_gemm import fused_gemm_kernel
from mxassay.optimized.plans import Plan, plan_for
from mxassay.optimized.prepare import PreparedWeights
from mxassay.optimized.reduce import reduce_partials
from mxassay.optimized.split_k import SplitK
from mxassay.optimized.workspace import Workspace


def matmul(
    a: torch.Tensor,
    b_preshuffled: torch.Tensor,
    b_scales_shuffled: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    plan: Plan | None = None,
    workspace: Workspace | None = None,
) -> torch.Tensor:
    """bfloat16 (M, N) product of activations, quantized to MXFP4 on the way, with MXFP4 weights: A @ W.T.

    a: bfloat16 (M, K), any strides. M >= 0, K a positive multiple of 64.
    b_preshuffled: uint8 or float4_e2m1fn_x2 (N, K // 2), contiguous: W in the (16,16) preshuffle, N a positive
        multiple of 16.
    b_scales_shuffled: uint8 or float8_e8m0fnu (N padded to 256, K // 32 padded to 8), contiguous: the scales of W,
        e8m0-shuffled. Padding bytes may hold anything.
    out: bfloat16 (M, N) to write to and return; unit column stride, any row pitch, no byte shared with an input.
        Without it a fresh tensor is returned, which no later call touches.
    plan: a `Plan`; `plan_for(M, N, K)` without it. Every plan gives the same result up to the order of float32 sums.
    workspace: where weights prepared for `Plan(linear=True)` are kept between calls; without it nothing is kept but the
        counters of `Plan(joined=True)`, see `arrivals`.

    Activations are quantized as `quantize` does. Products are summed in float32 and rounded once, to nearest even.
    Scale byte 255 gives NaN. Memory behind the tensors is never read into a result. No gradient is computed. Without a
    scaled MFMA (CUDA, the interpreter) code times scale is first widened to bfloat16, where scale bytes above 250 can
    overflow, byte 0 can be flushed and NaN in A can stay NaN.

    Not checked: that the bytes really are shuffled, and the values of A.

    Raises ContractError on tensors outside this contract, before any launch; UnsupportedError where Triton has no
    device.

    >>> a = torch.ones((1, 64), dtype=torch.bfloat16)
    >>> weights = torch.full((16, 32), 0x22, dtype=torch.uint8)  # every code 2 is 1.0
    >>> scales = torch.full((256, 8), 127, dtype=torch.uint8)
    >>> matmul(a, weights, scales)[0, 0].item()
    64.0
    """
    a = check_activations("a", a, 64)
    b, scales = check_preshuffled(a, b_preshuffled, b_scales_shuffled)
    m, k, n = a.shape[0], a.shape[1], b.shape[0]
    plan = _resolve(plan, m, n, k)
    target = current_target()
    check_device("a", a, target.tensors)
    if out is not None:
        check_output(out, m, n, {"a": a, "b_preshuffled": b, "b_scales_shuffled": scales})
    workspace = workspace or Workspace()
    if plan.linear:
        weights = workspace.prepared(b_preshuffled, b_scales_shuffled)
        return _run(a, weights.packed, weights.scales, out, plan, target, workspace, preshuffled=False)
    return _run(a, b, scales, out, plan, target, workspace, preshuffled=True)


def matmul_prepared(
    a: torch.Tensor,
    weights: PreparedWeights,
    *,
    out: torch.Tensor | None = None,
    plan: Plan | None = None,
) -> torch.Tensor:
    """`matmul` with weights that `prepare` brought into row-major order; `plan.linear` is implied.

    Raises as `matmul` does.
    """
    if not isinstance(weights, PreparedWeights):
        raise ContractError(
            f"weights must be PreparedWeights, not {type(weights).__name__}; call prepare, or matmul for preshuffled "
            "ones"
        )
    a = check_activations("a", a, 64)
    m, k, n = a.shape[0], a.shape[1], weights.n
    if k != weights.k:
        raise ContractError(f"a.shape[1] (K) must be {weights.k}, the K of the prepared weights, not {k}")
    check_same_device("weights", weights.packed, a)
    plan = _resolve(plan, m, n, k)
    target = current_target()
    check_device("a", a, target.tensors)
    if out is not None:
        check_output(out, m, n, {"a": a, "weights.packed": weights.packed, "weights.scales": weights.scales})
    return _run(a, weights.packed, weights.scales, out, plan, target, Workspace(), preshuffled=False)


def _resolve(plan: Plan | None, m: int, n: int, k: int) -> Plan:
    if plan is None:
        return plan_for(m, n, k)
    if not isinstance(plan, Plan):
        raise ContractError(f"plan must be a Plan or None, not {type(plan).__name__}")
    return plan


def _run(
    a: torch.Tensor,
    weights: torch.Tensor,
    scales: torch.Tensor,
    out: torch.Tensor | None,
    plan: Plan,
    target: Target,
    workspace: Workspace,
    *,
    preshuffled: bool,
) -> torch.Tensor:
    (m, k), n = a.shape, weights.shape[0]
    check_multiplies(target)
    split = target.split_k(k, plan)
    workgroups = triton.cdiv(m, plan.tile_m) * triton.cdiv(n, plan.tile_n) * split.count
    if workgroups >= 2**31:
        raise ContractError(f"plan must need fewer than 2**31 workgroups, not {workgroups}; take larger tiles")
    if out is None:
        out = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    if m == 0:
        return out
    if split.count == 1:
        _launch(a, weights, scales, out, None, plan, split, workgroups, target, preshuffled)
        note_write(out)
        return out
    partials = workspace.partials(split.count, m, n, a.device)
    if not _launch(a, weights, scales, out, partials, plan, split, workgroups, target, preshuffled):
        return reduce_partials(partials, out=out)
    note_write(out)
    return out


def _launch(
    a: torch.Tensor,
    weights: torch.Tensor,
    scales: torch.Tensor,
    out: torch.Tensor,
    partials: torch.Tensor | None,
    plan: Plan,
    split: SplitK,
    workgroups: int,
    target: Target,
    preshuffled: bool,
) -> bool:
    """Returns whether `out` holds the product; otherwise `partials` are left to be summed."""
    (m, k), n = a.shape, weights.shape[0]
    if plan.direct and preshuffled and target.use_asm:
        from mxassay.optimized import direct_gemm  # Gluon has no interpreter

        if direct_gemm.fits(a, weights, scales, out, plan, split):
            with launching(target, a):
                return direct_gemm.launch_direct(a, weights, scales, out, partials, plan, split)
    if plan.direct and preshuffled and target.backend == "cuda":
        from mxassay.optimized.hopper import launch_on_hopper

        if launch_on_hopper(a, weights, scales, out, target):
            return True
    destination = out[None] if partials is None else partials
    with launching(target, a):
        fused_gemm_kernel[(workgroups,)](
            a,
            weights,
            scales,
            destination,
            m,
            n,
            k,
            a.stride(0),
            a.stride(1),
            weights.stride(0),
            scales.stride(0),
            destination.stride(1),
            destination.stride(0),
            TILE_M=plan.tile_m,
            TILE_N=plan.tile_n,
            TILE_K=split.tile_k,
            # A band taller than the grid is the whole grid; so the tiles of a band always count in int32.
            GROUP_M=min(plan.group_m, triton.cdiv(m, plan.tile_m)),
            SPLITS=split.count,
            SPAN=split.span,
            PRESHUFFLED=preshuffled,
            EVEN_M=m % plan.tile_m == 0,
            EVEN_N=n % plan.tile_n == 0,
            EVEN_K=k == split.count * split.span,
            WIDE=_needs_wide_offsets(a, weights, scales, destination, plan, split.tile_k),
            USE_ASM=target.use_asm,
            ROUND_IN_INTEGERS=target.round_in_integers,
            **target.options(plan, split.tile_k),
        )
    return partials is None


def _needs_wide_offsets(
    a: torch.Tensor,
    weights: torch.Tensor,
    scales: torch.Tensor,
    destination: torch.Tensor,
    plan: Plan,
    tile_k: int,
) -> bool:
    """Whether an offset inside one tile can leave int32. Tiles themselves are always addressed with 64 bits."""
    farthest = max(
        2 * (plan.tile_m * a.stride(0) + tile_k * a.stride(1)),
        (plan.tile_n + 16) * weights.stride(0) + 16 * tile_k,
        (plan.tile_n + 32) * scales.stride(0) + 32 * tile_k,
        4 * (plan.tile_m * destination.stride(1) + plan.tile_n),
    )
    return farthest >= 2**31
