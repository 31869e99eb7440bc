"""Wrong rules of reading the scales of W: orders, strides, starts, and what a byte means."""

from collections.abc import Callable
from functools import partial

import torch

from mxassay.triage.suspects import addresses as at
from mxassay.triage.suspects.reading import SCALES, gathered, linear, neighbour, previous, scales, shuffled, table, wide
from mxassay.triage.suspects.suspect import Suspect

Tensor = torch.Tensor

# Orders of the bytes of a chunk of scales: (row in its stripe of 32, block).


def _digits(exchange: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The e8m0 shuffle with two digits exchanged, or one wrong."""

    def place(row: Tensor, group: Tensor) -> Tensor:
        r1, r0 = row % 32 // 16, row % 16
        g2, g1, g0 = group // 8, group % 8 // 4, group % 4
        if exchange == "g1 r1":
            return g2 * 256 + g0 * 64 + r0 * 4 + r1 * 2 + g1
        if exchange == "interleaved blocks":
            g0, g1 = group % 8 // 2, group % 2
        elif exchange == "interleaved rows":
            r0, r1 = row % 32 // 2, row % 2
        elif exchange == "r1 flipped":
            r1 = 1 - r1
        elif exchange == "g1 flipped":
            g1 = 1 - g1
        elif exchange == "linear":
            return row % 32 * 8 + group % 8 + g2 * 256
        elif exchange == "short chunk":
            return g2 * 128 + g0 * 64 + r0 * 4 + g1 * 2 + r1
        elif exchange == "r1 lost":
            r1 = torch.zeros_like(r1)
        elif exchange == "r0 reversed":
            r0 = 15 - r0
        elif exchange == "g0 reversed":
            g0 = 3 - g0
        elif exchange == "g1 lost":
            g1 = torch.zeros_like(g1)
        return g2 * 256 + g0 * 64 + r0 * 4 + g1 * 2 + r1

    return place


def _order(id_: str, statement: str, exchange: str) -> tuple[Suspect, ...]:
    """One wrong order, in the wide loads and in the gathers: each may be wrong alone."""
    digits = _digits(exchange)
    return (
        Suspect(id_, "scale-order", SCALES, statement,
                scales(wide=partial(at.wide_address, digits=digits),
                        gather=partial(at.gather_address, digits=digits)), shuffled),
        Suspect(f"{id_}-wide", "scale-order", SCALES, f"{statement}, where scales are read by wide loads",
                scales(wide=partial(at.wide_address, digits=digits)), wide, rank=2),
        Suspect(f"{id_}-gathered", "scale-order", SCALES, f"{statement}, where scales are gathered",
                scales(gather=partial(at.gather_address, digits=digits)), gathered, rank=2),
    )  # fmt: skip


def _meaning(id_: str, statement: str, change: Callable[[Tensor], Tensor]) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(f"{id_}{suffix}", "e8m0-special", SCALES, statement + where, scales(meaning=change), when, rank=rank)
        for suffix, where, when, rank in (
            ("", "", shuffled, 1),
            ("-wide", ", where scales are read by wide loads", wide, 2),
            ("-gathered", ", where scales are gathered", gathered, 2),
            ("-linear", ", where scales are read row-major", linear, 2),
        )
    )


def _tile_term(id_: str, statement: str, term: Callable[[Tensor], Tensor]) -> Suspect:
    return Suspect(id_, "scale-order", SCALES, statement, scales(wide=partial(at.wide_address, tile_term=term)), wide)


OF_SCALES: tuple[Suspect, ...] = (
    *_order("scale-low-bits-exchanged", "the two lowest digits of the scale shuffle are exchanged", "g1 r1"),
    *_order("scale-blocks-interleaved", "the blocks of the two K halves of a chunk of scales are interleaved",
            "interleaved blocks"),
    *_order("scale-rows-interleaved", "row r takes the scales of another row of its 32", "interleaved rows"),
    *_order("scale-row-groups-exchanged", "the two groups of 16 rows exchange their scales", "r1 flipped"),
    *_order("scale-halves-exchanged", "the two K halves of a chunk exchange their scales", "g1 flipped"),
    *_order("scale-row-group-lost", "the second group of 16 rows takes the scales of the first", "r1 lost"),
    *_order("scale-half-lost", "the second K half of a chunk takes the scales of the first", "g1 lost"),
    *_order("scales-never-unshuffled", "shuffled scales are taken as rows", "linear"),
    *_order("scale-chunk-by-valid-width", "chunks of 8 blocks of scales overlap", "short chunk"),
    Suspect("scale-stripe-halved", "scale-order", SCALES, "stripes of 16 rows of scales where the shuffle has 32",
            scales(wide=partial(at.wide_address, stripe_rows=16)), wide),
    Suspect("scale-stripe-doubled", "scale-order", SCALES, "stripes of 64 rows of scales where the shuffle has 32",
            scales(wide=partial(at.wide_address, stripe_rows=64)), wide),
    Suspect("scale-stride-of-valid-width", "scale-order", SCALES,
            "a row of scales is taken as K/32 wide, without padding",
            scales(stride=lambda scene: scene.shape[2] // 32), shuffled),
    Suspect("gather-from-the-stripe-start", "scale-order", SCALES,
            "gathered scales of a tile that begins inside a stripe are taken from the stripe's start",
            scales(gather=partial(at.gather_address, stripe_start=False)), gathered),
    Suspect("scale-step-of-one-row", "scale-order", "k-loop",
            "a step of the loop advances the scales by those of one row, not of a stripe",
            scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: tile_k // 32)), wide),
    Suspect("scale-step-stands", "scale-order", "k-loop", "scales do not advance with the steps of the loop",
            scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: 0),
                    linear=partial(at.linear_address, step_bytes=lambda tile_k: 0))),
    Suspect("linear-scale-step-doubled", "scale-order", "k-loop",
            "a step advances linear scales as if blocks had 16 elements",
            scales(linear=partial(at.linear_address, step_bytes=lambda tile_k: tile_k // 16)), linear),
    Suspect("linear-scale-step-halved", "scale-order", "k-loop",
            "a step advances linear scales as if blocks had 64 elements",
            scales(linear=partial(at.linear_address, step_bytes=lambda tile_k: tile_k // 64)), linear),
    Suspect("scales-by-local-k", "split-span", SCALES, "gathered scales are looked up by the k inside the split",
            scales(gather=partial(at.gather_address, local=True)), gathered),
    Suspect("split-starts-wrong-in-scales", "split-span", SCALES,
            "the start of a split in the scales is counted in blocks of one row",
            scales(wide=partial(at.wide_address, split_term=lambda start: start // 32)), wide),
    Suspect("split-lost-in-scales", "split-span", SCALES, "every split reads the scales of the first",
            scales(wide=partial(at.wide_address, split_term=lambda start: 0 * start),
                    linear=partial(at.linear_address, split_term=lambda start: 0 * start))),
    Suspect("split-starts-wrong-in-linear-scales", "split-span", SCALES,
            "the start of a split in linear scales is counted in packed bytes",
            scales(linear=partial(at.linear_address, split_term=lambda start: start // 64)), linear),
    Suspect("split-starts-late-in-linear-scales", "split-span", SCALES,
            "the start of a split in linear scales is counted in blocks of 16",
            scales(linear=partial(at.linear_address, split_term=lambda start: start // 16)), linear),
    Suspect("scales-of-previous-block", "scale-order", SCALES, "each block of K takes W's scale of the previous one",
            table(previous(1))),
    Suspect("scales-of-next-block", "scale-order", SCALES, "each block of K takes W's scale of the next one",
            table(previous(-1))),
    Suspect("scales-of-first-block", "scale-order", SCALES, "every block of K takes W's first scale",
            table(lambda found: found[:, :1].expand_as(found).contiguous())),
    Suspect("scales-exchanged", "scale-order", SCALES, "A and W exchange their scales",
            {"exchange": lambda a, w: (_rows_of(w, a), _rows_of(a, w))}),
    Suspect("w-unscaled", "scale-order", SCALES, "the scale of W is left out of the product",
            scales(meaning=lambda found: torch.full_like(found, 127))),
    *_meaning("scale-255-clamped", "scale byte 255 of W is read as 254: a NaN becomes a number",
              lambda found: found.clamp(max=254)),
    *_meaning("scale-255-is-one", "scale byte 255 of W is read as 127",
              lambda found: torch.where(found == 255, 127, found)),
    *_meaning("scale-0-raised", "scale byte 0 of W is read as 1", lambda found: found.clamp(min=1)),
    *_meaning("scale-0-is-one", "scale byte 0 of W is read as 127", lambda found: torch.where(found == 0, 127, found)),
    *_meaning("small-scales-flushed", "scale bytes of W below 113, float16's least exponent, are flushed to 0",
              lambda found: torch.where(found < 113, 0, found)),
    *_meaning("scale-254-is-nan", "scale byte 254 of W is read as NaN",
              lambda found: torch.where(found == 254, 255, found)),
    *_order("scale-row-reversed", "the 16 rows of a group take each other's scales in reverse", "r0 reversed"),
    *_order("scale-blocks-reversed", "the four blocks of a half of a chunk take each other's scales in reverse",
            "g0 reversed"),
    Suspect("scales-of-neighbours", "scale-order", SCALES, "neighbouring columns exchange their scales",
            table(neighbour)),
    Suspect("split-starts-half-way-in-scales", "split-span", SCALES,
            "in the scales a split starts half way to where it must",
            scales(wide=partial(at.wide_address, split_term=lambda start: start // 2)), wide),
    Suspect("split-starts-late-in-scales", "split-span", SCALES,
            "in the scales a split starts twice as far as it must",
            scales(wide=partial(at.wide_address, split_term=lambda start: start * 2)), wide),
    Suspect("scale-step-halved", "scale-order", "k-loop", "a step advances the scales by half of what it must",
            scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: tile_k // 2)), wide),
    Suspect("scale-step-doubled", "scale-order", "k-loop", "a step advances the scales by twice what it must",
            scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: tile_k * 2)), wide),
    _tile_term("scale-tiles-stand", "every tile of columns reads the scales of the first", lambda first: 0 * first),
    _tile_term("scale-tiles-halved", "tiles of columns lie half as far apart in the scales as they must",
               lambda first: first // 2),
    _tile_term("scale-tiles-doubled", "tiles of columns lie twice as far apart in the scales as they must",
               lambda first: 2 * first),
)  # fmt: skip
"""Rules that act on scales of W."""


def _rows_of(source: Tensor, like: Tensor) -> Tensor:
    """`source` with as many rows as `like`, round and round."""
    return source[torch.arange(like.shape[0]) % source.shape[0]]
