"""Wrong rules of loading: orders of bytes, strides, starts of splits, masks of tails, meanings of scale bytes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mxassay.triage.suspects import addresses as at
from mxassay.triage.suspects.scene import Scene
from mxassay.triage.suspects.suspect import Suspect

Tensor = torch.Tensor
_L = "scales.layout"
_W = "weights.layout"


def linear(scene: Scene) -> bool:
    """Weights are read row-major."""
    return scene.geometry.linear


def shuffled(scene: Scene) -> bool:
    """Weights are read preshuffled."""
    return not scene.geometry.linear


def wide(scene: Scene) -> bool:
    """Shuffled scales are read by wide loads."""
    return shuffled(scene) and scene.geometry.tile_n % 32 == 0 and scene.cut.tile_k % 256 == 0


def gathered(scene: Scene) -> bool:
    """Shuffled scales are gathered."""
    return shuffled(scene) and not wide(scene)


def ragged_k(scene: Scene) -> bool:
    """K is less than the splits cover."""
    return scene.cut.count * scene.cut.span != scene.shape[2]


def _weights(**terms: Any) -> dict[str, Callable[..., Tensor]]:
    return {"weights": partial(at.weights, **terms)}


def _scales(**terms: Any) -> dict[str, Callable[..., Tensor]]:
    return {"weight_scales": partial(at.weight_scales, **terms)}


def _codes(change: Callable[[Tensor], Tensor]) -> dict[str, Callable[..., Tensor]]:
    """W with its codes changed after they are read: (N, L, 32)."""
    return {"weights": lambda scene, loop: change(at.weights(scene, loop))}


def _table(change: Callable[[Tensor], Tensor]) -> dict[str, Callable[..., Tensor]]:
    """Scales of W changed after they are read: (N, L)."""
    return {"weight_scales": lambda scene, loop: change(at.weight_scales(scene, loop))}


# Orders of the bytes of a step inside one stripe: (row, byte of the row, bytes of a row in a step).


def _halves_over_the_step(row: Tensor, byte: Tensor, width: int) -> Tensor:
    tiles = width // 32
    return byte // 16 % tiles * 512 + byte // (16 * tiles) * 256 + row * 16 + byte % 16


def _rows_first(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return row * width + byte


def _half_exchanged(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(row, byte ^ 16, width)


def _half_behind_row(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return byte // 32 * 512 + row * 32 + byte % 32


def _row_behind_byte(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return byte // 32 * 512 + byte % 32 // 16 * 256 + byte % 16 * 16 + row


def _row_reversed(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(15 - row, byte, width)


def _row_neighbour(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(row ^ 1, byte, width)


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
        elif exchange == "g1 lost":
            g1 = torch.zeros_like(g1)
        return g2 * 256 + g0 * 64 + r0 * 4 + g1 * 2 + r1

    return place


def _order(id_: str, statement: str, exchange: str) -> tuple[Suspect, ...]:
    """One wrong order, in the wide loads and in the gathers: each may be wrong alone."""
    digits = _digits(exchange)
    return (
        Suspect(id_, "scale-order", _L, statement,
                _scales(wide=partial(at.wide_address, digits=digits),
                        gather=partial(at.gather_address, digits=digits)), shuffled),
        Suspect(f"{id_}-wide", "scale-order", _L, f"{statement}, where scales are read by wide loads",
                _scales(wide=partial(at.wide_address, digits=digits)), wide, rank=2),
        Suspect(f"{id_}-gathered", "scale-order", _L, f"{statement}, where scales are gathered",
                _scales(gather=partial(at.gather_address, digits=digits)), gathered, rank=2),
    )  # fmt: skip


def _meaning(id_: str, statement: str, change: Callable[[Tensor], Tensor]) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(f"{id_}{suffix}", "e8m0-special", _L, statement + where, _scales(meaning=change), when, rank=rank)
        for suffix, where, when, rank in (
            ("", "", shuffled, 1),
            ("-wide", ", where scales are read by wide loads", wide, 2),
            ("-gathered", ", where scales are gathered", gathered, 2),
            ("-linear", ", where scales are read row-major", linear, 2),
        )
    )


def _half_of_k(scene: Scene) -> int:
    return scene.shape[2] // 2


def _half_left(loads: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A load whose mask counts what is left of K, from the step on, in packed bytes: half of it is taken for zero."""

    def load(scene: Scene, loop: Any) -> Tensor:
        found = loads(scene, loop, end=lambda scene: None)
        left = scene.shape[2] - loop.first - loop.step * loop.tile_k
        inside = (loop.block * 32).view(1, -1, 1) + torch.arange(32) < (left // 2).view(1, -1, 1)
        return torch.where(inside, found, 0).to(found.dtype)

    return load


def _unmasked(**parts: bool) -> dict[str, Callable[..., Tensor]]:
    loads: dict[str, Callable[..., Tensor]] = {
        "activations": at.activations,
        "weights": at.weights,
        "weight_scales": at.weight_scales,
    }
    return {name: partial(loads[name], end=lambda scene: None) for name, on in parts.items() if on}


def _open_where_n_is_whole(scene: Scene) -> int | None:
    """A kernel that takes K for whole still masks W's rows where N is not."""
    return None if scene.shape[1] % scene.geometry.tile_n == 0 else scene.shape[2]


def _open_but_gathered(scene: Scene) -> int | None:
    """Gathered scales are masked in any case."""
    return scene.shape[2] if gathered(scene) else _open_where_n_is_whole(scene)


_NOTHING_MASKED = {
    "activations": partial(at.activations, end=lambda scene: None),
    "weights": partial(at.weights, end=_open_where_n_is_whole),
    "weight_scales": partial(at.weight_scales, end=_open_but_gathered),
}
_ALL_HALF = {
    "activations": partial(at.activations, end=_half_of_k),
    "weights": partial(at.weights, end=_half_of_k),
    "weight_scales": partial(at.weight_scales, end=_half_of_k),
}
_BOTH_SHUFFLED: dict[str, Callable[..., Tensor]] = {
    "weights": partial(at.weights, preshuffled=True),
    "weight_scales": partial(at.weight_scales, preshuffled=True),
}
_SHUFFLED_TWICE = {"weights": lambda scene, loop: _again(scene, loop)}


def _again(scene: Scene, loop: Any) -> Tensor:
    """Linear weights that were shuffled once more instead of unshuffled."""
    from mxassay.layouts import WEIGHT_PRESHUFFLE

    twice = WEIGHT_PRESHUFFLE.apply(WEIGHT_PRESHUFFLE.apply(scene.operands.codes))
    other = Scene(scene.operands, scene.geometry, scene.placement, scene.entry)
    other.__dict__["weight_bytes"] = twice.flatten().long()
    return at.weights(other, loop)


def _linear_given(scene: Scene, loop: Any) -> Tensor:
    """Linear codes read as if they were preshuffled."""
    other = Scene(scene.operands, scene.geometry, scene.placement, scene.entry)
    other.__dict__["weight_bytes"] = scene.operands.codes.flatten().long()
    return at.weights(other, loop, preshuffled=True)


def _previous(step: int) -> Callable[[Tensor], Tensor]:
    return lambda found: found.roll(step, 1)


LOADING: tuple[Suspect, ...] = (
    # weights
    Suspect("weight-halves-over-the-step", "weight-order", _W,
            "the two 16-byte halves of W's k-tiles are spread over a whole step", _weights(order=_halves_over_the_step),
            shuffled),
    Suspect("weights-as-rows", "weight-order", _W, "preshuffled bytes of W are taken as rows",
            _weights(order=_rows_first), shuffled),
    Suspect("weight-halves-exchanged", "weight-order", _W, "the two 16-byte halves of each k-tile of W are exchanged",
            _weights(order=_half_exchanged), shuffled),
    Suspect("weight-half-behind-row", "weight-order", _W, "W is read as if a row's 32 bytes lay together",
            _weights(order=_half_behind_row), shuffled),
    Suspect("weight-row-behind-byte", "weight-order", _W, "W is read as if its 16 rows were interleaved by bytes",
            _weights(order=_row_behind_byte), shuffled),
    Suspect("weight-rows-reversed", "weight-order", _W, "the 16 rows of each tile of W are read in reverse",
            _weights(order=_row_reversed), shuffled),
    Suspect("weight-rows-in-pairs", "weight-order", _W, "neighbouring rows of W are exchanged",
            _weights(order=_row_neighbour), shuffled),
    Suspect("weight-stripe-doubled", "weight-order", _W, "a stripe of 16 rows of W is taken for twice as long",
            _weights(stripe_bytes=32), shuffled),
    Suspect("weight-stripe-halved", "weight-order", _W, "a stripe of 16 rows of W is taken for half as long",
            _weights(stripe_bytes=8), shuffled),
    Suspect("weight-step-of-one-row", "weight-order", "k-loop",
            "a step of the loop advances W by the bytes of one row, not of a stripe",
            _weights(step_bytes=lambda tile_k: tile_k // 2), shuffled),
    Suspect("weight-step-stands", "weight-order", "k-loop", "W does not advance with the steps of the loop",
            _weights(step_bytes=lambda tile_k: 0)),
    Suspect("linear-weight-step-in-elements", "weight-order", "k-loop", "a step advances linear W by elements",
            _weights(step_bytes=lambda tile_k: tile_k), linear),
    Suspect("split-starts-wrong-in-linear-weights", "split-span", _W,
            "the start of a split is counted in elements where linear W has packed bytes",
            _weights(split_term=lambda start: start), linear),
    Suspect("split-starts-wrong-in-weights", "split-span", _W,
            "the start of a split in W is counted in packed bytes of one row",
            _weights(split_term=lambda start: start // 2), shuffled),
    Suspect("split-lost-in-weights", "split-span", _W, "every split reads the weights of the first",
            _weights(split_term=lambda start: 0 * start)),
    Suspect("w-nibbles-swapped", "nibble-order", _W, "the weight of even k is taken from the high nibble",
            _codes(lambda codes: codes[..., torch.arange(32) ^ 1])),
    Suspect("w-sign-lost", "nibble-order", _W, "codes of W lose their sign", _codes(lambda codes: codes & 7)),
    Suspect("weights-shuffled-twice", "weight-order", "prepare", "prepared weights were shuffled again, not unshuffled",
            _SHUFFLED_TWICE, linear),
    Suspect("linear-read-as-preshuffled", "plan-lookup", "launch", "prepared weights are read as if they were shuffled",
            _BOTH_SHUFFLED, linear),
    Suspect("linear-codes-taken", "weight-order", _W, "linear codes are read as if they were preshuffled",
            {"weights": _linear_given}, shuffled),
    Suspect("weights-of-previous-block", "weight-order", _W, "each block of K takes W's codes of the previous one",
            _codes(_previous(1))),
    Suspect("weights-of-next-block", "weight-order", _W, "each block of K takes W's codes of the next one",
            _codes(_previous(-1))),
    # scales
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
    Suspect("scale-stripe-halved", "scale-order", _L, "stripes of 16 rows of scales where the shuffle has 32",
            _scales(wide=partial(at.wide_address, stripe_rows=16)), wide),
    Suspect("scale-stripe-doubled", "scale-order", _L, "stripes of 64 rows of scales where the shuffle has 32",
            _scales(wide=partial(at.wide_address, stripe_rows=64)), wide),
    Suspect("scale-stride-of-valid-width", "scale-order", _L, "a row of scales is taken as K/32 wide, without padding",
            _scales(stride=lambda scene: scene.shape[2] // 32), shuffled),
    Suspect("gather-from-the-stripe-start", "scale-order", _L,
            "gathered scales of a tile that begins inside a stripe are taken from the stripe's start",
            _scales(gather=partial(at.gather_address, stripe_start=False)), gathered),
    Suspect("scale-step-of-one-row", "scale-order", "k-loop",
            "a step of the loop advances the scales by those of one row, not of a stripe",
            _scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: tile_k // 32)), wide),
    Suspect("scale-step-stands", "scale-order", "k-loop", "scales do not advance with the steps of the loop",
            _scales(wide=partial(at.wide_address, step_bytes=lambda tile_k: 0),
                    linear=partial(at.linear_address, step_bytes=lambda tile_k: 0))),
    Suspect("linear-scale-step-doubled", "scale-order", "k-loop",
            "a step advances linear scales as if blocks had 16 elements",
            _scales(linear=partial(at.linear_address, step_bytes=lambda tile_k: tile_k // 16)), linear),
    Suspect("linear-scale-step-halved", "scale-order", "k-loop",
            "a step advances linear scales as if blocks had 64 elements",
            _scales(linear=partial(at.linear_address, step_bytes=lambda tile_k: tile_k // 64)), linear),
    Suspect("scales-by-local-k", "split-span", _L, "gathered scales are looked up by the k inside the split",
            _scales(gather=partial(at.gather_address, local=True)), gathered),
    Suspect("split-starts-wrong-in-scales", "split-span", _L,
            "the start of a split in the scales is counted in blocks of one row",
            _scales(wide=partial(at.wide_address, split_term=lambda start: start // 32)), wide),
    Suspect("split-lost-in-scales", "split-span", _L, "every split reads the scales of the first",
            _scales(wide=partial(at.wide_address, split_term=lambda start: 0 * start),
                    linear=partial(at.linear_address, split_term=lambda start: 0 * start))),
    Suspect("split-starts-wrong-in-linear-scales", "split-span", _L,
            "the start of a split in linear scales is counted in packed bytes",
            _scales(linear=partial(at.linear_address, split_term=lambda start: start // 64)), linear),
    Suspect("split-starts-late-in-linear-scales", "split-span", _L,
            "the start of a split in linear scales is counted in blocks of 16",
            _scales(linear=partial(at.linear_address, split_term=lambda start: start // 16)), linear),
    Suspect("scales-of-previous-block", "scale-order", _L, "each block of K takes W's scale of the previous one",
            _table(_previous(1))),
    Suspect("scales-of-next-block", "scale-order", _L, "each block of K takes W's scale of the next one",
            _table(_previous(-1))),
    Suspect("scales-of-first-block", "scale-order", _L, "every block of K takes W's first scale",
            _table(lambda found: found[:, :1].expand_as(found).contiguous())),
    Suspect("scales-exchanged", "scale-order", _L, "A and W exchange their scales",
            {"exchange": lambda a, w: (_rows_of(w, a), _rows_of(a, w))}),
    Suspect("w-unscaled", "scale-order", _L, "the scale of W is left out of the product",
            _scales(meaning=lambda found: torch.full_like(found, 127))),
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
    # tails of K
    Suspect("padding-scales-reach-the-product", "padding", _L,
            "behind K the padding of the scale table is used, where scales are read by wide loads",
            _unmasked(weight_scales=True), wide),
    Suspect("gathered-padding-reaches-the-product", "padding", _L,
            "behind K the padding of the scale table is used, where scales are gathered",
            _unmasked(weight_scales=True), gathered),
    Suspect("linear-scales-read-the-next-row", "padding", _L,
            "behind K the next row of linear scales is used", _unmasked(weight_scales=True), linear),
    Suspect("masked-scales-are-nan", "padding", _L, "what stands in for scales behind K is NaN",
            _scales(instead=255)),
    Suspect("activation-tail-unmasked", "k-tail", "activations", "activations behind K are read, not masked",
            _unmasked(activations=True)),
    Suspect("weight-tail-unmasked", "k-tail", _W, "weights behind K are read, not masked", _unmasked(weights=True)),
    Suspect("weight-tail-in-elements", "k-tail", _W,
            "what is left of K is taken for packed bytes: half of the last weights count as zero",
            {"weights": _half_left(at.weights)}, shuffled),
    Suspect("linear-weight-tail-in-elements", "k-tail", _W,
            "what is left of K is taken for packed bytes, where linear weights are read",
            {"weights": _half_left(at.weights)}, linear),
    Suspect("activation-tail-halved", "k-tail", "activations",
            "what is left of K is halved in the mask of activations", {"activations": _half_left(at.activations)}),
    Suspect("k-in-packed-bytes", "k-tail", "k-loop", "everything is masked from K/2 on", _ALL_HALF, ragged_k),
    Suspect("nothing-masked-for-whole-steps", "k-tail", "split-k",
            "a last split that is shorter runs its full span without a mask where K is whole steps", _NOTHING_MASKED,
            lambda scene: ragged_k(scene) and scene.shape[2] % scene.cut.tile_k == 0),
    Suspect("nothing-masked-for-half-steps", "k-tail", "k-loop", "nothing is masked where K is whole halves of a step",
            _NOTHING_MASKED, lambda scene: ragged_k(scene) and 2 * scene.shape[2] % scene.cut.tile_k == 0),
    Suspect("nothing-masked", "k-tail", "k-loop", "nothing behind K is masked", _NOTHING_MASKED, ragged_k),
    # strides of activations
    Suspect("activations-taken-for-contiguous", "strides", "activations", "rows of A are taken to be K apart",
            {"activations": partial(at.activations, row_stride=lambda scene: scene.shape[2])}),
    Suspect("column-stride-ignored", "strides", "activations", "elements of a row of A are taken to lie side by side",
            {"activations": partial(at.activations, column_stride=lambda scene: 1)}),
    Suspect("rows-behind-their-place", "small-m", "activations", "each row takes the activations of the next",
            {"activations": partial(at.activations, row_shift=1)}),
    Suspect("rows-before-their-place", "small-m", "activations", "each row takes the activations of the previous",
            {"activations": partial(at.activations, row_shift=-1)}),
)  # fmt: skip
"""Rules that act on what is read from where."""


def _rows_of(source: Tensor, like: Tensor) -> Tensor:
    """`source` with as many rows as `like`, round and round."""
    return source[torch.arange(like.shape[0]) % source.shape[0]]
