"""Where operands lie: strides of A, and what fills the padding of the scale table."""

from hypothesis import strategies as st

from mxassay.properties.kernel import VIEWS, Placement, under_test

# Zero scales, the neutral scale, NaN.
FILLS = (0x00, 0x7F, 0xFF)


def fills() -> st.SearchStrategy[int]:
    """Padding bytes that a wrong kernel tells apart."""
    return st.sampled_from(FILLS)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """A padding byte, and strides of A; only our own kernel promises to take other than contiguous ones."""
    view = draw(st.sampled_from(list(VIEWS)), label="strides of A") if under_test().own else "contiguous"
    return Placement(draw(fills(), label="padding"), view)
