"""The kernel under test: a fused MXFP4 GEMM in Triton, with its plans, its reduce kernel and its quantizer.

Runs on gfx950, on CUDA GPUs and in Triton's interpreter; which one is settled when Triton is imported
(TRITON_INTERPRET) and when a kernel is launched (the active driver). aiter's own GEMM stands beside it in
`aiter_path`.
"""

from mxassay.optimized import aiter_path
from mxassay.optimized.contest import custom_kernel
from mxassay.optimized.gemm import matmul, matmul_prepared
from mxassay.optimized.plans import LEADERBOARD, TEST_SHAPES, Plan, plan_for
from mxassay.optimized.prepare import PreparedWeights, prepare
from mxassay.optimized.quantizer import QuantizedActivations, quantize
from mxassay.optimized.reduce import reduce_partials
from mxassay.optimized.split_k import SplitK, reconcile
from mxassay.optimized.workspace import Workspace

__all__ = [
    "LEADERBOARD",
    "TEST_SHAPES",
    "Plan",
    "PreparedWeights",
    "QuantizedActivations",
    "SplitK",
    "Workspace",
    "aiter_path",
    "custom_kernel",
    "matmul",
    "matmul_prepared",
    "plan_for",
    "prepare",
    "quantize",
    "reconcile",
    "reduce_partials",
]
