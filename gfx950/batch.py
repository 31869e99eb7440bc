"""A batch of workgroups that run together: their LDS, scratch, and how many of their waves live."""

from typing import Any

import numpy as np

from mxassay.gfx950.memory import AddressSpace, Segment
from mxassay.gfx950.observe import Observer

__all__ = ["LDS_BYTES", "Batch"]

# AMD CDNA4 ISA, "Local data share": 160 KiB a compute unit.
LDS_BYTES = 160 * 1024


class Batch:
    """`groups` workgroups of `waves_per_group` waves, numbered from workgroup `first_group` of the grid on.

    LDS is one segment: the workgroup of index g owns the bytes from g * lds_stride on, `lds_bytes` of them. Scratch
    is one segment: lane l of slot w owns `scratch_bytes` from (w * 64 + l) * scratch_stride on.
    """

    def __init__(
        self, memory: AddressSpace, first_group: int, groups: int, waves_per_group: int, *, lds_bytes: int = 0,
        scratch_bytes: int = 0, fill: int = 0, observer: Observer | None = None,
    ) -> None:  # fmt: skip
        self.memory, self.observer = memory, observer
        self.first_group, self.groups, self.waves_per_group = first_group, groups, waves_per_group
        self.first_wave = first_group * waves_per_group
        self.lds_bytes = lds_bytes
        self.lds_stride = -(-lds_bytes // 64) * 64
        self.lds = _private("LDS", groups * self.lds_stride, fill)
        self.scratch_bytes = scratch_bytes
        self.scratch_stride = -(-scratch_bytes // 16) * 16
        self.scratch = _private("scratch", groups * waves_per_group * 64 * self.scratch_stride, fill)
        self.live = np.full(groups, waves_per_group, np.int64)
        self.notes: dict[object, Any] = {}  # what observers remember of this batch


def _private(name: str, size: int, fill: int) -> Segment:
    words = np.full(size // 4 + 16, fill, np.uint32)
    start = -words.ctypes.data % 64 // 4
    return Segment(name, 0, words[start : start + size // 4].view(np.uint8))
