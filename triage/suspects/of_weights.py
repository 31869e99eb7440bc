"""Wrong rules of reading W: orders of its bytes, strides, starts of tiles, of splits and of steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mxassay.triage.suspects import addresses as at
from mxassay.triage.suspects.reading import WEIGHTS, codes, linear, neighbour, previous, shuffled, weights
from mxassay.triage.suspects.scene import Scene
from mxassay.triage.suspects.suspect import Suspect

Tensor = torch.Tensor

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


def _byte_reversed(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(row, byte ^ 15, width)


def _dword_reversed(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(row, byte ^ 3, width)


def _tiles_exchanged(row: Tensor, byte: Tensor, width: int) -> Tensor:
    return at.stored_order(row, byte ^ 32 if width > 32 else byte, width)


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


OF_WEIGHTS: tuple[Suspect, ...] = (
    Suspect("weight-halves-over-the-step", "weight-order", WEIGHTS,
            "the two 16-byte halves of W's k-tiles are spread over a whole step", weights(order=_halves_over_the_step),
            shuffled),
    Suspect("weights-as-rows", "weight-order", WEIGHTS, "preshuffled bytes of W are taken as rows",
            weights(order=_rows_first), shuffled),
    Suspect("weight-halves-exchanged", "weight-order", WEIGHTS,
            "the two 16-byte halves of each k-tile of W are exchanged", weights(order=_half_exchanged), shuffled),
    Suspect("weight-half-behind-row", "weight-order", WEIGHTS, "W is read as if a row's 32 bytes lay together",
            weights(order=_half_behind_row), shuffled),
    Suspect("weight-row-behind-byte", "weight-order", WEIGHTS, "W is read as if its 16 rows were interleaved by bytes",
            weights(order=_row_behind_byte), shuffled),
    Suspect("weight-rows-reversed", "weight-order", WEIGHTS, "the 16 rows of each tile of W are read in reverse",
            weights(order=_row_reversed), shuffled),
    Suspect("weight-rows-in-pairs", "weight-order", WEIGHTS, "neighbouring rows of W are exchanged",
            weights(order=_row_neighbour), shuffled),
    Suspect("weight-stripe-doubled", "weight-order", WEIGHTS, "a stripe of 16 rows of W is taken for twice as long",
            weights(stripe_bytes=32), shuffled),
    Suspect("weight-stripe-halved", "weight-order", WEIGHTS, "a stripe of 16 rows of W is taken for half as long",
            weights(stripe_bytes=8), shuffled),
    Suspect("weight-step-of-one-row", "weight-order", "k-loop",
            "a step of the loop advances W by the bytes of one row, not of a stripe",
            weights(step_bytes=lambda tile_k: tile_k // 2), shuffled),
    Suspect("weight-step-stands", "weight-order", "k-loop", "W does not advance with the steps of the loop",
            weights(step_bytes=lambda tile_k: 0)),
    Suspect("linear-weight-step-in-elements", "weight-order", "k-loop", "a step advances linear W by elements",
            weights(step_bytes=lambda tile_k: tile_k), linear),
    Suspect("split-starts-wrong-in-linear-weights", "split-span", WEIGHTS,
            "the start of a split is counted in elements where linear W has packed bytes",
            weights(split_term=lambda start: start), linear),
    Suspect("split-starts-wrong-in-weights", "split-span", WEIGHTS,
            "the start of a split in W is counted in packed bytes of one row",
            weights(split_term=lambda start: start // 2), shuffled),
    Suspect("split-lost-in-weights", "split-span", WEIGHTS, "every split reads the weights of the first",
            weights(split_term=lambda start: 0 * start)),
    Suspect("w-nibbles-swapped", "nibble-order", WEIGHTS, "the weight of even k is taken from the high nibble",
            codes(lambda codes: codes[..., torch.arange(32) ^ 1])),
    Suspect("w-sign-lost", "nibble-order", WEIGHTS, "codes of W lose their sign", codes(lambda codes: codes & 7)),
    Suspect("weights-shuffled-twice", "weight-order", "prepare", "prepared weights were shuffled again, not unshuffled",
            _SHUFFLED_TWICE, linear),
    Suspect("linear-read-as-preshuffled", "plan-lookup", "launch", "prepared weights are read as if they were shuffled",
            _BOTH_SHUFFLED, linear),
    Suspect("linear-codes-taken", "weight-order", WEIGHTS, "linear codes are read as if they were preshuffled",
            {"weights": _linear_given}, shuffled),
    Suspect("weights-of-previous-block", "weight-order", WEIGHTS, "each block of K takes W's codes of the previous one",
            codes(previous(1))),
    Suspect("weights-of-next-block", "weight-order", WEIGHTS, "each block of K takes W's codes of the next one",
            codes(previous(-1))),
    Suspect("weight-bytes-reversed", "weight-order", WEIGHTS,
            "the 16 bytes of a row of a tile of W are read in reverse", weights(order=_byte_reversed), shuffled),
    Suspect("weight-dwords-reversed", "weight-order", WEIGHTS, "the four bytes of each dword of W are read in reverse",
            weights(order=_dword_reversed), shuffled),
    Suspect("weight-k-tiles-exchanged", "weight-order", WEIGHTS, "neighbouring k-tiles of W are exchanged",
            weights(order=_tiles_exchanged), shuffled),
    Suspect("weights-of-neighbours", "weight-order", WEIGHTS, "neighbouring columns exchange their weights",
            codes(neighbour)),
    Suspect("split-starts-half-way-in-weights", "split-span", WEIGHTS,
            "in W a split starts half way to where it must", weights(split_term=lambda start: start * 4), shuffled),
    Suspect("split-starts-late-in-weights", "split-span", WEIGHTS,
            "in W a split starts twice as far as it must", weights(split_term=lambda start: start * 16), shuffled),
    Suspect("weight-step-halved", "weight-order", "k-loop", "a step advances W by half of what it must",
            weights(step_bytes=lambda tile_k: tile_k * 4), shuffled),
    Suspect("weight-step-doubled", "weight-order", "k-loop", "a step advances W by twice what it must",
            weights(step_bytes=lambda tile_k: tile_k * 16), shuffled),
    Suspect("weight-tiles-stand", "weight-order", WEIGHTS, "every tile of columns reads the weights of the first",
            weights(tile_term=lambda first: 0 * first)),
    Suspect("weight-tiles-halved", "weight-order", WEIGHTS, "tiles of columns of W lie half as far apart as they must",
            weights(tile_term=lambda first: first // 2)),
    Suspect("weight-tiles-doubled", "weight-order", WEIGHTS,
            "tiles of columns of W lie twice as far apart as they must", weights(tile_term=lambda first: 2 * first)),
)  # fmt: skip
"""Rules that act on codes of W."""
