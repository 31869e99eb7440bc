"""Layouts that nobody declared yet: random declarations against plain mixed-radix arithmetic, and bad ones refused."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mxassay.layouts import SCALE_SHUFFLE, Axis, Factor, Layout, LayoutError, Place


@st.composite
def declarations(draw):
    """A legal memory or register layout of up to three axes, with a legal shape for it."""
    space = draw(st.sampled_from(["memory", "registers"]))
    bits = draw(st.sampled_from([4, 8, 32]))
    axes, shape = [], []
    for letter in "abc"[: draw(st.integers(1, 3), label="axes")]:
        extents = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3), label=f"extents of {letter}")
        if bits == 4:
            extents.append(2)
        tile = math.prod(extents[1:])
        free = space == "memory" and draw(st.booleans(), label=f"{letter} is free")
        pad_to = draw(st.none() | st.integers(1, 3).map(lambda m, t=tile: m * t)) if free else None
        factors = [Factor(f"{letter}{len(extents) - i}", e) for i, e in enumerate(extents)]
        if free:
            factors[0] = Factor(factors[0].name)
            multiple = 1 if pad_to else tile
            shape.append(multiple * draw(st.integers(1, 4), label=f"multiples of {letter}"))
        else:
            shape.append(math.prod(extents))
        axes.append(Axis(letter, tuple(factors), pad_to))
    names = draw(st.permutations([factor.name for axis in axes for factor in axis.factors]), label="order")
    cuts = sorted(draw(st.sets(st.integers(1, len(names) - 1), max_size=2))) if len(names) > 1 else []
    runs = [names[i:j] for i, j in itertools.pairwise([0, *cuts, len(names)])]
    if bits == 4 and space == "registers":
        runs = [names]
    places = tuple(Place(f"p{i}", tuple(run)) for i, run in enumerate(runs))
    leading = space == "memory" and draw(st.booleans(), label="leading")
    lead = draw(st.lists(st.integers(1, 3), max_size=2)) if leading else []
    layout = Layout("RANDOM", tuple(axes), places, bits, space, "element", "random", "test", leading=leading)
    return layout, (*lead, *shape)


def mixed_radix(layout, shape, coords):
    """Place numbers and the linear offset, by plain digit arithmetic on tuples."""
    lead = len(shape) - len(layout.axes)
    digits, radix = {}, {}
    for axis, coord, extent in zip(layout.axes, coords[lead:], shape[lead:], strict=True):
        stored = extent if axis.pad_to is None else math.ceil(extent / axis.pad_to) * axis.pad_to
        for factor in reversed(axis.factors[1:]):
            coord, digits[factor.name] = divmod(coord, factor.extent)
            stored //= factor.extent
            radix[factor.name] = factor.extent
        digits[axis.factors[0].name], radix[axis.factors[0].name] = coord, stored
    flat = 0
    for extent, coord in zip(shape[:lead], coords[:lead], strict=True):
        flat = flat * extent + coord
    offset, places = flat, {}
    for index, place in enumerate(layout.places):
        number = flat if index == 0 else 0
        for name in place.factors:
            number = number * radix[name] + digits[name]
            offset = offset * radix[name] + digits[name]
        places[place.name] = number
    return places, offset


@given(declarations())
def test_any_declaration_follows_mixed_radix_arithmetic(declared):
    layout, shape = declared
    bound = layout.bind(shape)
    dtype = torch.int32 if layout.element_bits == 32 else torch.uint8
    tensor = (torch.arange(math.prod(shape)) % (1 << min(layout.element_bits, 30))).to(dtype).reshape(shape)
    stored = bound.apply(tensor, fill=5)
    flat = stored.numpy().ravel()
    if layout.element_bits == 4:
        flat = np.stack((flat % 16, flat // 16), axis=-1).ravel()
    assert flat.size == bound.size
    for coords in itertools.product(*map(range, bound.padded_shape)):
        places, offset = mixed_radix(layout, shape, coords)
        assert bound.offset(coords) == offset
        assert bound.place(coords) == places
        assert bound.coords(offset) == bound.at(**places) == coords
        inside = all(c < extent for c, extent in zip(coords, shape, strict=True))
        assert flat[offset] == (tensor[coords].item() if inside else 5)
    assert torch.equal(bound.invert(stored), tensor)
    assert sorted(bound.offsets().flatten().tolist()) == list(range(bound.size))


@settings(max_examples=50)
@given(declarations())
def test_any_declaration_has_formulas_that_evaluate(declared):
    layout, shape = declared
    shape = shape[len(shape) - len(layout.axes) :]
    bound = layout.bind(shape)
    stored = {axis.symbol: extent for axis, extent in zip(layout.axes, bound.padded_shape, strict=True)}
    for coords in itertools.product(*map(range, bound.padded_shape)):
        names = stored | {axis.name: coord for axis, coord in zip(layout.axes, coords, strict=True)}
        places = {p.name: eval(layout.formula(p.name), {}, names) for p in layout.places}
        assert places == bound.place(coords)
        known = stored | (places if layout.space == "registers" else {"offset": bound.offset(coords)})
        scope = dict(known)
        exec(layout.inverse_formula(), {}, scope)
        assert tuple(scope[axis.name] for axis in layout.axes) == coords


def declare(**changes):
    parts = {
        "name": "L",
        "axes": (Axis("n", (Factor("n1"), Factor("n0", 4))),),
        "places": (Place("offset", ("n1", "n0")),),
        "element_bits": 8,
        "space": "memory",
        "element": "byte",
        "purpose": "test",
        "source": "test",
    }
    return Layout(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"element_bits": 6}, "L: element_bits must be one of (4, 8, 32), not 6"),
        ({"space": "disk"}, "L: space must be one of ('memory', 'registers'), not 'disk'"),
        ({"axes": ()}, "L: a layout must have at least one axis and one place"),
        ({"places": ()}, "L: a layout must have at least one axis and one place"),
        ({"axes": (Axis("n", ()),)}, "L: axis n must have at least one factor"),
        (
            {"axes": (Axis("n", (Factor("n1", 4), Factor("n0"))),)},
            "L: only the outermost factor of axis n may be free, not n0",
        ),
        ({"axes": (Axis("n", (Factor("n1"), Factor("n0", 0))),)}, "L: factor n0 must be 1 or more, not 0"),
        (
            {"axes": (Axis("n", (Factor("n1"), Factor("n0", 4)), pad_to=6),)},
            "L: axis n must be free and padded to a multiple of its tile 4, not to 6",
        ),
        (
            {"axes": (Axis("n", (Factor("n1", 2), Factor("n0", 4)), pad_to=8),)},
            "L: axis n must be free and padded to a multiple of its tile 4, not to 8",
        ),
        (
            {"places": (Place("offset", ("n1",)),)},
            "L: places must hold each of the factors ['n1', 'n0'] exactly once, not ['n1']",
        ),
        (
            {"places": (Place("offset", ("n1", "n0", "n0")),)},
            "L: places must hold each of the factors ['n1', 'n0'] exactly once, not ['n1', 'n0', 'n0']",
        ),
        (
            {"places": (Place("p", ("n1",)), Place("p", ("n0",)))},
            "L: place names must be distinct identifiers, not ['p', 'p']",
        ),
        (
            {"axes": (Axis("n", (Factor("x"), Factor("x", 4))),)},
            "L: factor names must be distinct identifiers, not ['x', 'x']",
        ),
        (
            {"axes": (Axis("2n", (Factor("n1"), Factor("n0", 4))),)},
            "L: axis names must be distinct identifiers, not ['2n']",
        ),
        ({"space": "registers"}, "L: a register map must have fixed extents and no leading dimensions"),
        (
            {"element_bits": 4, "axes": (Axis("n", (Factor("n1"), Factor("n0", 3))),)},
            "L: the tile of axis n must be even, not 3; two 4-bit elements share a byte",
        ),
        (
            {
                "element_bits": 4,
                "space": "registers",
                "axes": (Axis("n", (Factor("n1", 2), Factor("n0", 3))),),
                "places": (Place("lane", ("n1",)), Place("nibble", ("n0",))),
            },
            "L: place nibble must hold an even count of 4-bit elements, not 3; two of them share a byte",
        ),
    ],
)
def test_bad_declarations_are_refused(changes, words):
    with pytest.raises(LayoutError, match=f"^{re.escape(words)}$"):
        declare(**changes)


def test_what_may_be_left_out():
    assert Factor("a") == Factor("a", None, "")
    assert Axis("a", ()) == Axis("a", (), None, "", None)
    assert declare() == declare(aliases=(), notes=(), leading=False)


def test_layouts_are_values():
    assert declare() == declare()
    assert hash(declare()) == hash(declare())
    assert declare() != declare(places=(Place("offset", ("n0", "n1")),))
    with pytest.raises(AttributeError):
        declare().name = "other"
    assert SCALE_SHUFFLE.bind((4, 8)) == SCALE_SHUFFLE.bind([4, 8])
