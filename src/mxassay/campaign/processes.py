"""The engine for one machine: processes that take jobs one by one, and are replaced when they die."""

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from mxassay.campaign.job import Job
from mxassay.campaign.working import died, do

__all__ = ["LIVES", "Done", "ProcessEngine"]

LIVES = 3
"""How often a job may take its worker along before it counts as failed: the number that Dask allows, too."""

Done = Callable[[Job, dict[str, Any]], None]


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    job: Job | None = None


@dataclass
class ProcessEngine:
    """`workers` processes. A job whose worker dies is given to another one; see LIVES."""

    workers: int
    work: Callable[[dict[str, Any]], dict[str, Any]] = do
    deaths: int = field(default=0, init=False)

    def run(self, jobs: Sequence[Job], done: Done) -> None:
        """Do all jobs; `done` is called here, once for each, as they end. Workers end with this call."""
        waiting, lost = deque(jobs), dict.fromkeys(jobs, 0)
        crew = [self._hire() for _ in range(min(self.workers, len(jobs)))]
        try:
            while waiting or any(worker.job for worker in crew):
                for place, worker in enumerate(crew):
                    if worker.job is None and waiting:
                        crew[place] = self._give(worker, waiting)
                for ready in wait([worker.pipe for worker in crew if worker.job]):
                    place = next(i for i, worker in enumerate(crew) if worker.pipe is ready)
                    crew[place] = self._heard(crew[place], waiting, lost, done)
        finally:
            for worker in crew:
                self._dismiss(worker)

    def _give(self, worker: _Worker, waiting: deque[Job]) -> _Worker:
        job = waiting.popleft()
        try:
            worker.pipe.send(job.as_wire())
        except (BrokenPipeError, ConnectionResetError):  # it died while it had nothing to do
            waiting.appendleft(job)
            return self._replace(worker)
        worker.job = job
        return worker

    def _heard(self, worker: _Worker, waiting: deque[Job], lost: dict[Job, int], done: Done) -> _Worker:
        job = worker.job
        assert job is not None
        try:
            outcome = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            lost[job] += 1
            if lost[job] < LIVES:
                waiting.append(job)
            else:
                done(job, died(job, LIVES))
            return self._replace(worker)
        worker.job = None
        done(job, outcome)
        return worker

    def _hire(self) -> _Worker:
        # Fresh interpreters: a fork would share torch's threads and the device that is open here.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self.work), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)

    def _replace(self, worker: _Worker) -> _Worker:
        self.deaths += 1
        self._dismiss(worker)
        return self._hire()

    def _dismiss(self, worker: _Worker) -> None:
        with contextlib.suppress(OSError):
            worker.pipe.close()
        if worker.job is not None:
            worker.process.kill()
        worker.process.join(10)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _serve(pipe: Connection, work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The life of a worker: until its pipe closes."""
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(work(pipe.recv()))
