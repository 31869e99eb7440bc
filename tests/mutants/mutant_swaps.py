"""Mutants whose change stands inside functions: put into those functions of a process that has collected the tests."""

import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from mutant_trials import OPTIONS, OURS, QUIET, Report, Trial, channel, fork, quick

_Cached = type(functools.lru_cache(lambda: None))


class Collected:
    """Imports and collects `tests` in this process, then lets `during(self)` try mutants in its children.

    Use in a process of its own, since afterwards nothing can be imported anew.
    """

    def __init__(self, folder: Path, tests: Sequence[Path], during: Callable[["Collected"], None]) -> None:
        self._folder, self._during = str(folder), during
        self._early: set[tuple[str, str]] = set()
        self._callers: dict[tuple[str, str], list[tuple[float, int]]] = {}
        sys.settrace(self._seen_early)
        self._finished = False
        pytest.main([*OPTIONS, *QUIET, *map(str, tests)], plugins=[self])
        if not self._finished:
            raise SystemExit("the tests must be collected and pass before anything is mutated")

    def _seen_early(self, frame: Any, _event: str, _argument: object) -> None:
        if frame.f_code.co_filename.startswith(self._folder):
            self._early.add((frame.f_code.co_filename, _outermost(frame.f_code.co_qualname)))

    def pytest_configure(self) -> None:
        quick()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.settrace(None)
        self._items = session.items
        self._learn()
        self._alive = {
            (each.__code__.co_filename, each.__code__.co_qualname, each.__code__.co_firstlineno)
            for each in gc.get_objects()
            if type(each) is FunctionType
        }
        gc.freeze()
        self._during(self)
        self._finished = True
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _run(self, index: int) -> bool:
        """Whether the test passes."""
        self._failed: list[str] = []
        item = self._items[index]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self._failed

    def _learn(self) -> None:
        """Run every test once, in a child, and keep which functions each of them calls, and how long it takes."""
        with channel() as (told, tell):

            def call(report: Report) -> int:
                called: set[CodeType] = set()

                def seen(frame: Any, _event: str, _argument: object) -> None:
                    called.add(frame.f_code)

                for index in range(len(self._items)):
                    called.clear()
                    begun = time.perf_counter()
                    sys.settrace(seen)
                    passes = self._run(index)
                    sys.settrace(None)
                    if not passes:
                        report(f"{self._failed[0]} must pass before anything is mutated")
                        return 1
                    ours = [code for code in called if code.co_filename.startswith(self._folder)]
                    names = sorted({(code.co_filename, _outermost(code.co_qualname)) for code in ours})
                    tell({"index": index, "seconds": time.perf_counter() - begun, "called": names})
                return 0

            pid, pipe = fork(call)
            _, status = os.waitpid(pid, 0)
            with os.fdopen(pipe, "rb") as file:
                words = file.read().decode()
            if status:
                raise SystemExit(words or f"status {status}")
            for row in told():
                for file_name, name in row["called"]:
                    self._callers.setdefault((file_name, name), []).append((row["seconds"], row["index"]))

    def swapped(self, trial: Trial) -> Callable[[Report], int] | None:
        """The call that puts the mutant's functions in place of the true ones; None where that would not be it."""
        old = _compiled(trial.file)
        new = compile(trial.source, str(trial.file), "exec", dont_inherit=True)
        changed = _changed_functions(old, new)
        if changed is None or any((str(trial.file), name) in self._early for name, _, _ in changed):
            return None
        # One whose last user is gone, or that a wrapper alone knows, is read anew with its module.
        if any((str(trial.file), name, line) not in self._alive for name, line, _ in changed):
            return None

        def call(report: Report) -> int:
            for name, line, code in changed:
                if not self._replace(str(trial.file), name, line, code):
                    report(f"no function {name}")
                    return OURS
            gc.unfreeze()
            for each in gc.get_objects():
                if type(each) is _Cached:
                    each.cache_clear()
            tests = sorted({test for name, _, _ in changed for test in self._callers.get((str(trial.file), name), [])})
            for _, index in tests:
                if not self._run(index):
                    report(self._failed[0])
                    return 1
            return 0

        return call

    @staticmethod
    def _replace(file: str, name: str, line: int, code: CodeType) -> bool:
        gc.unfreeze()
        found = False
        for each in gc.get_objects():
            if type(each) is FunctionType:  # isinstance would ask proxies for their class, which may warn or raise
                own = each.__code__
                if (own.co_filename, own.co_qualname, own.co_firstlineno) == (file, name, line):
                    each.__code__ = code
                    found = True
        return found


@functools.cache
def _compiled(file: Path) -> CodeType:
    return compile(file.read_text(encoding="utf-8"), str(file), "exec", dont_inherit=True)


def _outermost(name: str) -> str:
    return name.split(".<locals>")[0]


def _functions(code: CodeType) -> dict[str, CodeType]:
    """The functions of a module and of its classes, by qualified name; a later one of the same name gets a number."""
    found: dict[str, CodeType] = {}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner = {const.co_qualname: const} if const.co_flags & 2 else _functions(const)  # 2: CO_NEWLOCALS
            for name, each in inner.items():
                found[name if name not in found else f"{name}#{len(found)}"] = each
    return found


def _plain(code: CodeType, inner: bool) -> tuple[object, ...]:
    """What a code object does, without its lines; `inner`: with the functions in it."""
    consts = []
    for const in code.co_consts:
        if not isinstance(const, CodeType):
            consts.append((type(const), repr(const)))
        elif inner or not const.co_flags & 2:
            consts.append((CodeType, repr(_plain(const, inner))))
    flags = (code.co_flags, code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount)
    return (code.co_code, code.co_names, code.co_varnames, code.co_freevars, flags, tuple(consts))


def _changed_functions(old: CodeType, new: CodeType) -> list[tuple[str, int, CodeType]] | None:
    """(name, line in `old`, new code) of each function that differs; None where anything else does."""
    if _plain(old, False) != _plain(new, False):
        return None
    before, after = _functions(old), _functions(new)
    if set(before) != set(after) or any("#" in name or "<" in name for name in before):
        return None
    return [
        (name, code.co_firstlineno, after[name])
        for name, code in before.items()
        if _plain(code, True) != _plain(after[name], True)
    ]
