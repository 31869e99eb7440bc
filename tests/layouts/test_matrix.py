"""Elements of a matrix, counted in codes: held against where a marked code really goes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.layouts import LAYOUTS, LayoutError, explain_element, locate
from mxassay.reference import pack


def _marked(name: str, matrix: torch.Tensor) -> torch.Tensor:
    """What the layout stores of a matrix of codes, the way that a program prepares it."""
    if name == "PACKING":
        return pack(matrix)
    if name == "WEIGHT_PRESHUFFLE":
        return LAYOUTS[name].apply(pack(matrix))
    return LAYOUTS[name].apply(matrix.view(matrix.shape[0], -1, 32).amax(-1))


@pytest.mark.parametrize("name", ["PACKING", "WEIGHT_PRESHUFFLE", "SCALE_SHUFFLE"])
@given(data=st.data(), rows=st.integers(1, 4).map(lambda n: 16 * n), k=st.integers(1, 9).map(lambda n: 64 * n))
def test_the_byte_is_where_a_marked_code_goes(name, data, rows, k):
    element = data.draw(st.integers(0, rows - 1), label="row"), data.draw(st.integers(0, k - 1), label="k")
    matrix = torch.zeros(rows, k, dtype=torch.uint8)
    matrix[element] = 15
    stored = _marked(name, matrix)
    found = locate(LAYOUTS[name], (rows, k), element)
    bound = LAYOUTS[name].bind(found.shape)
    byte = bound.offset(found.coords) * LAYOUTS[name].element_bits // 8
    assert stored.flatten().nonzero().tolist() == [[byte]]
    assert stored.numel() == bound.size * LAYOUTS[name].element_bits // 8
    assert f"byte offset {byte} " in explain_element(LAYOUTS[name], (rows, k), element)


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name.startswith("MFMA") and not name.endswith("_D")])
@given(row=st.integers(0, 95), k=st.integers(0, 511))
def test_a_register_map_counts_inside_its_tile(name, row, k):
    layout = LAYOUTS[name]
    found = locate(layout, (96, 512), (row, k))
    (rows, steps), codes = layout.fixed_shape, layout.axes[-1].codes
    assert found.shape == (rows, steps)
    assert found.tile is not None
    assert found.tile[0] * rows + found.coords[0] == row
    assert found.tile[1] * steps + found.coords[1] == k // codes
    layout.bind(found.shape).place(found.coords)  # raises where the coordinates lie outside the tile


@pytest.mark.parametrize(
    ("name", "matrix", "element", "head"),
    [
        ("PACKING", (4, 64), (1, 9), "Element (1, 9) of 4 rows, K = 64: k = 9"),
        (
            "WEIGHT_PRESHUFFLE",
            (96, 128),
            (18, 75),
            "Element (18, 75) of 96 rows, K = 128: n = 18, kb = 75 // 2 = 37, high nibble",
        ),
        (
            "WEIGHT_PRESHUFFLE",
            (96, 128),
            (17, 74),
            "Element (17, 74) of 96 rows, K = 128: n = 17, kb = 74 // 2 = 37, low nibble",
        ),
        ("SCALE_SHUFFLE", (96, 128), (18, 75), "Element (18, 75) of 96 rows, K = 128: r = 18, g = 75 // 32 = 2"),
        (
            "MFMA_16X16X128_A",
            (96, 256),
            (18, 200),
            "Element (18, 200) of 96 rows, K = 256: tile (1, 1), in it m = 2, k = 72",
        ),
    ],
)
def test_the_first_line_says_how_codes_become_coordinates(name, matrix, element, head):
    assert explain_element(LAYOUTS[name], matrix, element).splitlines()[0] == head


@pytest.mark.parametrize(
    ("name", "matrix", "element", "message"),
    [
        (
            "MFMA_16X16X128_D",
            (16, 16),
            (1, 1),
            "MFMA_16X16X128_D: a matrix must be left out, not 16,16; this layout has no K, count in its own axes",
        ),
        (
            "SCALE_SHUFFLE",
            (20, 64),
            (20, 0),
            "SCALE_SHUFFLE: the element must lie inside 20 rows of 64 codes, not at (20, 0)",
        ),
        (
            "SCALE_SHUFFLE",
            (20, 64),
            (0, 64),
            "SCALE_SHUFFLE: the element must lie inside 20 rows of 64 codes, not at (0, 64)",
        ),
        ("SCALE_SHUFFLE", (20, 48), (0, 0), "SCALE_SHUFFLE: K must be a multiple of 32, not 48; pad K to 64"),
    ],
)
def test_what_is_outside_is_refused(name, matrix, element, message):
    with pytest.raises(LayoutError) as caught:
        locate(LAYOUTS[name], matrix, element)
    assert str(caught.value) == message
