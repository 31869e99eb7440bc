"""Elements of a matrix, (row, k) with k in 4-bit codes, as coordinates of a layout."""

from __future__ import annotations

from dataclasses import dataclass

from mxassay.layouts.contract import LayoutError, round_up
from mxassay.layouts.declaration import Axis, Layout
from mxassay.layouts.explain import explain


@dataclass(frozen=True)
class Element:
    """Where a matrix element lies in a layout's own coordinates.

    Attributes:
        shape: the logical shape that the layout has for the whole matrix; for a register map, that of one instruction.
        coords: the element's coordinates in it.
        tile: which tile of the matrix, an index along each axis; None for a layout in memory.
    """

    shape: tuple[int, ...]
    coords: tuple[int, ...]
    tile: tuple[int, ...] | None = None


def locate(layout: Layout, matrix: tuple[int, int], element: tuple[int, int]) -> Element:
    """The coordinates of `element` (row, k) of a `matrix` of (rows, K), both counted in codes along K.

    Raises LayoutError for an element outside the matrix, a K that is no multiple of what the layout counts in, and a
    layout without K (results of an MFMA).

    >>> from mxassay.layouts import SCALE_SHUFFLE
    >>> locate(SCALE_SHUFFLE, (2112, 7168), (53, 450))
    Element(shape=(2112, 224), coords=(53, 14), tile=None)
    """
    (rows, whole), (row, k) = matrix, element
    if not any(axis.codes for axis in layout.axes):
        raise LayoutError(
            f"{layout.name}: a matrix must be left out, not {rows},{whole}; this layout has no K, count in its own axes"
        )
    if not (0 <= row < rows and 0 <= k < whole):
        raise LayoutError(
            f"{layout.name}: the element must lie inside {rows} rows of {whole} codes, not at ({row}, {k})"
        )
    for axis in layout.axes:
        if axis.codes and whole % axis.codes:
            raise LayoutError(
                f"{layout.name}: K must be a multiple of {axis.codes}, not {whole}; "
                f"pad K to {round_up(whole, axis.codes)}"
            )
    fixed = layout.fixed_shape
    raw = tuple(k // axis.codes if axis.codes else row for axis in layout.axes)
    if fixed is not None:
        return Element(
            fixed,
            tuple(c % extent for c, extent in zip(raw, fixed, strict=True)),
            tuple(c // extent for c, extent in zip(raw, fixed, strict=True)),
        )
    shape = tuple(whole // axis.codes if axis.codes else rows for axis in layout.axes)
    if len(layout.axes) == 1:  # rows are leading dimensions
        return Element((rows, *shape), (row, *raw))
    return Element(shape, raw)


def explain_element(layout: Layout, matrix: tuple[int, int], element: tuple[int, int]) -> str:
    """`explain` for a matrix element: how its row and k become the layout's coordinates, then their address.

    >>> from mxassay.layouts import WEIGHT_PRESHUFFLE
    >>> print(explain_element(WEIGHT_PRESHUFFLE, (2112, 7168), (53, 450)).splitlines()[0])
    Element (53, 450) of 2112 rows, K = 7168: n = 53, kb = 450 // 2 = 225, low nibble
    """
    found = locate(layout, matrix, element)
    if found.tile is not None:
        inside = ", ".join(f"{axis.name} = {c}" for axis, c in zip(layout.axes, found.coords, strict=True))
        where = f"tile {found.tile}, in it {inside}"
    else:
        where = ", ".join(_named(axis, *element) for axis in layout.axes)
        if layout.axes[-1].codes == 2:
            where += f", {'high' if element[1] % 2 else 'low'} nibble"
    head = f"Element {element} of {matrix[0]} rows, K = {matrix[1]}: {where}"
    return f"{head}\n{explain(layout, found.shape, found.coords)}"


def _named(axis: Axis, row: int, k: int) -> str:
    if axis.codes is None:
        return f"{axis.name} = {row}"
    return f"{axis.name} = {k}" if axis.codes == 1 else f"{axis.name} = {k} // {axis.codes} = {k // axis.codes}"
