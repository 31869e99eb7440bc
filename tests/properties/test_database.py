"""Failing examples are kept where --mx-database says, and what a run drew from is printed, for other machines."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from mxassay.errors import ContractError
from mxassay.profiles import SEED, _database, seed_in_force, settle_seed

ROOT = Path(__file__).resolve().parents[2]
WRONG = """
import torch

def fn(a, b, scales):
    return torch.full((a.shape[0], b.shape[0]), 3.0, dtype=torch.bfloat16)
"""
TARGET = "mxassay.properties.test_special_values::test_zeros_give_zeros"


@pytest.fixture(scope="module")
def server():
    """A Redis server in this process, which speaks the protocol over TCP."""
    fakeredis = pytest.importorskip("fakeredis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = fakeredis.TcpFakeServer(("127.0.0.1", port), server_type="redis")
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{port}/0"
    serving.shutdown()
    serving.server_close()


@pytest.fixture(autouse=True)
def _same_seed():
    before = os.environ.get("MXASSAY_RANDOM_SEED")
    yield
    os.environ.pop("MXASSAY_RANDOM_SEED", None)
    if before is not None:
        os.environ["MXASSAY_RANDOM_SEED"] = before


def failure(database, examples):
    """The number that a test of numbers below a thousand fails on last, or None. The first that is drawn is 0."""
    failed = []

    phases = (Phase.reuse, Phase.generate, Phase.shrink)

    @settings(database=database, phases=phases, max_examples=examples, deadline=None)
    @given(st.integers(0, 1 << 20))
    def below_a_thousand(x):
        if x >= 1000:
            failed.append(x)
            raise ArithmeticError(x)

    try:
        below_a_thousand()
    except ArithmeticError:
        return failed[-1]
    return None


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_what_one_machine_found_another_begins_with(kind, tmp_path, request):
    place = str(tmp_path) if kind == "folder" else request.getfixturevalue("server")
    assert failure(_database(place), examples=1) is None
    assert failure(_database(place), examples=200) == 1000
    assert failure(_database(place), examples=1) == 1000


def test_a_place_is_a_folder_unless_it_is_a_server(tmp_path, server):
    assert isinstance(_database(str(tmp_path)), DirectoryBasedExampleDatabase)
    assert type(_database(server)).__name__ == "RedisExampleDatabase"


def test_a_server_that_does_not_answer_is_refused_by_name():
    pytest.importorskip("redis")
    words = r"^the database must be a Redis server that answers, not redis://127\.0\.0\.1:1/0: "
    with pytest.raises(ContractError, match=words):
        _database("redis://127.0.0.1:1/0")


def test_without_redis_installed_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "hypothesis.extra.redis", raising=False)
    words = r"^redis must be installed for a database at redis://h/0, not missing; pip install 'mxassay\[redis\]'$"
    with pytest.raises(ContractError, match=words):
        _database("redis://h/0")


def run(folder, *words):
    """The verdict, and what the run printed."""
    (folder / "mine.py").write_text(WRONG)
    start = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mxassay.pytest_plugin"]
    told = ["--mx-kernel", "mine.py:fn", "--mx-device", "emulated", "--mx-verdicts", str(folder / "verdicts.json")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "MXASSAY"))}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    done = subprocess.run(
        [*start, "--pyargs", TARGET, *told, *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    (record,) = json.loads((folder / "verdicts.json").read_text())
    return record, done.stdout


def test_the_suite_puts_failures_into_redis_and_prints_what_it_drew_from(server, tmp_path):
    before = len(_database(server).redis.keys("hypothesis-example:*"))
    record, printed = run(tmp_path, "--mx-database", server, "--mx-profile", "thorough")
    seed = printed.partition("profile thorough, --mx-seed ")[2].split()[0]
    assert record["verdict"] == "FAIL"
    assert f"replay  pytest --pyargs {TARGET} --mx-kernel mine.py:fn --mx-device emulated" in record["message"]
    assert f" --mx-profile thorough --mx-seed {seed}" in record["message"]
    assert len(_database(server).redis.keys("hypothesis-example:*")) > before
    assert not list((tmp_path / "hypothesis").rglob("examples/*/*"))


def test_a_seed_given_is_the_seed_in_force(tmp_path):
    assert settle_seed(5) == seed_in_force() == 5
    assert settle_seed(None) == seed_in_force() == SEED  # the tests run in the quick profile
    record, printed = run(tmp_path, "--mx-seed", "12")
    assert "mxassay: 1 tests of properties, profile quick, --mx-seed 12\n" in printed
    assert record["message"].rstrip().partition("replay  ")[2].split("\n")[0].endswith("--mx-seed 12")


def test_a_claim_draws_from_the_seed_in_force(monkeypatch):
    from mxassay.properties.claims import claim

    monkeypatch.setenv("MXASSAY_RANDOM_SEED", "77")

    @claim("zero-rows")
    @given(st.integers())
    def nothing(x):
        pass

    assert nothing._hypothesis_internal_use_seed == 77
