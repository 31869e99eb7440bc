"""The score of triage on planted faults: what counts, what is kept, and what the process of a fault is told."""

import json
from dataclasses import replace

import pytest

from mxassay import cli, triage_campaign
from mxassay.properties.faults import Fault, planted
from mxassay.triage_campaign import EVIDENCE, Triaged, holds, in_fair_order, run, score

RIGHT = Triaged("one", "precision", "store", True, "precision", "store", True, 1, 3, 4.0, 3.0, "it cuts")
NO_PRODUCT = replace(RIGHT, id="two", product=False, tiles=1, elements=0, seconds=1.0, processor=0.5)
JUDGE = replace(NO_PRODUCT, id="three", class_="harness", said_class="harness", stage="checker", said_stage="checker")
JUDGED = replace(JUDGE, id="six", product=True, tiles=4, elements=9)  # a product was judged, and it was right
LARGE = replace(RIGHT, id="four", elements=9, said_stage="reduce", seconds=30.0)
LOST = Triaged("five", "race", "store", False, sentence="no call that was tried fails")


def test_shares_and_the_median():
    found = score([RIGHT, NO_PRODUCT, JUDGE, LARGE, LOST])
    every, kernels = found["all"], found["kernels"]
    assert (every["faults"], every["found"], every["products"]) == (5, 4, 2)
    assert (every["class"], every["stage"], every["small"]) == (0.8, 0.6, 0.5)
    assert every["seconds"] == 2.5
    assert (kernels["faults"], kernels["class"], kernels["stage"]) == (4, 0.75, 0.5)
    assert not holds(found)
    assert holds(score([RIGHT, NO_PRODUCT, JUDGE]))
    assert score([RIGHT, JUDGED])["all"]["products"] == 1
    assert not holds(score([replace(RIGHT, seconds=11.0)]))


def test_what_was_wrong():
    """Told by what failed, whatever the diagnosis says."""
    product, raises, refused, stage, judge, none = EVIDENCE
    agreement = replace(RIGHT, failing="gemm-agreement")
    assert agreement.evidence == product
    assert replace(agreement, product=False, error="MemoryFault").evidence == raises
    assert replace(NO_PRODUCT, failing="illegal-calls").evidence == refused
    assert replace(NO_PRODUCT, failing="reduce-alone").evidence == stage
    assert replace(NO_PRODUCT, failing="judge:formats").evidence == JUDGED.evidence == judge
    assert LOST.evidence == none
    found = score([agreement, LARGE, JUDGE, JUDGED, LOST])["evidence"]
    assert {what: some["faults"] for what, some in found.items()} == {product: 2, judge: 2, none: 1}
    assert (found[product]["stage"], found[judge]["class"], found[none]["class"]) == (0.5, 1.0, 0.0)


@pytest.fixture
def answered(monkeypatch):
    """Processes that answer at once; what they were asked."""
    asked = []

    def answer(words, folder, environment, limit, loaded):
        asked.append((words, environment))
        diagnosis = {
            "class": "tile-map", "stage": "tile-map", "size": {"tiles": 1, "elements": 2},
            "failure": {"wrong": 4, "property": "gemm-agreement", "error": ""},
            "seconds_from_failure": 2.0, "processor_seconds_from_failure": 1.0, "sentence": "tiles are lost",
        }  # fmt: skip
        return 1, json.dumps({"diagnosis": diagnosis}), ""

    monkeypatch.setattr(triage_campaign.processes, "run", answer)
    return asked


def faults_of(class_, count):
    return [fault for fault in planted() if fault.class_ == class_ and not fault.equivalent][:count]


def test_a_process_hears_nothing_of_its_fault(answered, tmp_path):
    faults = faults_of("tile-map", 2)
    told = []
    found = run(faults, jobs=1, caches=tmp_path, told=told.append)
    assert [one.id for one in found] == [fault.id for fault in faults]
    assert {one.said_class for one in told} == {"tile-map"}
    for fault, (words, environment) in zip(faults, answered, strict=True):
        text = " ".join(words) + json.dumps(environment)
        for secret in (fault.class_, fault.find, fault.file, fault.why):
            assert secret not in text
    run(faults, jobs=1, caches=tmp_path, told=told.append)
    assert len(answered) == 2
    run(faults, jobs=1, caches=tmp_path, fresh=True, told=told.append)
    assert len(answered) == 4


def test_the_command_prints_the_shares(answered, tmp_path, capsys):
    name = faults_of("tile-map", 1)[0].id
    assert (
        cli.main(["faults", "--triage", "--no-history", "--only", name, "--jobs", "1", "--cache", str(tmp_path)]) == 0
    )
    printed = capsys.readouterr().out
    assert name in printed
    assert "right class ranked first" in printed
    assert "100.0 %" in printed
    assert "PASS  1 faults diagnosed" in printed
    assert cli.main(["faults", "--triage", "--no-history", "--only", name, "--cache", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["score"]["all"]["class"] == 1.0
    assert document["faults"][0]["class"] == "tile-map"


def test_after_its_minutes_no_fault_is_begun(answered, tmp_path, capsys, monkeypatch):
    """The first of an order that has nothing to do with files and classes."""
    faults = [fault for fault in planted() if not fault.equivalent]
    order = in_fair_order(faults)
    assert sorted(order, key=id) == sorted(faults, key=id)
    assert len({fault.class_ for fault in order[:40]}) > 12
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(triage_campaign.time, "monotonic", lambda: next(clock))
    told = []
    found = run(faults, jobs=1, caches=tmp_path, minutes=1, told=told.append)
    assert [one.id for one in told] == [fault.id for fault in order[:2]]
    assert {one.id for one in found} == {fault.id for fault in order[:2]}


def test_equivalent_faults_are_left_out(answered, tmp_path, capsys):
    proved = next(fault for fault in planted() if fault.equivalent)
    assert isinstance(proved, Fault)
    assert cli.main(["faults", "--triage", "--no-history", "--only", proved.id, "--cache", str(tmp_path)]) == 0
    assert "0 faults diagnosed" in capsys.readouterr().out
    assert not answered
