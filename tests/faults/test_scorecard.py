"""The kept record, the page and the README's sentence say the same, and speak of the faults that ship."""

from pathlib import Path

import pytest

from mxassay.properties.faults import CLASSES, divided, planted, scorecard
from mxassay.properties.faults.record import HOPPER_RECORD, RECORD, read
from mxassay.properties.faults.scorecard import in_readme, page, sentence
from mxassay.properties.faults.trial import JUDGES
from mxassay.properties.faults.usual import GATES

ROOT = Path(__file__).resolve().parents[2]
FAULTS = {fault.id: fault for fault in divided(planted(), "emulated")[0]}
ON_HOPPER = {fault.id: fault for fault in divided(planted(), "cuda")[0]}
REFRESH = "measure anew: mxassay faults --profile quick --record properties/faults/score.json, then docs/generate.py"


@pytest.fixture(scope="module")
def record():
    assert RECORD.is_file(), f"{RECORD.name} must exist; {REFRESH}"
    return read()


def test_the_record_holds_exactly_the_faults_that_ship(record):
    unmeasured, gone = sorted(set(FAULTS) - set(record["faults"])), sorted(set(record["faults"]) - set(FAULTS))
    assert not unmeasured, f"faults without a measurement: {', '.join(unmeasured)}; {REFRESH}"
    assert not gone, f"measurements of faults that are no more: {', '.join(gone)}; {REFRESH}"


def test_the_record_knows_them_by_their_class_and_proof(record):
    kept = {name: (entry["class"], entry["equivalent"]) for name, entry in record["faults"].items()}
    assert kept == {name: (fault.class_, bool(fault.equivalent)) for name, fault in FAULTS.items()}, REFRESH


def test_every_profile_has_every_fault(record):
    assert "quick" in record["profiles"]
    for profile in record["profiles"]:
        assert [name for name, entry in record["faults"].items() if profile not in entry] == [], REFRESH


def test_the_scores_are_the_sums_of_the_faults(record):
    for profile, facts in record["profiles"].items():
        score = facts["score"]
        counted = {name: entry for name, entry in record["faults"].items() if not entry["equivalent"]}
        dead = [FAULTS[name] for name, entry in counted.items() if entry[profile]["verdict"] == "killed"]
        assert score["faults"] == score["of"]["with_tests"] == len(counted)
        assert score["killed"]["suite"] == sum(fault.stage not in JUDGES for fault in dead)
        assert score["killed"]["judges"] == sum(fault.stage in JUDGES for fault in dead)
        for gate in GATES:
            assert score["killed"][gate] == sum(entry["gates"][gate] == "killed" for entry in counted.values())


def test_the_bars_hold(record):
    """At least 95 % at quick of what the suite judges and of what judges; no proof is refuted."""
    score = record["profiles"]["quick"]["score"]
    assert score["share"]["suite"] >= 0.95
    assert score["share"]["judges"] >= 0.95
    assert score["refuted"] == []


def test_no_kill_is_a_copy_that_cannot_even_start(record):
    """A session that dies before a test runs, or a hang, may be the machine's doing as well as the fault's."""
    odd = {
        name: entry["quick"]["how"]
        for name, entry in record["faults"].items()
        if entry["quick"]["killed_by"] == "session" or entry["quick"]["how"] == "timeout"
    }
    assert odd == {}


def test_the_page_is_made_from_the_record(record):
    assert (ROOT / "docs" / "planted-faults.md").read_text() == page(), "run: python docs/generate.py"


def test_the_readme_says_what_the_record_says(record):
    words = " ".join((ROOT / "README.md").read_text().split())
    assert sentence(record) in words, f"README.md must say: {sentence(record)}"


def test_a_record_of_a_hopper_gpu_is_of_the_faults_that_need_one():
    assert {*read(HOPPER_RECORD)["faults"]} in (set(), set(ON_HOPPER))


def a_record(shipped=FAULTS, gates_ran=("one", "other"), **changed):
    """Every shipped fault killed by its first test at quick, and let pass by the gates, unless `changed`."""
    faults = {
        name: {
            "class": fault.class_,
            "equivalent": bool(fault.equivalent),
            "gates": dict.fromkeys(GATES, "survived"),
            "quick": {
                "verdict": "equivalent" if fault.equivalent else "killed", "how": "failure", "by": "suite", "test": "",
                "killed_by": None if fault.equivalent else "gemm-certified", "profile": "quick", "examples": 3,
            },
        }
        for name, fault in shipped.items()
    }  # fmt: skip
    for name, entry in changed.items():
        faults[name]["quick"] |= entry
    versions = dict.fromkeys(("python", "torch", "triton", "hypothesis"), "1.0")
    facts = {"date": "2026-12-01", "environment": versions, "gates_ran": list(gates_ran)}
    return {"profiles": {"quick": facts}, "faults": faults}


JUDGED = [name for name, fault in FAULTS.items() if fault.stage not in JUDGES and not fault.equivalent]


def test_a_survivor_is_counted_and_named():
    (name, *_), total = JUDGED, len(JUDGED)
    found = a_record(**{name: {"verdict": "survived", "killed_by": None, "how": "", "by": None}})
    share = f"{total - 1} ({100 * (total - 1) / total:.1f} %) at `quick`"
    assert f"Of {total} faults planted" in sentence(found)
    assert share in sentence(found)
    text = page(found)
    alive = text.split("## What stays alive")[1].split("## ")[0]
    assert f"- `{name}`: {FAULTS[name].why}." in alive
    assert alive.count("- `") == 1
    assert f"| `{name}` | {FAULTS[name].class_} | nothing |" in text


def test_all_killed_is_said_in_words():
    assert "No fault that changes something." in page(a_record())


@pytest.mark.parametrize(
    ("how", "words"), [("timeout", "hangs"), ("crash: SIGSEGV", "crashes"), ("import", "does not import")]
)
def test_an_odd_end_is_named(how, words):
    name = JUDGED[0]
    assert f"| `{name}` | {FAULTS[name].class_} | `gemm-certified` ({words}) |" in page(
        a_record(**{name: {"how": how}})
    )


def test_every_proof_is_printed_and_no_proved_change_is_counted():
    text = page(a_record())
    proved = [fault for fault in FAULTS.values() if fault.equivalent]
    section = text.split("## Changes that change nothing")[1].split("## By fault")[0]
    assert section.count("- `") == len(proved)
    assert all(" ".join(fault.equivalent.split()) in section for fault in proved)
    rows = text.split("## By fault")[1].split("## On ")[0]
    assert rows.count("| `") - rows.count("| `gemm") == len(FAULTS) - len(proved)


def test_classes_add_up():
    rows = [row for row in page(a_record()).splitlines() if row.split(" | ")[0].strip("| ") in CLASSES]
    assert len(rows) == len(CLASSES)
    assert sum(int(row.split(" | ")[2]) for row in rows) == len([f for f in FAULTS.values() if not f.equivalent])


def test_what_the_gates_ran_is_said():
    assert "on the contest's shapes and both kernels that run them, kills 0 (0.0 %)" in sentence(a_record())
    assert "run the contest's test shapes twice" in page(a_record())
    before = a_record(gates_ran=())
    assert "on the contest's shapes, kills 0 (0.0 %)" in sentence(before)
    assert "ran the contest's shapes with the plans chosen for them alone" in page(before)


def test_faults_that_need_a_gpu_stand_apart():
    name, *_ = ON_HOPPER
    without = page(a_record(), {"profiles": {}, "faults": {}})
    assert (
        f"- `{name}`, {ON_HOPPER[name].class_}: {ON_HOPPER[name].why}."
        in without.split("## On an NVIDIA Hopper GPU")[1]
    )
    with_it = page(a_record(), a_record(ON_HOPPER))
    assert f"Of {len(ON_HOPPER)} the suite kills {len(ON_HOPPER)} (100.0 %) at `quick`,\nthe usual test" in with_it
    assert f"| `{name}` | {ON_HOPPER[name].class_} | `gemm-certified` | 3 |" in with_it
    assert "Not tried" not in with_it
    assert without.split("## On ")[0] == with_it.split("## On ")[0]


def test_the_readme_gets_the_sentence_and_keeps_all_else(monkeypatch):
    text = (ROOT / "README.md").read_text()
    assert in_readme(text) == text, "run: python docs/generate.py"
    monkeypatch.setattr(scorecard, "read", a_record)
    changed = in_readme(text)
    assert sentence(a_record()) in " ".join(changed.split())
    assert max(map(len, changed.split("**A measured suite.**")[1].split("\n\n")[0].splitlines())) <= 120
    monkeypatch.undo()
    assert in_readme(changed) == text
