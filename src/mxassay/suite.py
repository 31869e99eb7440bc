"""The property suite as `mxassay check --profile` runs it: pytest in a process of its own, and what came of it."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mxassay
from mxassay.errors import MxassayError
from mxassay.verdicts import Verdict, worst

# pytest: all passed, some failed, interrupted by -x or maxfail.
_RAN = (0, 1)


@dataclass(frozen=True)
class PropertyRecord:
    """One property and what its tests said.

    Attributes:
        property, chapter, statement: of the catalogue.
        verdict: the worst of its tests; UNSUPPORTED where it does not apply, with the reason in `message`.
        examples: how many were run, over all tests of the property.
        seconds: spent in them, compiling included.
        message: of the first test that did not pass.
    """

    property: str
    chapter: str
    statement: str
    verdict: Verdict
    examples: int
    seconds: float
    message: str

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {**asdict(self), "verdict": self.verdict.value}


def run_suite(profile: str, device: str, options: dict[str, str | None]) -> list[PropertyRecord]:
    """Run the suite and return a record for each property, in the catalogue's order.

    profile: quick, thorough or nightly; the others begin with quick, whose examples are fixed, so that they see what it
    sees. device: the name of a device. options: of the pytest plugin without their
    `--mx-`; None leaves one out. With pytest-xdist, tests are dealt to as many processes as there are cores.

    Raises MxassayError where pytest itself fails; the message holds the end of its output.
    """
    profiles = dict.fromkeys(("quick", profile))
    return by_property([test for each in profiles for test in _tests(each, device, options)])


def _tests(profile: str, device: str, options: dict[str, str | None]) -> list[dict[str, Any]]:
    """What became of each test in one profile."""
    with tempfile.TemporaryDirectory(prefix="mxassay-") as folder:
        verdicts, settings = Path(folder, "verdicts.json"), Path(folder, "pytest.ini")
        settings.write_text("[pytest]\naddopts = --import-mode=importlib\n")
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(settings),
            "--rootdir",
            folder,
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        words += ["-p", "mxassay.pytest_plugin", "--pyargs", "mxassay.properties", "--mx-verdicts", str(verdicts)]
        words.append("--mx-no-history")  # who asked keeps them
        for name, value in {**options, "profile": profile, "device": device}.items():
            words += [f"--mx-{name}", value] if value is not None else []
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if importlib.util.find_spec("xdist") and cores > 1:
            words += ["-n", str(cores), "--dist", "worksteal"]
        home = str(Path(mxassay.__file__).parents[1])
        path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode not in _RAN or not verdicts.exists():
            raise MxassayError(f"the suite must run, but pytest ended with {done.returncode}:\n{_end(done)}")
        found: list[dict[str, Any]] = json.loads(verdicts.read_text())
        return found


def _end(done: "subprocess.CompletedProcess[str]") -> str:
    return "\n".join((done.stdout + done.stderr).splitlines()[-30:])


def by_property(tests: list[dict[str, Any]]) -> list[PropertyRecord]:
    """A record for each property of the catalogue, of what the pytest plugin wrote down about its tests."""
    from mxassay.properties.catalogue import CATALOGUE

    found = []
    for entry in CATALOGUE.values():
        mine = [test for test in tests if test["property"] == entry.id]
        ran = [test for test in mine if test["verdict"] != Verdict.UNSUPPORTED.value]
        verdict = worst([Verdict(test["verdict"]) for test in ran])
        shown = next((test for test in mine if test["verdict"] == verdict.value and test["message"]), None)
        found.append(
            PropertyRecord(
                property=entry.id,
                chapter=entry.chapter,
                statement=entry.statement,
                verdict=verdict,
                examples=sum(test["examples"] for test in ran),
                seconds=round(sum(test["seconds"] for test in ran), 3),
                message=shown["message"] if shown else "",
            )
        )
    return found


def suite_verdict(records: list[PropertyRecord]) -> Verdict:
    """The worst of the properties that apply; UNSUPPORTED where none does."""
    return worst([record.verdict for record in records if record.verdict is not Verdict.UNSUPPORTED])
