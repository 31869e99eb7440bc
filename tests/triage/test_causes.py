"""The page of named causes says what its record says."""

import json

import pytest

from mxassay.properties.faults import planted
from mxassay.properties.faults.causes import RECORD, page, read, write
from mxassay.triage_campaign import BARS, Triaged, score

RIGHT = Triaged("one", "precision", "store", True, "precision", "store", True, 1, 3, 4.0, 3.0, "it cuts")
WRONG = Triaged("two", "race", "store", True, "partials", "reduce", True, 2, 9, 20.0, 8.0, "a slot | is lost")
LOST = Triaged("three", "cache-key", "workspace", False, sentence="no call that was tried fails")


def test_the_page_tells_the_figures_and_what_was_not_named(tmp_path):
    found = [RIGHT, WRONG, LOST]
    facts = {"date": "2026-12-01", "shipped": 5, "seconds": 90, "jobs": 2, "environment": {}, "score": score(found)}
    write(tmp_path / "causes.json", facts, [one.as_json() for one in found])
    text = page(read(tmp_path / "causes.json"))
    assert "each of our 5 faults" in text
    assert "On 2026-12-01 it was asked about 3 of them, 2 at a time, in 2 minutes, and found a failure in 2." in text
    assert "| right class ranked first | 33.3 % | 33.3 % | at least 90 % |" in text
    assert "of 2 wrong products | 50.0 % | 50.0 % | at least 80 % |" in text
    assert "| median time from failure to diagnosis | 12.0 s (5.5 s) | 12.0 s (5.5 s) | at most 10 s |" in text
    assert "## Not named: 2" in text
    assert "| a stage by itself is wrong" not in text
    assert "| a product is wrong | 2 | 50.0 % | 50.0 % | 12.0 s (5.5 s) |" in text
    assert "| no failure was found | 1 | 0.0 % | 0.0 % | - |" in text
    assert "| `two` | race, store | partials, reduce | a slot \\| is lost |" in text
    assert "| `three` | cache-key, workspace | nothing | no call that was tried fails |" in text
    assert "## Cases that stayed larger: 1" in text
    assert "| `two` | 2 | 9 |" in text


def test_the_bars_of_the_page_are_those_that_are_held():
    assert BARS == {"class": 0.90, "stage": 0.95, "small": 0.80, "seconds": 10.0}


def test_the_kept_record_is_of_faults_that_ship_and_of_its_own_answers():
    """Faults planted since then are not in it; its score follows from its entries."""
    if not RECORD.is_file():
        pytest.skip("no campaign is recorded: mxassay faults --triage --record properties/faults/causes.json")
    record = read()
    shipped = {fault.id: fault for fault in planted()}
    for name, one in record["faults"].items():
        assert (one["class"], one["stage"]) == (shipped[name].class_, shipped[name].stage), name
    again = score(
        [
            Triaged(id=name, class_=one["class"], **{key: value for key, value in one.items() if key != "class"})
            for name, one in record["faults"].items()
        ]
    )
    assert json.loads(json.dumps(again)) == record["facts"]["score"]
    assert RECORD.read_text().endswith("}\n")
