"""Timing in turn: every call once, then every call again, so that a machine whose speed drifts is fair to all."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mxassay.errors import MxassayError

__all__ = ["Sample", "interleaved", "processes"]


@dataclass(frozen=True)
class Sample:
    """Seconds of each repeat, wall and processor, and for processes the most memory that one of them held, in bytes."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    peak: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.wall), max(self.wall)

    def row(self, scale: float = 1.0) -> dict[str, Any]:
        """The fields of a `Figure` that a sample fills, in units of 1 / scale seconds."""
        low, high = self.spread
        return {
            "value": self.median * scale, "low": low * scale, "high": high * scale, "repeats": len(self.wall),
            "cpu": statistics.median(self.cpu),
        }  # fmt: skip


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Sample]:
    """Run every call once to warm up, then all of them in turn, `repeats` times.

    >>> sorted(interleaved({"a": lambda: 1, "b": lambda: 2}, 3))
    ['a', 'b']
    """
    for call in calls.values():
        call()
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            cpu_before, before = time.process_time(), time.perf_counter()
            call()
            wall[name].append(time.perf_counter() - before)
            cpu[name].append(time.process_time() - cpu_before)
    return {name: Sample(tuple(wall[name]), tuple(cpu[name])) for name in calls}


def processes(commands: Mapping[str, Sequence[str]], repeats: int, *, warm_up: bool = True) -> dict[str, Sample]:
    """Run every command as a process of its own, in turn; what they print is thrown away.

    Commands begin with the path of a program.

    Raises:
        MxassayError: one ends with another code than 0; its last words are in the message.
    """
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in commands}
    for turn in range(repeats + warm_up):
        for name, words in commands.items():
            measured = _one(name, words)
            if turn >= warm_up:
                found[name].append(measured)
    return {
        name: Sample(
            tuple(wall for wall, _, _ in runs), tuple(cpu for _, cpu, _ in runs), max(peak for _, _, peak in runs)
        )
        for name, runs in found.items()
    }


# A small process of its own starts the command: Linux counts what the one that starts it holds as the command's memory.
_STARTER = """
import json, os, sys, time
before = time.perf_counter()
quiet = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1)])
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - before
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status)]))
"""


def _one(name: str, words: Sequence[str]) -> tuple[float, float, int]:
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _STARTER, *words], capture_output=True, check=False)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        raise MxassayError(f"{name} must start, not fail: {' | '.join(said[-1:])}")
    seconds, cpu, peak, code = json.loads(done.stdout)
    if code:
        raise MxassayError(f"{name} must end well, not with code {code}: {' | '.join(said[-5:])}")
    return seconds, cpu, peak * 1024
