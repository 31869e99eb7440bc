# mypy: allow-untyped-decorators
"""The sum over splits: float32 partials (SPLITS, M, N) to one bfloat16 output."""

import torch
import triton
import triton.language as tl

from mxassay.errors import ContractError
from mxassay.optimized.contracts import check_device, check_output
from mxassay.optimized.device import current_target, launching, note_write
from mxassay.optimized.rounding import to_bfloat16

COLUMNS = 256  # of one workgroup: four for each lane of a wave, so that loads are 16 bytes wide


@triton.jit
def reduce_kernel(
    partials_ptr: tl.tensor,
    out_ptr: tl.tensor,
    N: tl.tensor,
    stride_split: tl.tensor,
    stride_row: tl.tensor,
    stride_out_row: tl.tensor,
    SPLITS: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROUND_IN_INTEGERS: tl.constexpr,
) -> None:
    """Row pid // blocks, COLUMNS columns from block pid % blocks; splits are added in ascending order, in float32."""
    blocks = tl.cdiv(N, COLUMNS)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    column = tl.program_id(0) % blocks * COLUMNS + tl.arange(0, COLUMNS)
    mask = column < N
    source = partials_ptr + row * stride_row
    total = tl.load(source + column, mask=mask, other=0.0)
    for _ in range(SPLITS - 1):
        source += stride_split
        total += tl.load(source + column, mask=mask, other=0.0)
    tl.store(out_ptr + row * stride_out_row + column, to_bfloat16(total, ROUND_IN_INTEGERS), mask=mask)


def reduce_partials(partials: torch.Tensor, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Sum partial products over their first axis.

    partials: float32 (S, M, N), S >= 1, unit stride along N, other strides any. out: bfloat16 (M, N) to write to,
    unit column stride, not overlapping `partials`; a fresh tensor without it. The sum runs over splits in ascending
    order in float32 and is rounded once, to nearest even, so equal partials give equal bits. NaN and Inf propagate.

    Raises ContractError on another shape, dtype, stride or device; UnsupportedError where Triton has no device.

    >>> reduce_partials(torch.ones(3, 1, 16)).unique()
    tensor([3.], dtype=torch.bfloat16)
    """
    if not isinstance(partials, torch.Tensor) or partials.dtype != torch.float32 or partials.dim() != 3:
        found = (
            f"{partials.dtype} of shape {tuple(partials.shape)}"
            if isinstance(partials, torch.Tensor)
            else type(partials).__name__
        )
        raise ContractError(f"partials must be float32 of shape (S, M, N), not {found}")
    if partials.layout != torch.strided:
        raise ContractError(f"partials must be a dense tensor, not {partials.layout}; call to_dense()")
    if partials.requires_grad and torch.is_grad_enabled():
        raise ContractError("partials must not require a gradient, since none is computed; detach them")
    partials = partials.resolve_neg()
    splits, m, n = partials.shape
    if splits == 0 or n == 0:
        raise ContractError(f"partials must hold a split and a column at least, not shape {tuple(partials.shape)}")
    if partials.stride(2) != 1:
        raise ContractError(f"partials must have unit stride along N, not {partials.stride(2)}; call contiguous()")
    target = current_target()
    check_device("partials", partials, target.tensors)
    if out is None:
        out = torch.empty((m, n), dtype=torch.bfloat16, device=partials.device)
    else:
        check_output(out, m, n, {"partials": partials})
    blocks = triton.cdiv(n, COLUMNS)
    if m * blocks >= 2**31:
        raise ContractError(f"partials must need fewer than 2**31 workgroups, not {m * blocks}; cut M in pieces")
    if m:
        with launching(target, partials):
            reduce_kernel[(m * blocks,)](
                partials,
                out,
                n,
                partials.stride(0),
                partials.stride(1),
                out.stride(0),
                SPLITS=splits,
                COLUMNS=COLUMNS,
                ROUND_IN_INTEGERS=target.round_in_integers,
                num_warps=1,
                num_stages=2,
            )
        note_write(out)
    return out
