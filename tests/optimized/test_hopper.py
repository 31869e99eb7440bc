"""What can be said of the kernels for Hopper without one: tables, tiles, and which launches they take."""

import os
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.optimized import LEADERBOARD, TEST_SHAPES
from mxassay.optimized.device import Target
from mxassay.optimized.hopper import launch_on_hopper, launches
from mxassay.optimized.hopper.launches import Skinny, Wide, tiles_for
from mxassay.reference.formats import E2M1

HOPPER = Target("cuda", "90", None)
SHARED = 227 * 1024  # bytes of a CTA, CUDA C++ Programming Guide, compute capability 9.0


def prmt(low, high, selector):
    """PTX `prmt.b32` in its generic mode."""
    table = [(low | high << 32) >> 8 * i & 0xFF for i in range(8)]
    found = 0
    for i in range(4):
        byte = table[selector >> 4 * i & 7]
        found |= (0xFF * (byte >> 7) if selector >> 4 * i & 8 else byte) << 8 * i
    return found


def test_the_byte_tables_widen_every_code():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Gluon has no interpreter")
    from mxassay.optimized.hopper import numbers

    lines = re.findall(r"prmt\.b32 ([pq]), (\$\d), (0x\w+)", numbers._WIDEN.value)
    assert len(lines) == 4
    assert lines[:2] == lines[2:]
    low_halves = {"$7": numbers._P_TABLE.value, "$8": numbers._Q_TABLE.value}
    tables = {name: (low_halves[low], int(high, 16)) for name, low, high in lines}
    assert numbers._HIGH_BYTES.value == 0x41414141
    for codes in range(1 << 16):
        if codes & 0xFFF and codes % 251:
            continue
        p, q = prmt(*tables["p"], codes), prmt(*tables["q"], codes & 0x7777)
        d = 2 * p + q
        for i in range(4):
            bits = 0x4100 | d >> 8 * i & 0xFF
            value = torch.tensor(bits, dtype=torch.int16).view(torch.bfloat16).item()
            assert value == 22 + E2M1.values[codes >> 4 * i & 15]


def test_the_contest_shapes_have_tiles_of_their_own():
    assert set(launches._TABLE) == {*LEADERBOARD, *TEST_SHAPES}


@given(
    m=st.integers(1, 300),
    n=st.integers(1, 300).map(lambda stripes: 16 * stripes),
    k=st.integers(1, 300).map(lambda tiles: 64 * tiles) | st.integers(1, 20).map(lambda quads: 512 * quads),
)
def test_tiles_fit_their_shape(m, n, k):
    check_tiles(tiles_for(m, n, k), m, n, k)


@pytest.mark.parametrize("shape", [*LEADERBOARD, *TEST_SHAPES], ids=str)
def test_tiles_of_the_table_fit(shape):
    check_tiles(tiles_for(*shape), *shape)


def check_tiles(tiles, m, n, k):
    if tiles is None:
        assert m > 64
        return
    if isinstance(tiles, Skinny):
        assert 64 * tiles.warps * tiles.steps * tiles.splits(k) >= k
        assert tiles.rows in (32, 64)  # scales come for 32 rows at once, and the table's rows are padded to 256
        return
    assert isinstance(tiles, Wide)
    assert n % tiles.rows == 0
    assert k % (512 * tiles.quads) == 0
    assert tiles.rows == 16 * tiles.warps
    assert tiles.stages & (tiles.stages - 1) == 0
    activations, codes = tiles.stages * tiles.tokens * 256, tiles.quads * tiles.rows * (256 + 16)
    assert activations + codes + 1024 < SHARED


@pytest.mark.parametrize("why", ["another GPU", "columns apart", "odd start", "odd pitch", "many tokens"])
def test_what_does_not_fit_is_left_to_the_usual_kernel(why):
    m = 65 if why == "many tokens" else 8
    a = torch.zeros(m, 256, dtype=torch.bfloat16)
    if why == "columns apart":
        a = a.t().contiguous().t()
    if why == "odd start":
        a = torch.zeros(m, 264, dtype=torch.bfloat16)[:, 1:257]
    if why == "odd pitch":
        a = torch.zeros(m, 260, dtype=torch.bfloat16)[:, :256]
    weights, scales = torch.zeros(16, 128, dtype=torch.uint8), torch.zeros(256, 8, dtype=torch.uint8)
    out = torch.full((m, 16), 7.0, dtype=torch.bfloat16)
    target = Target("cuda", "80", None) if why == "another GPU" else HOPPER
    assert not launch_on_hopper(a, weights, scales, out, target)
    assert out.eq(7).all()
