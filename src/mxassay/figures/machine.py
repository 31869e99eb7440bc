"""The machine that figures come from, in words that name neither it nor its owner."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["machine"]


def machine(loads: list[float]) -> dict[str, object]:
    """Processor, cores, memory, system, date, and how busy it was: the load averages before, between and after."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "date": datetime.now(UTC).date().isoformat(),
        "load": [round(load, 2) for load in loads],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
