"""`aiter.ops.gemm_op_a4w4` on the emulated card: the same functions, served by the checkout's prebuilt code objects.

Source: aiter, aiter/ops/gemm_op_a4w4.py.
"""

import functools
import types
import warnings
from pathlib import Path
from typing import Any

import torch

from mxassay.errors import UnsupportedError
from mxassay.hosting.aiter_compiled import needs_compiler
from mxassay.hosting.prebuilt import ROW_PADDING, run_a4w4
from mxassay.hosting.prebuilt_choice import FOLDER, PrebuiltKernels, padded_m

MODULE = "aiter.ops.gemm_op_a4w4"


class ServedByPrebuilt(UserWarning):
    """aiter would run a compiled kernel here; a prebuilt one computes the same product in its place."""


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


class GemmA4W4:
    """The functions of aiter's module for one checkout."""

    def __init__(self, checkout: Path) -> None:
        self.kernels = PrebuiltKernels(checkout)
        self.get_GEMM_config = functools.lru_cache(maxsize=1024)(self._config)
        # Programs add tuned rows of their own here, then call `cache_clear`.
        self.get_GEMM_config.gemm_dict = self.kernels.tuned  # type: ignore[attr-defined]
        self.get_GEMM_config.has_gfx = True  # type: ignore[attr-defined]

    def _config(self, M: int, N: int, K: int) -> dict[str, Any] | None:
        """The row of the checkout's tuning tables for a shape, as a dictionary of its columns, or None."""
        return self.kernels.tuned_row(M, N, K)

    def gemm_a4w4(
        self,
        A: torch.Tensor,
        B: torch.Tensor,
        A_scale: torch.Tensor,
        B_scale: torch.Tensor,
        bias: torch.Tensor | None = None,
        dtype: torch.dtype = torch.bfloat16,
        alpha: float | None = 1.0,
        beta: float | None = 0.0,
        bpreshuffle: bool | None = True,
        apreshuffle: bool | None = False,
        global_A_scale: torch.Tensor | None = None,
        global_B_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Multiply packed MXFP4 by packed MXFP4: A (..., K/2), B (N, K/2), scales e8m0-shuffled; out (..., N) bf16.

        The kernel is the tuned one of the checkout's tables, or the best tile. Where the table names a compiled (CK)
        kernel, a prebuilt one runs in its place and a `ServedByPrebuilt` warning says so.

        Raises:
            UnsupportedError: another dtype, a preshuffled A, or NVFP4 scales: no prebuilt gfx950 kernel does that.
        """
        if dtype != torch.bfloat16 or apreshuffle or global_A_scale is not None or global_B_scale is not None:
            raise UnsupportedError(
                "aiter.gemm_a4w4 on gfx950 must give bfloat16 from MXFP4 with A in plain rows, not "
                f"dtype={dtype}, apreshuffle={apreshuffle}, global scales; use the Triton kernels for other forms"
            )
        n, half_k = B.shape[0], A.shape[-1]
        m, k = A.numel() // half_k, 2 * half_k
        row = self.get_GEMM_config(m, n, k)
        split = row["splitK"] if row else 0
        name = row["kernelName"] if row else ""
        if name and name not in self.kernels.kernels:
            warnings.warn(
                f"aiter's table names {name} for {m},{n},{k}, which takes a HIP compiler; a prebuilt one runs instead",
                ServedByPrebuilt,
                stacklevel=2,
            )
            name, split = "", 0
        out = torch.empty((-(-m // ROW_PADDING) * ROW_PADDING, n), dtype=dtype, device=A.device)
        rows = A.reshape(m, half_k)
        self.gemm_a4w4_asm(rows, B, A_scale, B_scale, out, name, bias, alpha, beta, bpreshuffle, split)
        return out[:m].view(*A.shape[:-1], n)

    def gemm_a4w4_asm(
        self,
        A: torch.Tensor,
        B: torch.Tensor,
        A_scale: torch.Tensor,
        B_scale: torch.Tensor,
        out: torch.Tensor,
        kernelName: str = "",
        bias: torch.Tensor | None = None,
        alpha: float | None = 1.0,
        beta: float | None = 0.0,
        bpreshuffle: bool | None = True,
        log2_k_split: int | None = None,
    ) -> torch.Tensor:
        """Run one prebuilt kernel into `out`, whose rows are padded to 32. Without a name the best tile is taken.

        Raises:
            UnsupportedError: a name that the checkout's list lacks.
        """
        m, n, k = A.shape[0], B.shape[0], 2 * A.shape[1]
        split = log2_k_split or 0
        if kernelName:
            kernel = self.kernels.by_name(kernelName)
            split = split if kernel.splits_k else 0
        else:
            choice = self.kernels.best_tile(m, n, k, preshuffled=bpreshuffle is not False, log2_k_split=split)
            kernel, split = choice.kernel, choice.log2_k_split
        run_a4w4(
            kernel.path,
            _bytes(A),
            _bytes(A_scale),
            _bytes(B),
            _bytes(B_scale),
            tile=kernel.tile,
            log2_k_split=split,
            out=out,
            bias=bias,
            alpha=1.0 if alpha is None else alpha,
            beta=0.0 if beta is None else beta,
        )
        return out

    @staticmethod
    def compute_gemm_SplitK(  # noqa: N802 - aiter's name
        M: int, N: int, K: int, tile_m: int, tile_n: int, tile_k: int
    ) -> int:
        """aiter's constant answer."""
        return 3


_REFUSED = {
    "gemm_a4w4_blockscale": "module_gemm_a4w4_blockscale",
    "gemm_a4w4_blockscale_tune": "module_gemm_a4w4_blockscale_tune",
    "gemm_mxfp4_asm": "module_f4gemm_asm (gfx1250)",
    "gemm_nvfp4_asm": "module_f4gemm_asm (gfx1250)",
    "gemm_a4w4o4": "module_f4gemm_asm (gfx1250)",
    "gemm_a4w4o8": "module_f4gemm_asm (gfx1250)",
}


def make_module(checkout: Path) -> types.ModuleType:
    """The module that takes the place of the checkout's.

    Raises:
        UnsupportedError: the checkout has no code objects for gfx950.
    """
    served = GemmA4W4(checkout)
    module = types.ModuleType(MODULE, __doc__)
    module.__file__ = str(checkout / FOLDER)
    module.__dict__.update(
        gemm_a4w4=served.gemm_a4w4,
        gemm_a4w4_asm=served.gemm_a4w4_asm,
        get_GEMM_config=served.get_GEMM_config,
        get_padded_m=padded_m,
        compute_gemm_SplitK=served.compute_gemm_SplitK,
    )
    for name, compiled in _REFUSED.items():
        module.__dict__[name] = _refuse(name, compiled)
    return module


def _refuse(name: str, compiled: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise needs_compiler(f"aiter.{name}", compiled)

    return refuse
