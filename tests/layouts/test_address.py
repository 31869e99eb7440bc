"""Addresses at every coordinate against the formulas written by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.layouts import LAYOUTS, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE


def test_every_layout_has_a_formula_by_hand(covered):
    assert covered == set(LAYOUTS)


def test_padded_shape_is_the_declared_one(case):
    assert case.bound.padded_shape == case.padded_shape
    assert case.bound.size == np.prod(case.padded_shape)


def test_vectorised_offsets_equal_the_hand_formula_everywhere(case):
    offsets = case.bound.offsets()
    assert tuple(offsets.shape) == case.padded_shape
    np.testing.assert_array_equal(offsets.numpy(), case.offsets())


def test_integer_offset_equals_the_hand_formula_everywhere(case):
    bound, expected = case.bound, case.offsets()
    got = [bound.offset(coords) for coords in itertools.product(*map(range, case.padded_shape))]
    assert got == expected.ravel().tolist()


def test_places_equal_the_hand_formula_everywhere(case):
    bound, expected = case.bound, case.numbers()
    for name, numbers in expected.items():
        np.testing.assert_array_equal(bound.offsets(name).numpy(), np.broadcast_to(numbers, case.padded_shape))
    flat = {name: np.broadcast_to(numbers, case.padded_shape).ravel().tolist() for name, numbers in expected.items()}
    for index, coords in enumerate(itertools.product(*map(range, case.padded_shape))):
        place = bound.place(coords)
        assert list(place.items()) == [(name, numbers[index]) for name, numbers in flat.items()]


def test_offsets_are_a_bijection_onto_the_storage(case):
    assert np.array_equal(np.sort(case.bound.offsets().numpy(), axis=None), np.arange(case.bound.size))


def test_coords_and_at_invert_the_hand_formula_everywhere(case):
    bound = case.bound
    flat = case.offsets().ravel()
    names = list(case.numbers())
    columns = [np.broadcast_to(numbers, case.padded_shape).ravel() for numbers in case.numbers().values()]
    for index, coords in enumerate(itertools.product(*map(range, case.padded_shape))):
        assert bound.coords(int(flat[index])) == coords
        assert bound.at(**{name: int(column[index]) for name, column in zip(names, columns, strict=True)}) == coords


def test_padding_is_what_lies_outside_the_shape(case):
    bound = case.bound
    inside = {coords for coords in itertools.product(*map(range, case.padded_shape)) if not bound.is_padding(coords)}
    assert inside == set(itertools.product(*map(range, case.shape)))


def test_stored_shapes():
    stored = {
        name: layout.bind(layout.fixed_shape).stored_shape for name, layout in LAYOUTS.items() if layout.fixed_shape
    }
    assert stored == {
        "MFMA_16X16X128_A": (64, 4, 4),
        "MFMA_16X16X128_B": (64, 4, 4),
        "MFMA_16X16X128_SCALE": (64,),
        "MFMA_16X16X128_D": (64, 4),
        "MFMA_32X32X64_A": (64, 4, 4),
        "MFMA_32X32X64_B": (64, 4, 4),
        "MFMA_32X32X64_SCALE": (64,),
        "MFMA_32X32X64_D": (64, 16),
    }
    assert LAYOUTS["PACKING"].bind((3, 8)).stored_shape == (3, 4)
    assert WEIGHT_PRESHUFFLE.bind((16, 64)).stored_shape == (16, 64)
    assert SCALE_SHUFFLE.bind((4, 3)).stored_shape == (256, 8)


@given(tiles=st.tuples(st.integers(1, 500), st.integers(1, 300)), data=st.data())
def test_weight_address_at_random_large_shapes(tiles, data):
    N, KB = tiles[0] * 16, tiles[1] * 32
    n = data.draw(st.integers(0, N - 1), label="n")
    kb = data.draw(st.integers(0, KB - 1), label="kb")
    tile, line = divmod(kb, 32)
    expected = sum((n // 16 * (16 * KB), tile * 512, 256 if line >= 16 else 0, n % 16 * 16, line % 16))
    bound = WEIGHT_PRESHUFFLE.bind((N, KB))
    assert bound.offset((n, kb)) == expected
    assert bound.coords(expected) == (n, kb)


@given(R=st.integers(1, 9000), G=st.integers(1, 700), data=st.data())
@example(R=1, G=1, data=None)
@example(R=256, G=8, data=None)
@example(R=257, G=9, data=None)
def test_scale_address_at_random_large_shapes(R, G, data):
    bound = SCALE_SHUFFLE.bind((R, G))
    Rp, Gp = bound.padded_shape
    assert Rp % 256 == Gp % 8 == 0
    assert R <= Rp < R + 256
    assert G <= Gp < G + 8
    r, g = (R - 1, G - 1) if data is None else data.draw(st.tuples(st.integers(0, Rp - 1), st.integers(0, Gp - 1)))
    lane = r % 16 + 16 * (g % 4)
    byte = (r // 16 % 2) + 2 * (g // 4 % 2)
    expected = (r // 32 * (Gp // 8) + g // 8) * 256 + 4 * lane + byte
    assert bound.offset((r, g)) == expected
    assert bound.coords(expected) == (r, g)


@pytest.mark.parametrize("shape", [(0, 32), (16, 0), (0, 0)])
def test_empty_shapes_are_legal(shape):
    bound = WEIGHT_PRESHUFFLE.bind(shape)
    assert bound.size == 0
    assert bound.offsets().shape == shape
