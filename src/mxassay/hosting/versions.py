"""Runs versions of a kernel, each in a process of its own, and brings back what they made of their cases."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import mxassay
from mxassay.devices import Device
from mxassay.errors import ContractError, MxassayError
from mxassay.hosting.version_jobs import job_as_json

if TYPE_CHECKING:
    from mxassay.triage.diagnosis import Diagnosis
    from mxassay.triage.failure import Failure
    from mxassay.triage.versions.change import Examination, Job, Run
    from mxassay.triage.versions.version import Version


@dataclass(frozen=True)
class Setting:
    """How every version is opened: as in `mxassay.loading.Request`. `seconds`: for all jobs of a version."""

    device: Device
    dialect: str = "even"
    abi: str | None = None
    aiter: str | None = None
    tile: tuple[int, int] | None = None
    seconds: float = 600.0


class Examiner:
    """Holds the warm process. A context manager: the process starts when it is first needed and ends with the block."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Examiner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate()

    def examine(self, version: "Version", jobs: "Sequence[Job]") -> "Examination":
        """Run `jobs` on `version`. Where its process dies, the job under way has failed and the next ones get another.

        Raises MxassayError where the warm process itself ends.
        """
        from mxassay.triage.versions.change import Examination

        with tempfile.TemporaryDirectory(prefix="mxassay-runs-") as name:
            folder = Path(name)
            records: dict[int, dict[str, Any]] = {}
            read: set[str] = set()
            while len(records) < len(jobs):
                left = [(number, job_as_json(job)) for number, job in enumerate(jobs) if number not in records]
                ended = self._ask(version, folder, left)
                told = _lines(folder / "results.jsonl")
                read |= {path for line in told for path in line.get("read", ())}
                why = next((line["unopened"] for line in told if "unopened" in line), "")
                if not why and not any("opened" in line for line in told):
                    why = f"{ended or 'the version opened nothing'}:\n{_tail(folder / 'printed.txt')}"
                if why:
                    return Examination((), tuple(sorted(read)), why)
                records |= {line["number"]: line for line in told if "number" in line}
                if len(records) == len(jobs):
                    break
                # Unless it died between two jobs, the one that began last is to blame.
                began = max(line["began"] for line in told if "began" in line)
                first = next(number for number, _ in left if number not in records)
                records[max(began, first)] = {"error": f"{ended}\n{_tail(folder / 'printed.txt')}".strip()}
            runs = tuple(_run(records[number], folder / f"{number}.pt") for number in range(len(jobs)))
            return Examination(runs, tuple(sorted(read)))

    def diagnose(self, version: "Version", job: "Job") -> "Diagnosis":
        """What is wrong with a call that failed, found out in a process that has `version` open.

        Raises MxassayError where that process ends without an answer.
        """
        import torch

        with tempfile.TemporaryDirectory(prefix="mxassay-runs-") as name:
            folder = Path(name)
            place = folder / "diagnosis.pt"
            ended = self._ask(version, folder, [(0, job_as_json(job))], place)
            if not place.exists():
                why = next((line["unopened"] for line in _lines(folder / "results.jsonl") if "unopened" in line), ended)
                raise MxassayError(f"the diagnosis must end, but {why}:\n{_tail(folder / 'printed.txt')}")
            # Written by our own process just now: a pickle of records.
            found: Diagnosis = torch.load(place, weights_only=False)
            return replace(found, failure=_with_our_plan(found.failure), shrunk=_with_our_plan(found.shrunk))

    def _ask(
        self, version: "Version", folder: Path, jobs: list[tuple[int, dict[str, Any]]], diagnosis: Path | None = None
    ) -> str:
        (folder / "results.jsonl").unlink(missing_ok=True)
        setting = self.setting
        request = {
            "folder": str(folder),
            "spec": version.spec,
            "own": str(version.own) if version.own else None,
            "tree": str(version.tree) if version.tree else None,
            "abi": setting.abi,
            "dialect": setting.dialect,
            "device": setting.device.name,
            "tensors_on": setting.device.tensors_on,
            "aiter": setting.aiter,
            "tile": setting.tile,
            "limit": setting.seconds,
            "jobs": jobs,
            "name": version.name,
            "diagnosis": str(diagnosis) if diagnosis else None,
        }
        process = self._started()
        requests, answers = _pipes(process)
        try:
            requests.write(json.dumps(request) + "\n")
            requests.flush()
            answer = answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise MxassayError(
                f"the process that runs versions must stay, but it ended with status {process.wait()}; see above"
            )
        return str(json.loads(answer)["ended"])

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            home = str(Path(mxassay.__file__).parents[1])
            path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
            # One thread, since it forks; a matrix library would start others as soon as it is loaded.
            environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
            if self.setting.device.name == "interpreter":
                environment["TRITON_INTERPRET"] = "1"
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mxassay.hosting.version_process"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
        return self._process


def _with_our_plan(failure: "Failure") -> "Failure":
    """With the plan as a plan of ours, so that the case can be run again, where it is one."""
    from mxassay.optimized import Plan
    from mxassay.triage.versions.change import Planned

    plan = failure.launch.plan
    if not isinstance(plan, Planned) or plan.fields is None:
        return failure
    try:
        return replace(failure, launch=replace(failure.launch, plan=Plan(**plan.fields)))
    except (ContractError, TypeError):
        return failure


def _pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _lines(place: Path) -> list[dict[str, Any]]:
    """All whole lines; a process that was killed may have left half of one."""
    if not place.exists():
        return []
    return [
        json.loads(line) for line in place.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"
    ]


def _tail(place: Path) -> str:
    return "\n".join(place.read_text(encoding="utf-8", errors="replace").splitlines()[-4:]) if place.exists() else ""


def _run(record: dict[str, Any], output: Path) -> "Run":
    import torch

    from mxassay.triage.versions.change import Planned, Run

    out = torch.load(output, weights_only=True) if output.exists() else None
    return Run(
        out,
        Planned(record.get("words", "own"), record.get("plan")),
        record["error"],
        record.get("refused", False),
        record.get("planless", False),
        record.get("seconds", 0.0),
        record.get("figures") or None,
    )
