"""What is kept of campaigns: results while what they depend on stays the same, the record, the page made from it."""

import pytest

from mxassay import cli
from mxassay.properties.faults import Fault, trial
from mxassay.properties.faults.cache import Cache
from mxassay.properties.faults.record import known_killers, read, write
from mxassay.properties.faults.trial import Death

FAULT = Fault("a-fault", "weight-order", "layouts/memory.py", "layouts", "pad_to=256,", "pad_to=32,", "a smaller table")
KILLED = {"by": "layout-formula", "how": "failure", "test": "test_tiny.py::test_scales[1]", "examples": 3}


@pytest.fixture
def trees(tiny, tmp_path):
    """The tree of the tiny suite, and one like it but for a file."""
    tree = tiny(tmp_path / "original")

    def changed(name, text):
        other = tree.planted(None, tmp_path / name.replace("/", "-"))
        (other.root / name).write_text(text)
        return other

    return tree, changed


def test_a_kill_outlives_changes_of_other_chapters_and_of_nothing_else(trees, tmp_path):
    tree, changed = trees
    asked = {"profile": "quick", "seed": 0, "device": "emulated"}
    Cache(tmp_path / "kept", tree, fresh=False).keep("suite", FAULT, KILLED, **asked)

    def recalled(tree, fault=FAULT, **more):
        return Cache(tmp_path / "kept", tree, fresh=False).recall("suite", fault, **asked | more)

    assert recalled(tree) == KILLED
    assert recalled(changed("properties/test_other.py", "def test_more(): pass\n")) == KILLED
    assert recalled(changed("properties/catalogue.toml", "# one more property\n")) == KILLED
    assert recalled(changed("properties/test_tiny.py", "def test_less(): pass\n")) is None
    assert recalled(changed("layouts/golden.py", "# another comment\n")) is None
    assert recalled(tree, seed=1) is None


def test_a_survivor_is_tried_again_when_any_chapter_changes(trees, tmp_path):
    tree, changed = trees
    survived = {"by": None, "how": "", "test": ""}
    Cache(tmp_path / "kept", tree, fresh=False).keep("suite", FAULT, survived)
    assert Cache(tmp_path / "kept", tree, fresh=False).recall("suite", FAULT) == survived
    other = changed("properties/test_other.py", "def test_more(): pass\n")
    assert Cache(tmp_path / "kept", other, fresh=False).recall("suite", FAULT) is None


class Forgetful:
    def recall(self, kind, fault, **asked):
        return {"passed": dict.fromkeys(trial.GATES, True), "message": ""} if kind == "gates" else None

    def keep(self, *words, **asked):
        """Keeps nothing."""


@pytest.mark.parametrize(("killing", "ran"), [("quick", ["quick"]), ("thorough", ["quick", "thorough"])])
def test_other_profiles_begin_with_quick(killing, ran, setting, monkeypatch):
    profiles = []

    def suite(tree, device, setting, limit, first):
        profiles.append((setting.profile, limit, first.split(",")[0]))
        return Death("layout-formula", "failure") if setting.profile == killing else Death(None)

    monkeypatch.setattr(trial, "run_suite", suite)
    thorough = trial.replace(setting, profile="thorough")
    limits = {"quick": 1.0, "thorough": 2.0}
    found = trial.try_fault(FAULT, lambda fault: None, thorough, Forgetful(), limits, "test_tiny.py::test_scales")
    assert [profile for profile, _, _ in profiles] == ran
    assert all(limit == limits[profile] for profile, limit, _ in profiles)
    assert {first for _, _, first in profiles} == {"test_tiny.py::test_scales"}
    assert (found.verdict, found.suite.profile) == ("killed", killing)


def trial_of(name, verdict, by, test=""):
    gates = {"usual_test": "survived", "ratio_gate": "survived", "cosine_gate": "killed"}
    return {
        "id": name, "class": "padding", "equivalent": None, "verdict": verdict, "killed_by": by, "test": test,
        "profile": "quick", "how": "", "by": "suite", "examples": 2, "seconds": 1.0, **gates,
    }  # fmt: skip


def test_the_record_holds_a_campaign_of_each_profile(tmp_path):
    path = tmp_path / "score.json"
    assert known_killers(path) == {}
    write(
        path, "quick", {"code": "1"}, [trial_of("x", "survived", None), trial_of("y", "killed", "p", "test_a.py::t[1]")]
    )
    write(
        path, "thorough", {"code": "2"}, [trial_of("y", "killed", "p", "test_a.py::t[2]"), trial_of("z", "killed", "q")]
    )
    found = read(path)
    assert list(found["profiles"]) == ["quick", "thorough"]
    assert list(found["faults"]) == ["y", "z"]
    assert set(found["faults"]["y"]) == {"class", "equivalent", "gates", "quick", "thorough"}
    assert known_killers(path) == {"y": "test_a.py::t", "z": ""}


def test_the_record_wants_every_fault(tmp_path, capsys):
    assert cli.main(["faults", "--record", str(tmp_path / "x.json"), "--only", "padding"]) == 2
    assert "--record must come with all shipped faults, not with --only or --from" in capsys.readouterr().err


def test_a_campaign_over_all_leaves_nothing_of_the_one_before(tmp_path):
    path = tmp_path / "score.json"
    write(path, "quick", {"code": "1", "note": "merged by hand"}, [trial_of("x", "survived", None)])
    write(path, "quick", {"code": "2"}, [trial_of("x", "killed", "p"), trial_of("y", "killed", "p")])
    assert read(path)["profiles"] == {"quick": {"code": "2"}}
    assert [entry["quick"]["verdict"] for entry in read(path)["faults"].values()] == ["killed", "killed"]


def test_gates_are_measured_anew_when_what_they_run_changes(trees, tmp_path):
    tree, changed = trees
    Cache(tmp_path / "kept", tree, fresh=False).keep("gates", FAULT, {"passed": {}, "message": ""}, device="emulated")

    def recalled(tree):
        return Cache(tmp_path / "kept", tree, fresh=False).recall("gates", FAULT, device="emulated")

    assert recalled(tree) is not None
    assert recalled(changed("properties/catalogue.toml", "# one more property\n")) is not None
    assert recalled(changed("properties/faults/usual.py", "# another run\n")) is None
