"""`views`: an access outside the elements of every argument, inside a storage that holds more.

A tensor that is a view of a larger storage shares its buffer with what lies around it, so the memory model lets a
kernel that overruns the view read its neighbours. Elements count one by one: the gap between the rows of `x[:, :k]`
belongs to no argument.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.checks.run import Check, Hooks, Run, first_lane
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.memory import Segment, View
from mxassay.gfx950.observe import Access
from mxassay.gfx950.wave import Cohort

__all__ = ["ViewsCheck"]


class ViewsCheck(Check):
    def begin(self, run: Run) -> None:
        self.run = run
        self.partial: list[tuple[Segment, list[View]]] = []
        self.maps: dict[int, NDArray[np.bool_]] = {}
        for segment in run.launch.memory:
            views = [v for v in run.launch.memory.views if segment.base <= v.address <= segment.end and all(v.shape)]
            if views and not any(_covers(view, segment) for view in views):
                self.partial.append((segment, views))

    def watch(self, inst: Instruction) -> Hooks | None:
        if not self.partial or inst.encoding not in ("MUBUF", "FLAT", "GLOBAL", "SMEM"):
            return None
        return Hooks(access=partial(self._access, inst))

    def _access(self, inst: Instruction, cohort: Cohort, access: Access) -> None:
        if access.space not in ("global", "scalar"):
            return
        for segment, views in self.partial:
            here = access.mask & (access.address >= segment.base) & (access.address <= segment.end - access.size)
            if not here.any():
                continue
            elements = self._elements(segment, views)
            places = np.where(here, access.address - segment.base, 0)[..., None] + np.arange(access.size)
            outside = ~elements[places] & here[..., None]
            if outside.any():
                row, lane = first_lane(outside.any(axis=-1))
                byte = int(places[row, lane, int(outside[row, lane].argmax())])
                names = " and ".join(dict.fromkeys(view.name for view in views))
                verb = "load" if access.kind == "load" else "store"
                self.run.report(
                    "views", inst,
                    f"a {verb} must stay inside the elements of {names}, not reach byte {byte} of the storage of "
                    f"{segment.size} bytes that {'it shares' if len(views) == 1 else 'they share'} with others",
                    wave=int(cohort.wave[row]), lane=lane, address=segment.base + byte, buffer=segment.name,
                    repeats=int(outside.any(axis=(1, 2)).sum()),
                )  # fmt: skip

    def _elements(self, segment: Segment, views: list[View]) -> NDArray[np.bool_]:
        """Which bytes of a storage belong to an argument."""
        found = self.maps.get(segment.base)
        if found is None:
            found = self.maps[segment.base] = np.zeros(segment.size, np.bool_)
            for view in views:
                shape, strides = (*view.shape, view.itemsize), (*view.strides, 1)
                start = found[view.address - segment.base :]
                np.lib.stride_tricks.as_strided(start, shape, strides)[...] = True
        return found


def _covers(view: View, segment: Segment) -> bool:
    """Whether every byte of the segment is an element of the view."""
    if view.address != segment.base:
        return False
    expected = view.itemsize
    for size, step in sorted(zip(view.shape, view.strides, strict=True), key=lambda axis: axis[1]):
        if size > 1 and step != expected:
            return False
        expected *= size
    return expected == segment.size
