"""What a shape, a coordinate or a declaration must be, and the words that say so.

Every message names the layout, then reads "X must be Y, not Z; how to mend it".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError

if TYPE_CHECKING:
    from mxassay.layouts.declaration import Axis, Layout

ELEMENT_BITS = (4, 8, 32)
SPACES = ("memory", "registers")


class LayoutError(ContractError):
    """A shape, tensor, coordinate or declaration breaks the contract of a layout."""


def check_shape(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """Return `shape` as a tuple of ints when `layout` can take it; raise LayoutError when it can't."""
    try:
        extents = tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise LayoutError(f"{layout.name}: shape must be a sequence of integers, not {shape!r}") from None
    rank = len(layout.axes)
    if len(extents) < rank or (len(extents) > rank and not layout.leading):
        raise LayoutError(
            f"{layout.name}: shape must be {layout.signature}, not {extents}; "
            f"pass {'at least ' if layout.leading else ''}{rank} dimension{'s' * (rank > 1)}"
        )
    if any(extent < 0 for extent in extents):
        raise LayoutError(f"{layout.name}: every extent must be 0 or more, not {min(extents)} in {extents}")
    for axis, extent in zip(layout.axes, extents[len(extents) - rank :], strict=True):
        if axis.extent is not None and extent != axis.extent:
            raise LayoutError(
                f"{layout.name}: axis {axis.name} must be {axis.extent}, not {extent}; "
                f"this layout exists for shape {layout.fixed_shape} alone"
            )
        if extent % axis.multiple:
            raise LayoutError(
                f"{layout.name}: axis {axis.name} must be a multiple of {axis.multiple}, not {extent}; "
                f"pad {axis.name.upper()} to {round_up(extent, axis.multiple)}"
            )
    return extents


def check_coords(layout: Layout, padded_shape: tuple[int, ...], coords: Sequence[int]) -> tuple[int, ...]:
    """Return `coords` as a tuple of ints inside `padded_shape`, or raise LayoutError."""
    if len(coords) != len(padded_shape):
        raise LayoutError(
            f"{layout.name}: coordinates must be {len(padded_shape)} numbers {layout.signature}, "
            f"not {len(coords)} ({', '.join(map(str, coords))})"
        )
    leading = len(padded_shape) - len(layout.axes)
    names = [f"of dimension {i}" for i in range(leading)] + [axis.name for axis in layout.axes]
    return tuple(
        check_below(layout, f"coordinate {name}", coord, extent)
        for name, coord, extent in zip(names, coords, padded_shape, strict=True)
    )


def check_below(layout: Layout, what: str, number: int, end: int) -> int:
    """Return `number` as an int when 0 <= number < end, or raise LayoutError."""
    try:
        value = operator.index(number)
    except TypeError:
        raise LayoutError(f"{layout.name}: {what} must be an integer, not {number!r}") from None
    if not 0 <= value < end:
        raise LayoutError(f"{layout.name}: {what} must be in range({end}), not {value}")
    return value


def check_declaration(layout: Layout) -> None:
    """Raise LayoutError unless the declaration is a bijection that all derived views can use."""
    if layout.element_bits not in ELEMENT_BITS:
        raise LayoutError(f"{layout.name}: element_bits must be one of {ELEMENT_BITS}, not {layout.element_bits}")
    if layout.space not in SPACES:
        raise LayoutError(f"{layout.name}: space must be one of {SPACES}, not {layout.space!r}")
    if not layout.axes or not layout.places:
        raise LayoutError(f"{layout.name}: a layout must have at least one axis and one place")
    for axis in layout.axes:
        _check_axis(layout, axis)
    declared = [factor.name for axis in layout.axes for factor in axis.factors]
    _check_unique(layout, "factor", declared)
    _check_unique(layout, "axis", [axis.name for axis in layout.axes])
    _check_unique(layout, "place", [place.name for place in layout.places])
    placed = [name for place in layout.places for name in place.factors]
    if sorted(placed) != sorted(declared):
        raise LayoutError(f"{layout.name}: places must hold each of the factors {declared} exactly once, not {placed}")
    if layout.space == "registers" and (layout.fixed_shape is None or layout.leading):
        raise LayoutError(f"{layout.name}: a register map must have fixed extents and no leading dimensions")
    if layout.element_bits == 4:
        _check_pairs(layout)


def _check_axis(layout: Layout, axis: Axis) -> None:
    if not axis.factors:
        raise LayoutError(f"{layout.name}: axis {axis.name} must have at least one factor")
    for position, factor in enumerate(axis.factors):
        if factor.extent is None and position:
            raise LayoutError(
                f"{layout.name}: only the outermost factor of axis {axis.name} may be free, not {factor.name}"
            )
        if factor.extent is not None and factor.extent < 1:
            raise LayoutError(f"{layout.name}: factor {factor.name} must be 1 or more, not {factor.extent}")
    if axis.pad_to is not None and (axis.pad_to < 1 or axis.pad_to % axis.tile or axis.extent is not None):
        raise LayoutError(
            f"{layout.name}: axis {axis.name} must be free and padded to a multiple of its tile {axis.tile}, "
            f"not to {axis.pad_to}"
        )


def _check_unique(layout: Layout, kind: str, names: list[str]) -> None:
    for name in names:
        if not name.isidentifier() or names.count(name) > 1:
            raise LayoutError(f"{layout.name}: {kind} names must be distinct identifiers, not {names}")


def _check_pairs(layout: Layout) -> None:
    last = layout.places[-1]
    count = math.prod(layout.factor(name).extent or 1 for name in last.factors)
    if layout.space == "registers" and count % 2:
        raise LayoutError(
            f"{layout.name}: place {last.name} must hold an even count of 4-bit elements, not {count}; "
            "two of them share a byte"
        )
    axis = layout.axes[-1]
    if layout.space == "memory" and axis.tile % 2:
        raise LayoutError(
            f"{layout.name}: the tile of axis {axis.name} must be even, not {axis.tile}; "
            "two 4-bit elements share a byte"
        )


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple


def type_name(value: Any) -> str:
    """The qualified type of a value that should have been a tensor."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
