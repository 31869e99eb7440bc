"""Layouts of memory, and shapes that bind them."""

from hypothesis import strategies as st

from mxassay.layouts import PACKING, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE, BoundLayout

_ROWS = st.integers(1, 9) | st.sampled_from((15, 16, 17, 31, 32, 33, 255, 256, 257, 272))
_GROUPS = st.integers(1, 10) | st.sampled_from((15, 16, 17, 24, 25))


@st.composite
def memory_layouts(draw: st.DrawFn) -> BoundLayout:
    """A layout of memory bound to a shape: one tile and its neighbours, ragged sizes where padding makes them legal."""
    layout = draw(st.sampled_from((PACKING, WEIGHT_PRESHUFFLE, SCALE_SHUFFLE)), label="layout")
    if layout is SCALE_SHUFFLE:
        return layout.bind((draw(_ROWS, label="rows"), draw(_GROUPS, label="groups")))
    if layout is WEIGHT_PRESHUFFLE:
        return layout.bind((16 * draw(st.integers(1, 17), label="N/16"), 32 * draw(st.integers(1, 9), label="K/64")))
    return layout.bind((draw(st.integers(1, 9), label="rows"), 2 * draw(st.integers(1, 80), label="K/2")))
