"""Run by test_cuda_code.py in a process of its own: launches on a Hopper card that only compiles. No GPU is needed."""

import json

import torch
import triton
from compile_for_gfx950 import CompileOnlyDriver
from triton.backends.compiler import GPUTarget

from mxassay.optimized import Plan, matmul


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
    print(json.dumps({"compiled": 2 * 3 * len(plans) - len(failed), "failed": failed}))


if __name__ == "__main__":
    main()
