"""The emulated card's own speed: the six leaderboard shapes, and what more cores bring."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured
from mxassay.figures.measure import Sample, interleaved, processes

_SECONDS_BAR = 2.0
_MEMORY_BAR_GIB = 1.0


def measure(wish: Wish) -> Measured:
    """Seconds of emulated execution, warm, of the six shapes in this process; the memory that it takes, of a fresh
    process; and launches a second with as many processes as there are cores, beside one process."""
    alone = _Leaderboard().measured(wish.repeats)
    peak = processes(
        {"leaderboard": [sys.executable, "-c", f"from {__name__} import run_once; run_once()"]}, 1, warm_up=False
    )["leaderboard"].peak
    figures = [
        Figure(
            id="six leaderboard shapes, emulated",
            group="emulator",
            unit="s",
            bar=_SECONDS_BAR,
            note="one process; inputs made and kernels compiled before",
            **alone.row(),
        ),
        Figure(
            id="six leaderboard shapes, peak memory",
            group="emulator",
            value=peak / 2**30,
            unit="GiB",
            bar=_MEMORY_BAR_GIB,
            note="resident set of a fresh process, with torch and Triton",
        ),
    ]
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        one, many = _passes_per_second(1, wish.repeats), _passes_per_second(cores, wish.repeats)
        figures.append(
            Figure(
                id=f"leaderboards a second on {cores} processes",
                group="emulator",
                value=many,
                unit="1/s",
                peer=f"one process: {one:.2f}",
                ratio=many / one,
                note="the ratio is the scaling with cores",
            )
        )
    return Measured(tuple(figures))


class _Leaderboard:
    """The six problems, ready to run."""

    def __init__(self) -> None:
        from mxassay.cases import Case, build
        from mxassay.optimized import LEADERBOARD

        self.problems = [build(Case(shape), "cpu").arguments for shape in LEADERBOARD]

    def __call__(self) -> None:
        from mxassay.optimized import matmul

        for x in self.problems:
            matmul(x.a, x.b_preshuffled, x.b_scales_shuffled)

    def measured(self, repeats: int) -> Sample:
        from mxassay.gfx950 import emulated

        with emulated():
            return interleaved({"leaderboard": self}, repeats)["leaderboard"]


def run_once() -> None:
    """What the fresh process runs."""
    from mxassay.gfx950 import emulated

    with emulated():
        _Leaderboard()()


def _pass_seconds(repeats: int) -> tuple[float, float]:
    """When a worker began and ended `repeats` warm passes (time.monotonic, which all processes share)."""
    import torch

    from mxassay.gfx950 import emulated

    torch.set_num_threads(1)
    leaderboard = _Leaderboard()
    with emulated():
        leaderboard()
        began = time.monotonic()
        for _ in range(repeats):
            leaderboard()
        return began, time.monotonic()


def _passes_per_second(workers: int, repeats: int) -> float:
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        spans = list(pool.map(_pass_seconds, [repeats] * workers))
    # While all of them run: the sum of their rates.
    return sum(repeats / (ended - began) for began, ended in spans)
