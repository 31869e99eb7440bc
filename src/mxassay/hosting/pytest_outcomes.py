"""Counts what a hosted pytest run found, and tells tests that nobody can run here from tests that fail."""

from collections import Counter
from collections.abc import Generator

import pytest

from mxassay.errors import UnsupportedError


class Outcomes:
    """A pytest plugin. A test that ends in an `UnsupportedError` is reported as unsupported (U), not as failed.

    Attributes:
        counts: tests by outcome: passed, failed, skipped, unsupported, error (of a fixture or a collected file).
        unsupported: the message of each unsupported test, by its id.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.unsupported: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: "pytest.CallInfo[None]"
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn the failure of an unsupported test into a skip with its message."""
        report: pytest.TestReport = yield
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, UnsupportedError):
            self.unsupported[item.nodeid] = str(error)
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = (path, line or 0, f"Unsupported: {error}")
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid in self.unsupported and report.skipped:
            self.counts["unsupported"] += 1
        elif report.when == "call" or (report.when == "setup" and report.skipped):
            self.counts[report.outcome] += 1
        elif report.failed:
            self.counts["error"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.counts["error"] += 1

    def pytest_report_teststatus(
        self, report: "pytest.TestReport | pytest.CollectReport"
    ) -> "tuple[str, str, str] | None":
        if report.nodeid in self.unsupported and report.skipped:
            return "unsupported", "U", "UNSUPPORTED"
        return None

    def summary(self) -> str:
        """One line, and one for each reason why a test was unsupported."""
        line = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "no tests"
        reasons = Counter(self.unsupported.values())
        return "\n".join([f"tests: {line}", *(f"  {count} unsupported: {reason}" for reason, count in reasons.items())])
