"""Mutants on trial, each in a process of its own, forked from one that has done what all of them need.

A mutant costs the tests that it takes to kill it, not an import of torch nor a collection of tests. Two kinds:

- a change inside functions that importing and collecting never call is put into those functions, in a child of a
  process that has collected the tests; it runs the tests that were seen to call one of them;
- any other change (a table, a default, a decorator, a function that makes a table) is read as a module of its true
  name in a child of a process in which pytest is ready to collect and nothing that is mutated has been imported; all
  tests are collected there.

Tests that have killed many mutants of the same file run first, then the quickest.
"""

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import io
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

# What the tests import and what is never mutated. torch with one thread has no pool of threads that a fork would lose.
_PRELOADED = ("numpy", "torch", "torch.profiler", "hypothesis.extra.numpy", "ml_dtypes", "mxassay.errors")
_OPTIONAL = ("torchao.prototype.mx_formats.mx_tensor", "gfloat")
OPTIONS = ("-x", "-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # what is preloaded can't be rewritten
_MEMORY = 8 << 30  # bytes: a mutated size must not take the machine with it
_CPU_SECONDS = 60  # of the processor, so that a busy machine kills nobody
_SECONDS = 1800.0  # on the wall, for one that waits for ever
OURS = 70  # exit status of a child in which these lines failed, not the tests


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant. `by`: the first failing test, or import, timeout, crash; None where it survived."""

    by: str | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """The module `module` of `file` with the text `source`, to be killed by `tests`.

    `spared`: parts of node ids; tests whose id ends in one are not run. `limit`: seconds of the processor, after which
    no further test is begun and the mutant counts as a survivor.
    """

    module: str
    file: Path
    source: str
    tests: tuple[Path, ...]
    spared: tuple[str, ...] = ()
    limit: float = float("inf")

    def spares(self, nodeid: str) -> bool:
        return nodeid.endswith(self.spared)


@dataclass
class Order:
    """In which order tests are likely to kill soon."""

    seconds: dict[str, float] = field(default_factory=dict)
    kills: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def key(self, file: str, nodeid: str) -> tuple[int, float]:
        """To sort tests by, for mutants of `file`."""
        return -self.kills[file][nodeid], self.seconds.get(nodeid, 0.0)


def preload() -> None:
    """Import here, once, what every trial needs, and nothing that is mutated."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for name in _PRELOADED:
            importlib.import_module(name)
        for name in _OPTIONAL:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    _assert_innocent()


def _assert_innocent() -> None:
    found = [name for name in sys.modules if name.startswith(("mxassay.reference", "mxassay.layouts"))]
    assert not found, f"the forking process must not import what is mutated, but imported {found}"


Report = Callable[[str], None]


def outcomes(calls: Iterable[tuple[int, Callable[[Report], int]]], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """(index, outcome) of each of `calls` as they end, each in a child. A call returns 0 where the mutant survived."""
    running: dict[int, tuple[int, int, float]] = {}
    waiting = iter(calls)
    last = False
    while running or not last:
        while not last and len(running) < jobs:
            following = next(waiting, None)
            if following is None:
                last = True
            else:
                pid, pipe = fork(following[1])
                running[pid] = following[0], pipe, time.monotonic()
        time.sleep(0.003)
        for pid, (index, pipe, started) in list(running.items()):
            seconds = time.monotonic() - started
            late = seconds > _SECONDS
            if late:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if ended:
                del running[pid]
                with os.fdopen(pipe, "rb") as file:
                    told = file.read().decode(errors="replace").split("\n")[0]
                if os.waitstatus_to_exitcode(status) == OURS:
                    raise SystemExit(f"trial {index} must end in a verdict, not in {told}")
                late = late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
                by = (told or ("timeout" if late else f"crash, status {status}")) if status else None
                yield index, Outcome(by, seconds)


def in_a_child(call: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What `call` returns in a child of this process."""
    with channel() as (told, tell):

        def run(_: Report) -> int:
            for row in call():
                tell(row)
            return 0

        pid, pipe = fork(run, quiet=False)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(pipe, "rb") as file:
            words = file.read().decode(errors="replace")
        if status:
            raise SystemExit(words or f"status {status}")
        return told()


def fork(call: Callable[[Report], int], quiet: bool = True) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = OURS

    def report(words: str) -> None:
        os.write(writing, f"{words}\n".encode())

    try:
        os.close(reading)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
        if quiet:
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 5))
            sink = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(sink, stream)
        status = call(report)
    except BaseException as error:
        report(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


class Ready:
    """Makes pytest ready to collect, then lets `during(self)` try mutants in children. Use in a process of its own.

    `anchor`: a file or folder whose conftest.py files may be imported, since they import nothing that is mutated.
    """

    def __init__(self, anchor: Path, order: Order, during: Callable[["Ready"], None]) -> None:
        self._order, self._during = order, during
        self._finished = False
        pytest.main([*OPTIONS, *QUIET, str(anchor)], plugins=[self])
        if not self._finished:
            raise SystemExit("pytest must become ready to collect")

    def pytest_configure(self) -> None:
        quick()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        self._session = session
        _assert_innocent()
        gc.freeze()
        self._during(self)
        self._finished = True
        return True

    def imported_anew(self, trial: Trial) -> Callable[[Report], int]:
        """The call that imports the mutant under its true name, then collects and runs the tests."""

        def call(report: Report) -> int:
            sys.meta_path.insert(0, _Finder(trial.module, trial.file, trial.source))
            try:
                importlib.import_module(trial.module)
            except BaseException:
                report("import")
                return 1
            session = self._session
            session.config.args = [str(test) for test in trial.tests]
            session.config.pluginmanager.register(_Watch(trial, self._order, report))
            try:
                session.perform_collect()
                session.config.hook.pytest_runtestloop(session=session)
            except (session.Failed, session.Interrupted) as error:
                report(f"pytest: {error}")
                return 1
            if not session.testscollected:
                raise AssertionError("there must be tests")
            return int(session.testsfailed > 0)

        return call


@contextlib.contextmanager
def channel() -> Iterator[tuple[Callable[[], list[dict[str, Any]]], Callable[[dict[str, Any]], None]]]:
    """A file for what a child finds out: (read all, write one)."""
    with open(os.memfd_create("mutants"), "r+", encoding="utf-8") as file:

        def told() -> list[dict[str, Any]]:
            file.seek(0)
            return [json.loads(line) for line in file]

        def tell(row: dict[str, Any]) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        yield told, tell


class _Finder(MetaPathFinder):
    """Finds one module, with another text than its file's."""

    def __init__(self, name: str, file: Path, source: str) -> None:
        self._name, self._file, self._source = name, file, source

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Loader(fullname, str(self._file), self._source)
        places = [str(self._file.parent)] if self._file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self._file, loader=loader, submodule_search_locations=places
        )


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


def quick() -> None:
    """Hypothesis neither shrinks nor remembers, and draws the same examples each time."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings(), derandomize=True, database=None, phases=phases)
    settings.load_profile("mutants")


class _Watch:
    """Puts tests in order, ends the session at the limit, reports failures."""

    def __init__(self, trial: Trial, order: Order, report: Report) -> None:
        self._trial, self._order, self._report = trial, order, report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not self._trial.spares(item.nodeid)]
        items.sort(key=lambda item: self._order.key(str(self._trial.file), item.nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._report(f"collecting {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._report(report.nodeid)

    def pytest_runtest_logfinish(self) -> None:
        if time.process_time() > self._trial.limit:
            os._exit(0)
