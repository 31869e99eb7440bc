"""Which lines of memory each die touches: what must come from memory, and what comes again for other dies."""

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.checks.run import Check, Hooks, Run
from mxassay.gfx950.checks.traffic import LINE, lines_of
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access
from mxassay.gfx950.timing.assumptions import Card
from mxassay.gfx950.wave import Cohort

__all__ = ["LinesCheck"]

_MEMORY = ("MUBUF", "GLOBAL", "FLAT", "SMEM")


class LinesCheck(Check):
    """After a launch: `requested` (lines of 128 bytes, counted for each vector instruction of a wave) and `busiest`
    (those of the workgroup with most), `loaded` and `stored` (lines by die, each counted once a die), `loaded_once` and
    `stored_once` (each counted once), `needed` (different bytes loaded) and `asked` (bytes of all lanes).

    Workgroup g runs on die g % 8 (ROCm, MI300X workload optimization; inferred for MI355X).
    """

    def __init__(self, card: Card) -> None:
        self.dies = int(card["dies"])

    def begin(self, run: Run) -> None:
        self.waves_per_group = run.waves_per_group
        self.memory = run.launch.memory
        self.asked = 0
        self.requested = np.zeros(run.waves // run.waves_per_group, np.int64)
        self.maps: dict[int, dict[str, NDArray[np.bool_]]] = {}
        self.bytes: dict[int, NDArray[np.bool_]] = {}

    def watch(self, inst: Instruction) -> Hooks | None:
        return Hooks(access=self._access) if inst.encoding in _MEMORY else None

    def _access(self, cohort: Cohort, access: Access) -> None:
        if access.space not in ("global", "scalar"):
            return
        group = cohort.wave // self.waves_per_group
        if access.space == "global":
            np.add.at(self.requested, group, lines_of(access.address, access.size, access.mask)[0])
        die = np.broadcast_to((group % self.dies)[:, None], access.address.shape)[access.mask]
        address = access.address[access.mask]
        if not address.size:
            return
        low, high = int(address.min()), int(address.max())
        for segment in self.memory:
            if segment.base <= low and high < segment.end:
                self._mark(segment.base, segment.size, die, address, access)
                return
        for segment in self.memory:
            inside = (address >= segment.base) & (address < segment.end)
            if inside.any():
                self._mark(segment.base, segment.size, die[inside], address[inside], access)

    def _mark(self, base: int, size: int, die: NDArray[np.int64], address: NDArray[np.int64], access: Access) -> None:
        kinds = {"load": ("load",), "store": ("store",)}.get(access.kind, ("load", "store"))
        first = base // LINE
        maps = self.maps.setdefault(base, {})
        for kind in kinds:
            found = maps.get(kind)
            if found is None:
                found = maps[kind] = np.zeros((self.dies, (base + size) // LINE - first + 1), np.bool_)
            found[die, address // LINE - first] = True
            found[die, (address + access.size - 1) // LINE - first] = True
        if "load" in kinds:
            self.asked += address.size * access.size
            touched = self.bytes.get(base)
            if touched is None:
                touched = self.bytes[base] = np.zeros(size + 16, np.bool_)
            for offset in range(access.size):
                touched[address - base + offset] = True

    def _lines(self, kind: str, *, once: bool) -> int:
        maps = [found[kind] for found in self.maps.values() if kind in found]
        return sum(int((lines.any(axis=0) if once else lines).sum()) for lines in maps)

    @property
    def needed(self) -> int:
        """Different bytes that were loaded."""
        return sum(int(touched.sum()) for touched in self.bytes.values())

    def lines(self) -> dict[str, int]:
        """Lines requested, by all and by the busiest workgroup; loaded and stored, by all dies and each once."""
        return {
            "requested": int(self.requested.sum()),
            "busiest": int(self.requested.max(initial=0)),
            "loaded": self._lines("load", once=False),
            "loaded_once": self._lines("load", once=True),
            "stored": self._lines("store", once=False),
            "stored_once": self._lines("store", once=True),
        }
