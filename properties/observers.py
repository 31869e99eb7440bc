"""Watching the emulated card: which operands reach the matrix instructions, and how often each address is written."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mxassay.gfx950.checks import Checks
    from mxassay.gfx950.codeobject import CodeObject, KernelCode
    from mxassay.gfx950.instruction import Instruction, Operand
    from mxassay.gfx950.observe import Access, Launch, Observer
    from mxassay.gfx950.wave import Cohort

Bytes = NDArray[np.uint8]
LaunchedCode = dict[tuple[str, bytes], tuple["KernelCode", "CodeObject"]]
"""(kernel, code object) by name and text."""


@contextmanager
def watched(observer: "Observer", **options: Any) -> Iterator[None]:
    """Launches on the emulated card inside the block are told to `observer`; `options` are of `gfx950.Options`."""
    with emulation(observer=observer, **options):
        yield


@contextmanager
def emulation(**options: Any) -> Iterator[None]:
    """Launches inside the block run with these `gfx950.Options`. The emulated card must be Triton's device."""
    import triton

    driver = triton.runtime.driver.active
    before = driver.options
    driver.options = replace(before, **options)
    try:
        yield
    finally:
        driver.options = before


@contextmanager
def launched_code() -> Iterator[LaunchedCode]:
    """The machine code of every kernel that the emulated card launches inside the block, known when it ends.

    Nobody watches the launches, so that they cost what they cost anyway.
    """
    from mxassay.gfx950.launches import launches

    found: LaunchedCode = {}
    with launches() as ran:
        yield found
    for kernel, _ in ran.ran:
        found[kernel.code.name, kernel.code.text] = (kernel.code, kernel.code_object)


@cache
def _checks(spec: str) -> "Checks":
    from mxassay.gfx950.checks import Checks

    return Checks(spec)


def running_checks(spec: str) -> "Checks":
    """The checks of a running kernel that `spec` names, with no findings yet. One observer a process and `spec`: the
    emulated card keeps a kernel's steps for each observer it met."""
    checks = _checks(spec)
    checks.forget()
    return checks


class _Observer:
    """Hooks that do nothing."""

    def begin(self, launch: "Launch") -> None:
        """A launch begins."""

    def end(self, error: Exception | None) -> None:
        """It is over."""

    def before(self, cohort: "Cohort", instruction: "Instruction") -> None:
        """An instruction is about to run."""

    def access(self, cohort: "Cohort", instruction: "Instruction", access: "Access") -> None:
        """Memory is about to be accessed."""

    def after(self, cohort: "Cohort", instruction: "Instruction") -> None:
        """An instruction has run."""

    def barrier(self, groups: NDArray[np.int64]) -> None:
        """Workgroups go through a barrier."""


class MatrixOperands(_Observer):
    """Every block that a scaled FP4 matrix instruction reads: `blocks` counts (scale byte, 16 packed bytes) by side.

    A lane holds one block, in both shapes: 32 codes of one row, in the order of k (AMD CDNA4 ISA, "Matrix arithmetic
    instructions"), and the scale in a byte of its scale register. A side is the first or the second operand; which of
    them the activations are is the compiler's choice.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self.blocks: tuple[Counter[bytes], Counter[bytes]] = (Counter(), Counter())
        self.instructions = 0

    def before(self, cohort: "Cohort", instruction: "Instruction") -> None:
        if not instruction.op.startswith("v_mfma_scale_f32") or (instruction["cbsz"], instruction["blgp"]) != (4, 4):
            return
        self.instructions += cohort.count
        for side in (0, 1):
            codes = _words(cohort, instruction.src[side], 4)
            byte = (instruction["op_sel_hi"] >> side & 1) << 1 | (instruction["op_sel"] >> side & 1)
            scales = _words(cohort, instruction.src[3 + side], 1)[0] >> np.uint32(8 * byte) & np.uint32(0xFF)
            packed = np.ascontiguousarray(codes.transpose(1, 2, 0)).view(np.uint8).reshape(-1, 16)
            rows = np.concatenate((scales.reshape(-1, 1).astype(np.uint8), packed), axis=1)
            # A row as one item: sorting rows, as numpy's unique does, takes twenty times as long.
            self.blocks[side].update(rows.view("V17")[:, 0].tolist())


def _words(cohort: "Cohort", operand: "Operand", count: int) -> NDArray[np.uint32]:
    """uint32 (count, waves, 64) of a register operand."""
    file = {"v": cohort.v, "a": cohort.a}[operand.file]
    return file[operand.index : operand.index + count]


class StoreCounts(_Observer):
    """How often each byte of each buffer was stored, launch by launch: `launches` holds (kernel, counts by buffer).

    Counts are uint8 arrays over the elements of the argument, one count for each byte, stored where the argument's own
    elements lie; `outside` is what was stored beside them.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self.launches: list[tuple[str, dict[str, NDArray[np.uint8]], int]] = []
        self.atomics = 0

    def begin(self, launch: "Launch") -> None:
        self._launch = launch
        self._stores: list[NDArray[np.int64]] = []

    def access(self, cohort: "Cohort", instruction: "Instruction", access: "Access") -> None:
        if access.space != "global" or access.kind == "load":
            return
        self.atomics += access.kind == "atomic"
        first = access.address[access.mask]
        self._stores.append((first[:, None] + np.arange(access.size)).reshape(-1))

    def end(self, error: Exception | None) -> None:
        stored = np.concatenate(self._stores) if self._stores else np.empty(0, np.int64)
        addresses, times = np.unique(stored, return_counts=True)
        counts, outside = {}, len(addresses)
        for view in self._launch.memory.views:
            elements = np.zeros((1,), np.int64)
            for size, step in zip(view.shape, view.strides, strict=True):
                elements = (elements[:, None] + np.arange(size) * step).reshape(-1)
            owned = (view.address + elements[:, None] + np.arange(view.itemsize)).reshape(-1)
            at = np.searchsorted(addresses, owned).clip(max=max(len(addresses) - 1, 0))
            here = np.where(addresses[at] == owned, times[at], 0) if len(addresses) else np.zeros(len(owned), np.int64)
            if here.any():
                outside -= int((here > 0).sum())
                counts[view.name] = here.clip(max=255).astype(np.uint8).reshape(*view.shape, view.itemsize)
        self.launches.append((self._launch.code.name, counts, outside))
