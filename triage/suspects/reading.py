"""Which way a call reads its operands, and how a rule of reading is put into a suspect."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mxassay.triage.suspects import addresses as at
from mxassay.triage.suspects.scene import Scene

Tensor = torch.Tensor
Loads = dict[str, Callable[..., Tensor]]

SCALES = "scales.layout"
WEIGHTS = "weights.layout"


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


def weights(**terms: Any) -> Loads:
    """W read with these terms of its address wrong."""
    return {"weights": partial(at.weights, **terms)}


def scales(**terms: Any) -> Loads:
    """Scales of W read so."""
    return {"weight_scales": partial(at.weight_scales, **terms)}


def codes(change: Callable[[Tensor], Tensor]) -> Loads:
    """W with its codes changed after they are read: (N, L, 32)."""
    return {"weights": lambda scene, loop: change(at.weights(scene, loop))}


def table(change: Callable[[Tensor], Tensor]) -> Loads:
    """Scales of W changed after they are read: (N, L)."""
    return {"weight_scales": lambda scene, loop: change(at.weight_scales(scene, loop))}


def previous(step: int) -> Callable[[Tensor], Tensor]:
    """What belongs to a block that many blocks before, the last ones first."""
    return lambda found: found.roll(step, 1)


def neighbour(found: Tensor) -> Tensor:
    """What belongs to the other column of each pair."""
    return found[(torch.arange(len(found)) ^ 1).clamp(max=len(found) - 1)]
