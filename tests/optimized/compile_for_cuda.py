"""Run by test_cuda_code.py in a process of its own: launches on a Hopper card that only compiles. No GPU is needed."""

import json

import torch
import triton
from compile_for_gfx950 import CompileOnlyDriver
from triton.backends.compiler import GPUTarget

from mxassay.optimized import Plan, matmul
from mxassay.optimized.device import current_target
from mxassay.optimized.hopper import launch_on_hopper


class CompileOnlyHopper(CompileOnlyDriver):
    """As its base, for CUDA compute capability 9.0."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def activations(kind, m, k):
    """Random (m, k) activations that are not a plain row-major tensor."""
    if kind == "transposed":
        return torch.randn(k, m).to(torch.bfloat16).t()
    if kind == "odd start":
        return torch.randn(m, k + 3).to(torch.bfloat16)[:, 1 : k + 1]
    return torch.randn(m, 2 * k).to(torch.bfloat16)[:, ::2]


def whole_operands():
    """Operands and output of both kernels with layouts by hand, with and without splits."""
    for m, k in ((5, 64), (5, 1024), (40, 512)):
        a, out = torch.zeros(m, k, dtype=torch.bfloat16), torch.zeros(m, 64, dtype=torch.bfloat16)
        table = torch.zeros(256, -(-k // 256) * 8, dtype=torch.uint8)
        yield a, torch.zeros(64, k // 2, dtype=torch.uint8), table, out


def main():
    triton.runtime.driver.set_active(CompileOnlyHopper())
    failed = []
    k = 64
    weights, scales = torch.zeros(64, k // 2, dtype=torch.uint8), torch.zeros(256, 8, dtype=torch.uint8)
    plans = [None, *(Plan(tile_m=tile_m, tile_n=64, tile_k=128, num_warps=8) for tile_m in (1, 2, 4))]
    for m in (1, 2):
        for kind in ("transposed", "odd start", "every other"):
            for plan in plans:
                try:
                    matmul(activations(kind, m, k), weights, scales, plan=plan)
                except RuntimeError as error:
                    failed.append([m, kind, str(plan), str(error)])
    by_hand = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True)
    taken = [launch_on_hopper(*operands, current_target()) for operands in whole_operands()]
    for a, b, table, out in whole_operands():
        matmul(a, b, table, out=out, plan=by_hand)
    print(json.dumps({"compiled": 2 * 3 * len(plans) - len(failed), "by hand": taken, "failed": failed}))


if __name__ == "__main__":
    main()
