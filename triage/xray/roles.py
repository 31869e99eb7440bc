"""What each buffer of a launch holds, told by its content under a probe."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mxassay.gfx950.memory import View
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.operands import Operands
from mxassay.triage.xray.recorder import Record

STAGES = {"a": "activations", "a_scales": "activations", "w": "weights.layout", "w_scales": "scales.layout"}
WORDS = {"a": "A", "a_scales": "the scales of A", "w": "W", "w_scales": "the scales of W"}


@dataclass
class Role:
    """A buffer: `what` is a key of STAGES; `offsets` int64 (rows, K/32): where each block or scale byte begins, in
    bytes from the view's first, whatever its strides. `otherwise`: the same if W or a scale table lay the other way,
    shuffled or row-major."""

    view: View
    index: int
    what: str
    shuffled: bool
    offsets: NDArray[np.int64]
    otherwise: NDArray[np.int64] | None = None


def roles_of(record: Record, case: Operands) -> list[Role]:
    """The operands among a launch's buffers. `case` is what the launch computed, of distinctive content."""
    found = []
    candidates = _candidates(case)
    for what, shuffled, content, offsets in candidates:
        others = [places for name, way, _, places in candidates if name == what and way != shuffled]
        for index, view in enumerate(record.views):
            seen = record.before[index]
            if seen.shape == content.shape and _alike(seen, content):
                found.append(Role(view, index, what, shuffled, offsets, others[0] if others else None))
    return found


@dataclass
class Unprepared:
    """A buffer of the shape of row-major weights (`what` is w) or scales (w_scales) that holds something else."""

    view: View
    what: str
    expected: NDArray[np.uint8]
    found: NDArray[np.uint8]


def unprepared(record: Record, case: Operands, roles: list[Role]) -> list[Unprepared]:
    """Buffers that someone prepared, wrongly. W as it is given has the shape of its row-major form: where it is there,
    nothing was prepared."""
    n, k = case.codes.shape[0], 2 * case.codes.shape[1]
    known = {role.index for role in roles}
    have = {role.what for role in roles}
    wanted = {"w": ((n, k // 2), case.codes), "w_scales": ((n, k // 32), case.scales)}
    return [
        Unprepared(view, what, tensor.numpy(), record.before[index][..., 0])
        for what, (shape, tensor) in wanted.items()
        if what not in have
        for index, view in enumerate(record.views)
        if index not in known and view.itemsize == 1 and view.shape == shape
    ]


def _alike(seen: NDArray[np.uint8], content: NDArray[np.uint8]) -> bool:
    """Equal, but for a padded scale table's padding, which is poison in `content`."""
    return bool(((seen == content) | (content == 0xFF)).all())


def _candidates(case: Operands) -> "list[tuple[str, bool, NDArray[np.uint8], NDArray[np.int64]]]":
    (m, k), n = case.a.shape, case.codes.shape[0]
    blocks = k // 32
    packed, scales = case.quantized
    raw = case.a.contiguous().view(torch.uint8).reshape(m, k, 2).numpy()
    return [
        ("a", False, raw, _linear(m, blocks, 64)),
        ("w", True, _bytes(WEIGHT_PRESHUFFLE.apply(case.codes)), _preshuffled(n, blocks)),
        ("w", False, _bytes(case.codes), _linear(n, blocks, 16)),
        ("w_scales", True, _bytes(SCALE_SHUFFLE.apply(case.scales, fill=0xFF)), _shuffled(n, blocks)),
        ("w_scales", False, _bytes(case.scales), _linear(n, blocks, 1)),
        ("a", False, _bytes(packed), _linear(m, blocks, 16)),
        ("a_scales", True, _bytes(SCALE_SHUFFLE.apply(scales, fill=0xFF)), _shuffled(m, blocks)),
        ("a_scales", False, _bytes(scales), _linear(m, blocks, 1)),
    ]


def _bytes(tensor: torch.Tensor) -> NDArray[np.uint8]:
    array: NDArray[np.uint8] = tensor.numpy()[..., None]
    return array


def _linear(rows: int, blocks: int, size: int) -> NDArray[np.int64]:
    return (np.arange(rows)[:, None] * blocks + np.arange(blocks)) * size


def _shuffled(rows: int, blocks: int) -> NDArray[np.int64]:
    offsets: NDArray[np.int64] = SCALE_SHUFFLE.bind((rows, blocks)).offsets()[:rows, :blocks].numpy()
    return offsets


def _preshuffled(rows: int, blocks: int) -> NDArray[np.int64]:
    offsets: NDArray[np.int64] = WEIGHT_PRESHUFFLE.bind((rows, 16 * blocks)).offsets()[:, ::16].numpy()
    return offsets
