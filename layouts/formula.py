"""Address formulas as text, derived from the declared factors. Every expression is valid Python integer arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxassay.layouts.contract import LayoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxassay.layouts.declaration import Axis, Layout


def offset_expression(layout: Layout) -> str:
    """The element offset across all places."""
    return _sum_of_digits(layout, [name for place in layout.places for name in place.factors])


def place_expression(layout: Layout, place: str) -> str:
    """The number of one place."""
    return _sum_of_digits(layout, _factors_of(layout, place))


def coordinate_expression(layout: Layout, axis: Axis) -> str:
    """One coordinate from the offset (memory) or from the places (registers)."""
    terms = []
    for position, factor in enumerate(axis.factors):
        variable, run = _run_holding(layout, factor.name)
        after = run[run.index(factor.name) + 1 :]
        stride = stride_expression(layout, after)
        outermost = run[0] == factor.name
        digit = variable if stride == "1" else f"{variable}//{_atom(stride)}"
        if not outermost:
            digit = f"{_atom(digit)}%{_atom(extent_expression(axis, position))}"
        terms.append(_scaled(digit, str(axis.step(position))))
    return " + ".join(terms)


def stride_expression(layout: Layout, inside: Sequence[str]) -> str:
    """The product of the extents of the factors `inside`, with stored extents as symbols.

    A free factor counts `symbol // tile`; the division is folded into the constant where that is exact, because the
    stored extent is a multiple of the tile.
    """
    constant = 1
    free: list[Axis] = []
    for name in inside:
        axis, position = layout.axis_of(name)
        extent = axis.factors[position].extent
        if extent is None:
            free.append(axis)
        else:
            constant *= extent
    symbols = []
    for axis in free:
        if constant % axis.tile == 0:
            constant //= axis.tile
            symbols.append(axis.symbol)
        else:
            symbols.append(f"({extent_expression(axis, 0)})")
    return "*".join(([str(constant)] if constant > 1 or not symbols else []) + symbols)


def extent_expression(axis: Axis, position: int) -> str:
    """The extent of one factor: a number, or `KB//32` for a free one."""
    extent = axis.factors[position].extent
    if extent is not None:
        return str(extent)
    return axis.symbol if axis.tile == 1 else f"{axis.symbol}//{axis.tile}"


def digit_expression(axis: Axis, position: int) -> str:
    """One factor's digit from its coordinate: `n//16`, `(kb%32)//16`, `kb%16`."""
    step = axis.step(position)
    extent = axis.factors[position].extent
    text = axis.name
    if position and extent is not None:
        text = f"{text}%{extent * step}"
    return text if step == 1 else f"{_atom(text)}//{step}"


def decomposition(layout: Layout) -> str:
    """`n = 16·n1 + n0, kb = ...`, with padding named where it is declared."""
    parts = []
    for axis in layout.axes:
        terms = []
        for position, factor in enumerate(axis.factors):
            step = axis.step(position)
            terms.append(factor.name if step == 1 else f"{step}·{factor.name}")
        text = axis.name if terms == [axis.name] else f"{axis.name} = {' + '.join(terms)}"
        parts.append(text if axis.pad_to is None else f"{text} padded to {axis.pad_to}")
    return ", ".join(parts)


def destination(layout: Layout) -> str:
    """`offset[n1, k2, k1, n0, k0]`, one bracket for each place."""
    return " ".join(f"{place.name}[{', '.join(place.factors)}]" for place in layout.places)


def _sum_of_digits(layout: Layout, factors: Sequence[str]) -> str:
    terms = []
    for index, name in enumerate(factors):
        axis, position = layout.axis_of(name)
        terms.append(_scaled(digit_expression(axis, position), stride_expression(layout, factors[index + 1 :])))
    return " + ".join(terms) or "0"


def _run_holding(layout: Layout, factor: str) -> tuple[str, list[str]]:
    """The variable that carries the factor's digit, and all factors that the variable counts."""
    if layout.space == "memory":
        return "offset", [name for place in layout.places for name in place.factors]
    place = next(place for place in layout.places if factor in place.factors)
    return place.name, list(place.factors)


def _factors_of(layout: Layout, place: str) -> tuple[str, ...]:
    names = [candidate.name for candidate in layout.places]
    if place not in names:
        raise LayoutError(f"{layout.name}: place must be one of {names}, not {place!r}")
    return layout.places[names.index(place)].factors


def _scaled(digit: str, stride: str) -> str:
    return digit if stride == "1" else f"{_atom(digit)}*{stride}"


def _atom(text: str) -> str:
    return text if text.isalnum() else f"({text})"
