"""Each change hidden in the synthetic history is found at the right commit, with the right verdict."""

import json
import subprocess

import pytest
from synthetic_history import HIDDEN, KERNEL, build

from mxassay.cli import main
from mxassay.devices import device
from mxassay.errors import ContractError, UnsupportedError
from mxassay.hosting.versions import Examiner, Setting
from mxassay.triage.versions.bisect import Bisection
from mxassay.triage.versions.cases import cases_for
from mxassay.triage.versions.compare import Bench
from mxassay.triage.versions.repository import Repository
from mxassay.triage.versions.version import Versions

SHAPE = (9, 48, 320)  # rows of every edge, a part of a tile everywhere, a tail of K


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """The repository, and the names of its commits from 1."""
    root = tmp_path_factory.mktemp("synthetic") / "repository"
    root.mkdir()
    return root, build(root)


@pytest.fixture(scope="module")
def bisection(history):
    """One warm process and one memory of kernels for all ranges."""
    root, _ = history
    cases = cases_for((SHAPE,), dialect="even", seed=0, full_range=True)
    with Versions(Repository(root), KERNEL) as versions, Examiner(Setting(device("emulated"))) as examiner:
        yield Bisection(versions, Bench(cases, examiner.examine, versions.ready))


def test_the_history_is_what_it_says(history):
    _, commits = history
    assert len(commits) == 41
    assert sorted(hidden.change for hidden in HIDDEN) == ["contract change"] * 2 + ["fault"] * 3 + ["plan change"]


@pytest.mark.parametrize("hidden", HIDDEN, ids=lambda hidden: f"{hidden.change} at {hidden.commit}")
def test_each_change_is_found_at_its_commit(hidden, history, bisection):
    _, commits = history
    found = bisection.between(commits[hidden.good], commits[hidden.bad])
    assert found.first_bad == commits[hidden.commit]
    assert found.compared.comparison.change.value == hidden.change
    assert hidden.words in found.compared.comparison.words
    assert found.compared.comparison.wrong
    assert found.compared.base.commit == commits[hidden.commit - 1]


def test_what_is_no_fault_is_not_taken_for_one(history, bisection):
    """Walking K backwards changes order alone; commits that mend a fault are told as such."""
    _, commits = history
    versions, bench = bisection.versions, bisection.bench

    def compared(base, candidate):
        return bench.compared(versions.revision(commits[base]), versions.revision(commits[candidate])).comparison

    order = compared(10, 11)
    assert (order.change.value, order.wrong) == ("order-only", False)
    assert {row.case.inputs: row.change.value for row in order.rows}["certified"] == "identical"
    assert compared(7, 8).change.value == "fixed"
    assert compared(39, 40).change.value == "fixed"
    renamed = compared(27, 28)
    assert renamed.change.value == "identical"
    assert any(row.base_wrong for row in renamed.rows)
    assert "wrong in both" in renamed.words


def test_from_the_command_line(history, tmp_path, monkeypatch, capsys):
    """A range with a broken build in it; the user's checkout is left as it was."""
    root, commits = history
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "history.sqlite"))
    monkeypatch.chdir(tmp_path)
    (root / "unsaved.txt").write_text("mine")
    before = _state(root)
    words = ["bisect", "--repo", str(root), "--good", commits[33], "--bad", commits[39], "--kernel", KERNEL]
    page = tmp_path / "report.html"
    assert main([*words, "--shapes", "9,48,320", "--no-diagnosis", "--report", str(page), "--json"]) == 0
    text = page.read_text()
    assert "<h1" in text
    assert commits[34][:10] in text
    assert commits[35][:10] in text
    document = json.loads(capsys.readouterr().out)
    assert document["first_bad"] == commits[35]
    assert document["compared"]["change"] == "fault"
    skipped = [step for step in document["steps"] if step["status"] == "skipped"]
    assert [step["commit"] for step in skipped if step["commit"] != commits[38]] == []
    assert all("SyntaxError" in step["words"] for step in skipped)
    assert _state(root) == before
    assert main(["history", "launch.py"]) == 0
    assert "bisect   gemms/mxgemm/launch.py:matmul" in capsys.readouterr().out


def _state(root):
    words = ("status --porcelain", "rev-parse HEAD", "branch --all", "for-each-ref", "worktree list", "stash list")
    return [subprocess.run(["git", *line.split()], cwd=root, capture_output=True, check=True).stdout for line in words]


def test_nothing_to_find(history, bisection, capsys):
    root, commits = history
    with pytest.raises(
        ContractError, match=r"^BAD must be worse than GOOD, not identical; nothing that these cases show"
    ):
        bisection.between(commits[1], commits[4])
    with pytest.raises(ContractError, match=f"^GOOD must be testable, not so: {commits[24][:10]} must open, but: "):
        bisection.between(commits[24], commits[26])
    with pytest.raises(ContractError, match=f"^BAD must be testable, not so: {commits[38][:10]} must open, but: "):
        bisection.between(commits[37], commits[38])
    assert main(["bisect", "--repo", str(root), "--good", "no-such", "--bad", commits[26]]) == 2
    assert f"a revision must be one that {root} knows, not no-such" in capsys.readouterr().err


def test_commits_that_cannot_be_tried_may_leave_several(history, bisection, monkeypatch):
    """Were 35 to 37 broken too, any of 35 to 39 might be the first bad one."""
    _, commits = history
    known, broken = bisection.versions.revision, {commits[number] for number in range(35, 39)}

    def revision(commit):
        if commit in broken:
            raise UnsupportedError("not here")
        return known(commit)

    monkeypatch.setattr(bisection.versions, "revision", revision)
    found = bisection.between(commits[33], commits[39])
    assert found.first_bad is None
    assert found.compared is None
    assert found.suspects == tuple(commits[35:40])
