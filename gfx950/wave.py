"""The state of the waves that share a pc: a cohort.

A cohort holds a whole register of all its waves in one contiguous array, so that one numpy call executes an
instruction for waves x 64 lanes. Waves that branch apart are split into two cohorts (their rows are copied); cohorts
that meet at one pc are merged again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import EXEC

if TYPE_CHECKING:
    from mxassay.gfx950.batch import Batch

__all__ = ["LANES", "SGPRS", "Bits64", "Cohort", "Lanes", "Mask", "join", "lanes_of", "packed"]

LANES = 64
SGPRS = 128
Lanes = NDArray[Any]  # waves x 64, or waves x 1 for a scalar operand
Mask = NDArray[np.bool_]  # waves x 64
Bits64 = NDArray[np.uint64]  # waves

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def packed(mask: Mask) -> Bits64:
    """A lane mask (waves x 64) as one 64-bit word a wave, lane 0 in bit 0."""
    return np.packbits(mask, axis=-1, bitorder="little").view("<u8")[:, 0]


def lanes_of(bits: Bits64) -> Mask:
    """The opposite of `packed`."""
    columns = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 8)
    return np.unpackbits(columns, axis=-1, bitorder="little").view(np.bool_)


def join(low: Lanes, high: Lanes) -> Lanes:
    """Two 32-bit registers as one uint64 array of the same shape."""
    pair = np.empty((*low.shape, 2), np.uint32)
    pair[..., 0] = low
    pair[..., 1] = high
    return pair.view(np.uint64)[..., 0]


class Cohort:
    """Waves at one pc.

    `v` VGPRs, uint32 (registers, waves, 64), `vi` and `vf` the same memory as int32 and float32; `a` AGPRs alike; `s`
    SGPRs, uint32 (128, waves), by encoding number, VCC at 106, M0 at 124; `scc` bool (waves). EXEC is written through
    `set_exec` alone, which keeps `exec` (uint64 a wave), the rows 126 and 127 of `s`, `full` (every lane of every
    wave is on) and `mask` (bool (waves, 64)) in step. `wave` is the wave's number in the grid, `group` its
    workgroup's index in the batch, `slot` its index in the batch; they never change. `data` holds per-wave state of
    single families (GPR indexing, ...).
    """

    __slots__ = (
        "a", "batch", "count", "data", "exec", "full", "group", "lds_base", "mask", "pc", "s", "scc", "slot", "steps",
        "v", "vf", "vi", "wave",
    )  # fmt: skip

    def __init__(self, batch: "Batch", slot: NDArray[np.int64], pc: int, vgprs: int, agprs: int, fill: int = 0) -> None:
        self.batch = batch
        self.count = len(slot)
        self.slot = slot
        self.wave = batch.first_wave + slot
        self.group = slot // batch.waves_per_group
        self.pc, self.steps = pc, 0
        self.data: dict[str, Any] = {}
        self._registers(
            np.full((vgprs, self.count, LANES), fill, np.uint32), np.full((agprs, self.count, LANES), fill, np.uint32)
        )
        self.s = np.full((SGPRS, self.count), fill, np.uint32)
        self.scc = np.zeros(self.count, np.bool_)
        self.lds_base = self.group[:, None] * batch.lds_stride
        self.set_exec(np.full(self.count, _ALL))

    def _registers(self, v: NDArray[np.uint32], a: NDArray[np.uint32]) -> None:
        self.v, self.a = v, a
        self.vi, self.vf = v.view(np.int32), v.view(np.float32)

    def set_exec(self, bits: Bits64) -> None:
        self.exec = bits
        self.s[EXEC] = bits & _LOW
        self.s[EXEC + 1] = bits >> _HALF
        self.full = bool((bits == _ALL).all())
        self.mask: Mask = lanes_of(bits)

    def pair(self, index: int) -> Bits64:
        """SGPRs index and index + 1 as one uint64 a wave."""
        return join(self.s[index], self.s[index + 1])

    def set_pair(self, index: int, bits: Bits64) -> None:
        if index == EXEC:
            self.set_exec(bits)
        else:
            self.s[index] = bits & _LOW
            self.s[index + 1] = bits >> _HALF

    def set_sgpr(self, index: int, value: NDArray[np.uint32]) -> None:
        self.s[index] = value
        if index >= EXEC:
            self.set_exec(self.pair(EXEC))

    def take(self, rows: NDArray[Any]) -> "Cohort":
        """A new cohort of those waves alone (`rows`: indices or a bool mask), with copies of their state."""
        return self._moved([self], rows)

    @staticmethod
    def merge(cohorts: "Sequence[Cohort]") -> "Cohort":
        """One cohort of all their waves, in grid order, so that the order of stores doesn't depend on how waves met."""
        slots = np.concatenate([cohort.slot for cohort in cohorts])
        return cohorts[0]._moved(cohorts, np.argsort(slots, kind="stable"))

    def _moved(self, parts: "Sequence[Cohort]", rows: NDArray[Any]) -> "Cohort":
        def gather(name: str, axis: int) -> NDArray[Any]:
            arrays = [getattr(part, name) for part in parts]
            whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)
            return np.ascontiguousarray(whole[rows] if axis == 0 else whole[:, rows])

        new = object.__new__(Cohort)
        new.batch, new.pc, new.steps = self.batch, self.pc, max(part.steps for part in parts)
        new.slot = gather("slot", 0)
        new.count = len(new.slot)
        new.wave, new.group = gather("wave", 0), gather("group", 0)
        new.lds_base = new.group[:, None] * self.batch.lds_stride
        new._registers(gather("v", 1), gather("a", 1))
        new.s, new.scc = gather("s", 1), gather("scc", 0)
        new.data = {}
        for key in {key for part in parts for key in part.data}:
            arrays = [part.data[key] if key in part.data else np.zeros(part.count, np.int64) for part in parts]
            new.data[key] = np.concatenate(arrays)[rows]
        new.set_exec(gather("exec", 0))
        return new
