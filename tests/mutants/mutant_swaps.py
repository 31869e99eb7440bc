"""Mutants whose change stands inside functions: put into those functions of a process that has collected the tests."""

import functools
import gc
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from mutant_trials import OPTIONS, QUIET, Order, Report, Trial, channel, fork, quick

_Cached = type(functools.lru_cache(lambda: None))


class Collected:
    """Imports and collects `tests` in this process, then lets `during(self)` try mutants in its children.

    Use in a process of its own, since afterwards nothing can be imported anew. Writes into `order` how long tests take.

    `slow`: tests whose node id ends in one of these are not run to learn what they call: they count as calling
    everything, and come last. `memory`: a file in which what was learned is kept, and found again by a later run over
    the same sources and tests.
    """

    def __init__(
        self,
        folder: Path,
        tests: Sequence[Path],
        order: Order,
        during: Callable[["Collected"], None],
        slow: tuple[str, ...] = (),
        memory: Path | None = None,
    ) -> None:
        self._folder, self._order, self._during, self._slow = str(folder), order, during, slow
        self._memory, self._sources = memory, [*sorted(folder.glob("*.py")), *tests]
        self._early: set[tuple[str, str]] = set()
        self._callers: dict[tuple[str, str], set[int]] = {}
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
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._caches = []
        for each in gc.get_objects():
            if type(each) is FunctionType:  # isinstance would ask proxies for their class, which may warn or raise
                code = each.__code__
                if code.co_filename.startswith(self._folder):
                    key = code.co_filename, code.co_qualname, code.co_firstlineno
                    self._functions.setdefault(key, []).append(each)
            elif type(each) is _Cached:
                self._caches.append(each)
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
        """Keep which functions each test calls, and how long it takes."""
        self._everything = {index for index, item in enumerate(self._items) if item.nodeid.endswith(self._slow)}
        self._order.seconds |= {self._items[index].nodeid: math.inf for index in self._everything}
        texts = [item.nodeid for item in self._items] + [file.read_text(encoding="utf-8") for file in self._sources]
        key = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        rows = self._remembered(key)
        if rows is None:
            rows = self._watched()
            if self._memory is not None:
                self._memory.write_text(json.dumps({"key": key, "rows": rows}), encoding="utf-8")
        for row in rows:
            self._order.seconds[self._items[row["index"]].nodeid] = row["seconds"]
            for file_name, name in row["called"]:
                self._callers.setdefault((file_name, name), set()).add(row["index"])

    def _remembered(self, key: str) -> list[dict[str, Any]] | None:
        if self._memory is None or not self._memory.exists():
            return None
        known = json.loads(self._memory.read_text(encoding="utf-8"))
        return list(known["rows"]) if known["key"] == key else None

    def _watched(self) -> list[dict[str, Any]]:
        """Run every test once, in a child: {index, seconds, called: [[file, function]]}."""

        def call(report: Report) -> int:
            called: set[CodeType] = set()

            def seen(frame: Any, _event: str, _argument: object) -> None:
                called.add(frame.f_code)

            for index, item in enumerate(self._items):
                if index in self._everything:
                    continue
                called.clear()
                begun = time.process_time()
                sys.settrace(seen)
                passes = self._run(index)
                sys.settrace(None)
                if not passes:
                    report(f"{item.nodeid} must pass before anything is mutated")
                    return 1
                ours = [code for code in called if code.co_filename.startswith(self._folder)]
                names = sorted({(code.co_filename, _outermost(code.co_qualname)) for code in ours})
                tell({"index": index, "seconds": round(time.process_time() - begun, 4), "called": names})
            return 0

        with channel() as (told, tell):
            pid, pipe = fork(call)
            _, status = os.waitpid(pid, 0)
            with os.fdopen(pipe, "rb") as file:
                words = file.read().decode()
            if status:
                raise SystemExit(words or f"status {status}")
            return told()

    def swapped(self, trial: Trial) -> Callable[[Report], int] | None:
        """The call that puts the mutant's functions in place of the true ones; None where that would not be it."""
        old = _compiled(trial.file)
        new = compile(trial.source, str(trial.file), "exec", dont_inherit=True)
        changed = _changed_functions(old, new)
        if changed is None or any((str(trial.file), name) in self._early for name, _, _ in changed):
            return None
        # One whose last user is gone, or that a wrapper alone knows, is read anew with its module.
        if any((str(trial.file), name, line) not in self._functions for name, line, _ in changed):
            return None

        def call(report: Report) -> int:
            for name, line, code in changed:
                for function in self._functions[str(trial.file), name, line]:
                    function.__code__ = code
            for cache in self._caches:
                cache.cache_clear()
            for index in self._tests(trial, {name for name, _, _ in changed}):
                if not self._run(index):
                    report(self._failed[0])
                    return 1
                if time.process_time() > trial.limit:
                    break
            return 0

        return call

    def _tests(self, trial: Trial, names: Iterable[str]) -> list[int]:
        """The tests that call one of the functions `names`, the likeliest to kill first."""
        found = self._everything.union(*(self._callers.get((str(trial.file), name), ()) for name in names))
        nodeids = {index: self._items[index].nodeid for index in found}
        kept = (index for index in found if not trial.spares(nodeids[index]))
        return sorted(kept, key=lambda index: (self._order.key(str(trial.file), nodeids[index]), index))


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
