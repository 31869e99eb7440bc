"""`mxassay bench` on made-up groups: the document, the exit code, what is skipped, the record."""

import json

import pytest

from mxassay.cli import main
from mxassay.errors import UnsupportedError
from mxassay.figures import groups
from mxassay.figures.figure import Figure
from mxassay.figures.groups import Group, Measured

SCHEMA = {"id", "group", "value", "unit", "bar", "holds", "peer", "ratio", "low", "high", "repeats", "cpu", "note"}


@pytest.fixture
def made_up(monkeypatch):
    """Sets what the groups measure; `None` stands for a machine that lacks what is needed."""

    def install(**measured):
        def measure(group, wish):
            if measured[group.name] is None:
                raise UnsupportedError("a fast machine must be here, not this one")
            return Measured(tuple(measured[group.name]), ({"assumption": "x", "source": "a book"},))

        monkeypatch.setattr(Group, "measure", measure)
        monkeypatch.setattr(groups, "GROUPS", {name: Group(name, "made up", "nowhere") for name in measured})

    return install


def test_all_bars_hold(made_up, capsys):
    made_up(one=[Figure("fast", "one", 1.0, "s", bar=2.0)], two=None)
    assert main(["bench", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "PASS"
    assert document["figures"] == [
        {"id": "fast", "group": "one", "value": 1.0, "unit": "s", "bar": 2.0, "holds": True, "repeats": 1}
    ]
    assert document["skipped"] == {"two": "a fast machine must be here, not this one"}
    assert len(document["machine"]["load"]) == 3


def test_one_that_falls_short_fails_the_run_and_is_named(made_up, capsys, tmp_path):
    made_up(one=[Figure("slow", "one", 3.0, "s", bar=2.0), Figure("fast", "one", 1.0, "s", bar=2.0)])
    record = tmp_path / "record.json"
    assert main(["bench", "one", "--record", str(record)]) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 bars hold" in printed
    assert "falls short: slow: 1.50 times the bar" in printed
    assert json.loads(record.read_text())["verdict"] == "FAIL"


def test_a_group_that_was_named_is_not_skipped(made_up, capsys):
    made_up(one=None)
    assert main(["bench", "one"]) == 3
    assert "a fast machine must be here" in capsys.readouterr().err


def test_details_show_the_groups_own_rows(made_up, capsys):
    made_up(one=[Figure("fast", "one", 1.0, "s")])
    assert main(["bench", "--details"]) == 0
    assert "not modelled: a book" in capsys.readouterr().out


def test_the_committed_record_is_a_document_of_this_command(capsys):
    code = main(["bench", "--last", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if document["verdict"] == "PASS" else 1)
    assert document["command"] == "bench"
    assert {"processor", "cores", "memory_gib", "system", "date", "load"} == document["machine"].keys()
    for figure in document["figures"]:
        assert {"id", "group", "value", "unit"} <= figure.keys() <= SCHEMA
        assert figure.get("holds") == (figure["value"] <= figure["bar"] if "bar" in figure else None)
    assert "/" not in document["machine"]["processor"]
    ids = [figure["id"] for figure in document["figures"]]
    assert len(ids) == len(set(ids))
