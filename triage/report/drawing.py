"""A map as a picture within the page: one path for each level, so that thousands of cells stay small."""

from html import escape
from itertools import groupby

from mxassay.triage.report.document import Map

_CELL = 24  # CSS pixels of a cell at most
_LEAST = 5  # and at least; a wider map scrolls in its own frame
_HEIGHT, _WIDTH = 400, 336
_WITH_GLYPHS = 24  # columns up to which a cell is large enough for a letter


def cell_size(drawn: Map) -> float:
    """The side of a cell in CSS pixels, where the screen is wide enough."""
    return max(_LEAST, min(_CELL, _HEIGHT / len(drawn.cells), _WIDTH / len(drawn.cells[0])))


def drawing(drawn: Map) -> str:
    """The map as an SVG element, named by its title and summary."""
    rows, columns = len(drawn.cells), len(drawn.cells[0])
    cell = cell_size(drawn)
    label = escape(f"{drawn.title}: {drawn.summary}")
    paths = "".join(f'<path class="{level}" d="{d}"/>' for level, d in _paths(drawn).items())
    inside = paths + _grid(rows, columns) + (_glyphs(drawn) if columns <= _WITH_GLYPHS else "")
    size = f'width="{columns * cell:.0f}" height="{rows * cell:.0f}"'
    return f'<svg class="map" role="img" aria-label="{label}" viewBox="0 0 {columns} {rows}" {size}>{inside}</svg>'


def _paths(drawn: Map) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for y, row in enumerate(drawn.cells):
        x = 0
        for level, run in groupby(row):
            width = len(list(run))
            found.setdefault(drawn.levels[level].key, []).append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    return {level: "".join(parts) for level, parts in found.items()}


def _grid(rows: int, columns: int) -> str:
    """Lines between cells; between groups of 16, the rows of one MFMA, where cells are too small for more."""
    step = 1 if columns <= _WITH_GLYPHS else 16
    lines = [f"M0 {y}H{columns}" for y in range(step, rows, step)] + [
        f"M{x} 0V{rows}" for x in range(step, columns, step)
    ]
    return f'<path class="lines" d="{"".join(lines)}"/>' if lines else ""


def _glyphs(drawn: Map) -> str:
    return "".join(
        f'<text class="{drawn.levels[level].key}" x="{x}.5" y="{y}.5">{escape(drawn.levels[level].glyph)}</text>'
        for y, row in enumerate(drawn.cells)
        for x, level in enumerate(row)
        if drawn.levels[level].glyph != "."
    )
