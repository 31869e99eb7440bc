"""The property suite as `mxassay check --profile` runs it: pytest in a process of its own, and what came of it."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
    """Run the suite and return a record for each property, in the catalogue's order. Args and Raises as for
    `suite_beside`.
    """
    with suite_beside(profile, device, options) as finish:
        return finish()


@contextmanager
def suite_beside(
    profile: str, device: str, options: dict[str, str | None]
) -> Iterator[Callable[[], list[PropertyRecord]]]:
    """The suite in a process that runs beside the block. Calling what this yields waits for its end, and returns a
    record for each property, in the catalogue's order. If the block ends without that, the suite ends too.

    profile: quick, thorough or nightly; the others begin with quick, whose examples are fixed, so that they see what it
    sees. device: the name of a device. options: of the pytest plugin without their
    `--mx-`; None leaves one out. With pytest-xdist, tests are dealt to as many processes as there are cores.

    The call raises MxassayError where pytest itself fails; the message holds the end of its output.
    """
    first, *others = dict.fromkeys(("quick", profile))
    with _Session(first, device, options) as session:

        def finish() -> list[PropertyRecord]:
            tests = session.tests()
            for name in others:
                with _Session(name, device, options) as other:
                    tests += other.tests()
            return by_property(tests)

        yield finish


class _Session:
    """One run of pytest over the suite, from the start of the block on; SIGTERM ends it with this process."""

    def __init__(self, profile: str, device: str, options: dict[str, str | None]) -> None:
        self._options = {**options, "profile": profile, "device": device}

    def __enter__(self) -> "_Session":
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mxassay-"))
        self._verdicts, settings = Path(folder, "verdicts.json"), Path(folder, "pytest.ini")
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
            "-p",
            "no:unraisableexception",  # these two collect all garbage of a large process at its end
            "-p",
            "no:threadexception",
        ]
        words += ["-p", "mxassay.pytest_plugin", "--pyargs", "mxassay.properties", "--mx-verdicts", str(self._verdicts)]
        words.append("--mx-no-history")  # who asked keeps them
        for name, value in self._options.items():
            words += [f"--mx-{name}", value] if value is not None else []
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if importlib.util.find_spec("xdist") and cores > 1:
            words += ["-n", str(cores), "--dist", "worksteal"]
        home = str(Path(mxassay.__file__).parents[1])
        path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._output = Path(folder, "output")
        with self._output.open("wb") as output:  # a pipe that nobody reads yet would fill up
            self._process = subprocess.Popen(
                words, env={**os.environ, "PYTHONPATH": path}, stdout=output, stderr=subprocess.STDOUT
            )
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, self._end_with_this_process)
            self._stack.callback(signal.signal, signal.SIGTERM, before or signal.SIG_DFL)
        return self

    def _end_with_this_process(self, number: int, frame: object) -> None:
        self._process.terminate()  # and no waiting, which the main thread may be at
        self._stack.close()
        os.kill(os.getpid(), number)

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._stack.close()

    def tests(self) -> list[dict[str, Any]]:
        """What became of each test, when all have run."""
        code = self._process.wait()
        if code not in _RAN or not self._verdicts.exists():
            raise MxassayError(f"the suite must run, but pytest ended with {code}:\n{self._end()}")
        found: list[dict[str, Any]] = json.loads(self._verdicts.read_text())
        good = (Verdict.PASS.value, Verdict.UNSUPPORTED.value)
        if code and all(test["verdict"] in good for test in found):
            raise MxassayError(f"every failure must have a verdict, but pytest told of others:\n{self._end()}")
        return found

    def _end(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-30:])


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
