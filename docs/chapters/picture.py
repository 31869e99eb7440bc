"""One tile as a picture: each run of elements that lie side by side, with the number of the place it goes to."""

from collections.abc import Iterator
from dataclasses import dataclass

from mxassay.layouts import Layout
from mxassay.layouts.contract import round_up

_WHOLE = 256  # elements that are drawn one by one
_HEIGHT, _HEAD, _SIDE = 22, 44, 74


@dataclass(frozen=True)
class Tile:
    """What is drawn: the tile's shape, and along which axis how many elements make one cell."""

    shape: tuple[int, ...]
    axis: int
    run: int


def tile_of(layout: Layout) -> Tile:
    """One tile of `layout`: all inner factors of every axis, and at least 8 elements of a single axis."""
    shape = tuple(
        axis.extent
        if axis.extent is not None
        else max(axis.tile, round_up(8, axis.tile) if len(layout.axes) == 1 else 0)
        for axis in layout.axes
    )
    count = 1
    for extent in shape:
        count *= extent
    if count <= _WHOLE:
        return Tile(shape, len(shape) - 1, 1)
    innermost = layout.places[-1].factors[-1]
    axis, position = layout.axis_of(innermost)
    assert position == len(axis.factors) - 1, "a run needs the innermost factor of its axis"
    return Tile(shape, layout.axes.index(axis), axis.factors[-1].extent or 1)


def cells(layout: Layout) -> Iterator[tuple[int, int, int, str, str]]:
    """(row, column, offset, label, title) of every cell of the tile."""
    tile = tile_of(layout)
    bound = layout.bind(tile.shape)
    rows = tile.shape[0] if len(tile.shape) > 1 else 1
    down, across = (tile.run, 1) if tile.axis == 0 and len(tile.shape) > 1 else (1, tile.run)
    for i in range(0, rows, down):
        for j in range(0, tile.shape[-1], across):
            coords = (i, j)[-len(tile.shape) :]
            place, offset = bound.place(coords), bound.offset(coords)
            last = list(coords)
            last[tile.axis] += tile.run - 1
            yield i // down, j // across, offset, _label(layout, place, tile.run), _title(layout, coords, tuple(last))


def _label(layout: Layout, place: dict[str, int], run: int) -> str:
    numbers = list(place.values())
    if run == 1:
        return ".".join(map(str, numbers))
    last = f"{numbers[-1]}–{numbers[-1] + run - 1}"
    if layout.element_bits == 4:
        return ".".join(map(str, numbers[:-1]))
    return ".".join([*map(str, numbers[:-1]), last])


def _title(layout: Layout, first: tuple[int, ...], last: tuple[int, ...]) -> str:
    bound = layout.bind(tile_of(layout).shape)
    names = [axis.name for axis in layout.axes]
    spans = [f"{n} {a}" if a == b else f"{n} {a} to {b}" for n, a, b in zip(names, first, last, strict=True)]
    places = [
        f"{name} {a}" if a == b else f"{name} {a} to {b}"
        for name, a, b in zip(bound.place(first), bound.place(first).values(), bound.place(last).values(), strict=True)
    ]
    return f"{', '.join(spans)}: {', '.join(places)}"


def caption(layout: Layout) -> str:
    """One sentence that says what a cell shows."""
    tile = tile_of(layout)
    shape = " × ".join(map(str, tile.shape))
    names = ".".join(place.name for place in layout.places)
    if tile.run == 1:
        return f"One tile, {shape} elements. Each cell holds the {names} of one element."
    axis = layout.axes[tile.axis].name
    if layout.element_bits == 4:
        names = ".".join(place.name for place in layout.places[:-1])
    return f"One tile, {shape} elements. Each cell stands for {tile.run} consecutive {axis} and holds their {names}."


def svg(layout: Layout) -> str:
    """The picture, one element of HTML on one line. Colours come from the page, so that it follows light and dark."""
    found = list(cells(layout))
    columns, rows = 1 + max(c[1] for c in found), 1 + max(c[0] for c in found)
    longest = max(len(c[3]) for c in found)
    width = max(longest * 7 + 8, 26 if columns > 16 else 40)
    largest = max(c[2] for c in found) or 1
    tile = tile_of(layout)
    total_w, total_h = _SIDE + columns * width + 2, _HEAD + rows * _HEIGHT + 2
    parts = [
        (
            f'<svg class="tile" viewBox="0 0 {total_w} {total_h}" width="{total_w}" height="{total_h}" role="img" '
            f'aria-label="{caption(layout)}">'
        )
    ]
    across = tile.run if not (tile.axis == 0 and len(tile.shape) > 1) else 1
    down = tile.run if across == 1 and len(tile.shape) > 1 else 1
    parts.append(f'<text x="{_SIDE}" y="14" class="axis">{layout.axes[-1].name} →</text>')
    for column in range(columns):
        x = _SIDE + column * width + width / 2
        parts.append(f'<text x="{x:g}" y="{_HEAD - 8}" class="head">{column * across}</text>')
    if len(tile.shape) > 1:
        parts.append(f'<text x="4" y="{_HEAD - 8}" class="axis">{layout.axes[0].name} ↓</text>')
        for row in range(rows):
            y = _HEAD + row * _HEIGHT + 15
            shown = f"{row * down}" if down == 1 else f"{row * down}–{row * down + down - 1}"
            parts.append(f'<text x="{_SIDE - 8}" y="{y}" class="side">{shown}</text>')
    for row, column, offset, label, title in found:
        x, y = _SIDE + column * width, _HEAD + row * _HEIGHT
        shade = round(0.06 + 0.5 * offset / largest, 3)
        parts.append(
            f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" '
            f'fill-opacity="{shade:g}"/><text x="{x + width / 2:g}" y="{y + 15}" class="cell">{label}</text></g>'
        )
    return "".join([*parts, "</svg>"])
