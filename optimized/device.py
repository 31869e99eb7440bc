"""Where kernels run in this process, and what depends on it."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from triton.runtime.jit import JITFunction

from mxassay.errors import UnsupportedError
from mxassay.optimized.plans import Plan
from mxassay.optimized.split_k import SplitK, reconcile
from mxassay.optimized.tile_map import xcd_remap

# Eight for each of a warp's 32 threads: found by compiling tile_m 1 to 16, every number of warps, every kind of stride.
_CUDA_ACTIVATIONS = 256


@dataclass(frozen=True)
class Target:
    """The device that Triton compiles for.

    backend: "hip", "cuda" or "interpreter". arch: as Triton names it, "" for the interpreter. tensors: the torch
    device type on which tensors must lie, None for any.
    """

    backend: str
    arch: str
    tensors: str | None

    @property
    def use_asm(self) -> bool:
        """Whether `v_cvt_scalef32_pk_fp4_bf16` exists."""
        return self.arch.startswith("gfx950")

    @property
    def round_in_integers(self) -> bool:
        """Whether the native float32 to bfloat16 cast truncates."""
        return self.backend == "interpreter"

    def split_k(self, k: int, plan: Plan) -> SplitK:
        """How K is cut: as the plan wishes, but on CUDA in steps of 128 and of 256 activations at least.

        Triton 3.6 to 3.9 fail to compile smaller ones there (an assertion in the widening of FP4), strided ones above
        all.
        """
        if self.backend != "cuda":
            return reconcile(k, plan.tile_k, plan.splits)
        smallest = max(128, _CUDA_ACTIVATIONS // plan.tile_m)
        return reconcile(k, max(plan.tile_k, smallest), plan.splits, smallest)

    def options(self, plan: Plan, tile_k: int) -> dict[str, int]:
        """The launch options that this backend takes, for a plan and the depth it was reconciled to."""
        options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
        if self.backend == "cuda":
            # See `split_k`: as many activations for each warp as for the smallest step.
            options["num_warps"] = min(plan.num_warps, plan.tile_m * tile_k // _CUDA_ACTIVATIONS)
        if self.backend == "hip":
            options["waves_per_eu"] = plan.waves_per_eu
            options["matrix_instr_nonkdim"] = plan.matrix_instr_nonkdim
        return options


def current_target() -> Target:
    """The target of the active Triton driver, asked anew at each call, or the interpreter.

    Raises UnsupportedError where Triton has no device.
    """
    if not isinstance(xcd_remap, JITFunction):
        return Target("interpreter", "", None)
    try:
        driver = triton.runtime.driver.active
        target = driver.get_current_target()
        device = driver.get_active_torch_device()
    except RuntimeError as error:
        raise UnsupportedError(
            f"the Triton driver must be active, not absent ({error}); run on a GPU machine, activate an emulated "
            "device, or set TRITON_INTERPRET=1 before mxassay.optimized is imported"
        ) from error
    return Target(target.backend, str(target.arch), device.type)


def check_multiplies(target: Target) -> None:
    """Raises UnsupportedError when the target cannot run `tl.dot_scaled`: the interpreter of Triton 3.6."""
    if target.backend == "interpreter":
        from triton.runtime.interpreter import InterpreterBuilder

        if not hasattr(InterpreterBuilder, "create_dot_scaled"):
            raise UnsupportedError(
                f"Triton's interpreter must know dot_scaled, not be that of {triton.__version__}; install triton "
                "3.9, or run on a GPU or an emulated device"
            )


def launching(target: Target, tensor: torch.Tensor) -> contextlib.AbstractContextManager[Any]:
    """The context that a launch on `tensor` needs.

    A GPU is made current, since Triton launches on the current one, whichever the tensors are on. The interpreter runs
    on numpy, whose warnings about NaN and overflow say nothing that the result does not.
    """
    if target.backend == "interpreter":
        return np.errstate(all="ignore")
    if tensor.device.type == "cuda":
        return torch.cuda.device(tensor.device)
    return contextlib.nullcontext()


def note_write(tensor: torch.Tensor) -> None:
    """Tell torch that a kernel wrote to a tensor, as in-place operations do: caches and autograd rely on it."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)
