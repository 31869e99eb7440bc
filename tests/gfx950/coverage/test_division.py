"""Division as LLVM builds it from V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP: correctly rounded for any operands.

The three steps' readings that AMD's pseudocode leaves open are held by this: a wrong one rounds some quotient wrongly.
"""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from mxassay.gfx950 import emulated

EDGES = {
    torch.float32: (
        0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0xBFFFFF, 0x1000000, 0x33800000, 0x3F000000, 0x3F7FFFFF, 0x3F800000,
        0x3F800001, 0x3FFFFFFF, 0x40000000, 0x7E7FFFFF, 0x7E800000, 0x7EFFFFFF, 0x7F000000, 0x7F7FFFFF, 0x7F800000,
        0x7FC00000, 0x4B000000, 0x1A000000, 0x65000000,
    ),
    torch.float64: (
        0, 1, 2, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x10000000000001, 0x3FEFFFFFFFFFFFFF, 0x3FF0000000000000,
        0x3FF0000000000001, 0x3FFFFFFFFFFFFFFF, 0x7FD0000000000000, 0x7FE0000000000000, 0x7FEFFFFFFFFFFFFF,
        0x7FF0000000000000, 0x7FF8000000000000, 0x3CA0000000000000, 0x0350000000000000, 0x7000000000000000,
    ),
}  # fmt: skip
FORMATS = {torch.float32: (np.uint32, np.float32), torch.float64: (np.uint64, np.float64)}


@triton.jit
def divide(x, y, out, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, tl.div_rn(a, b) if PRECISE else a / b)


def operands(dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of edges with all signs, then random bits and random neighbours of 1; a multiple of 1,024."""
    bits, floats = FORMATS[dtype]
    width = 8 * bits().itemsize
    edges = np.array(EDGES[dtype], bits)
    edges = np.concatenate([edges, edges | bits(1 << width - 1)])
    rng = np.random.default_rng(7)
    a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
    count = 16384 - len(a) % 1024
    wild = [rng.integers(0, 1 << width, count // 2, dtype=bits, endpoint=False) for _ in "ab"]
    tame = [rng.uniform(0.5, 2, count - count // 2).astype(floats).view(bits) for _ in "ab"]
    return tuple(np.concatenate(parts).view(floats) for parts in zip((a, b), wild, tame, strict=True))


@pytest.mark.parametrize("flush", [False, True], ids=["denormals kept", "denormals flushed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_quotients_are_correctly_rounded(dtype, flush):
    bits, _ = FORMATS[dtype]
    a, b = operands(dtype)
    out = torch.zeros(len(a), dtype=dtype)
    with emulated():
        divide[(len(a) // 1024,)](
            torch.from_numpy(a.copy()), torch.from_numpy(b.copy()), out, PRECISE=dtype == torch.float32, BLOCK=1024,
            allow_flush_denorm=flush,
        )  # fmt: skip
    got = out.numpy()
    with np.errstate(all="ignore"):
        want = a / b
    ordinary = np.ones(len(a), bool)
    if flush and dtype == torch.float32:
        least = np.finfo(np.float32).smallest_normal
        with np.errstate(all="ignore"):
            ordinary = (np.abs(a) >= least) & (np.abs(b) >= least) & (np.abs(want) >= least) & ~np.isnan(want)
    same = (got.view(bits) == want.view(bits)) | np.isnan(got) & np.isnan(want) | ~ordinary
    first = int((~same).argmax())
    assert same.all(), f"{float(a[first]).hex()} / {float(b[first]).hex()} gave {float(got[first]).hex()}"
    assert ordinary.sum() > 5000
