"""One launch as the checks see it: which kernel, where its buffers lie, and what a check of it can tell."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.errors import MxassayError
from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.finding import Finding
from mxassay.gfx950.decode import Program
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Access, Launch
from mxassay.gfx950.wave import Cohort

__all__ = ["Check", "Extent", "Hooks", "Run", "StrictError", "first_lane", "rows_of"]

Rows = slice | NDArray[np.int64]


class StrictError(MxassayError):
    """A check found something and was told to stop there. Carries the `finding`."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.text())


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a check wants to hear of one instruction."""

    before: Callable[[Cohort], None] | None = None
    access: Callable[[Cohort, Access], None] | None = None
    after: Callable[[Cohort], None] | None = None


class Check:
    """One check. `begin` resets it for a launch, `watch` is asked once for each instruction that runs."""

    def begin(self, run: "Run") -> None:
        """A launch begins."""

    def watch(self, inst: Instruction) -> Hooks | None:
        """The hooks for this instruction; None when it does not matter to this check."""

    def barrier(self, batch: Batch, groups: NDArray[np.int64]) -> None:
        """These workgroups (indices in the batch) go through a barrier."""

    def end(self, error: Exception | None) -> None:
        """The launch is over."""


def rows_of(cohort: Cohort) -> Rows:
    """Where the cohort's waves stand in an array by slot: a slice when they are neighbours (slots ascend)."""
    slot = cohort.slot
    first, last = int(slot[0]), int(slot[-1])
    return slice(first, last + 1) if last - first + 1 == cohort.count else slot


def first_lane(hits: Any) -> tuple[int, int]:
    """Row and lane of the first hit."""
    at = int(hits.argmax())
    return at // hits.shape[1], at % hits.shape[1]


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes that have a name."""

    name: str
    first: int
    end: int


@dataclass
class Run:
    """A launch on its way, with what was found so far by (check, pc)."""

    launch: Launch
    strict: bool
    found: dict[tuple[str, int], Finding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        code = self.launch.code
        self.kernel = code.name
        self.program = Program(code.text, code.text_address)
        items = self.launch.block[0] * self.launch.block[1] * self.launch.block[2]
        self.items = items
        self.waves_per_group = -(-items // 64)
        self.waves = self.waves_per_group * self.launch.grid[0] * self.launch.grid[1] * self.launch.grid[2]

    def instructions(self) -> tuple[Instruction, ...]:
        """Every instruction of the kernel, in order, reached or not."""
        return tuple(self.program.walk(self.launch.code.entry, self.launch.code.code_size))

    @cached_property
    def extents(self) -> list[Extent]:
        """The arguments from their first to their last byte, then whole segments."""
        found = []
        for view in self.launch.memory.views:
            if all(view.shape):
                steps = [(n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)]
                first = view.address + sum(step for step in steps if step < 0)
                found.append(Extent(view.name, first, first + sum(map(abs, steps)) + view.itemsize))
        found += [Extent(segment.name, segment.base, segment.end) for segment in self.launch.memory]
        return found

    def buffer_at(self, address: int) -> str | None:
        """The argument that holds this byte, else the segment's name."""
        return next((extent.name for extent in self.extents if extent.first <= address < extent.end), None)

    def report(
        self, check: str, inst: Instruction, explanation: str, *, wave: int | None = None, lane: int | None = None,
        address: int | None = None, buffer: str | None = None, repeats: int = 1,
    ) -> None:  # fmt: skip
        """Note a finding, or one more time of it.

        Raises:
            StrictError: in strict mode.
        """
        key = (check, inst.pc)
        before = self.found.get(key)
        if before is not None:
            self.found[key] = before.again(repeats)
            return
        finding = Finding(
            check=check,
            kernel=self.kernel,
            pc=inst.pc,
            instruction=inst.text,
            source=self.launch.code_object.line_of(inst.pc),
            explanation=explanation,
            wave=wave,
            workgroup=None if wave is None else wave // self.waves_per_group,
            lane=lane,
            address=address,
            buffer=buffer,
            repeats=repeats,
        )
        self.found[key] = finding
        if self.strict:
            raise StrictError(finding)
