"""The product on NVIDIA's Hopper GPUs, which know neither FP4 nor block scales: numbers of the grid as bfloat16.

A code times its scale is a bfloat16 number with one bit of mantissa, so the bfloat16 tensor cores give the sums that a
scaled FP4 instruction would. Weights are the left operand: the rows of a 16-row stripe of the preshuffle, widened in
registers where the tensor cores take them from. `skinny_gemm` also keeps activations in registers; `wide_gemm`
quantizes them once, in a kernel before, and multiplies warpgroups at a time.
"""

from mxassay.optimized.hopper.launches import launch_on_hopper

__all__ = ["launch_on_hopper"]
