"""The engine for many machines: Dask distributed.

Why Dask and not Ray: it is pure Python of a few megabytes that installs beside any torch, its scheduler and workers are
ordinary processes that a batch system can start (`dask scheduler`, `dask worker`), a task has a key of our choice, so
that the same job is the same task, and a task whose worker dies is given to another one, at most `allowed-failures`
times. Ray brings a compiled runtime of its own with an object store and daemons, of which a campaign of independent
jobs needs nothing.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mxassay.campaign.job import Job
from mxassay.campaign.processes import LIVES, Done
from mxassay.campaign.working import died, do
from mxassay.errors import UnsupportedError

__all__ = ["DaskEngine"]


@dataclass
class DaskEngine:
    """Workers of the Dask scheduler at `address` ("tcp://host:8786"), or, without one, `workers` processes here.

    `patience`: seconds in which a scheduler must answer.
    """

    address: str | None
    workers: int
    work: Callable[[dict[str, Any]], dict[str, Any]] = do
    patience: float = 20.0
    deaths: int = field(default=0, init=False)

    def run(self, jobs: Sequence[Job], done: Done) -> None:
        """Do all jobs; `done` is called here, once for each, as they end.

        Raises UnsupportedError without Dask, or where no scheduler answers.
        """
        try:
            import dask
            from distributed import Client, LocalCluster, as_completed
        except ImportError as error:
            raise UnsupportedError(
                "Dask distributed must be installed for --engine dask, not absent; pip install 'mxassay[campaign]'"
            ) from error
        settings = {
            "distributed.scheduler.allowed-failures": LIVES - 1,
            # No job waits on a worker: one whose neighbour kills it would be blamed for that.
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.worker.daemon": False,
        }
        with dask.config.set(settings):
            try:
                here: Any = None
                if self.address is None:
                    here = LocalCluster(
                        n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None
                    )
                client = Client(here or self.address, timeout=self.patience)
            except OSError as error:
                raise UnsupportedError(
                    f"a Dask scheduler must answer at {self.address}, not be out of reach ({error})"
                ) from error
            try:
                futures = {client.submit(self.work, job.as_wire(), key=_key(job), pure=False): job for job in jobs}
                for future in as_completed(futures):
                    job = futures[future]
                    raised = future.exception()
                    if raised is None:
                        done(job, future.result())
                    elif type(raised).__name__ == "KilledWorker":
                        self.deaths += LIVES
                        done(job, died(job, LIVES))
                    else:
                        raise raised
                    future.release()
            finally:
                client.close()
                if here is not None:
                    here.close()


def _key(job: Job) -> str:
    text = json.dumps(job.as_wire(), sort_keys=True)
    return f"mxassay-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
