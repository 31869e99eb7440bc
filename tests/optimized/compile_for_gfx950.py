"""Run by test_gfx950_code.py in a process of its own: launches on a gfx950 that only compiles.

Writes each kernel's code object and assembly into the folder given, and one line of JSON to stdout.
"""

import dataclasses
import json
import pathlib
import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


class CompileOnlyUtils:
    """Loading succeeds and does nothing."""

    def load_binary(self, *_):
        return 1, 1, 0, 0, 1024

    def get_device_properties(self, _):
        return {"max_shared_mem": 160 * 1024, "multiprocessor_count": 256, "warpSize": 64}


class CompileOnlyDriver(DriverBase):
    """A gfx950 without silicon, on CPU tensors: kernels are specialized and compiled as for a launch, then dropped."""

    def __init__(self):
        self.utils = CompileOnlyUtils()
        self.launcher_cls = lambda *_: lambda *_args, **_kwargs: None

    @classmethod
    def is_active(cls):
        return True

    def map_python_to_cpp_type(self, ty):
        return ty

    def get_current_target(self):
        return GPUTarget("hip", "gfx950", 64)

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_benchmarker(self):
        raise NotImplementedError

    def get_device_interface(self):
        raise NotImplementedError


def compiled(kernel):
    """The newest kernel that a launch left in Triton's cache."""
    return list(kernel.device_caches[0][0].values())[-1]


def main(folder):
    triton.runtime.driver.set_active(CompileOnlyDriver())
    from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, matmul, plan_for, quantize
    from mxassay.optimized.direct_gemm import direct_gemm_kernel
    from mxassay.optimized.fused_gemm import fused_gemm_kernel
    from mxassay.optimized.quantizer import quantize_kernel
    from mxassay.optimized.reduce import reduce_kernel

    written = []

    def keep(kind, shape, plan, kernel):
        name = f"{kind}_{len(written)}"
        (folder / f"{name}.s").write_text(kernel.asm["amdgcn"])
        (folder / f"{name}.hsaco").write_bytes(kernel.asm["hsaco"])
        fields = dataclasses.asdict(plan) if plan else None
        written.append({"name": name, "kind": kind, "shape": shape, "plan": fields})

    cases = [(shape, plan_for(*shape)) for shape in (*LEADERBOARD, *TEST_SHAPES)]
    apart = [(shape, dataclasses.replace(plan, joined=False)) for shape, plan in cases if plan.joined]
    cases += [(shape, dataclasses.replace(plan, direct=False)) for shape, plan in cases]
    cases += apart
    cases += [(shape, dataclasses.replace(plan, linear=True)) for shape, plan in cases if not plan.direct]
    ruled = [(1, 16, 64), (1, 512, 16384), (7, 48, 320), (100, 4112, 576), (33, 4096, 4096), (1024, 8192, 8192)]
    cases += [(shape, plan_for(*shape)) for shape in ruled]
    cases.append(((5, 80, 448), Plan(tile_m=4, tile_n=16, tile_k=128, splits=3)))
    cases.append(((5, 80, 448), Plan(tile_m=4, tile_n=32, tile_k=64, matrix_instr_nonkdim=32)))
    for (m, n, k), plan in cases:
        kernel = direct_gemm_kernel if plan.direct else fused_gemm_kernel
        before = len(kernel.device_caches[0][0])
        a = torch.empty(m, k, dtype=torch.bfloat16)
        b = torch.empty(n, k // 2, dtype=torch.uint8)
        scales = torch.empty(-(-n // 256) * 256, -(-k // 256) * 8, dtype=torch.uint8)
        matmul(a, b, scales, plan=plan)
        if len(kernel.device_caches[0][0]) > before:
            keep("gemm", (m, n, k), plan, compiled(kernel))
    quantize(torch.empty(5, 320, dtype=torch.bfloat16))
    keep("quantize", (5, 320), None, compiled(quantize_kernel))
    keep("reduce", None, None, compiled(reduce_kernel))
    print(json.dumps({"cases": [(shape, dataclasses.asdict(plan)) for shape, plan in cases], "kernels": written}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
