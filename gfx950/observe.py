"""Who watches a run: hooks that cost nothing when nobody does.

With an observer, every step is wrapped; without one the wrapping does not exist. Memory operations ask
`cohort.batch.observer` once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.wave import Cohort, Mask

if TYPE_CHECKING:
    from mxassay.gfx950.codeobject import CodeObject, KernelCode

__all__ = ["Access", "Launch", "Observer"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `grid` workgroups of `block` work-items, `lds_bytes` of LDS a workgroup, dynamic LDS included."""

    code: "KernelCode"
    code_object: "CodeObject"
    memory: AddressSpace
    grid: tuple[int, ...]
    block: tuple[int, ...]
    lds_bytes: int


class Access:
    """One memory instruction's access, by lane.

    `space` is "global", "lds", "scratch" or "scalar"; `address` int64 (waves, 64), or (waves, 1) for scalar loads: an
    address in the space, in LDS within the workgroup; `mask` says which lanes take part; `size` in bytes; `kind`
    "load", "store" or "atomic".
    """

    __slots__ = ("address", "kind", "mask", "size", "space")

    def __init__(self, space: str, kind: str, address: NDArray[np.int64], size: int, mask: Mask) -> None:
        self.space, self.kind, self.address, self.size, self.mask = space, kind, address, size, mask


class Observer(Protocol):
    """Methods are called in the order before, access (memory instructions only, once their addresses are known and
    checked but before the data move), after. `barrier` is called when a workgroup's waves are all let through a
    barrier. `begin` comes before a launch's first instruction, `end` after its last one, with the error that stopped
    it, if one did.
    """

    def begin(self, launch: Launch) -> None: ...

    def end(self, error: Exception | None) -> None: ...

    def before(self, cohort: Cohort, instruction: Instruction) -> None: ...

    def access(self, cohort: Cohort, instruction: Instruction, access: Access) -> None: ...

    def after(self, cohort: Cohort, instruction: Instruction) -> None: ...

    def barrier(self, groups: NDArray[np.int64]) -> None: ...
