"""The text of the formulas: exact, and true when evaluated."""

import itertools

import pytest

from mxassay.layouts import LAYOUTS, PACKING, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE

REPR = {
    "PACKING": "PACKING: k = 2·k1 + k0 -> byte[k1] nibble[k0]",
    "WEIGHT_PRESHUFFLE": ("WEIGHT_PRESHUFFLE: n = 16·n1 + n0, kb = 32·k2 + 16·k1 + k0 -> offset[n1, k2, k1, n0, k0]"),
    "SCALE_SHUFFLE": (
        "SCALE_SHUFFLE: r = 32·r2 + 16·r1 + r0 padded to 256, g = 8·g2 + 4·g1 + g0 padded to 8"
        " -> offset[r2, g2, g0, r0, g1, r1]"
    ),
    "MFMA_16X16X128_A": "MFMA_16X16X128_A: m, k = 32·k2 + 8·k1 + k0 -> lane[k2, m] vgpr[k1] nibble[k0]",
    "MFMA_16X16X128_B": "MFMA_16X16X128_B: n, k = 32·k2 + 8·k1 + k0 -> lane[k2, n] vgpr[k1] nibble[k0]",
    "MFMA_16X16X128_SCALE": "MFMA_16X16X128_SCALE: row, block -> lane[block, row]",
    "MFMA_16X16X128_D": "MFMA_16X16X128_D: i = 4·i1 + i0, j -> lane[i1, j] vgpr[i0]",
    "MFMA_32X32X64_A": "MFMA_32X32X64_A: m, k = 32·k2 + 8·k1 + k0 -> lane[k2, m] vgpr[k1] nibble[k0]",
    "MFMA_32X32X64_B": "MFMA_32X32X64_B: n, k = 32·k2 + 8·k1 + k0 -> lane[k2, n] vgpr[k1] nibble[k0]",
    "MFMA_32X32X64_SCALE": "MFMA_32X32X64_SCALE: row, block -> lane[block, row]",
    "MFMA_32X32X64_D": "MFMA_32X32X64_D: i = 8·i2 + 4·i1 + i0, j -> lane[i1, j] vgpr[i2, i0]",
}
FORMULA = {
    "PACKING": "(k//2)*2 + k%2",
    "WEIGHT_PRESHUFFLE": "(n//16)*16*KB + (kb//32)*512 + ((kb%32)//16)*256 + (n%16)*16 + kb%16",
    "SCALE_SHUFFLE": "(r//32)*32*Gp + (g//8)*256 + (g%4)*64 + (r%16)*4 + ((g%8)//4)*2 + (r%32)//16",
    "MFMA_16X16X128_A": "lane = (k//32)*16 + m; vgpr = (k%32)//8; nibble = k%8",
    "MFMA_16X16X128_B": "lane = (k//32)*16 + n; vgpr = (k%32)//8; nibble = k%8",
    "MFMA_16X16X128_SCALE": "lane = block*16 + row",
    "MFMA_16X16X128_D": "lane = (i//4)*16 + j; vgpr = i%4",
    "MFMA_32X32X64_A": "lane = (k//32)*32 + m; vgpr = (k%32)//8; nibble = k%8",
    "MFMA_32X32X64_B": "lane = (k//32)*32 + n; vgpr = (k%32)//8; nibble = k%8",
    "MFMA_32X32X64_SCALE": "lane = block*32 + row",
    "MFMA_32X32X64_D": "lane = ((i%8)//4)*32 + j; vgpr = (i//8)*4 + i%4",
}
INVERSE = {
    "WEIGHT_PRESHUFFLE": (
        "n = (offset//(16*KB))*16 + (offset//16)%16; "
        "kb = ((offset//512)%(KB//32))*32 + ((offset//256)%2)*16 + offset%16"
    ),
    "SCALE_SHUFFLE": (
        "r = (offset//(32*Gp))*32 + (offset%2)*16 + (offset//4)%16; "
        "g = ((offset//256)%(Gp//8))*8 + ((offset//2)%2)*4 + (offset//64)%4"
    ),
    "MFMA_32X32X64_D": "i = (vgpr//4)*8 + (lane//32)*4 + vgpr%4; j = lane%32",
}


def test_repr():
    assert {name: repr(layout) for name, layout in LAYOUTS.items()} == REPR


def test_formula():
    assert {name: layout.formula() for name, layout in LAYOUTS.items()} == FORMULA


def test_inverse_formula():
    assert {name: LAYOUTS[name].inverse_formula() for name in INVERSE} == INVERSE


def test_bound_repr():
    assert repr(WEIGHT_PRESHUFFLE.bind((2112, 3584))) == "WEIGHT_PRESHUFFLE of shape (2112, 3584)"
    assert repr(SCALE_SHUFFLE.bind((4, 16))) == "SCALE_SHUFFLE of shape (4, 16) padded to (256, 16)"


def test_formula_and_inverse_are_true_everywhere(case):
    bound, layout = case.bound, case.bound.layout
    if len(case.shape) != len(layout.axes):
        bound = layout.bind(case.shape[len(case.shape) - len(layout.axes) :])
    symbols = {axis.symbol: extent for axis, extent in zip(layout.axes, bound.padded_shape, strict=True)}
    whole = compile(layout.formula(), "formula", "eval" if layout.space == "memory" else "exec")
    inverse = compile(layout.inverse_formula(), "inverse", "exec")
    for coords in itertools.product(*map(range, bound.padded_shape)):
        scope = symbols | {axis.name: coord for axis, coord in zip(layout.axes, coords, strict=True)}
        if layout.space == "memory":
            address = {"offset": eval(whole, {}, scope)}
            assert address["offset"] == bound.offset(coords)
        else:
            exec(whole, {}, scope)
            address = {place.name: scope[place.name] for place in layout.places}
            assert address == bound.place(coords)
        found = symbols | address
        exec(inverse, {}, found)
        assert tuple(found[axis.name] for axis in layout.axes) == coords


@pytest.mark.parametrize(("place", "text"), [("byte", "k//2"), ("nibble", "k%2")])
def test_formula_of_one_place(place, text):
    assert PACKING.formula(place) == text
