"""Every entry point of our own kernel that implements the product, so that no copy of a rule goes untested."""

from collections.abc import Callable
from typing import Any

import torch

from mxassay.kernels import GemmArguments
from mxassay.properties.checks import violation

Entry = Callable[[GemmArguments, Any], torch.Tensor]


def _matmul(x: GemmArguments, plan: Any) -> torch.Tensor:
    from mxassay.optimized import matmul

    return matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan)


def _into_a_wider_buffer(x: GemmArguments, plan: Any) -> torch.Tensor:
    from mxassay.optimized import matmul

    m, n = x.a.shape[0], x.b_preshuffled.shape[0]
    nan = float("nan")
    wide = torch.full((m, n + 24), nan, dtype=torch.bfloat16, device=x.a.device)
    out = wide[:, 8 : n + 8]
    returned = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan, out=out)
    if returned is not out:
        raise violation("matmul must return the tensor given as out, not another one")
    if not (wide[:, :8].isnan().all() and wide[:, n + 8 :].isnan().all()):
        raise violation("columns beside out must be left alone, but were written")
    return out


def _prepared(x: GemmArguments, plan: Any) -> torch.Tensor:
    from mxassay.optimized import matmul_prepared, prepare

    return matmul_prepared(x.a, prepare(x.b_preshuffled, x.b_scales_shuffled), plan=plan)


def _contest(x: GemmArguments, plan: Any) -> torch.Tensor:
    from mxassay.optimized import custom_kernel

    codes, scales = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
    return custom_kernel(
        (x.a, x.b, x.b_packed.view(codes), x.b_preshuffled.view(codes), x.b_scales_shuffled.view(scales))
    )


def _with_a_workspace(x: GemmArguments, plan: Any) -> torch.Tensor:
    from mxassay.optimized import Workspace, matmul

    workspace = Workspace()
    first = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan, workspace=workspace)
    second = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan, workspace=workspace)
    if not torch.equal(first.view(torch.int16), second.view(torch.int16)):
        raise violation("a second call with one workspace must give the bits of the first, but did not")
    return second


ENTRIES: dict[str, Entry] = {
    "matmul": _matmul,
    "matmul(out=columns of a wider buffer)": _into_a_wider_buffer,
    "matmul_prepared": _prepared,
    "custom_kernel": _contest,
    "matmul(workspace=), twice": _with_a_workspace,
}
