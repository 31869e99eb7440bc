"""A pytest plugin that writes down, as it happens, which test runs and how it ended, so that a crash leaves a trace.

    MXASSAY_WITNESS=journal.jsonl pytest -p mxassay.properties.faults.witness ...

Failing examples are not shrunk: whether a fault is seen, and after how many examples, is all that counts here.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.errors import HypothesisException

JOURNAL = "MXASSAY_WITNESS"
"""The variable that names the file to write: one JSON object a line, `event` is `start` or `end`."""

FIRST = "MXASSAY_FIRST"
"""The variable that names what to run first, with commas: tests such as `test_gemm.py::test_signs`, then chapters such
as `test_gemm`."""

_PROFILE = "planted faults"


class _Count:
    """How often the body of the running test was entered, and the entry that failed first."""

    entered = 0
    failed_at: int | None = None


_count = _Count()


def _write(**record: Any) -> None:
    path = os.environ.get(JOURNAL)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def pytest_pycollect_makemodule() -> None:
    """Just before a module's tests are declared, once every conftest.py has loaded its profile: no shrinking."""
    if settings.get_current_profile_name() != _PROFILE:
        settings.register_profile(
            _PROFILE, settings(), phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False, database=None
        )
        settings.load_profile(_PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is most likely to see the fault goes first; the order of the others stays."""
    first = os.environ.get(FIRST, "").split(",")

    def place(item: pytest.Item) -> int:
        names = (f"{item.path.name}::{item.name}", f"{item.path.name}::{item.name.split('[')[0]}", item.path.stem)
        return min((first.index(name) for name in names if name in first), default=len(first))

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Say which test starts."""
    _count.entered, _count.failed_at = 0, None
    _write(event="start", **_named(item))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count examples."""
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if handle is None:
        return (yield)
    body = handle.inner_test
    handle.inner_test = _counted(body)
    try:
        return (yield)
    finally:
        handle.inner_test = body


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Say how the test ended."""
    report: pytest.TestReport = yield
    if report.when == "call" or not report.passed:
        error = getattr(report.longrepr, "reprcrash", None)
        message = "" if report.passed or error is None else str(error.message)[:2000]
        examples = _count.failed_at or _count.entered or _examples_of_a_machine()
        ended = {"when": report.when, "outcome": report.outcome, "examples": examples, "message": message}
        _write(event="end", **ended, **_named(item))
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Say what could not be imported."""
    if report.failed:
        _write(event="end", when="collect", outcome="failed", test=report.nodeid, property=None, examples=0,
               message=str(report.longrepr)[-2000:])  # fmt: skip


def _examples_of_a_machine() -> int:
    """A state machine has no body to count, but the suite's own do so themselves; 1 for a test without examples."""
    claims = sys.modules.get("mxassay.properties.claims")
    return max(claims.running.examples, 1) if claims else 1


def _named(item: pytest.Item) -> dict[str, str | None]:
    marker = item.get_closest_marker("mx_property")
    return {"test": item.nodeid, "property": marker.args[0] if marker else None}


def _counted(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    def counted(*args: Any, **kwargs: Any) -> Any:
        _count.entered += 1
        try:
            return body(*args, **kwargs)
        except HypothesisException:
            raise
        except Exception:
            _count.failed_at = _count.failed_at or _count.entered
            raise

    return counted
