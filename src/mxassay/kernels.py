"""The kernel under test, as a record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Shape = tuple[int, int, int]
"""(M, N, K) in elements."""


@dataclass(frozen=True)
class GemmArguments:
    """What a GEMM kernel may be given, whatever its ABI: shapes in elements, bytes as uint8.

    Attributes:
        a: bf16 (M, K) activations.
        b: bf16 (N, K) weights before quantization; only the `gpumode` tuple carries them.
        b_packed: uint8 (N, K/2) packed codes, row-major.
        b_preshuffled: uint8 (N, K/2), layout WEIGHT_PRESHUFFLE.
        b_scales_shuffled: uint8 (N padded to 256, K/32 padded to 8), layout SCALE_SHUFFLE.
    """

    a: "torch.Tensor"
    b: "torch.Tensor"
    b_packed: "torch.Tensor"
    b_preshuffled: "torch.Tensor"
    b_scales_shuffled: "torch.Tensor"


@dataclass(frozen=True)
class Returned:
    """What a call brought: the output, and Triton's compile time where that was spent in another process."""

    out: "torch.Tensor"
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A kernel under test.

    Attributes:
        name: as the user wrote it.
        abi: a key of `mxassay.loading.ABIS`.
        dialect: name of the quantization dialect the kernel's activations follow.
        call: runs it, given the arguments and a plan (None where the kernel chooses itself).
        plan_for: our own kernels' plan of a shape (M, N, K); None for other kernels.
        shapes: what to check it on when the user names no shape; None for the contest's shapes and the edges.
        words: how the command line names it, for the replay command.
    """

    name: str
    abi: str
    dialect: str
    call: Callable[[GemmArguments, Any], Returned]
    plan_for: Callable[[int, int, int], Any] | None = None
    shapes: tuple[Shape, ...] | None = None
    words: str = ""
