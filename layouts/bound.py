"""A layout bound to one shape: integer arithmetic on coordinates, and the moves of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mxassay.layouts.contract import LayoutError, check_below, check_coords, check_shape

if TYPE_CHECKING:
    import torch

    from mxassay.layouts.declaration import Layout


@dataclass(frozen=True)
class BoundLayout:
    """`layout` for tensors of exactly `shape`. Make it with `layout.bind(shape)`.

    Coordinates are ints, one for each dimension of `shape`; they may point into the padding. Offsets count elements
    (bytes for 8-bit layouts, nibbles for 4-bit ones). Neither touches a tensor, so both work without torch.

    >>> from mxassay.layouts import SCALE_SHUFFLE
    >>> scales = SCALE_SHUFFLE.bind((4, 16))
    >>> scales.padded_shape, scales.offset((1, 9)), scales.coords(325)
    ((256, 16), 324, (17, 9))
    """

    layout: Layout
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_shape(self.layout, self.shape))

    @property
    def leading(self) -> tuple[int, ...]:
        """The extents in front of the declared axes."""
        return self.shape[: len(self.shape) - len(self.layout.axes)]

    @cached_property
    def padded_shape(self) -> tuple[int, ...]:
        """`shape` with every padded axis rounded up."""
        extents = self.shape[len(self.leading) :]
        return self.leading + tuple(axis.padded(extent) for axis, extent in zip(self.layout.axes, extents, strict=True))

    @cached_property
    def size(self) -> int:
        """The count of stored elements, padding included. Offsets fill range(size)."""
        return math.prod(self.padded_shape)

    @cached_property
    def extents(self) -> Mapping[str, int]:
        """The extent of every factor at this shape, by factor name."""
        found = {}
        for axis, extent in zip(self.layout.axes, self.padded_shape[len(self.leading) :], strict=True):
            for factor in axis.factors:
                found[factor.name] = extent // axis.tile if factor.extent is None else factor.extent
        return found

    @cached_property
    def strides(self) -> Mapping[str, int]:
        """What one step of each factor adds to the offset, in destination order."""
        return self._strides_of([name for place in self.layout.places for name in place.factors])

    @cached_property
    def place_sizes(self) -> Mapping[str, int]:
        """The count of values of each place; leading dimensions belong to the outermost place."""
        sizes = {place.name: math.prod(self.extents[name] for name in place.factors) for place in self.layout.places}
        sizes[self.layout.places[0].name] *= math.prod(self.leading)
        return sizes

    @cached_property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape that `apply` returns: `padded_shape` in memory, one dimension per place in registers.

        Where elements have 4 bits the last dimension counts bytes, half as many.
        """
        shape = self.padded_shape if self.layout.space == "memory" else tuple(self.place_sizes.values())
        return (*shape[:-1], shape[-1] // 2) if self.layout.element_bits == 4 else shape

    def offset(self, coords: Sequence[int]) -> int:
        """The element offset of `coords`, by integer arithmetic alone.

        Raises LayoutError when a coordinate lies outside `padded_shape`.
        """
        checked = check_coords(self.layout, self.padded_shape, coords)
        return int(self.evaluate(checked))

    def coords(self, offset: int) -> tuple[int, ...]:
        """The coordinates stored at `offset`; inverse of `offset`. They may lie in the padding.

        Raises LayoutError when `offset` is not in range(size).
        """
        remainder = check_below(self.layout, "offset", offset, self.size)
        plane = self._plane()
        index = remainder // plane
        leading = []
        for extent in reversed(self.leading):
            leading.append(index % extent)
            index //= extent
        coords = [
            sum(
                remainder // self.strides[factor.name] % self.extents[factor.name] * axis.step(position)
                for position, factor in enumerate(axis.factors)
            )
            for axis in self.layout.axes
        ]
        return (*reversed(leading), *coords)

    def place(self, coords: Sequence[int]) -> dict[str, int]:
        """The number of every place for `coords`, by place name.

        >>> from mxassay.layouts import MFMA_16X16X128_A
        >>> MFMA_16X16X128_A.bind((16, 128)).place((1, 43))
        {'lane': 17, 'vgpr': 1, 'nibble': 3}
        """
        offset = self.offset(coords)
        numbers = {}
        for place in reversed(self.layout.places):
            offset, numbers[place.name] = divmod(offset, self.place_sizes[place.name])
        return {place.name: numbers[place.name] for place in self.layout.places}

    def at(self, **places: int) -> tuple[int, ...]:
        """The coordinates of the element in the named places; inverse of `place`.

        Raises LayoutError unless every place is named, once, within its size.

        >>> from mxassay.layouts import MFMA_16X16X128_A
        >>> MFMA_16X16X128_A.bind((16, 128)).at(lane=17, vgpr=1, nibble=3)
        (1, 43)
        """
        if set(places) != set(self.place_sizes):
            raise LayoutError(
                f"{self.layout.name}: places must be {', '.join(self.place_sizes)}, not {', '.join(places) or 'none'}"
            )
        offset = 0
        for name, size in self.place_sizes.items():
            offset = offset * size + check_below(self.layout, name, places[name], size)
        return self.coords(offset)

    def is_padding(self, coords: Sequence[int]) -> bool:
        """Whether `coords` lie in the padding, where no data is stored."""
        checked = check_coords(self.layout, self.padded_shape, coords)
        return any(coord >= extent for coord, extent in zip(checked, self.shape, strict=True))

    def offsets(self, place: str | None = None) -> torch.Tensor:
        """The address formula at every coordinate at once: int64, shape `padded_shape`, on the CPU.

        With `place`, the numbers of that place.
        """
        from mxassay.layouts import movement

        return movement.offsets(self, place)

    def apply(self, tensor: torch.Tensor, fill: int = 0) -> torch.Tensor:
        """Move every element to its place. Bits are moved, never converted.

        `tensor` has shape `shape`, any strides, any device; 8-bit layouts take every one-byte dtype, 32-bit layouts
        every four-byte dtype, 4-bit layouts uint8 codes 0..15, one in each byte. Returns a fresh contiguous tensor of
        shape `stored_shape`, of the same dtype and device, that carries no gradient. `fill` is the raw element
        (0..255 for bytes) that goes to the padding. Not checked: what the elements mean, or whether they were
        shuffled before.

        Raises LayoutError on another shape, dtype or fill, and on a code above 15.

        >>> import torch
        >>> from mxassay.layouts import PACKING
        >>> PACKING.apply(torch.tensor([1, 7], dtype=torch.uint8))
        tensor([113], dtype=torch.uint8)
        """
        from mxassay.layouts import movement

        return movement.apply(self, tensor, fill)

    def invert(self, tensor: torch.Tensor) -> torch.Tensor:
        """Undo `apply`: `tensor` has shape `stored_shape`; returns a fresh contiguous tensor of shape `shape`.

        The padding is dropped unread. 4-bit layouts return uint8 codes, one in each byte.

        Raises LayoutError on another shape or dtype.
        """
        from mxassay.layouts import movement

        return movement.invert(self, tensor)

    def evaluate(self, coords: Sequence[Any], place: str | None = None) -> Any:
        """The address formula on ints, or on int64 tensors that broadcast against each other. No range checks."""
        strides, plane = self.strides, self._plane()
        if place is not None:
            factors = next(p.factors for p in self.layout.places if p.name == place)
            strides = self._strides_of(factors)
            outermost = place == self.layout.places[0].name
            plane = math.prod(self.extents[name] for name in factors) if outermost else 0
        index: Any = 0
        for extent, coord in zip(self.leading, coords, strict=False):
            index = index * extent + coord
        total: Any = index * plane
        for axis, coord in zip(self.layout.axes, coords[len(self.leading) :], strict=True):
            for position, factor in enumerate(axis.factors):
                if factor.name in strides:
                    digit = coord // axis.step(position) % self.extents[factor.name]
                    total = total + digit * strides[factor.name]
        return total

    def _plane(self) -> int:
        return math.prod(self.padded_shape[len(self.leading) :])

    def _strides_of(self, factors: Sequence[str]) -> dict[str, int]:
        strides = {}
        stride = 1
        for name in reversed(factors):
            strides[name] = stride
            stride *= self.extents[name]
        return {name: strides[name] for name in factors}

    def __repr__(self) -> str:
        padding = "" if self.padded_shape == self.shape else f" padded to {self.padded_shape}"
        return f"{self.layout.name} of shape {self.shape}{padding}"
