"""Layouts: the declared permutations by themselves, and the maps that the kernel really follows."""

import json
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.layouts import LAYOUTS, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE, BoundLayout
from mxassay.layouts.golden import GOLDEN, vectors
from mxassay.properties.checks import assert_bijection, assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch, under_test
from mxassay.properties.probes import expected_scale_map, expected_weight_map, scale_map, weight_map
from mxassay.properties.strategies import launches, memory_layouts


def weight_offset(n: int, byte: int, k: int) -> int:
    """The (16, 16) preshuffle as aiter's shuffle_weight orders it, written out once more."""
    half = k // 2
    return n // 16 * 16 * half + byte // 32 * 512 + byte % 32 // 16 * 256 + n % 16 * 16 + byte % 16


def scale_offset(row: int, group: int, columns: int) -> int:
    """aiter's e8m0_shuffle, written out once more; `columns` is the padded count."""
    return (
        row // 32 * 32 * columns
        + group // 8 * 256
        + group % 4 * 64
        + row % 16 * 4
        + group % 8 // 4 * 2
        + row % 32 // 16
    )


@claim("layout-formula", examples=2)
@given(bound=memory_layouts(), data=st.data())
@example(bound=WEIGHT_PRESHUFFLE.bind((48, 96)), data=None)
@example(bound=SCALE_SHUFFLE.bind((33, 12)), data=None)
@example(bound=SCALE_SHUFFLE.bind((257, 9)), data=None)
def test_every_element_lies_where_the_formula_says(bound: BoundLayout, data: st.DataObject | None) -> None:
    width = bound.padded_shape[-1]
    rows, columns = torch.meshgrid(*(torch.arange(size) for size in bound.padded_shape[-2:]), indexing="ij")
    if bound.layout is WEIGHT_PRESHUFFLE:
        expected = torch.tensor([[weight_offset(n, b, 2 * width) for b in range(width)] for n in range(len(rows))])
    elif bound.layout is SCALE_SHUFFLE:
        expected = torch.tensor([[scale_offset(r, g, width) for g in range(width)] for r in range(len(rows))])
    else:
        expected = rows * width + columns
    assert_same_bits(bound.offsets(), expected, ("row", "column"), case=repr(bound))
    assert_moves(bound)


def assert_moves(bound: BoundLayout) -> None:
    """`apply` puts every element at its offset: numbers that fit into a byte, two digits of the coordinate's rank."""
    rank = torch.arange(bound.shape[0] * bound.shape[1]).reshape(bound.shape)
    offsets = bound.offsets()[: bound.shape[0], : bound.shape[1]]
    four_bits = bound.layout.element_bits == 4
    for digit in range(4 if four_bits else 2):
        values = (rank >> (4 * digit) & 15 if four_bits else rank >> (8 * digit) & 255).to(torch.uint8)
        moved = bound.apply(values).flatten()
        if four_bits:
            moved = torch.stack((moved & 15, moved >> 4), dim=1).flatten()
        assert_same_bits(moved[offsets], values, ("row", "column"), case=f"{bound!r}, digit {digit}")


@claim("layout-bijection", examples=2)
@given(bound=memory_layouts(), fill=st.sampled_from((0, 15, 127, 255)))
@example(bound=SCALE_SHUFFLE.bind((1, 1)), fill=255)
def test_no_byte_holds_two_elements(bound: BoundLayout, fill: int) -> None:
    fill &= (1 << bound.layout.element_bits) - 1
    assert_bijection(bound.offsets(), bound.size, repr(bound))
    generator = torch.Generator().manual_seed(bound.size)
    values = torch.randint(0, 1 << bound.layout.element_bits, bound.shape, generator=generator).to(torch.uint8)
    stored = bound.apply(values, fill=fill)
    assert_same_bits(bound.invert(stored), values, ("row", "column"), case=repr(bound))
    if bound.padded_shape != bound.shape:
        padding = torch.ones(bound.padded_shape, dtype=torch.bool)
        padding[: bound.shape[0], : bound.shape[1]] = False
        found = stored.flatten()[bound.offsets()[padding]]
        assert_same_bits(found, torch.full_like(found, fill), ("padding byte",), case=repr(bound))
    for offset in range(0, bound.size, max(1, bound.size // 64)):
        if bound.offset(bound.coords(offset)) != offset:
            raise violation(f"the coordinates of offset {offset} must lead back to it", case=repr(bound))


@claim("layout-golden")
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_golden_vectors(name: str) -> None:
    kept = json.loads(GOLDEN.read_text())["layouts"][name]
    found = computed_vectors()["layouts"][name]
    for key, expected in kept.items():
        if found.get(key) != expected:
            raise violation(f"{key} of {name} must be what golden.json keeps, not {found.get(key)}")


@cache
def computed_vectors() -> dict[str, Any]:
    """The golden vectors as the formula gives them now, as JSON would hold them."""
    return json.loads(json.dumps(vectors()))  # type: ignore[no-any-return]


@claim("weight-map", examples=0.5, seconds=5)
@given(launch=launches(entries=True), tiles=st.sampled_from((2, 3, 1, 5)), k=st.sampled_from((320, 64, 576, 192)))
def test_the_weights_that_the_kernel_reads(mx_kernel: KernelUnderTest, launch: Launch, tiles: int, k: int) -> None:
    n, k = fitted(16 * tiles, k)
    ks = torch.arange(k) if k <= 320 else torch.arange(0, k, 2) + torch.arange(k // 2) // 16 % 2
    if mx_kernel.slow:
        ks = ks[::5]  # of every block some, at all places
    found = weight_map(mx_kernel, n, ks, k, launch)
    expected = expected_weight_map(n, ks, k)
    wrong = (found != expected).nonzero()
    if len(wrong):
        i, column = (int(x) for x in wrong[0])
        raise violation(
            f"{len(wrong)} of {found.numel()} codes; first W[{column}, {int(ks[i])}]: read from "
            f"{place(found[i, column])}, but the preshuffle keeps it in {place(expected[i, column])}",
            case=f"N={n} K={k}, {launch!r}",
        )


def place(address: torch.Tensor) -> str:
    """A nibble address in words."""
    if address < 0:
        return "several places, or none"
    return f"byte {int(address) // 2}, {'high' if int(address) % 2 else 'low'} nibble"


@claim("scale-map", examples=0.5)
@given(launch=launches(entries=True), tiles=st.sampled_from((3, 1, 5, 17)), k=st.sampled_from((320, 64, 576, 1088)))
def test_the_scales_that_the_kernel_reads(mx_kernel: KernelUnderTest, launch: Launch, tiles: int, k: int) -> None:
    n, k = fitted(16 * tiles, k)
    found, expected = scale_map(mx_kernel, n, k, launch), expected_scale_map(n, k)
    wrong = (found != expected).nonzero()
    if len(wrong):
        group, column = (int(x) for x in wrong[0])
        read = int(found[group, column])
        raise violation(
            f"{len(wrong)} of {found.numel()} scales; first that of W[{column}, {32 * group}:{32 * group + 32}]: read "
            f"from {f'byte {read}' if read >= 0 else 'several places, or none'}, but the scale shuffle keeps it in "
            f"byte {int(expected[group, column])}",
            case=f"N={n} K={k}, {launch!r}",
        )


def fitted(n: int, k: int) -> tuple[int, int]:
    """N and K, rounded up to what the kernel takes."""
    _, n, k = under_test().contract.fitted((1, n, k))
    return n, k
