"""The table of what each operation means: op name -> how to build its step, how sure we are, and the source.

A family file under `ops/` fills it at import with `define`. Looking up is by name alone; a builder looks at the
encoding through the operands and the modifiers, and refuses a form it doesn't know with `context.refuse`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import Differences
from mxassay.gfx950.descriptor import Descriptor
from mxassay.gfx950.faults import UnsupportedInstruction
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.observe import Observer
from mxassay.gfx950.pins import Pins
from mxassay.gfx950.wave import Cohort

__all__ = [
    "BARRIER", "CERTAIN", "EXIT", "INFERRED", "UNKNOWN", "Build", "Context", "End", "Fidelity", "Mode", "Outcome",
    "Semantics", "Step", "define", "lookup", "semantics", "supported",
]  # fmt: skip


class Fidelity(Enum):
    """How sure we are that a real card computes the same bits."""

    CERTAIN = "certain"  # AMD's ISA document or pseudocode says so, or two AMD sources agree
    INFERRED = "inferred"  # follows from other facts, or holds up to bits that no source fixes
    UNKNOWN = "unknown"  # no source says; what we do is a declared policy


CERTAIN, INFERRED, UNKNOWN = Fidelity.CERTAIN, Fidelity.INFERRED, Fidelity.UNKNOWN

EXIT, BARRIER = -1, -2
Outcome = int | NDArray[np.int64]  # the next pc of all waves, or of each; or EXIT; or BARRIER
Step = Callable[[Cohort], None]
End = Callable[[Cohort], Outcome]


@dataclass(frozen=True, slots=True)
class Mode:
    """The MODE register, fixed for a kernel: `round_*` 0 is nearest even, `denorm_*` 3 keeps denormals."""

    ieee: bool = True
    dx10_clamp: bool = True
    round_32: int = 0
    round_16_64: int = 0
    denorm_32: int = 3
    denorm_16_64: int = 3

    @staticmethod
    def of(descriptor: Descriptor) -> "Mode":
        return Mode(
            descriptor.ieee, descriptor.dx10_clamp, descriptor.round_mode_32, descriptor.round_mode_16_64,
            descriptor.denorm_mode_32, descriptor.denorm_mode_16_64,
        )  # fmt: skip

    @property
    def bits(self) -> int:
        """The register (AMD CDNA4 ISA, "MODE register"): FP_ROUND 3:0, FP_DENORM 7:4, DX10_CLAMP 8, IEEE 9."""
        rounds = self.round_32 | self.round_16_64 << 2
        denorms = self.denorm_32 | self.denorm_16_64 << 2
        return rounds | denorms << 4 | self.dx10_clamp << 8 | self.ieee << 9


@dataclass(frozen=True)
class Context:
    """What a step may know when it is built: the kernel's name, its modes, who watches, where its code lies, and how
    matrix instructions add up (`accumulation`; `differences`, if given, counts results that depend on that), and what a
    real card's answers have `pins` for."""

    kernel: str = "?"
    mode: Mode = field(default_factory=Mode)
    observer: Observer | None = None
    code_base: int = 0
    accumulation: str = "exact"
    differences: Differences | None = None
    pins: Pins | None = None

    def refuse(self, instruction: Instruction, why: str) -> NoReturn:
        raise UnsupportedInstruction(instruction, self.kernel, why)


Build = Callable[[Instruction, Context], Step | End | None]


@dataclass(frozen=True, slots=True)
class Semantics:
    """One operation. `build` makes its step, or None when it does nothing; `ends` says that it ends a block.

    `reads_dst`: the old value of the destination counts (accumulators, partial writes); observers want to know.
    """

    op: str
    build: Build
    fidelity: Fidelity
    source: str
    ends: bool = False
    reads_dst: bool = False


_TABLE: dict[str, Semantics] = {}


def define(
    ops: str | Iterable[str],
    build: Build,
    fidelity: Fidelity,
    source: str,
    *,
    ends: bool = False,
    reads_dst: bool = False,
) -> None:
    """Teach operations. `source` names what a reader can open to check it. A name may be taught once."""
    for op in [ops] if isinstance(ops, str) else ops:
        if op in _TABLE:
            raise AssertionError(f"{op} must be taught once, not twice")
        _TABLE[op] = Semantics(op, build, fidelity, source, ends, reads_dst)


def semantics(
    *ops: str, fidelity: Fidelity, source: str, ends: bool = False, reads_dst: bool = False
) -> Callable[[Build], Build]:
    """`define` as a decorator of the builder."""

    def register(build: Build) -> Build:
        define(ops, build, fidelity, source, ends=ends, reads_dst=reads_dst)
        return build

    return register


def lookup(op: str) -> Semantics | None:
    import mxassay.gfx950.ops  # noqa: F401  (fills the table)

    return _TABLE.get(op)


def supported(instruction: Instruction, context: Context | None = None) -> str | None:
    """Why this instruction can't be run, or None when it can. Builds its step, so forms are checked too."""
    context = context or Context()
    found = lookup(instruction.op)
    if found is None:
        return "no semantics"
    try:
        found.build(instruction, context)
    except UnsupportedInstruction as error:
        return error.why
    return None
