"""For all tests: verdicts go into a history of the session's own, never into the user's."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _history_of_the_session(tmp_path_factory):
    before = os.environ.get("MXASSAY_HISTORY")
    os.environ["MXASSAY_HISTORY"] = str(tmp_path_factory.mktemp("history") / "history.sqlite")
    yield
    if before is None:
        del os.environ["MXASSAY_HISTORY"]
    else:
        os.environ["MXASSAY_HISTORY"] = before
