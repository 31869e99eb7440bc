"""Two versions give one answer: from made-up outputs, and from kernels that run."""

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
from mxassay.hosting.version_jobs import NoSuchPlanError, plan_from, planned
from mxassay.hosting.versions import Examiner, Setting
from mxassay.reference import DIALECTS, quantize
from mxassay.triage.casefile import load
from mxassay.triage.versions.cases import EDGES, INPUTS, OWN_PLANS, SHAPES, Case, cases_for, edge_of
from mxassay.triage.versions.change import Change, Job, Planned, Run
from mxassay.triage.versions.compare import Bench
from mxassay.triage.versions.figures import differences
from mxassay.triage.versions.judging import Trial, compared
from mxassay.triage.versions.repository import Repository
from mxassay.triage.versions.version import Version, Versions

SHAPE = (9, 48, 320)
CASES = {inputs: Case(SHAPE, inputs) for inputs in INPUTS}
ONE, OTHER = Planned("one", {"splits": 1}), Planned("other", {"splits": 2})


def _right(inputs, dialect="even"):
    return Case(SHAPE, inputs, dialect).operands().expectation.exact.clone()


def _run(out, plan=ONE, **more):
    return Run(out, plan, **more)


def _answer(*trials):
    return compared(trials, "even")


def _nudged(out, i=0, j=0, bits=1):
    """With other bits in one output."""
    out = out.clone()
    out.view(torch.int16)[i, j] ^= bits
    return out


# Answers


def test_identical_even_where_both_are_wrong():
    wrong = _nudged(_right("certified"))
    found = _answer(Trial(CASES["certified"], _run(wrong), _run(wrong.clone())))
    assert (found.change, found.wrong) == (Change.IDENTICAL, False)
    assert found.words == "all 1 cases give the same bits; 1 of them wrong in both, bit for bit alike"


def test_any_nan_is_like_any_other():
    one, other = _right("certified"), _right("certified")
    one.view(torch.int16)[0, 0], other.view(torch.int16)[0, 0] = 0x7FC0, 0x7FC1
    assert _answer(Trial(CASES["certified"], _run(one), _run(other))).change is Change.IDENTICAL


def test_order_only_inside_the_bound():
    right = _right("order")
    found = _answer(Trial(CASES["order"], _run(right), _run(_nudged(right))))
    assert (found.change, found.wrong) == (Change.ORDER_ONLY, False)
    assert found.rows[0].differing == 1
    assert found.rows[0].first.startswith("out[0, 0]: ")


def test_the_same_step_in_a_certified_output_is_a_fault():
    right = _right("certified")
    found = _answer(Trial(CASES["certified"], _run(right), _run(_nudged(right))))
    assert (found.change, found.wrong) == (Change.FAULT, True)
    assert (found.rows[0].base_wrong, found.rows[0].candidate_wrong) == (0, 1)


def test_fixed():
    right = _right("certified")
    assert _answer(Trial(CASES["certified"], _run(_nudged(right)), _run(right))).change is Change.FIXED


def test_fixed_by_the_plan_alone():
    right, wrong = _right("certified"), _nudged(_right("certified"))
    found = _answer(Trial(CASES["certified"], _run(wrong), _run(right, OTHER), _run(wrong)))
    assert found.change is Change.FIXED
    assert found.words.endswith("BASE is wrong and CANDIDATE is right, but only under other")


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "even"])
def test_every_other_dialect_is_a_contract_change_with_its_name(dialect):
    trials = [Trial(case, _run(_right(inputs)), _run(_right(inputs, dialect))) for inputs, case in CASES.items()]
    found = _answer(*trials)
    assert (found.change, found.wrong) == (Change.CONTRACT, True)
    assert (found.base_dialect, found.candidate_dialect) == ("even", dialect)
    assert f"right under dialect {dialect}, not under even" in found.words


def test_two_versions_of_another_dialect_than_said():
    trials = [
        Trial(case, _run(_right(inputs, "rceil")), _run(_right(inputs, "rceil"))) for inputs, case in CASES.items()
    ]
    found = _answer(*trials)
    assert (found.change, found.base_dialect) == (Change.IDENTICAL, "rceil")
    assert not any(row.base_wrong for row in found.rows)


def test_another_policy_for_nan_that_no_dialect_has():
    case, out = CASES["edges"], _right("edges")
    changed = out.clone()
    row = next(row for row in range(SHAPE[0]) if edge_of(row) == "NaN")
    changed[row] = 1.0
    found = _answer(Trial(case, _run(out), _run(changed)))
    assert (found.change, found.candidate_dialect) == (Change.CONTRACT, "even, but for NaN")
    assert "rows with NaN follow another policy, of no known dialect" in found.words


def test_a_finite_edge_is_no_policy():
    case, changed = CASES["edges"], _right("edges")
    changed[next(row for row in range(SHAPE[0]) if edge_of(row) == "zeros")] = 1.0
    assert _answer(Trial(case, _run(_right("edges")), _run(changed))).change is Change.FAULT


def test_a_refusal_is_a_contract_change():
    refused = Run(None, ONE, "K must be a multiple of 256, not 320", True)
    found = _answer(Trial(CASES["certified"], _run(_right("certified")), refused))
    assert (found.change, found.wrong) == (Change.CONTRACT, True)
    assert found.words.endswith("CANDIDATE refuses what BASE took: K must be a multiple of 256, not 320")
    both = _answer(Trial(CASES["certified"], refused, refused), Trial(CASES["order"], *[_run(_right("order"))] * 2))
    assert both.change is Change.IDENTICAL
    assert both.rows[0].change is None


@pytest.mark.parametrize(
    ("candidate", "swapped", "change", "wrong"),
    [
        ("wrong", "right", Change.PLAN, True),
        ("wrong", "base", Change.PLAN, True),
        ("error", "right", Change.PLAN, True),
        ("wrong", "wrong", Change.FAULT, True),
        ("error", "error", Change.FAULT, True),
        ("nudged", "base", Change.PLAN, False),
        ("nudged", "nudged", Change.ORDER_ONLY, False),
    ],
)
def test_a_plan_is_to_blame_where_the_other_plan_is_innocent(candidate, swapped, change, wrong):
    right = _right("order")
    outs = {
        "right": _nudged(right, 1, 1), "base": right, "nudged": _nudged(right), "error": None,
        "wrong": torch.full_like(right, float("nan")),
    }  # fmt: skip
    runs = [
        Run(outs[what], plan, "RuntimeError: no" if what == "error" else "")
        for what, plan in ((candidate, OTHER), (swapped, ONE))
    ]
    found = _answer(Trial(CASES["order"], _run(right), runs[0], runs[1]))
    assert (found.change, found.wrong) == (change, wrong)
    if change is Change.PLAN:
        assert "under plan other, where one was taken" in found.words


def test_the_most_severe_answer_stands():
    right = {inputs: _right(inputs) for inputs in INPUTS}
    order = Trial(CASES["order"], _run(right["order"]), _run(_nudged(right["order"])))
    fixed = Trial(CASES["certified"], _run(_nudged(right["certified"])), _run(right["certified"]))
    fault = Trial(CASES["edges"], _run(right["edges"]), _run(torch.full_like(right["edges"], 3.0)))
    assert _answer(order).change is Change.ORDER_ONLY
    assert _answer(order, fixed).change is Change.FIXED
    assert _answer(order, fixed, fault).change is Change.FAULT


@pytest.mark.parametrize("out", [torch.zeros(2, 2), torch.zeros(9, 48), None])
def test_what_is_no_output_is_a_fault(out):
    found = _answer(
        Trial(CASES["certified"], _run(_right("certified")), Run(out, error="" if out is not None else "no"))
    )
    assert (found.change, found.rows[0].candidate_wrong) == (Change.FAULT, 9 * 48)


# Cases


def test_the_cases_hold_what_they_say():
    certified, order = (CASES[inputs].operands().expectation for inputs in ("certified", "order"))
    assert certified.certified.double().mean() > 0.99
    assert not order.certified.any()
    edges = CASES["edges"].operands()
    assert {edge_of(row) for row in range(SHAPE[0])} == set(EDGES)
    scales = {edge: quantize(edges.a).scales[EDGES.index(edge)] for edge in EDGES}
    assert (scales["zeros"] == 0).all()
    assert (scales["tiny"] == 0).all()
    assert (scales["huge"] >= 252).all()
    assert int((scales["NaN"] == 253).sum()) == 1
    assert edges.a[EDGES.index("subnormal")].abs().max() < 2.0**-126


def test_edges_are_left_out_where_a_device_cannot_hold_them():
    with_edges, without = (cases_for(SHAPES, dialect="even", seed=0, full_range=full) for full in (True, False))
    assert [case.inputs for case in with_edges] == [case.inputs for case in without] + ["edges"]
    planned_cases = cases_for(SHAPES, dialect="even", seed=0, full_range=False, plans=OWN_PLANS)
    assert [case.plan for case in planned_cases[-len(OWN_PLANS) :]] == list(OWN_PLANS)


def test_plans_go_and_come_back():
    from mxassay.optimized import Plan

    plan = Plan(tile_m=16, tile_n=64, tile_k=128, splits=3)
    found = planned(plan)
    assert found["words"] == plan.words
    assert plan_from(Plan(tile_m=16, tile_n=16, tile_k=128), found["plan"]) == plan
    assert plan_from({}, {"splits": 2}) == {"splits": 2}
    with pytest.raises(NoSuchPlanError):
        plan_from(plan, {"depth": 2})


def test_figures_that_differ():
    before = {"gemm": {"VGPRs": 80, "executed: mfma": 4}, "reduce": {"VGPRs": 8}}
    after = {"gemm": {"VGPRs": 80, "executed: mfma": 8}}
    found = [(each.kernel, each.figure, each.before, each.after) for each in differences(before, after)]
    assert found == [("gemm", "executed: mfma", 4, 8), ("reduce", "VGPRs", 8, 0)]
    renamed = differences({"gemm": {"VGPRs": 80}}, {"matmul": {"VGPRs": 84}})
    assert [(each.kernel, each.before, each.after) for each in renamed] == [("", 80, 84)]
    assert differences(None, after) == []


# Versions that run


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
