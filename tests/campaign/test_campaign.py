"""A campaign can be killed and taken up again: every job has one verdict in the history, whatever happened."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mxassay.campaign.job import Job
from mxassay.campaign.ledger import Ledger, alone
from mxassay.campaign.sweep import Sweep
from mxassay.cli import main
from mxassay.environment import environment
from mxassay.errors import UnsupportedError
from mxassay.triage.versions.history import History

SHAPE = ["--shapes", "1,16,64", "--device", "emulated"]


def seeds(file):
    with History(file) as history:
        return Counter(entry.profile for entry in history.entries())


def test_killed_and_taken_up_again(tmp_path):
    file = tmp_path / "history.sqlite"
    words = [sys.executable, "-m", "mxassay", "campaign", *SHAPE, "--seeds", "30", "--workers", "2"]
    words += ["--history", str(file), "--json"]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and first.poll() is None:
        if file.exists() and sum(seeds(file).values()) >= 3:
            break
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = sum(seeds(file).values())
    assert 3 <= before < 30
    second = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert (second["jobs"], second["done_before"], second["done_now"]) == (30, before, 30 - before)
    assert second["results"] == {"PASS": 30}
    assert seeds(file) == {f"campaign, seed {seed}": 1 for seed in range(30)}


def test_a_kernel_that_changed_is_another_job(tmp_path, capsys):
    kernel = tmp_path / "kernel.py"
    text = "from mxassay.optimized import matmul\ndef f(a, b, s):\n    return matmul(a, b, s)"
    words = ["campaign", f"{kernel}:f", *SHAPE, "--workers", "1", "--history", str(tmp_path / "h.sqlite"), "--json"]
    done = []
    for body in (text, f"{text} + 1", text):
        kernel.write_text(body)
        code = main(words)
        done.append((code, json.loads(capsys.readouterr().out)["done_now"]))
    assert done == [(0, 1), (1, 1), (0, 0)]


def test_a_kernel_that_does_not_load_is_unsupported(tmp_path, capsys):
    words = ["campaign", "no_such_module:f", *SHAPE, "--workers", "1", "--history", str(tmp_path / "h.sqlite")]
    assert main(words) == 3
    assert "kernel must be an importable module:attr" in capsys.readouterr().out


def test_jobs_are_the_product_each_once():
    sweep = Sweep(["own", "a.py:f"], [(1, 16, 64), (4, 64, 512), (1, 16, 64)], ["even", "floor"], 2, "emulated", 3)
    jobs = sweep.jobs()
    assert len(jobs) == len(set(jobs)) == 2 * 2 * 2 * (4 + 1)
    assert {job.plan_words for job in jobs if job.spec} == {"own"}
    assert all(Job.from_wire(json.loads(json.dumps(job.as_wire()))) == job for job in jobs)


def test_a_dialect_is_the_kernels_own_unless_it_is_chosen(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text('MXASSAY = {"dialect": "floor", "multiples": (4, 64, 64)}\n')
    words = [str(kernel), "own"], [(1, 16, 64), (4, 64, 512)]

    def found(dialects):
        sweep = Sweep(*words, dialects, 1, "emulated")
        assert sweep.left_out() == [(str(kernel), (1, 16, 64))]
        return [(job.spec is None, job.shape, job.dialect) for job in sweep.jobs()]

    own = [(True, (1, 16, 64), "even"), (False, (4, 64, 512), "floor"), (True, (4, 64, 512), "even")]
    assert found([]) == own
    assert found(["ceil", "even"]) == [(*job[:2], name) for name in ("ceil", "even") for job in own]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dialects", "even", "evn"], "dialect must be one of even, "),
        (["--neighbours", "-1"], "a number must be 0 or more, not -1"),
        (["KERNEL:f"], "the shapes of a campaign must be such as its kernels take, not all refused by them"),
    ],
)
def test_what_is_refused_before_any_worker_starts(words, said, tmp_path, capsys):
    kernel = tmp_path / "kernel.py"
    kernel.write_text('MXASSAY = {"multiples": (4, 64, 64)}\n')
    words = [word.replace("KERNEL", str(kernel)) for word in words]
    try:
        code = main(["campaign", *SHAPE, *words, "--history", str(tmp_path / "h.sqlite")])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "h.sqlite").exists()


def test_a_failure_says_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(
        "from mxassay.optimized import matmul\ndef f(a, b, s):\n    return matmul(a, b, s) * 2\n"
    )
    assert main(["campaign", "kernel.py:f", *SHAPE, "--workers", "1", "--history", "h.sqlite"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"FAIL .* on 1,16,64, own, even, seed 0 +16 +out\[0, 0\] is 0x\w{4}, must be 0x\w{4}\n", printed)
    assert printed.splitlines()[-1].startswith("1 job: 1 FAIL; 0 done before, 1 now in ")


def test_a_verdict_is_kept_once(tmp_path):
    job = Sweep(["own"], [(1, 16, 64)], ["even"], 1, "emulated").jobs()[0]
    outcome = {
        "property": "gemm-agreement", "verdict": "PASS", "outputs": 16, "bit_differences": 0, "seconds": 0.5,
        "compile_seconds": 0.25, "message": "",
    }  # fmt: skip
    with History(tmp_path / "h.sqlite") as history:
        ledger = Ledger(history, environment())
        assert ledger.keep(job, outcome)
        assert not ledger.keep(job, outcome)
        (entry,) = history.entries()
        assert (entry.command, entry.shape, entry.seconds) == ("check", "1,16,64", 0.75)
        assert Ledger(history, environment()).done == {ledger.key(job)}
        assert Ledger(history, {"python": "another"}).done == set()


def test_two_campaigns_do_not_share_a_history(tmp_path):
    said = r"a history must have one campaign at a time, not two"
    with alone(tmp_path / "h.sqlite"), pytest.raises(UnsupportedError, match=said), alone(tmp_path / "h.sqlite"):
        pass
    with alone(tmp_path / "h.sqlite"):
        pass
