"""Where each operand is read from: the address formulas of a kernel, with every term a suspect may get wrong."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from mxassay.layouts import PACKING
from mxassay.triage.suspects.scene import Scene, read

if TYPE_CHECKING:
    from mxassay.triage.suspects.pipeline import Loop

NEUTRAL = 127
"""What stands in for masked scales."""

Order = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""(row in a stripe, byte of the row in a step, bytes of a row in a step) to the byte's place in the stripe's run."""


def k_end(scene: Scene) -> int:
    """Where K ends."""
    return scene.shape[2]


def activations(
    scene: Scene,
    loop: "Loop",
    *,
    end: Callable[[Scene], int | None] = k_end,
    row_stride: Callable[[Scene], int] | None = None,
    column_stride: Callable[[Scene], int] | None = None,
    row_shift: int = 0,
    rows: Callable[[torch.Tensor], torch.Tensor] = lambda row: row,
    step_elements: Callable[[int], int] = lambda tile_k: tile_k,
    split_term: Callable[[torch.Tensor], torch.Tensor] = lambda start: start,
) -> torch.Tensor:
    """int64 (M, L, 32): bfloat16 words of A; 0 from `end` on (None: nothing is masked).

    `rows` gives the row that is read in place of each; `step_elements` what one step adds, `split_term` where a split
    starts.
    """
    a = scene.activations
    m = a.shape[0]
    row = rows(torch.arange(m) + row_shift).view(-1, 1, 1)
    masked = loop.position.view(1, -1, 1) + torch.arange(32)
    moved = split_term(loop.first) - loop.first + loop.step * (step_elements(loop.tile_k) - loop.tile_k)
    k = masked + moved.view(1, -1, 1)
    pitch = row_stride(scene) if row_stride else a.stride(0)
    step = column_stride(scene) if column_stride else a.stride(1)
    address: torch.Tensor = int(a.storage_offset()) + row * pitch + k * step
    words = read(scene.activation_words, address, beside=0xFFFF)
    limit = end(scene)
    return words if limit is None else torch.where(masked < limit, words, 0)


def stored_order(row: torch.Tensor, byte: torch.Tensor, width: int) -> torch.Tensor:
    """The (16, 16) preshuffle inside one stripe of 16 rows."""
    return byte // 32 * 512 + byte % 32 // 16 * 256 + row * 16 + byte % 16


def weights(
    scene: Scene,
    loop: "Loop",
    *,
    end: Callable[[Scene], int | None] = k_end,
    order: Order = stored_order,
    stripe_bytes: int = 16,
    split_term: Callable[[torch.Tensor], torch.Tensor] | None = None,
    step_bytes: Callable[[int], int] | None = None,
    preshuffled: bool | None = None,
    tile_term: Callable[[torch.Tensor], torch.Tensor] = lambda first: first,
) -> torch.Tensor:
    """uint8 (N, L, 32): codes of W; 0 from `end` on.

    `stripe_bytes` is what one row adds, in units of K/2 bytes, to the start of a stripe; `split_term` the offset of a
    split from its first k; `step_bytes` what one step adds, from the depth of a tile; `tile_term` the row at which a
    tile starts.
    """
    n, half = scene.operands.codes.shape
    tile = scene.geometry.tile_n
    shuffled = not scene.geometry.linear if preshuffled is None else preshuffled
    column = torch.arange(n).view(-1, 1, 1)
    inside, first = column % tile, column // tile * tile
    width = loop.tile_k // 2
    byte = (loop.block * 16).view(1, -1, 1) + torch.arange(16)
    start, step = loop.first.view(1, -1, 1), loop.step.view(1, -1, 1)
    unit = 16 if shuffled else 1
    begin = split_term(start) if split_term else start // 2 * unit
    advance = step_bytes(loop.tile_k) if step_bytes else width * unit
    if shuffled:
        place = order(inside % 16, byte, width)
        within = inside // 16 * (half * stripe_bytes) + place
    else:
        place = byte
        within = inside * half + byte
    packed = read(scene.weight_bytes, tile_term(first) * half + begin + step * advance + within)
    limit = end(scene)
    if limit is not None:
        # A mask says how much of what is stored is real, before it is put in order.
        packed = torch.where(place < (limit - start - step * loop.tile_k) // 2 * unit, packed, 0)
    return PACKING.invert(packed.to(torch.uint8).flatten(1)).view(n, -1, 32)


def weight_scales(
    scene: Scene,
    loop: "Loop",
    *,
    end: Callable[[Scene], int | None] = k_end,
    instead: int = NEUTRAL,
    wide: "Address | None" = None,
    gather: "Address | None" = None,
    linear: "Address | None" = None,
    stride: Callable[[Scene], int] | None = None,
    meaning: Callable[[torch.Tensor], torch.Tensor] | None = None,
    preshuffled: bool | None = None,
    real: bool = True,
) -> torch.Tensor:
    """uint8 (N, L): scale bytes of W; `instead` from `end` on.

    Three ways to read them, by the plan: wide loads, gathers by formula, and linear tables. `meaning` changes bytes as
    they come. Without `real` the table is as long as memory: what lies behind it is what stands beside it.
    """
    n = scene.operands.scales.shape[0]
    tile = scene.geometry.tile_n
    shuffled = not scene.geometry.linear if preshuffled is None else preshuffled
    column = torch.arange(n).view(-1, 1)
    inside, first = column % tile, column // tile * tile
    width = stride(scene) if stride else scene.scale_stride
    start, step, block = loop.first.view(1, -1), loop.step.view(1, -1), loop.block.view(1, -1)
    if not shuffled:
        way = linear or linear_address
    elif tile % 32 == 0 and loop.tile_k % 256 == 0:
        way = wide or wide_address
    else:
        way = gather or gather_address
    found = read(scene.scale_bytes, way(Place(inside, first, start, step, block, width, loop.tile_k)))
    if meaning is not None:
        found = meaning(found)
    limit = end(scene)
    if limit is not None:
        found = torch.where(start + step * loop.tile_k + 32 * block < limit, found, instead)
    return found.to(torch.uint8)


class Place(NamedTuple):
    """A scale of W as the loop comes to it.

    inside: the column inside its tile. first: the tile's first column. start: the k where the split starts. step: of
    the split. block: of the step. stride: stored columns of the table. tile_k: the depth of a step.
    """

    inside: torch.Tensor
    first: torch.Tensor
    start: torch.Tensor
    step: torch.Tensor
    block: torch.Tensor
    stride: int
    tile_k: int


Address = Callable[[Place], torch.Tensor]
"""To an address in the table."""


def wide_address(
    at: "Place",
    *,
    digits: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    stripe_rows: int = 32,
    split_term: Callable[[torch.Tensor], torch.Tensor] = lambda start: start,
    step_bytes: Callable[[int], int] = lambda tile_k: tile_k,
    tile_term: Callable[[torch.Tensor], torch.Tensor] = lambda first: first,
) -> torch.Tensor:
    """A tile read as whole stripes of 32 rows, then put in order. `digits` gives the place in a chunk of 256 bytes of
    (row in a stripe, block of the step); `tile_term` the row at which a tile starts."""
    row = at.inside % 32
    place = digits(row, at.block) if digits else in_chunk(row, at.block)
    begin = tile_term(at.first) // 32 * 32 * at.stride + split_term(at.start) + at.step * step_bytes(at.tile_k)
    return begin + at.inside // 32 * (at.stride * stripe_rows) + place


def in_chunk(row: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """The e8m0 shuffle inside one stripe of 32 rows."""
    return group // 8 * 256 + group % 4 * 64 + row % 16 * 4 + group % 8 // 4 * 2 + row % 32 // 16


def gather_address(
    at: "Place",
    *,
    digits: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = in_chunk,
    local: bool = False,
    stripe_start: bool = True,
) -> torch.Tensor:
    """The address formula for every tile. `local` forgets where the split starts, without `stripe_start` a tile counts
    as starting at a stripe."""
    row = (at.first % 32 if stripe_start else 0) + at.inside
    group = (0 if local else at.start // 32) + at.step * (at.tile_k // 32) + at.block
    return at.first // 32 * 32 * at.stride + row // 32 * (at.stride * 32) + digits(row, group)


def linear_address(
    at: "Place",
    *,
    split_term: Callable[[torch.Tensor], torch.Tensor] = lambda start: start // 32,
    step_bytes: Callable[[int], int] = lambda tile_k: tile_k // 32,
) -> torch.Tensor:
    """A row-major table."""
    row = at.first + at.inside
    return row * at.stride + split_term(at.start) + at.step * step_bytes(at.tile_k) + at.block
