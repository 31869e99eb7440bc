"""What ran on the emulated card: one line a kernel, for the summary at the end of `mxassay run`."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mxassay.errors import UnsupportedError
from mxassay.gfx950 import Executed, Kernel, survey


@dataclass
class KernelLines:
    """Totals of one kernel: launches, workgroups, instructions of waves, seconds.

    `operations` names the operations in its code whose bits are not certain, by how sure we are: `inferred`, `unknown`.
    `executed` counts what ran, launches that failed left out.
    """

    kernel: str
    launches: int = 0
    workgroups: int = 0
    wave_instructions: int = 0
    seconds: float = 0.0
    operations: dict[str, list[str]] = field(default_factory=dict)
    executed: Executed | None = None


@dataclass
class LaunchLog:
    """Totals by kernel name, and in order of time every fault and every launch that nobody could run here.

    A program may catch those errors and go on another way, so that its result says nothing of them.
    """

    kernels: dict[str, KernelLines] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    @property
    def launches(self) -> int:
        return sum(line.launches for line in self.kernels.values())

    @property
    def executed(self) -> Executed:
        """What all launches executed, by operation; its `text` says how much of it is certain."""
        return Executed.total(line.executed for line in self.kernels.values() if line.executed is not None)

    def line(self, kernel: str) -> KernelLines:
        """The totals of `kernel`, made on first sight."""
        return self.kernels.setdefault(kernel, KernelLines(kernel))

    def as_json(self) -> list[dict[str, Any]]:
        """Plain JSON types, one dictionary a kernel."""
        return [
            {**asdict(replace(line, executed=None)), "executed": _counted(line.executed)}
            for line in self.kernels.values()
        ]

    def summary(self) -> str:
        """A few lines for people."""
        if not self.kernels:
            return "mxassay: no kernel was launched on the emulated card"
        total = sum(line.wave_instructions for line in self.kernels.values())
        seconds = sum(line.seconds for line in self.kernels.values())
        head = (
            f"mxassay: {self.launches} launches of {len(self.kernels)} kernels on the emulated gfx950, {total:,} wave "
            f"instructions, {seconds:.1f} s"
        )
        lines = [head]
        for line in self.kernels.values():
            lines.append(f"  {line.launches:5} x {line.kernel}  {line.workgroups:,} workgroups, {line.seconds:.2f} s")
        for level in ("inferred", "unknown"):
            names = sorted({name for line in self.kernels.values() for name in line.operations.get(level, ())})
            if names:
                lines.append(f"  bits {level}: {', '.join(names)}")
        found_differing = self.executed.differing
        if found_differing is not None:
            lines.append(f"  {found_differing:,} matrix results depend on the order of adding")
        for word, found in (("fault", self.faults), ("unsupported", self.unsupported)):
            lines += [f"  {word}: {text}" + _times(count) for text, count in Counter(found).items()]
        if not self.faults and not self.unsupported:
            lines.append("  no faults")
        return "\n".join(lines)


def _uncertain(kernel: Kernel) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in survey(kernel):
        if entry.fidelity is not None and entry.fidelity.value != "certain":
            found.setdefault(entry.fidelity.value, []).append(entry.op)
    return found


def _counted(executed: Executed | None) -> dict[str, int]:
    return {} if executed is None else {entry.op: entry.waves for entry in executed.operations}


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


@contextmanager
def recorded(log: LaunchLog) -> Iterator[LaunchLog]:
    """Write every launch inside the block into `log`, whoever makes it."""
    original = Kernel.run
    surveyed: dict[int, Kernel] = {}  # keeps them alive, so that an id stays one kernel's

    def run(kernel: Kernel, memory: Any, grid: Any, block: Any, kernarg: bytes, **options: Any) -> Any:
        line = log.line(kernel.code.name)
        # One name may stand for several kernels: other constants, other code.
        if id(kernel) not in surveyed:
            surveyed[id(kernel)] = kernel
            for level, names in _uncertain(kernel).items():
                line.operations[level] = sorted({*line.operations.get(level, ()), *names})
        line.launches += 1
        line.workgroups += grid[0] * grid[1] * grid[2]
        started = time.perf_counter()
        try:
            counts = original(kernel, memory, grid, block, kernarg, **options)
        except Exception as error:
            (log.unsupported if isinstance(error, UnsupportedError) else log.faults).append(str(error))
            raise
        finally:
            line.seconds += time.perf_counter() - started
        line.wave_instructions += counts.wave_instructions
        ran = Executed.of(kernel, counts)
        line.executed = ran if line.executed is None else Executed.total([line.executed, ran])
        return counts

    Kernel.run = run  # type: ignore[method-assign, assignment]
    try:
        yield log
    finally:
        Kernel.run = original  # type: ignore[method-assign]
