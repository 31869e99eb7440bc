"""Wrong rules of loading: tails of K, strides and rows of activations; with them those of W and of its scales."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mxassay.triage.suspects import addresses as at
from mxassay.triage.suspects.of_scales import OF_SCALES
from mxassay.triage.suspects.of_weights import OF_WEIGHTS
from mxassay.triage.suspects.reading import SCALES, WEIGHTS, gathered, linear, ragged_k, scales, shuffled, wide
from mxassay.triage.suspects.scene import Scene
from mxassay.triage.suspects.suspect import Suspect

Tensor = torch.Tensor


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


def _activations(**terms: Any) -> dict[str, Callable[..., Tensor]]:
    return {"activations": partial(at.activations, **terms)}


def _half_the_scales(scene: Scene, loop: Any) -> Tensor:
    """Scales whose mask counts what is left of K, from the step on, in packed bytes."""
    found = at.weight_scales(scene, loop, end=lambda scene: None)
    left = scene.shape[2] - loop.first - loop.step * loop.tile_k
    return torch.where(loop.block * 64 < left, found, at.NEUTRAL).to(found.dtype)


def _not_the_last(row: Tensor) -> Tensor:
    """The row before the last takes the last one's place."""
    return row.clamp(max=max(len(row) - 2, 0))


LOADING: tuple[Suspect, ...] = (
    *OF_WEIGHTS,
    *OF_SCALES,
    # tails of K
    Suspect("padding-scales-reach-the-product", "padding", SCALES,
            "behind K the padding of the scale table is used, where scales are read by wide loads",
            _unmasked(weight_scales=True), wide),
    Suspect("gathered-padding-reaches-the-product", "padding", SCALES,
            "behind K the padding of the scale table is used, where scales are gathered",
            _unmasked(weight_scales=True), gathered),
    Suspect("linear-scales-read-the-next-row", "padding", SCALES,
            "behind K the next row of linear scales is used", _unmasked(weight_scales=True), linear),
    Suspect("masked-scales-are-nan", "padding", SCALES, "what stands in for scales behind K is NaN",
            scales(instead=255)),
    Suspect("activation-tail-unmasked", "k-tail", "activations", "activations behind K are read, not masked",
            _unmasked(activations=True)),
    Suspect("weight-tail-unmasked", "k-tail", WEIGHTS, "weights behind K are read, not masked",
            _unmasked(weights=True)),
    Suspect("weight-tail-in-elements", "k-tail", WEIGHTS,
            "what is left of K is taken for packed bytes: half of the last weights count as zero",
            {"weights": _half_left(at.weights)}, shuffled),
    Suspect("linear-weight-tail-in-elements", "k-tail", WEIGHTS,
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
    Suspect("last-row-repeats-the-one-before", "small-m", "activations",
            "the last row of A is that before it once more", _activations(rows=_not_the_last)),
    # tails, starts and steps once more
    Suspect("scale-tail-in-elements", "k-tail", SCALES,
            "what is left of K is halved in the mask of scales: half of the last ones count as 1",
            {"weight_scales": _half_the_scales}),
    Suspect("activation-step-halved", "k-tail", "k-loop", "a step advances A by half of what it must",
            _activations(step_elements=lambda tile_k: tile_k // 2)),
    Suspect("activation-step-doubled", "k-tail", "k-loop", "a step advances A by twice what it must",
            _activations(step_elements=lambda tile_k: tile_k * 2)),
    Suspect("activation-step-stands", "k-tail", "k-loop", "A does not advance with the steps of the loop",
            _activations(step_elements=lambda tile_k: 0)),
    Suspect("split-lost-in-activations", "split-span", "activations", "every split reads the activations of the first",
            _activations(split_term=lambda start: 0 * start)),
    Suspect("split-starts-half-way-in-activations", "split-span", "activations",
            "in A a split starts half way to where it must", _activations(split_term=lambda start: start // 2)),
    Suspect("split-starts-late-in-activations", "split-span", "activations",
            "in A a split starts twice as far as it must", _activations(split_term=lambda start: start * 2)),
)  # fmt: skip
"""Rules that act on what is read from where."""
