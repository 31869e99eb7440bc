"""The text for the terminal: whole for one of each kind, consistent with the arithmetic for all."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from mxassay.layouts import (
    LAYOUTS,
    MFMA_16X16X128_A,
    MFMA_32X32X64_D,
    PACKING,
    SCALE_SHUFFLE,
    WEIGHT_PRESHUFFLE,
    describe,
    explain,
)

DESCRIBED = Path(__file__).with_name("described")


def text(block):
    return dedent(block).strip("\n")


def test_explain_a_weight_byte():
    assert explain(WEIGHT_PRESHUFFLE, (2112, 3584), (18, 37)) == text("""
        WEIGHT_PRESHUFFLE of shape (2112, 3584): element n = 18, kb = 37
        byte offset 57893 (0xe225) of 7569408
        It holds the codes k = 74 and 75 of row 18, in a matrix with K = 7168.

        Coordinates
          n = 18   = 16·1 + 2         n1 = 1, n0 = 2
          kb = 37  = 32·1 + 16·0 + 5  k2 = 1, k1 = 0, k0 = 5

        Address
          n1      1 × 57344  = 57344  57344 = 16*KB  tile of 16 rows
          k2      1 × 512    = 512                   tile of 32 bytes (64 codes)
          k1      0 × 256    = 0                     half of the tile, 16 bytes (one MX block)
          n0      2 × 16     = 32                    row in tile
          k0      5 × 1      = 5                     byte in half
          offset  sum        = 57893
        """)


def test_explain_a_padding_byte_of_the_scales():
    assert explain(SCALE_SHUFFLE, (4, 16), (33, 9)) == text("""
        SCALE_SHUFFLE of shape (4, 16) padded to (256, 16): element r = 33, g = 9
        byte offset 836 (0x344) of 4096
        This is padding: it holds the fill, no data, and no result may depend on it.

        Coordinates
          r = 33  = 32·1 + 16·0 + 1  r2 = 1, r1 = 0, r0 = 1
          g = 9   = 8·1 + 4·0 + 1    g2 = 1, g1 = 0, g0 = 1

        Address
          r2      1 × 512  = 512  512 = 32*Gp  tile of 32 rows
          g2      1 × 256  = 256               tile of 8 blocks (256 codes)
          g0      1 × 64   = 64                block in half
          r0      1 × 4    = 4                 row in group
          g1      0 × 2    = 0                 half of the tile, 4 blocks (one MFMA along K)
          r1      0 × 1    = 0                 row group of 16 (one MFMA operand)
          offset  sum      = 836
        """)


def test_explain_a_nibble_in_a_matrix():
    assert explain(PACKING, (4, 512), (1, 9)) == text("""
        PACKING of shape (4, 512): element [0] = 1, k = 9
        byte offset 260 (0x104) of 1024, high nibble

        Coordinates
          k = 9  = 2·4 + 1  k1 = 4, k0 = 1

        Address
          plane   1 × 512  = 512    plane of the leading dimensions
          k1      4 × 2    = 8      packed byte
          k0      1 × 1    = 1      nibble in byte
          offset  sum      = 521
        """)


def test_explain_a_register():
    assert explain(MFMA_32X32X64_D, None, (13, 5)) == text("""
        MFMA_32X32X64_D of shape (32, 32): element i = 13, j = 5
        lane 37, vgpr 5

        Coordinates
          i = 13  = 8·1 + 4·1 + 1  i2 = 1, i1 = 1, i0 = 1
          j = 5   = 5              j = 5

        Address
          i1    1 × 32  = 32    half of the group
          j     5 × 1   = 5     column
          lane  sum     = 37
          i2    1 × 4   = 4     group of 8 rows
          i0    1 × 1   = 1     row in half
          vgpr  sum     = 5
        """)


def test_explain_says_which_nibble():
    lines = [explain(PACKING, (4, 8), (1, k)).splitlines()[1] for k in (6, 7)]
    assert lines == [f"byte offset 7 (0x7) of 16, {nibble} nibble" for nibble in ("low", "high")]


def test_explain_without_a_shape_takes_the_smallest_legal_one():
    assert explain(WEIGHT_PRESHUFFLE, None, (18, 37)) == explain(WEIGHT_PRESHUFFLE, (32, 64), (18, 37))
    assert explain(SCALE_SHUFFLE, None, (18, 9)) == explain(SCALE_SHUFFLE, (19, 10), (18, 9))
    assert explain(PACKING, None, (2, 7)) == explain(PACKING, (3, 8), (2, 7))


def test_sums_in_explanations_are_the_address(case):
    bound = case.bound
    step = max(1, bound.size // 97)
    for offset in range(0, bound.size, step):
        coords = bound.coords(offset)
        lines = explain(bound.layout, bound.shape, coords).splitlines()
        sums = {m[1]: int(m[2]) for line in lines if (m := re.match(r"\s+(\w+)\s+sum\s+= (\d+)$", line))}
        assert sums == ({"offset": offset} if bound.layout.space == "memory" else bound.place(coords))
        products = [tuple(map(int, m)) for line in lines for m in re.findall(r"(\d+) × (\d+)\s+= (\d+)", line)]
        assert all(digit * stride == product for digit, stride, product in products)
        assert sum(product for *_, product in products) == sum(sums.values())


@pytest.mark.parametrize("name", LAYOUTS)
def test_descriptions_word_by_word(name):
    """What was read over once, and what a reader sees change in a commit: `mxassay layout NAME` writes it anew."""
    assert describe(LAYOUTS[name]) + "\n" == (DESCRIBED / f"{name}.txt").read_text(encoding="utf-8")


def test_every_description_is_of_a_layout():
    assert {file.stem for file in DESCRIBED.iterdir()} == set(LAYOUTS)


def test_register_grids_show_lane_vgpr_and_nibble():
    lines = describe(MFMA_16X16X128_A).splitlines()
    start = lines.index("One tile, 16 x 128: each cell is lane.vgpr.nibble")
    assert re.sub(r"\s+", " ", lines[start + 1]) == " k = 0 1 … 7 8 … 31 32 … 127"
    assert re.sub(r"\s+", " ", lines[start + 2]) == " m = 0 0.0.0 0.0.1 … 0.0.7 0.1.0 … 0.3.7 16.0.0 … 48.3.7"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_descriptions_fit_a_terminal_and_say_everything(layout):
    described = describe(layout)
    assert max(map(len, described.splitlines())) <= 100
    for part in (layout.formula().replace("; ", "\n  "), layout.inverse_formula().replace("; ", "\n  ")):
        assert part in described
    flowing = " ".join(described.split())
    for said in (layout.purpose, layout.element, layout.source, *layout.aliases, *layout.notes):
        assert " ".join(said.split()) in flowing
    for axis in layout.axes:
        assert axis.meaning in described
        assert all(factor.meaning and factor.meaning in described for factor in axis.factors)
