"""Which launches the kernels for Hopper take, and with which tiles."""

from dataclasses import dataclass

import torch
import triton

from mxassay.optimized.device import Target, launching

_ARCHITECTURE = "90"  # compute capability 9.0: wgmma is in no other
_MOST_TOKENS = 64  # of a shape without tiles of its own
_GRID_Y = 65535  # CUDA: the largest second and third size of a grid
_GROUP = 64  # k of a warp's step
_QUANTIZED = 256  # k that a CTA quantizes
_COLUMNS = 128  # of a CTA that sums splits
_REGISTERS = 1 << 16  # of an SM, where two CTAs are to find room


@dataclass(frozen=True)
class Skinny:
    """Tiles of `skinny_gemm_kernel`: a warp takes 64 k a step."""

    tokens: int
    rows: int
    steps: int = 1
    warps: int = 8

    def splits(self, k: int) -> int:
        """How often K is split."""
        return -(-k // (_GROUP * self.warps * self.steps))


@dataclass(frozen=True)
class Wide:
    """Tiles of `wide_gemm_kernel`: a split takes 512 k for each of `quads`."""

    tokens: int
    rows: int
    quads: int
    stages: int = 4
    warps: int = 4


# Timed on an H200 (`mxassay bench gpu`).
_TABLE: dict[tuple[int, int, int], Skinny | Wide] = {
    (4, 2880, 512): Skinny(8, 32),
    (16, 2112, 7168): Skinny(16, 64, steps=2),
    (32, 4096, 512): Skinny(16, 64),
    (32, 2880, 512): Skinny(16, 64),
    (64, 7168, 2048): Wide(64, 64, quads=4),
    (256, 3072, 1536): Wide(128, 64, quads=3),
    (8, 2112, 7168): Skinny(8, 64, steps=2),
    (16, 3072, 1536): Skinny(16, 64),
    (64, 3072, 1536): Wide(64, 64, quads=3),
    (256, 2880, 512): Wide(64, 64, quads=1),
}


def tiles_for(m: int, n: int, k: int) -> Skinny | Wide | None:
    """The tiles of a shape: from the table, else by rule; None for shapes of many tokens, which fill a GPU anyway.

    >>> tiles_for(40, 128, 1024), tiles_for(40, 128, 1088)
    (Wide(tokens=64, rows=64, quads=2, stages=4, warps=4), Skinny(tokens=16, rows=32, steps=1, warps=8))
    """
    if found := _TABLE.get((m, n, k)):
        return found
    if m > _MOST_TOKENS:
        return None
    if m > 32 and n % 64 == 0 and k % 512 == 0:
        return Wide(64, 64, quads=next(quads for quads in (4, 3, 2, 1) if k // 512 % quads == 0))
    return Skinny(8 if m <= 8 else 16, 32, steps=2 if k > 4096 else 1)


def launch_on_hopper(
    a: torch.Tensor,
    weights: torch.Tensor,
    scales: torch.Tensor,
    out: torch.Tensor,
    target: Target,
) -> bool:
    """Write A @ W.T to `out` (M, N), from preshuffled weights and shuffled scales. False, and nothing done, where the
    GPU is no Hopper, the shape has no tiles, or a tensor lies where 16 bytes or 32-bit offsets do not reach."""
    (m, k), n = a.shape, weights.shape[0]
    tiles = tiles_for(m, n, k)
    if target.arch != _ARCHITECTURE or tiles is None or not _reachable(a, weights, scales, out):
        return False
    splits = tiles.splits(k) if isinstance(tiles, Skinny) else k // (512 * tiles.quads)
    if max(splits, triton.cdiv(m, 8)) > _GRID_Y:
        return False
    partials = out[None]
    if splits > 1:
        partials = torch.empty((splits, m, n), dtype=torch.float32, device=a.device)
    with launching(target, a):
        if isinstance(tiles, Skinny):
            _launch_skinny(a, weights, scales, partials, tiles, splits)
        else:
            _launch_wide(a, weights, scales, partials, tiles, splits)
        if splits > 1:
            _sum(partials, out)
    return True


def _reachable(*tensors: torch.Tensor) -> bool:
    """Whether activations (the first) lie in rows of whole 16 bytes, all but the output (the last) start at 16 bytes,
    and every element is in reach of 32 bits."""
    a, *_, out = tensors
    rows = a.stride(1) == 1 and a.stride(0) > 0 and a.stride(0) % 8 == 0
    starts = not any(tensor.data_ptr() % 16 for tensor in tensors if tensor is not out)
    (m, k), n = a.shape, out.shape[1]
    largest = max(m * a.stride(0), m * out.stride(0), m * n, m * k, *(tensor.numel() for tensor in tensors))
    return rows and starts and largest < 1 << 31


def _launch_skinny(
    a: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, partials: torch.Tensor, tiles: Skinny, splits: int
) -> None:
    from mxassay.optimized.hopper.skinny_gemm import skinny_gemm_kernel

    (m, k), n = a.shape, weights.shape[0]
    skinny_gemm_kernel[(triton.cdiv(n, tiles.rows), splits, triton.cdiv(m, tiles.tokens))](
        a,
        weights.view(torch.int32),
        scales.view(torch.int16),
        partials,
        m,
        n,
        k,
        a.stride(0),
        partials.stride(1),
        partials.stride(0),
        TOKENS=tiles.tokens,
        ROWS=tiles.rows,
        STEPS=tiles.steps,
        WARPS=tiles.warps,
        SPLITS=splits,
        EVEN_M=m % tiles.tokens == 0,
        EVEN_N=n % tiles.rows == 0,
        EVEN_K=k == splits * _GROUP * tiles.warps * tiles.steps,
        num_warps=tiles.warps,
        maxnreg=_REGISTERS // (2 * 32 * tiles.warps),
    )


def _launch_wide(
    a: torch.Tensor, weights: torch.Tensor, scales: torch.Tensor, partials: torch.Tensor, tiles: Wide, splits: int
) -> None:
    from mxassay.optimized.hopper.wide_gemm import descriptors, quantize_kernel, wide_gemm_kernel

    (m, k), n = a.shape, weights.shape[0]
    quantized = torch.empty((m, k), dtype=torch.bfloat16, device=a.device)
    quantize_kernel[(triton.cdiv(k, _QUANTIZED), triton.cdiv(m, 8))](
        a, quantized, m, k, a.stride(0), WARPS=2, num_warps=2
    )
    wide_gemm_kernel[(n // tiles.rows, splits, triton.cdiv(m, tiles.tokens))](
        *descriptors(quantized, weights, scales, tiles.tokens, tiles.rows),
        partials,
        m,
        partials.stride(1),
        partials.stride(0),
        TOKENS=tiles.tokens,
        ROWS=tiles.rows,
        QUADS=tiles.quads,
        STAGES=tiles.stages,
        WARPS=tiles.warps,
        SPLITS=splits,
        num_warps=tiles.warps,
        launch_pdl=True,
    )


def _sum(partials: torch.Tensor, out: torch.Tensor) -> None:
    from mxassay.optimized.hopper.skinny_gemm import sum_splits_kernel

    splits, m, n = partials.shape
    sum_splits_kernel[(triton.cdiv(n, _COLUMNS), m)](
        partials,
        out,
        n,
        partials.stride(0),
        out.stride(0),
        SPLITS=splits,
        COLUMNS=_COLUMNS,
        num_warps=_COLUMNS // 32,
        launch_pdl=True,
    )
