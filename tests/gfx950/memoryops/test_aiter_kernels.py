"""AMD's prebuilt a4w4 kernels, run from their code objects, against the reference: bit for bit.

MXASSAY_AITER names an aiter checkout; without it nothing here runs.
"""

import os
from pathlib import Path

import pytest
import torch

from mxassay.gfx950.faults import MemoryFault
from mxassay.hosting.prebuilt import run_a4w4, takes_preshuffled_weights, tile_of
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import matmul, quantize

CHECKOUT = os.environ.get("MXASSAY_AITER", "")
FILES = sorted(Path(CHECKOUT, "hsa/gfx950/f4gemm").glob("*.co")) if CHECKOUT else []
pytestmark = pytest.mark.skipif(not FILES, reason="MXASSAY_AITER names no aiter checkout with hsa/gfx950/f4gemm")
KERNELS = [pytest.param(path, id=path.stem.removeprefix("f4gemm_bf16_per1x32Fp4_")) for path in FILES]
# Their stores are not masked along N: columns past it run into the next row. aiter's host knows it of 128x512.
WHOLE_TILES = {"128x512", "192x256", "224x256", "256x256"}
SPLITTING = {"128x512", "256x256"}


def operands(m, n, k, seed):
    generator = torch.Generator().manual_seed(seed)
    ramp = torch.randint(-3, 4, (m, k // 32, 1), generator=generator)
    a = torch.ldexp(torch.randn(m, k // 32, 32, generator=generator), ramp).reshape(m, k)
    return quantize(a.bfloat16()), quantize(torch.randn(n, k, generator=generator).bfloat16())


def run(path, a, b, **options):
    weights = WEIGHT_PRESHUFFLE.apply(b.packed) if takes_preshuffled_weights(path) else b.packed
    scales = [SCALE_SHUFFLE.apply(x.scales, fill=255) for x in (a, b)]  # NaN where nothing may be read
    return run_a4w4(path, a.packed, scales[0], weights, scales[1], **options)


def tile_name(path):
    return "{}x{}".format(*tile_of(path))


def preshuffled(path):
    if not takes_preshuffled_weights(path):
        pytest.skip("takes plain weights")


def bits(x):
    return x.contiguous().view(torch.int16)


@pytest.mark.parametrize("path", KERNELS)
def test_whole_tiles(path):
    tile_m, tile_n = tile_of(path)
    a, b = operands(tile_m, 2 * tile_n if tile_n < 512 else tile_n, 768, 1)
    assert torch.equal(bits(run(path, a, b)), bits(matmul(*a, *b)))


@pytest.mark.parametrize("path", KERNELS)
def test_rows_past_a_tile(path):
    preshuffled(path)
    tile_m, tile_n = tile_of(path)
    k = 768 if tile_name(path) == "256x256" else 256  # see the last test
    for m in (3, tile_m + 5):
        a, b = operands(m, tile_n, k, m)
        assert torch.equal(bits(run(path, a, b)), bits(matmul(*a, *b)))


@pytest.mark.parametrize("path", KERNELS)
def test_columns_past_a_tile(path):
    preshuffled(path)
    if tile_name(path) in WHOLE_TILES:
        pytest.skip("stores whole tiles along N")
    tile_m, tile_n = tile_of(path)
    a, b = operands(tile_m - 3, tile_n + 32, 512, 4)
    assert torch.equal(bits(run(path, a, b)), bits(matmul(*a, *b)))


@pytest.mark.parametrize(("k", "log2_k_split"), [(1024, 1), (2048, 2), (2304, 2)])
@pytest.mark.parametrize("path", KERNELS)
def test_splits_are_added_in_bfloat16(path, k, log2_k_split):
    preshuffled(path)
    if tile_name(path) not in SPLITTING:
        pytest.skip("does not split K")
    tile_m, tile_n = tile_of(path)
    a, b = operands(tile_m + 3, tile_n, k, 5)
    out = run(path, a, b, log2_k_split=log2_k_split)
    span = -(-(k >> log2_k_split) // 256) * 256
    want = torch.zeros(tile_m + 3, tile_n, dtype=torch.bfloat16)
    for start in range(0, k, span):
        packed, scales = slice(start // 2, (start + span) // 2), slice(start // 32, (start + span) // 32)
        parts = [part[:, cut].contiguous() for x in (a, b) for part, cut in ((x.packed, packed), (x.scales, scales))]
        want = want + matmul(*parts)  # one atomic add a split, in the order of the grid
    assert torch.equal(bits(out), bits(want))


@pytest.mark.parametrize("path", [param for param, path in zip(KERNELS, FILES, strict=True) if "noBpre" in path.name])
def test_the_plain_kernel_reaches_past_an_output_that_is_not_padded_to_its_tile(path):
    a, b = operands(100, 256, 1024, 6)
    with pytest.raises(MemoryFault, match=r"past the end of (A|D) of"):
        run(path, a, b)


@pytest.mark.parametrize("path", [param for param, path in zip(KERNELS, FILES, strict=True) if "_256x256" in path.stem])
def test_the_largest_tile_reads_past_a_very_small_operand(path):
    """It takes each K step's bytes off NUM_RECORDS of A and its scales. The look-ahead of one step of K with few rows
    takes more than there is, NUM_RECORDS wraps around, and nothing is out of range any more."""
    a, b = operands(1, 256, 256, 7)
    with pytest.raises(MemoryFault, match=r"past the end of (A|B) of"):
        run(path, a, b)
