"""Faults that are killed, faults that survive, crashes, hangs: each is told apart, with the property and the count."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from mxassay import cli
from mxassay.errors import ContractError, MxassayError
from mxassay.properties.faults import Fault, campaign, trial
from mxassay.properties.faults.trial import Death

WEIGHTS = Fault(
    "half-behind-row", "weight-order", "layouts/memory.py", "layouts",
    '("n1", "k2", "k1", "n0", "k0")', '("n1", "k2", "n0", "k1", "k0")', "another order of bytes",
)  # fmt: skip
SCALES = Fault(
    "low-bits", "scale-order", "layouts/memory.py", "layouts",
    '("r2", "g2", "g0", "r0", "g1", "r1")', '("r2", "g2", "g0", "r0", "r1", "g1")', "another order of bytes",
)  # fmt: skip
NOTHING = Fault(
    "other-words", "harness", "optimized/plans.py", "plan",
    "COMPUTE_UNITS = 256  # AMD", "COMPUTE_UNITS = 256  # of an AMD", "a comment changes nothing at all",
)  # fmt: skip
NO_IMPORT = replace(WEIGHTS, id="no-import", replace='("n1", "k2", "k1", "n0")')
CRASH = replace(
    WEIGHTS, id="crash", stage="plan",
    find='    source="aiter.ops.shuffle.shuffle_weight',
    replace='    source=str(__import__("ctypes").string_at(0)) + "aiter.ops.shuffle.shuffle_weight',
)  # fmt: skip
PASSED = {"passed": {"usual_test": True, "ratio_gate": True, "cosine_gate": False}, "message": "cosine"}


@pytest.fixture
def small(monkeypatch, tiny):
    """Campaigns on the tiny suite, the usual tests answered at once."""
    asked = []

    def usual(tree, device, setting, limit):
        asked.append(device)
        good = {"passed": dict.fromkeys(PASSED["passed"], True), "message": ""}
        return good if tree.root.name.startswith("control") else PASSED

    monkeypatch.setattr(campaign, "snapshot", tiny)
    monkeypatch.setattr(campaign, "run_usual", usual)
    monkeypatch.setattr(trial, "run_usual", usual)
    monkeypatch.setattr(trial, "_TESTS", {})
    return asked


def test_each_fault_gets_its_verdict(small, tmp_path):
    faults = [WEIGHTS, SCALES, NOTHING, replace(NOTHING, id="proved", equivalent="only a comment"), NO_IMPORT]
    told = []
    done = campaign.run(faults, caches=tmp_path, told=lambda what, one: told.append(one and one.fault.id))
    assert {one.fault.id: one.verdict for one in done.trials} == {
        "half-behind-row": "killed",
        "low-bits": "killed",
        "other-words": "survived",
        "proved": "equivalent",
        "no-import": "killed",
    }
    weights, scales, nothing, _, no_import = (one.suite for one in done.trials)
    assert (weights.by, weights.how) == ("test_tiny.py::test_first_rows", "failure")
    assert (scales.by, scales.how) == ("layout-formula", "failure")
    assert (weights.test, weights.profile) == ("test_tiny.py::test_first_rows", "quick")
    assert 1 <= weights.examples < 25
    assert "assert" in weights.message
    assert nothing == Death(None, seconds=nothing.seconds)
    assert no_import.how == "import"
    assert done.score() == {
        "faults": 4,
        "equivalent": 1,
        "refuted": [],
        "of": {"suite": 1, "judges": 3, "with_tests": 4, "usual_test": 4, "ratio_gate": 4, "cosine_gate": 4},
        "killed": {"suite": 0, "judges": 3, "with_tests": 3, "usual_test": 0, "ratio_gate": 0, "cosine_gate": 4},
        "share": {
            "suite": 0.0,
            "judges": 1.0,
            "with_tests": 0.75,
            "usual_test": 0.0,
            "ratio_gate": 0.0,
            "cosine_gate": 1.0,
        },
    }
    assert None in told
    assert {fault.id for fault in faults} <= set(told)


def test_a_second_run_is_told_from_the_cache_until_the_code_changes(small, tmp_path, monkeypatch):
    first = campaign.run([WEIGHTS], caches=tmp_path)
    started = []
    monkeypatch.setattr(trial, "run_suite", lambda *words: started.append(words) or Death("again"))
    monkeypatch.setattr(campaign, "run_suite", lambda *words: Death(None, seconds=1.0))
    assert campaign.run([WEIGHTS], caches=tmp_path).trials == first.trials
    assert not started
    assert campaign.run([WEIGHTS], caches=tmp_path, fresh=True).trials[0].suite.by == "again"
    assert campaign.run([WEIGHTS], caches=tmp_path, seed=1).trials[0].suite.by == "again"
    make = campaign.snapshot

    def changed(root):
        tree = make(root)
        (root / "layouts" / "golden.py").write_text("# another comment\n")
        return tree

    monkeypatch.setattr(campaign, "snapshot", changed)
    assert campaign.run([WEIGHTS], caches=tmp_path, fresh=False).trials[0].suite.by == "again"
    assert len(started) == 3


def test_a_crash_and_a_hang_are_kills_by_name(tiny, setting, tmp_path, monkeypatch):
    tree = tiny(tmp_path / "original")
    crashed = trial.run_suite(tree.planted(CRASH, tmp_path / "crash"), "emulated", setting, 60)
    assert (crashed.by, crashed.how) == ("session", "crash: SIGSEGV")
    monkeypatch.setenv("SLOW", "1")
    hanging = trial.run_suite(tree, "emulated", setting, 15)
    assert (hanging.by, hanging.how) == ("layout-formula", "timeout")


def test_a_suite_that_fails_without_a_fault_measures_nothing(small, tmp_path, monkeypatch):
    make = campaign.snapshot

    def broken(root):
        tree = make(root)
        (root / "properties" / "test_tiny.py").write_text("def test_no(): assert False\n")
        return tree

    monkeypatch.setattr(campaign, "snapshot", broken)
    with pytest.raises(
        MxassayError, match=r"the suite must pass without a planted fault, not fail .*::test_no on emulated"
    ):
        campaign.run([WEIGHTS], caches=tmp_path)


def test_a_fault_that_does_not_fit_is_refused_before_anything_runs(small, tmp_path):
    with pytest.raises(ContractError, match=r"must stand once in layouts/memory\.py, not 0 times"):
        campaign.run([WEIGHTS, replace(WEIGHTS, id="x", find="nowhere to be found")], caches=tmp_path)
    with pytest.raises(ContractError, match=r"file of fault x must exist, not be missing: layouts/none\.py"):
        campaign.run([replace(WEIGHTS, id="x", file="layouts/none.py")], caches=tmp_path)
    assert not small


def test_the_machinery_s_tests_are_asked_where_the_suite_is_blind(tiny, setting, tmp_path, monkeypatch):
    tree = tiny(tmp_path / "original")
    folder = tree.root / "tests" / "layouts"
    for file in folder.glob("*.py"):
        file.unlink()
    (folder / "test_golden_now.py").write_text(
        "from mxassay.layouts import PACKING\ndef test_it(): assert PACKING.name == 'PACKING'\n"
    )
    blind = replace(WEIGHTS, id="blind", find='name="PACKING"', replace='name="PACK"')
    planted = tree.planted(blind, tmp_path / "blind")
    assert trial.run_suite(planted, "emulated", setting, 60).by is None
    assert trial.run_tests(blind, planted, setting, 60).by == "tests/layouts/test_golden_now.py::test_it"
    assert trial.run_tests(blind, tree, setting, 60).by is None


def test_a_test_that_fails_without_the_fault_kills_nothing(tiny, setting, tmp_path, monkeypatch):
    tree = tiny(tmp_path / "original")
    monkeypatch.setitem(trial._TESTS, "layouts", "layouts/alone")
    folder = tree.root / "tests" / "layouts" / "alone"
    folder.mkdir()
    (folder / "test_it.py").write_text(
        "from mxassay.layouts import PACKING\ndef test_it(): assert PACKING.name == 'PACKING'\n"
    )
    blind = replace(WEIGHTS, id="blind", stage="checker", find='name="PACKING"', replace='name="PACK"')

    def plant(fault):
        return tree.planted(fault, tmp_path / ("changed" if fault else "unchanged"))

    def recalled(kind, fault, **asked):
        return {"passed": dict.fromkeys(PASSED["passed"], True), "message": ""} if kind == "gates" else None

    cache = SimpleNamespace(recall=recalled, keep=lambda *words, **asked: None)
    found = trial.try_fault(blind, plant, setting, cache, {"quick": 60.0})
    assert (found.verdict, found.death.by) == ("killed", "tests/layouts/alone/test_it.py::test_it")
    shutil.rmtree(tmp_path / "changed")
    shutil.rmtree(tmp_path / "unchanged")
    (folder / "test_it.py").write_text("def test_it(): assert False\n")
    words = r"^tests/layouts/alone/test_it\.py::test_it must pass without a planted fault, not fail \(failure\): .*"
    with pytest.raises(MxassayError, match=rf"(?s){words}mend that first, since blind would count as killed$"):
        trial.try_fault(blind, plant, setting, cache, {"quick": 60.0})


def as_toml(fault):
    keys = {"class_": "class"}
    return "[[fault]]\n" + "".join(
        f"{keys.get(key, key)} = '''{value}'''\n" for key, value in vars(fault).items() if value
    )


def test_the_command_runs_somebody_else_s_faults_and_prints_one_document(small, tmp_path, capsys):
    theirs = tmp_path / "theirs.toml"
    theirs.write_text(as_toml(SCALES) + as_toml(NOTHING))
    words = ["faults", "--from", str(theirs), "--cache", str(tmp_path / "cache"), "--jobs", "1"]
    assert cli.main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert {"schema_version", "command", "verdict", "seconds", "environment", "faults", "score"} <= set(document)
    assert (document["command"], document["verdict"]) == ("faults", "FAIL")
    scales, nothing = document["faults"]
    assert scales["id"] == "low-bits"
    assert (scales["class"], scales["verdict"], scales["killed_by"]) == ("scale-order", "killed", "layout-formula")
    assert scales["examples"] >= 1
    assert scales["seconds"] > 0
    assert [scales[gate] for gate in ("usual_test", "ratio_gate", "cosine_gate")] == ["survived", "survived", "killed"]
    assert (nothing["verdict"], nothing["killed_by"]) == ("survived", None)
    assert document["score"]["share"]["with_tests"] == 0.5
    assert cli.main([*words, "--only", "low-bits"]) == 0
    printed = capsys.readouterr().out
    assert "low-bits" in printed
    assert "layout-formula" in printed
    assert "PASS  1 killed" in printed
    assert cli.main([*words, "--only", "harness"]) == 1
    assert "survived: other-words" in capsys.readouterr().out
    assert cli.main([*words, "--only", "no-such"]) == 2
    assert "--only must name ids or classes that --list shows, not no-such" in capsys.readouterr().err


def test_the_list_names_every_fault(capsys):
    assert cli.main(["faults", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["faults"]
    assert len(listed) >= 75
    assert {"id", "class", "file", "stage", "device", "why", "equivalent"} == set(listed[0])
    assert cli.main(["faults", "--list", "--only", "tile-map"]) == 0
    assert "remap-forgets-the-remainder" in capsys.readouterr().out


ON_HOPPER = [
    replace(WEIGHTS, id="on-hopper", device="cuda"),
    replace(SCALES, id="also-on-hopper", device="cuda"),
]


def test_on_a_lent_gpu_the_unchanged_copy_runs_what_killed_at_the_end(small, tmp_path, monkeypatch):
    ran = []
    suite = trial.run_suite

    def on_the_cpu(tree, device, setting, limit, first="", only=()):
        ran.append((tree.root.name, device, first.split(",")[0], list(only)))
        return suite(tree, "emulated", setting, limit, first, only)

    monkeypatch.setattr(campaign, "run_suite", on_the_cpu)
    monkeypatch.setattr(trial, "run_suite", on_the_cpu)
    done = campaign.run(ON_HOPPER, jobs=1, caches=tmp_path)
    assert [one.verdict for one in done.trials] == ["killed", "killed"]
    *_, control = ran
    assert ran[:2] == [("changed", "cuda", "test_hopper", [])] * 2
    assert control == ("control-cuda", "cuda", "", ["test_tiny.py::test_first_rows", "test_tiny.py::test_scales"])
    assert small == ["cuda"] * 3
    # A test that kills without a fault too.
    monkeypatch.setattr(campaign, "run_suite", lambda *words, **more: Death("layout-formula", "failure", message="no"))
    words = r"^layout-formula must pass without a planted fault, not fail on cuda \(failure\): no; mend that first"
    with pytest.raises(MxassayError, match=words):
        campaign.run(ON_HOPPER, jobs=1, caches=tmp_path)


@pytest.mark.parametrize(
    ("deaths", "asked"),
    [
        ([], None),
        ([Death("p", "failure", test="test_a.py::t"), Death("p", "failure", test="test_a.py::t")], ["test_a.py::t"]),
        ([Death("p", "failure", test="test_a.py::t"), Death("q", "timeout", test="test_b.py::t")], []),
        ([Death("p", "failure", test="test_a.py::t"), Death("session", "import")], []),
        ([Death("test_a.py", "import", test="test_a.py")], []),
    ],
)
def test_what_died_of_no_test_of_its_own_is_controlled_by_all(small, tmp_path, monkeypatch, deaths, asked):
    """A suite that takes longer than its limit, or can't begin, would kill every fault; one test alone would pass."""
    ran = []

    def suite(*words, only, **more):
        ran.append(only)
        return Death(None)

    monkeypatch.setattr(campaign, "run_suite", suite)
    control = SimpleNamespace(root=tmp_path / "control-cuda")
    tree = SimpleNamespace(planted=lambda *_: control)
    campaign._control_of(deaths, "cuda", tree, trial.Setting("quick", 0, tmp_path, 1), tmp_path, lambda *_: None)
    assert ran == ([] if asked is None else [asked])


def test_faults_that_need_a_gpu_are_listed_and_not_counted(small, tmp_path, capsys):
    theirs = tmp_path / "theirs.toml"
    theirs.write_text(as_toml(SCALES) + as_toml(ON_HOPPER[0]))
    words = ["faults", "--from", str(theirs), "--cache", str(tmp_path / "cache"), "--jobs", "1"]
    assert cli.main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [fault["id"] for fault in document["faults"]] == ["low-bits"]
    assert document["score"]["faults"] == 1
    assert document["not_tried"] == {"on-hopper": "needs an NVIDIA Hopper GPU: mxassay faults --device cuda"}
    assert cli.main(words) == 0
    assert "not tried, and not counted: 1 faults, needs an NVIDIA Hopper GPU" in capsys.readouterr().out
    assert cli.main([*words, "--only", "on-hopper"]) == 3
    assert "faults must be such as can be tried with --device emulated, not none: on-hopper" in capsys.readouterr().err
    assert cli.main([*words, "--only", "low-bits", "--device", "cuda"]) == 3
    assert "not none: none of these faults needs a GPU" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_faults_of_a_gpu_are_refused_without_one(tmp_path, capsys):
    assert cli.main(["faults", "--device", "cuda", "--cache", str(tmp_path)]) == 3
    assert "device cuda must be present, not missing: torch sees no CUDA GPU" in capsys.readouterr().err


@pytest.mark.parametrize(("capability", "words"), [((8, 9), "must be an NVIDIA Hopper GPU"), ((9, 0), "--record must")])
def test_only_a_hopper_gpu_will_do_and_its_record_is_its_own(capability, words, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert cli.main(["faults", "--device", "cuda", "--record", "elsewhere/score.json"]) in (2, 3)
    assert words in capsys.readouterr().err
