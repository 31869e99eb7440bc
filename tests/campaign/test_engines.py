"""Two workers on this machine, one of them killed in the middle: nothing is lost and nothing is done twice."""

import contextlib
import os
import signal
from collections import Counter

import pytest

from mxassay.campaign.job import Job
from mxassay.campaign.machines import DaskEngine
from mxassay.campaign.processes import LIVES, ProcessEngine
from mxassay.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of ports and of workers that we kill


def jobs(count, folder=None):
    return [Job(None, None, folder, "emulated", (1, 16, 64), "even", seed) for seed in range(count)]


def engine(name, work):
    if name == "dask":
        pytest.importorskip("distributed")
        return DaskEngine(None, 2, work)
    return ProcessEngine(2, work)


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_one_of_two_workers_is_killed_in_the_middle(name, work, tmp_path):
    done, killed = [], []

    def heard(job, outcome):
        done.append(job.seed)
        if len(done) == 3 and not killed:
            # The worker that has just begun another job, or will at once: never the one that we hear of.
            begun = [int(file.name.partition("-")[2]) for file in tmp_path.iterdir()]
            other = next(pid for pid in begun if pid != outcome["worker"])
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
            killed.append(other)

    run = engine(name, work.slow)
    run.run(jobs(10, str(tmp_path)), heard)
    assert sorted(done) == list(range(10))
    assert killed
    # Only what the dead one had begun was begun again.
    begun = Counter(int(file.name.partition("-")[0]) for file in tmp_path.iterdir())
    assert 10 <= begun.total() <= 12


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_a_job_that_kills_its_workers_becomes_an_error(name, work):
    outcomes = {}
    run = engine(name, work.deadly)
    run.run(jobs(4), lambda job, outcome: outcomes.setdefault(job.seed, []).append(outcome))
    assert sorted(outcomes) == [0, 1, 2, 3]
    assert all(len(found) == 1 for found in outcomes.values())
    assert {seed: found[0]["verdict"] for seed, found in outcomes.items()} == {
        0: "PASS", 1: "ERROR", 2: "PASS", 3: "PASS"
    }  # fmt: skip
    assert outcomes[1][0]["message"] == f"a worker must survive the job, not die of it {LIVES} times"
    assert run.deaths >= LIVES


def test_no_scheduler_is_said(work):
    pytest.importorskip("distributed")
    with pytest.raises(UnsupportedError, match=r"a Dask scheduler must answer at tcp://127.0.0.1:1, not be out of"):
        DaskEngine("tcp://127.0.0.1:1", 2, work.quick, patience=0.5).run(jobs(1), lambda job, outcome: None)
