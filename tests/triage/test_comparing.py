"""Versions that run, each in a process of its own: files, revisions, and kernels that do not behave."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from synthetic_history import KERNEL, build

from mxassay.cli import main
from mxassay.devices import device
from mxassay.errors import ContractError
from mxassay.hosting.versions import Examiner, Setting
from mxassay.triage.casefile import load
from mxassay.triage.versions.cases import Case
from mxassay.triage.versions.change import Change, Job
from mxassay.triage.versions.compare import Bench
from mxassay.triage.versions.repository import Repository
from mxassay.triage.versions.version import Version, Versions


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    root = tmp_path_factory.mktemp("compared") / "repository"
    root.mkdir()
    return root, build(root)


def test_a_fault_comes_with_its_cause(history, monkeypatch, capsys, tmp_path):
    """From a revision: the diagnosis runs the kernel as that revision holds it, though another one is checked out."""
    root, commits = history
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "history.sqlite"))
    words = [
        "triage",
        commits[4],
        commits[5],
        "--repo",
        str(root),
        "--kernel",
        KERNEL,
        "--shapes",
        "2,32,128",
        "--json",
    ]
    files = [str(tmp_path / name) for name in ("report.html", "case.json", "case.py")]
    assert main([*words, "--report", files[0], "--save", files[1], "--script", files[2]]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["change"], document["verdict"]) == ("fault", "FAIL")
    assert document["base"]["commit"] == commits[4]
    assert document["diagnosis"]["class"] == "scale-order"
    assert document["diagnosis"]["failure"]["subject"]["spec"] == KERNEL
    assert "interpreter" not in document["diagnosis"]["blame"]["statement"] or (
        document["diagnosis"]["blame"]["culprit"] != "compiler"
    ), "the interpreter ran another version"
    assert "<html" in (tmp_path / "report.html").read_text()
    assert load(files[1]).subject.spec == KERNEL
    compile((tmp_path / "case.py").read_text(), "case.py", "exec")


def test_figures_stand_beside_the_answer(history, monkeypatch, capsys, tmp_path):
    """A tile twice as wide: the same bits, other registers and instructions."""
    root, commits = history
    monkeypatch.chdir(root)
    words = ["triage", commits[17], commits[18], "--kernel", KERNEL, "--shapes", "2,32,128", "--no-history"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["change"] == "identical"
    found = {entry["figure"]: entry for entry in document["figures"][0]["differences"]}
    assert found["waves"]["before"] == 2 * found["waves"]["after"]
    assert found["VGPRs"]["before"] < found["VGPRs"]["after"]


def test_paths_and_code_that_does_not_open(monkeypatch, capsys, tmp_path):
    kernel = (
        "import torch\ndef gemm(a, b, s):\n    from mxassay.optimized import matmul\n    return matmul(a, b, s){}\n"
    )
    for name, more in (("base", ""), ("worse", " + 1")):
        (tmp_path / f"{name}.py").write_text(kernel.format(more))
    (tmp_path / "broken.py").write_text("def gemm(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MXASSAY_HISTORY", str(tmp_path / "history.sqlite"))
    quick = ["--shapes", "2,16,64", "--no-diagnosis"]
    assert main(["triage", "base.py:gemm", "worse.py:gemm", *quick]) == 1
    capsys.readouterr()
    assert main(["triage", "base.py:gemm", "broken.py:gemm", *quick]) == 125
    assert "broken.py:gemm must open, but: " in capsys.readouterr().err
    assert main(["history", "worse.py"]) == 0
    assert "against base.py:gemm" in capsys.readouterr().out
    assert main(["triage", "no-such", "base.py:gemm", *quick]) == 2
    assert "a version must be a git revision, a path or module:attr, not no-such" in capsys.readouterr().err


@pytest.fixture(scope="module")
def examiner():
    with Examiner(Setting(device("emulated"), seconds=120.0)) as found:
        yield found


def _misbehaving(tmp_path, body):
    """A version whose output is right, but for M of 1."""
    file = tmp_path / "kernel.py"
    right = "    from mxassay.optimized import matmul\n    return matmul(a, b, s)\n"
    file.write_text(f"def gemm(a, b, s):\n    if a.shape[0] == 1:\n        {body}\n{right}")
    return Version("kernel", "kernel", str(tmp_path), f"{file}:gemm", None, tmp_path, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the process ended by SIGKILL"),
        ("a.zero_()", "inputs and the bytes around buffers must be left alone, not a: written"),
        ("return 1", "the output must be a tensor, not int"),
    ],
)
def test_a_version_that_does_not_behave_spoils_its_own_job_alone(body, words, tmp_path, examiner):
    """The first job fails as it does; the next one runs."""
    version = _misbehaving(tmp_path, body)
    first, second = examiner.examine(version, [Job(Case((m, 16, 64), "certified")) for m in (1, 2)]).runs
    assert first.error.startswith(words)
    assert second.error == ""
    assert torch.equal(second.out, Case((2, 16, 64), "certified").operands().expectation.exact)


def test_a_version_that_hangs_is_stopped(tmp_path):
    version = _misbehaving(tmp_path, "import time; time.sleep(600)")
    with Examiner(Setting(device("emulated"), seconds=12.0)) as examiner:
        (run,) = examiner.examine(version, [Job(Case((1, 16, 64), "certified"))]).runs
    assert run.error == "the process must end within 12 s, but still ran"


def test_what_a_kernel_reads_elsewhere_counts_to_its_hash(tmp_path, examiner):
    """A file beside the kernel and a table of data: a change of either makes another kernel, a new README does not."""
    root = tmp_path / "repository"
    (root / "tables").mkdir(parents=True)
    (root / "kernel.py").write_text(
        "import pathlib, beside\n"
        "TABLE = pathlib.Path(__file__).parent / 'tables' / 'factor.txt'\n"
        "def gemm(a, b, s):\n"
        "    from mxassay.optimized import matmul\n"
        "    return matmul(a, b, s) * float(TABLE.read_text()) * beside.ONE\n"
    )
    texts = [("1", "1", ""), ("1", "1", "readme"), ("2", "1", "readme"), ("1", "2", "readme")]
    repository, commits = Repository(root), []
    for factor, one, readme in texts:
        (root / "tables" / "factor.txt").write_text(factor)
        (root / "beside.py").write_text(f"ONE = {one}\n")
        (root / "README").write_text(readme)
        for words in ("init -q", "add -A", "-c user.name=a -c user.email=a commit -q -m x"):
            subprocess.run(["git", *words.split()], cwd=root, check=True)
        commits.append(repository.head())
    cases = [Case((2, 16, 64), "certified")]
    with Versions(repository, "kernel.py:gemm") as versions:
        bench = Bench(cases, examiner.examine, versions.ready)
        same, table, beside = (
            bench.compared(versions.revision(commits[0]), versions.revision(commit)) for commit in commits[1:]
        )
        assert [found.comparison.change for found in (same, table, beside)] == [
            Change.IDENTICAL,
            Change.FAULT,
            Change.FAULT,
        ]
        assert len({same.base_hash, table.candidate_hash, beside.candidate_hash}) == 3
        assert same.base_hash == same.candidate_hash
        assert bench.known(versions.revision(commits[1]))


def test_a_process_that_is_killed_leaves_none_behind(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "def gemm(a, b, s):\n"
        "    import os, time\n"
        "    print(os.getpid(), file=open('pid', 'w'), flush=True)\n"
        "    time.sleep(600)\n"
    )
    words = [sys.executable, "-m", "mxassay", "triage", f"{file}:gemm", f"{file}:gemm", "--no-history"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    place = tmp_path / "pid"
    while not (place.exists() and place.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.05)
    child = int(place.read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while _lives(child):
        assert time.monotonic() < deadline, "the version still runs"
        time.sleep(0.05)


def _lives(child):
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return False
    return True


def test_which_kernel_of_a_repository(history, monkeypatch):
    root, commits = history
    with (
        Versions(Repository(root), None) as versions,
        pytest.raises(ContractError, match=r"^--kernel PATH:FN must say"),
    ):
        versions.named(commits[1])
