"""A layout as data: axes cut into tile factors, and the places where each factor's digit goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mxassay.layouts import formula
from mxassay.layouts.bound import BoundLayout
from mxassay.layouts.contract import LayoutError, check_declaration, round_up

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Factor:
    """One digit of a coordinate in the mixed radix of its axis.

    `extent` is the number of values of the digit; None leaves it free (only the outermost factor of an axis may
    be free). `meaning` says in a few words what the digit counts.
    """

    name: str
    extent: int | None = None
    meaning: str = ""


@dataclass(frozen=True)
class Axis:
    """A named dimension. `factors` run from outermost to innermost.

    With n = 16·n1 + n0 the factors are (n1, n0), the tile is 16. An axis with `pad_to` takes any extent and is padded
    to the next multiple of it; an axis without must come as a multiple of its tile. `codes` is how many 4-bit codes
    along K one step of the axis stands for; None where it does not run along K.
    """

    name: str
    factors: tuple[Factor, ...]
    pad_to: int | None = None
    meaning: str = ""
    codes: int | None = None

    @property
    def tile(self) -> int:
        """Product of all extents inside the outermost factor."""
        return math.prod(factor.extent or 1 for factor in self.factors[1:])

    @property
    def extent(self) -> int | None:
        """The only legal extent, or None where the outermost factor is free."""
        outermost = self.factors[0].extent
        return None if outermost is None else outermost * self.tile

    @property
    def multiple(self) -> int:
        """Every legal extent is a multiple of this (1 for a padded axis)."""
        return 1 if self.pad_to is not None else self.tile

    @property
    def symbol(self) -> str:
        """The name of the stored extent in formulas: `KB`, or `Gp` for a padded axis g."""
        return self.name.upper() + ("p" if self.pad_to is not None else "")

    def step(self, position: int) -> int:
        """What one step of the factor at `position` adds to the coordinate."""
        return math.prod(factor.extent or 1 for factor in self.factors[position + 1 :])

    def padded(self, extent: int) -> int:
        """The stored extent for a logical one."""
        return extent if self.pad_to is None else round_up(extent, self.pad_to)


@dataclass(frozen=True)
class Place:
    """A destination (an offset, a byte, a lane, a VGPR, a nibble) and its factors, outermost first."""

    name: str
    factors: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A permutation of elements with padding, declared as data. It holds no shape: `bind` adds one.

    Elements are counted in units of `element_bits` (4, 8 or 32). Places run from outermost to innermost, and the
    linear offset of an element is the mixed-radix number of all place factors. Of two 4-bit elements that share a
    byte, the one with the even offset lies in the low nibble. `space` is "memory" (`apply` keeps the rank of its
    input) or "registers" (`apply` returns one dimension per place). `leading` allows further dimensions in front;
    they stay outermost, row-major.

    Raises LayoutError when the declaration is no bijection.

    >>> from mxassay.layouts import WEIGHT_PRESHUFFLE
    >>> WEIGHT_PRESHUFFLE
    WEIGHT_PRESHUFFLE: n = 16·n1 + n0, kb = 32·k2 + 16·k1 + k0 -> offset[n1, k2, k1, n0, k0]
    >>> WEIGHT_PRESHUFFLE.bind((16, 64)).offset((1, 33))
    529
    """

    name: str
    axes: tuple[Axis, ...]
    places: tuple[Place, ...]
    element_bits: int
    space: Literal["memory", "registers"]
    element: str
    purpose: str
    source: str
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    leading: bool = False

    def __post_init__(self) -> None:
        check_declaration(self)

    @property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The only legal shape of a map whose extents are all fixed, else None."""
        extents = tuple(axis.extent for axis in self.axes if axis.extent is not None)
        return extents if len(extents) == len(self.axes) else None

    @property
    def signature(self) -> str:
        """The shape in symbols, such as `(..., N, KB)`."""
        names = (["..."] if self.leading else []) + [axis.name.upper() for axis in self.axes]
        return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"

    def axis_of(self, factor: str) -> tuple[Axis, int]:
        """The axis that holds the named factor, and the factor's position in it."""
        for axis in self.axes:
            for position, candidate in enumerate(axis.factors):
                if candidate.name == factor:
                    return axis, position
        raise LayoutError(f"{self.name}: factor must be one that the axes declare, not {factor!r}")

    def factor(self, name: str) -> Factor:
        """The declared factor of that name."""
        axis, position = self.axis_of(name)
        return axis.factors[position]

    def smallest_shape(self, coords: Sequence[int]) -> tuple[int, ...]:
        """The smallest legal shape that has an element at `coords`."""
        split = len(coords) - len(self.axes)
        if split < 0 or (split and not self.leading):
            raise LayoutError(f"{self.name}: coordinates must be {self.signature}, not {tuple(coords)}")
        extents = [coord + 1 for coord in coords[:split]]
        for axis, coord in zip(self.axes, coords[split:], strict=True):
            extents.append(axis.extent if axis.extent is not None else round_up(coord + 1, axis.multiple))
        return tuple(extents)

    def bind(self, shape: Sequence[int]) -> BoundLayout:
        """Check `shape` against the contract and return the layout of exactly that shape.

        Raises LayoutError naming the axis and the multiple it must have.
        """
        return BoundLayout(self, tuple(shape))

    def apply(self, tensor: torch.Tensor, fill: int = 0) -> torch.Tensor:
        """`bind(tensor.shape).apply(tensor, fill)`."""
        from mxassay.layouts import movement

        return BoundLayout(self, movement.shape_of(self, tensor)).apply(tensor, fill)

    def invert(self, tensor: torch.Tensor, shape: Sequence[int] | None = None) -> torch.Tensor:
        """Undo `apply`. `shape` is the logical shape to return; without it the padding is kept.

        Raises LayoutError when `tensor` is not what `apply` returns for that shape.
        """
        from mxassay.layouts import movement

        stored = movement.shape_of(self, tensor)
        if shape is None:
            shape = self.fixed_shape
        if shape is None:
            shape = (*stored[:-1], stored[-1] * 2) if self.element_bits == 4 and stored else stored
        return BoundLayout(self, tuple(shape)).invert(tensor)

    def formula(self, place: str | None = None) -> str:
        """The address formula as Python integer arithmetic over axis names and stored extents.

        Memory layouts give the element offset; register maps give `lane = ...; vgpr = ...`. With `place`, the
        expression of that place alone. Leading dimensions are left out: they add whole planes.

        >>> from mxassay.layouts import WEIGHT_PRESHUFFLE
        >>> WEIGHT_PRESHUFFLE.formula()
        '(n//16)*16*KB + (kb//32)*512 + ((kb%32)//16)*256 + (n%16)*16 + kb%16'
        """
        if place is not None:
            return formula.place_expression(self, place)
        if self.space == "memory":
            return formula.offset_expression(self)
        return "; ".join(f"{p.name} = {formula.place_expression(self, p.name)}" for p in self.places)

    def inverse_formula(self) -> str:
        """The coordinates from `offset` (memory) or from the places (registers), as Python assignments.

        >>> from mxassay.layouts import MFMA_16X16X128_A
        >>> MFMA_16X16X128_A.inverse_formula()
        'm = lane%16; k = (lane//16)*32 + vgpr*8 + nibble'
        """
        return "; ".join(f"{axis.name} = {formula.coordinate_expression(self, axis)}" for axis in self.axes)

    def __repr__(self) -> str:
        return f"{self.name}: {formula.decomposition(self)} -> {formula.destination(self)}"
