"""The history holds every verdict once, whoever writes beside it and whoever is killed."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mxassay.cli import main
from mxassay.errors import ContractError, UnsupportedError
from mxassay.recording import Recorder
from mxassay.triage.versions.history import SCHEMA, Entry, History, default_path
from mxassay.triage.versions.standing import standings

WRITER = Path(__file__).with_name("history_writer.py")


def _writer(place, name, count):
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(place), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_many_writers_of_which_some_are_killed(tmp_path):
    """All begin at once, on a file that does not exist yet. Killed ones lose at most the transaction under way."""
    place = tmp_path / "history.sqlite"
    names = [f"writer {number}" for number in range(8)]
    writers = {name: _writer(place, name, 60 if name[-1] < "4" else 100_000) for name in names}
    said = {}
    for name in names[4:]:
        lines = [writers[name].stdout.readline() for _ in range(20)]
        assert all(lines), "a writer ended by itself"
        writers[name].kill()
        said[name] = len(lines) + len(writers[name].stdout.read().splitlines())
        assert writers[name].wait() == -9
        writers[name].stdout.close()
    for name in names[:4]:
        said[name] = len(writers[name].communicate()[0].splitlines())
        assert writers[name].returncode == 0
        assert said[name] == 60
    with sqlite3.connect(place) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with History(place) as history:
        found = Counter((entry.kernel, entry.property) for entry in history.entries())
        environments = {entry.environment["number"] for entry in history.entries()}
    assert set(found.values()) == {1}
    assert environments == set("0123456")
    for name in names:
        kept = {property_ for kernel, property_ in found if kernel == name}
        assert kept >= {f"{number}.{half}" for number in range(said[name]) for half in "ab"}
        # A transaction that was committed but not yet said, at most one; and never half of one.
        assert len(kept) in (2 * said[name], 2 * said[name] + 2)


def test_a_transaction_that_fails_leaves_nothing(tmp_path):
    def entries():
        yield Entry("check", "kernel", "one", "PASS")
        raise RuntimeError

    with History(tmp_path / "history.sqlite") as history:
        with pytest.raises(RuntimeError):
            history.add(entries())
        history.add([Entry("check", "kernel", "two", "PASS")])
        assert [entry.property for entry in history.entries()] == ["two"]


def test_an_entry_comes_back_as_it_went_in(tmp_path):
    entry = Entry(
        "check", "kernel", "property", "FAIL", "/place", "hash", "revision", True, "emulated", "quick", "1,16,64",
        "plan", "even", 16, 3, {"mfma": 4}, 0.5, "message", 12.25, {"torch": "2"},
    )  # fmt: skip
    with History(tmp_path / "deep" / "history.sqlite") as history:
        history.add([entry])
    with History(tmp_path / "deep" / "history.sqlite") as history:
        assert history.entries() == [entry]
        assert history.entries(kernel="/place/ker") == history.entries(property_="property") == [entry]
        assert history.entries(kernel="other") == history.entries(property_="prop") == []


@pytest.mark.parametrize("content", [b"no database at all, but long enough to look like one" * 9, b""])
def test_other_files_are_refused_or_taken_over_when_empty(tmp_path, content):
    place = tmp_path / "history.sqlite"
    place.write_bytes(content)
    if not content:
        History(place).close()
        return
    with pytest.raises(
        ContractError, match=r"^the history must be a SQLite file that mxassay wrote, not .* \(file is not"
    ):
        History(place)
    assert place.read_bytes() == content


def test_a_later_schema_is_refused(tmp_path):
    place = tmp_path / "history.sqlite"
    History(place).close()
    with sqlite3.connect(place) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(UnsupportedError, match=rf"^the history must have schema {SCHEMA}, not {SCHEMA + 1}: "):
        History(place)


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "a"))
    assert default_path() == tmp_path / "a"
    monkeypatch.delenv("MXASSAY_HISTORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_path() == tmp_path / "data" / "mxassay" / "history.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_path() == tmp_path / "home" / ".local" / "share" / "mxassay" / "history.sqlite"


def _entry(result, at, shape="1,16,64", kernel="kernel", **more):
    return Entry("check", kernel, "gemm-agreement", result, shape=shape, at=at, **more)


def test_when_a_property_last_passed_and_since_when_it_fails():
    entries = [
        _entry("PASS", 1),
        _entry("PASS", 2),
        _entry("FAIL", 3),
        _entry("ERROR", 4),
        _entry("FAIL", 4, "2,16,64"),
    ]
    entries.append(Entry("bisect", "kernel", "gemm-agreement", "fault", at=5))
    first, second = standings(entries)
    assert (first.last.at, first.last_passed.at, first.failing_since.at, first.verdicts) == (4, 2, 3, 4)
    assert (second.last_passed, second.failing_since.at) == (None, 4)
    (again,) = standings([*entries[:4], _entry("PASS", 6)])
    assert (again.last_passed.at, again.failing_since) == (6, None)


def test_how_counts_moved():
    counts = [
        {"mfma": 4, "valu": 10},
        {"mfma": 4, "valu": 10},
        {},
        {"mfma": 8, "valu": 10, "lds": 2},
        {"mfma": 8, "lds": 2},
    ]
    entries = [_entry("PASS", at, counts=found, revision=str(at)) for at, found in enumerate(counts)]
    (found,) = standings(entries)
    assert [moved.counts for moved in found.moved] == [{"valu": (10, 0)}, {"mfma": (4, 8), "lds": (0, 2)}]
    assert (found.moved[1].before.at, found.moved[1].after.at) == (1, 3)


def test_what_passes_hides_nothing_that_fails_beside_it():
    """Plans and seeds of a campaign, profiles of a property; but a kernel's own plan is no other case."""
    campaign = [
        _entry("FAIL", 1, plan="16x32x256", profile="campaign, seed 0"),
        _entry("PASS", 2, plan="8x32x256", profile="campaign, seed 0"),
        _entry("PASS", 3, plan="16x32x256", profile="campaign, seed 1"),
    ]
    assert [found.last.result for found in standings(campaign)] == ["FAIL", "PASS", "PASS"]
    properties = [
        Entry("pytest", "kernel", "gemm-bounded", "FAIL", profile="thorough", at=1),
        Entry("pytest", "kernel", "gemm-bounded", "PASS", profile="quick", at=2),
    ]
    assert [found.last.result for found in standings(properties)] == ["FAIL", "PASS"]
    own = [_entry("PASS", 1, plan="16x32x256"), _entry("FAIL", 2, plan="8x32x256", profile="quick")]
    (found,) = standings(own)
    assert (found.last_passed.plan, found.last.plan) == ("16x32x256", "8x32x256")


def _shown(tmp_path, capsys, entries):
    place = tmp_path / "history.sqlite"
    with History(place) as history:
        history.add(entries)
    assert main(["history", "--history", str(place)]) == 0
    return capsys.readouterr().out.splitlines()


def test_rows_say_what_tells_them_apart(tmp_path, capsys):
    """And nothing else: a column in which no two rows of one case differ is left out."""
    beside = [
        _entry("PASS", 1, device="emulated", dialect="even", plan="own"),
        _entry("FAIL", 2, device="emulated", dialect="floor", plan="own"),
        _entry("PASS", 3, "2,16,64", device="emulated", dialect="even", plan="16x32x256"),
    ]
    _, header, even, floor, other = _shown(tmp_path, capsys, beside)
    assert header.split()[:5] == ["property", "M,N,K", "under", "device", "now"]
    assert even.split()[:5] == ["gemm-agreement", "1,16,64", "even", "emulated", "PASS"]
    assert floor.split()[:5] == ["gemm-agreement", "1,16,64", "floor", "emulated", "FAIL"]
    assert other.split()[:4] == ["gemm-agreement", "2,16,64", "-", "emulated"]
    plans = [
        _entry("PASS", at, kernel="swept", plan=plan, profile=f"campaign, seed {seed}", device="emulated")
        for at, (plan, seed) in enumerate((("16x32x256", 0), ("8x32x256", 0), ("16x32x256", 1)))
    ]
    text = "\n".join(_shown(tmp_path, capsys, plans))
    assert all(words in text for words in ("16x32x256, seed 0 ", "8x32x256, seed 0 ", "16x32x256, seed 1 "))
    profiles = [
        Entry("pytest", "third", "gemm-bounded", "PASS", profile=name, at=at)
        for at, name in enumerate(("quick", "thorough"))
    ]
    text = "\n".join(_shown(tmp_path, capsys, profiles))
    assert " quick " in text
    assert " thorough " in text


def test_another_plan_stands_beside_what_moved_and_what_broke(tmp_path, capsys):
    moved = [_entry("PASS", at, plan=plan, counts={"mfma": at}) for at, plan in ((1, "16x32x256"), (2, "8x32x256"))]
    lines = _shown(tmp_path, capsys, [*moved, _entry("FAIL", 3, plan="4x32x256")])
    assert "  plan, 1,16,64: 8x32x256 when it last passed, 4x32x256 now" in lines
    assert any("mfma 1 to 2; the plan became 8x32x256, before 16x32x256 (" in line for line in lines)


KERNEL = """
import torch
def wrong(a, b, s): return torch.zeros(a.shape[0], b.shape[0], dtype=torch.bfloat16)
def right(a, b, s):
    from mxassay.optimized import matmul
    return matmul(a, b, s)
def gemm(a, b, s): return {}(a, b, s)
"""


def test_check_keeps_its_verdicts_and_history_shows_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "history.sqlite"))
    kernel = tmp_path / "kernel.py"
    for which, code in (("right", 0), ("wrong", 1)):
        kernel.write_text(KERNEL.format(which))
        assert main(["check", f"{kernel}:gemm", "--shapes", "1,16,64", "5,48,320"]) == code
    assert main(["check", f"{kernel}:gemm", "--shapes", "1,16,64", "--no-history"]) == 1
    capsys.readouterr()
    assert main(["history", "kernel.py", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = document["standings"]
    assert [first["shape"], second["shape"]] == ["1,16,64", "5,48,320"]
    assert first["kernel"] == "kernel.py:gemm"
    assert (first["result"], first["verdicts"]) == ("FAIL", 2)
    passed, failing = first["last_passed"], first["failing_since"]
    assert passed["counts"]["mfma"] > 0
    assert failing["counts"] == {}
    assert failing["wrong"] > 0
    assert passed["kernel_hash"] != failing["kernel_hash"]
    assert passed["environment"]["triton"] == document["environment"]["triton"]
    assert main(["history"]) == 0
    shown = capsys.readouterr().out
    assert "kernel.py:gemm in " in shown
    assert "FAIL" in shown
    assert main(["history", "--property", "no-such"]) == 2
    assert capsys.readouterr().err == (
        "mxassay: the history must hold a verdict about no-such, not none; `mxassay check` keeps them\n"
    )


PROPERTY_TESTS = """
from mxassay.properties.claims import claim

@claim("element-values")
def test_one():
    pass

@claim("element-values")
def test_two():
    assert False

@claim("scale-values")
def test_three():
    pass

@claim("layout-golden")
def test_four():
    import pytest
    pytest.skip("not here")
"""


def run_pytest(folder, *words):
    (folder / "test_properties.py").write_text(PROPERTY_TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "mxassay.pytest_plugin", "--rootdir", str(folder), *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_plain_pytest_keeps_the_verdicts_on_properties(workers, tmp_path, monkeypatch):
    """One for each property that ran, the worst of its tests, whichever process ran them."""
    place = tmp_path / "deep" / "history.sqlite"
    done = run_pytest(tmp_path, *workers, "--mx-history", str(place), "--mx-device", "emulated")
    assert done.returncode == 1, done.stdout + done.stderr
    with History(place, create=False) as history:
        entries = history.entries()
    assert sorted((entry.property, entry.result) for entry in entries) == [
        ("element-values", "ERROR"), ("scale-values", "PASS"),
    ]  # fmt: skip
    entry = entries[0]
    assert (entry.command, entry.kernel, entry.device) == ("pytest", "mxassay.optimized:matmul", "emulated")
    assert (entry.profile, entry.dialect) == ("quick", "even")
    assert entry.kernel_hash
    assert len(standings(entries)) == 2


def test_plain_pytest_keeps_nothing_where_nobody_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "history.sqlite"))
    assert run_pytest(tmp_path, "--mx-no-history").returncode == 1
    assert not (tmp_path / "history.sqlite").exists()
    (tmp_path / "file").write_text("no folder")
    done = run_pytest(tmp_path, "--mx-history", str(tmp_path / "file" / "history.sqlite"))
    assert done.returncode == 4
    assert "the history must be a file that can be written, not " in done.stderr


def test_planted_faults_stand_in_the_history(tmp_path, capsys):
    place = tmp_path / "history.sqlite"
    with History(place) as history:
        recorder = Recorder(history, "faults")
        for at, (name, result) in enumerate([("a", "killed"), ("b", "killed"), ("b", "survived"), ("c", "equivalent")]):
            recorder.fault(f"fault:{name}", result, 1.0 + at, "gemm-agreement", "quick")
        recorder.fault("triage:a", "right", 2.0, "precision at store: cut")
    assert main(["history", "--history", str(place)]) == 0
    shown = capsys.readouterr().out
    assert "planted faults killed: 2 of 3" in shown
    assert "causes of planted faults named: 1 of 1" in shown
    assert "fault:b" in shown
    assert "fault:a" not in shown
    assert main(["history", "--history", str(place), "--property", "fault:b", "--json"]) == 0
    (standing,) = json.loads(capsys.readouterr().out)["standings"]
    assert standing["last_passed"]["result"] == "killed"
    assert standing["failing_since"]["result"] == "survived"


def test_a_cause_that_was_found_is_kept(tmp_path, capsys):
    place = tmp_path / "history.sqlite"
    kernel = tmp_path / "kernel.py"
    words = [f"{kernel}:gemm", "--quick", "--shapes", "1,16,64", "--history", str(place)]
    for which, code in (("right", 0), ("wrong", 1)):
        kernel.write_text(KERNEL.format(which))
        assert main(["triage", *words, "--save", str(tmp_path / "case.json")]) == code
    capsys.readouterr()
    assert main(["history", "--history", str(place), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["standings"] == []
    right, wrong = document["changes"]
    assert (right["command"], right["kernel"], right["result"]) == ("triage", "kernel.py:gemm", "PASS")
    assert (wrong["property"], wrong["result"], wrong["shape"]) == ("gemm-agreement", "FAIL", "1,16,64")
    assert wrong["wrong"] > 0
    assert " at " in wrong["message"]


def test_a_history_that_cannot_be_written_changes_no_verdict(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "file" / "history.sqlite"))
    (tmp_path / "file").write_text("no folder")
    assert main(["check", "--shapes", "1,16,64"]) == 0
    assert "the history must be a file that can be written, not " in capsys.readouterr().err
    assert main(["check", "--shapes", "1,16,64", "--history", str(tmp_path / "file" / "history.sqlite")]) == 3


def test_no_history_yet(tmp_path, capsys):
    assert main(["history", "--history", str(tmp_path / "none.sqlite")]) == 2
    assert "the history must be an existing file, not " in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()
