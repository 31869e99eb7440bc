"""For all tests: verdicts go into a history of the session's own, never into the user's; one browser."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("MXASSAY_CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session", autouse=True)
def _history_of_the_session(tmp_path_factory):
    before = os.environ.get("MXASSAY_HISTORY")
    os.environ["MXASSAY_HISTORY"] = str(tmp_path_factory.mktemp("history") / "history.sqlite")
    yield
    if before is None:
        del os.environ["MXASSAY_HISTORY"]
    else:
        os.environ["MXASSAY_HISTORY"] = before


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Headless Chromium, one for a process: Playwright refuses a second. Debian: apt-get install -y chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'mxassay[docs]'")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"needs Chromium at {CHROMIUM}: apt-get install -y chromium, or set MXASSAY_CHROMIUM")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()
