"""Layouts in words and small tables, for a terminal. Pure text; needs no torch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from mxassay.layouts import formula
from mxassay.layouts.bound import BoundLayout
from mxassay.layouts.contract import round_up
from mxassay.layouts.declaration import Axis, Layout

_WHOLE_AXIS = 8
_WIDTH = 96


def describe(layout: Layout) -> str:
    """All that there is to know of `layout`: purpose, axes, formula, inverse, other names, one tile's addresses.

    >>> from mxassay.layouts import SCALE_SHUFFLE
    >>> print(describe(SCALE_SHUFFLE).splitlines()[0])
    SCALE_SHUFFLE (R, G)
    """
    lines = [
        f"{layout.name} {layout.signature}",
        *_wrapped(layout.purpose),
        *_wrapped(f"Element: {layout.element}."),
        "",
        f"  {formula.decomposition(layout)}",
        f"  -> {formula.destination(layout)}",
        "",
        "Axes",
        *_table([_axis_row(axis) for axis in layout.axes]),
        "",
        "Factors, in the order of the destination",
        *_table(_factor_rows(layout)),
        "",
        f"Address{'' if layout.space == 'registers' else ', in ' + _unit(layout) + 's'}",
        *_assignments(layout.formula() if layout.space == "registers" else f"offset = {layout.formula()}"),
        *_extra_places(layout),
        "",
        "Inverse",
        *_assignments(layout.inverse_formula()),
        "",
        *_grid(layout),
    ]
    if layout.leading:
        lines += ["", "Leading dimensions stay outermost: each plane is stored whole, in row-major order."]
    if layout.aliases:
        lines += ["", "Also known as", *(f"  {alias}" for alias in layout.aliases)]
    if layout.notes:
        lines += ["", *(line for note in layout.notes for line in _wrapped(note))]
    lines += ["", *_wrapped(f"Source: {layout.source}")]
    return "\n".join(lines)


def explain(layout: Layout, shape: Sequence[int] | None, coords: Sequence[int]) -> str:
    """How the address of the element at `coords` comes about, line by line.

    `shape` is the logical shape; None stands for the smallest legal shape that has the element (an address may depend
    on the shape). Raises LayoutError when the shape or the coordinates are outside the contract.

    >>> from mxassay.layouts import WEIGHT_PRESHUFFLE
    >>> print(explain(WEIGHT_PRESHUFFLE, (2112, 3584), (18, 37)).splitlines()[1])
    byte offset 57893 (0xe225) of 7569408
    """
    bound = layout.bind(layout.smallest_shape(coords) if shape is None else shape)
    place = bound.place(coords)
    offset = bound.offset(coords)
    names = [f"[{i}]" for i in range(len(bound.leading))] + [axis.name for axis in layout.axes]
    where = ", ".join(f"{name} = {coord}" for name, coord in zip(names, coords, strict=True))
    lines = [f"{bound!r}: element {where}", _headline(bound, offset, place)]
    if bound.is_padding(coords):
        lines.append("This is padding: it holds the fill, no data, and no result may depend on it.")
    else:
        lines += _codes(bound, coords)
    lines += ["", "Coordinates"]
    lines += _table(
        [_digits_row(bound, axis, c) for axis, c in zip(layout.axes, coords[-len(layout.axes) :], strict=True)]
    )
    lines += ["", "Address"]
    lines += _table(_address_rows(bound, coords))
    return "\n".join(lines)


def _headline(bound: BoundLayout, offset: int, place: dict[str, int]) -> str:
    if bound.layout.space == "registers":
        return ", ".join(f"{name} {number}" for name, number in place.items())
    if bound.layout.element_bits == 4:
        byte, nibble = divmod(offset, 2)
        return f"byte offset {byte} ({byte:#x}) of {bound.size // 2}, {'high' if nibble else 'low'} nibble"
    byte = offset * bound.layout.element_bits // 8
    return f"byte offset {byte} ({byte:#x}) of {bound.size * bound.layout.element_bits // 8}"


def _codes(bound: BoundLayout, coords: Sequence[int]) -> list[str]:
    """Which codes of the matrix a byte stands for. Who counted the coordinates in codes sees it here."""
    axis, coord, extent = bound.layout.axes[-1], coords[-1], bound.shape[-1]
    if bound.layout.space == "registers" or axis.codes is None or axis.codes == 1:
        return []
    first, last = coord * axis.codes, (coord + 1) * axis.codes - 1
    what = f"the codes k = {first} and {last}" if axis.codes == 2 else f"the scale of the codes k = {first} to {last}"
    return [f"It holds {what} of row {coords[-2]}, in a matrix with K = {extent * axis.codes}."]


def _digits_row(bound: BoundLayout, axis: Axis, coord: int) -> list[str]:
    digits = [coord // axis.step(p) % bound.extents[f.name] for p, f in enumerate(axis.factors)]
    terms = " + ".join(str(digit) if axis.step(p) == 1 else f"{axis.step(p)}·{digit}" for p, digit in enumerate(digits))
    named = ", ".join(f"{f.name} = {digit}" for f, digit in zip(axis.factors, digits, strict=True))
    return [f"{axis.name} = {coord}", f"= {terms}", named]


def _address_rows(bound: BoundLayout, coords: Sequence[int]) -> list[list[str]]:
    layout = bound.layout
    by_axis = dict(zip((axis.name for axis in layout.axes), coords[-len(layout.axes) :], strict=True))
    rows = []
    runs = {p.name: p.factors for p in layout.places}
    if layout.space == "memory":
        runs = {"offset": tuple(bound.strides)}
    for run, factors in runs.items():
        total = 0
        if bound.leading:
            plane = bound.size // math.prod(bound.leading)
            index = bound.offset(coords) // plane
            total = index * plane
            rows.append(["plane", f"{index} × {plane}", f"= {total}", "", "plane of the leading dimensions"])
        stride = math.prod([bound.extents[name] for name in factors])
        for position, name in enumerate(factors):
            axis, at = layout.axis_of(name)
            stride //= bound.extents[name]
            digit = by_axis[axis.name] // axis.step(at) % bound.extents[name]
            total += digit * stride
            symbolic = formula.stride_expression(layout, factors[position + 1 :])
            note = "" if symbolic == str(stride) else f"{stride} = {symbolic}"
            rows.append([name, f"{digit} × {stride}", f"= {digit * stride}", note, axis.factors[at].meaning])
        rows.append([run, "sum", f"= {total}", "", ""])
    return rows


def _axis_row(axis: Axis) -> list[str]:
    if axis.extent is not None:
        rule = f"exactly {axis.extent}"
    elif axis.pad_to is not None:
        rule = f"any extent, padded to a multiple of {axis.pad_to} ({axis.symbol})"
    else:
        rule = f"a multiple of {axis.multiple} ({axis.symbol})"
    return [axis.name, rule, axis.meaning]


def _factor_rows(layout: Layout) -> list[list[str]]:
    rows = []
    for place in layout.places:
        for name in place.factors:
            axis, position = layout.axis_of(name)
            extent = formula.extent_expression(axis, position)
            rows.append(
                [place.name, name, extent, formula.digit_expression(axis, position), axis.factors[position].meaning]
            )
    return rows


def _extra_places(layout: Layout) -> list[str]:
    if layout.space == "registers" or len(layout.places) == 1:
        return []
    return _assignments("; ".join(f"{p.name} = {layout.formula(p.name)}" for p in layout.places))


def _assignments(text: str) -> list[str]:
    return [f"  {part}" for part in text.split("; ")]


def _unit(layout: Layout) -> str:
    return {4: "nibble", 8: "byte", 32: "word"}[layout.element_bits]


def _grid(layout: Layout) -> list[str]:
    """The addresses of one tile, with long axes cut down to the steps where a factor turns over."""
    shape = tuple(
        axis.extent if axis.extent is not None else round_up(max(axis.tile, _WHOLE_AXIS), axis.tile)
        for axis in layout.axes
    )
    bound = layout.bind(shape)
    picks = [_picks(axis, extent) for axis, extent in zip(layout.axes, shape, strict=True)]
    columns = picks[-1]
    head = layout.axes[-1].name
    if len(layout.axes) == 1:
        rows: list[tuple[str, tuple[int, ...] | None]] = [("", ())]
    else:
        first = layout.axes[0].name
        rows = [("…", None) if i is None else (f"{first} = {i}", (i,)) for i in picks[0]]
    table = [["", *("…" if j is None else f"{head} = {j}" if j == 0 else str(j) for j in columns)]]
    for label, prefix in rows:
        cells = ["…" if j is None or prefix is None else _cell(bound, (*prefix, j)) for j in columns]
        table.append([label, *cells])
    what = ".".join(place.name for place in layout.places)
    tile = " x ".join(str(extent) for extent in shape)
    return [f"One tile, {tile}: each cell is {what}", *_table(table, right=True)]


def _cell(bound: BoundLayout, coords: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in bound.place(coords).values())


def turns(axis: Axis, extent: int) -> list[int]:
    """The indices of an axis where a factor turns over, with both ends; all of them when they are few."""
    if extent <= _WHOLE_AXIS:
        return list(range(extent))
    found = {0, 1, extent - 1}
    for position in range(len(axis.factors)):
        step = axis.step(position)
        found |= {step - 1, step}
    return sorted(index for index in found if index < extent)


def _picks(axis: Axis, extent: int) -> list[int | None]:
    """The turning indices, with None for each gap."""
    shown: list[int | None] = []
    for index in turns(axis, extent):
        if shown and shown[-1] != index - 1:
            shown.append(None)
        shown.append(index)
    return shown


def _table(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if right and i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)
