"""Text and JSON say what the page says, and pipes get plain text."""

import io
import json
import re

import pytest
from rich.console import Console

from mxassay.properties.faults import STAGES
from mxassay.triage.report import as_json, html, text
from mxassay.triage.report.contents import document
from mxassay.triage.report.document import Facts, Listing, Maps, Paragraph, Table, plain
from mxassay.triage.report.words import STAGES as IN_WORDS
from mxassay.triage.report.words import visible

NAMES = ["scale", "raising", "unexplained", "hostile"]


def _printed(diagnosis, replay, **console):
    out = io.StringIO()
    text(diagnosis, Console(file=out, width=140, **console), replay=replay)
    return out.getvalue()


def _flat(words):
    return re.sub(r"\s+", "", words)


def _phrases(part):
    match part:
        case Paragraph():
            yield plain(part.words)
        case Facts():
            for name, words in part.rows:
                yield from (name, plain(words))
        case Table():
            yield from part.headings
            yield from (plain(words) for row in part.rows for words in row.cells)
        case Listing():
            yield from [] if part.folded else part.text.split("\n")
        case Maps():
            yield part.title
            for drawn in part.maps:
                yield from (drawn.title, drawn.summary)


@pytest.mark.parametrize("name", ["raising", "unexplained"])
def test_text_says_everything(name, diagnoses, replays):
    """Where rows fold, words of two columns mix; so the phrases are looked for in a width without folds."""
    out = io.StringIO()
    text(diagnoses[name], Console(file=out, width=2000), replay=replays(name))
    said = _flat(out.getvalue())
    told = document(diagnoses[name], replay=replays(name))
    for phrase in (
        told.verdict,
        told.kernel,
        told.sentence,
        told.certainty,
        *(plain(words) for _, words in told.facts),
    ):
        assert _flat(visible(phrase)) in said
    for section in told.sections:
        assert _flat(section.title) in said
        for part in section.parts:
            for phrase in _phrases(part):
                assert _flat(visible(phrase)) in said


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_gets_plain_text(name, diagnoses, replays):
    printed = _printed(diagnoses[name], replays(name))
    assert "\x1b" not in printed
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", printed)
    printed.encode("utf-8")


def test_a_terminal_gets_colours(diagnoses, replays):
    assert "\x1b[" in _printed(diagnoses["scale"], replays("scale"), force_terminal=True)


def test_markup_in_names_is_text(diagnoses, replays):
    assert "\\x1b[31m" in _printed(diagnoses["hostile"], replays("hostile"))


def test_maps_are_letters(diagnoses, replays):
    lines = _printed(diagnoses["scale"], replays("scale")).splitlines()
    assert sum(line.split() == ["..LLL", "..555", "..XXX"] for line in lines) == 3
    assert sum(line.split() == ["...H............", "...4............", "...X............"] for line in lines) == 1


@pytest.mark.parametrize("name", NAMES)
def test_json_is_plain(name, diagnoses):
    found = as_json(diagnoses[name])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_json_of_a_diagnosis(diagnoses):
    found = as_json(diagnoses["scale"])
    assert found["sentence"] == "The scale of the next K group was used."
    assert (found["class"], found["stage"]) == ("scale-order", "scales.layout")
    assert found["explanations"][0]["exact"] is True
    assert found["explanations"][0]["class"] == "scale-order"
    assert found["xray"]["first_divergence"] == 4
    assert found["xray"]["checkpoints"][4]["source"] == {"file": "fused_gemm.py", "line": 118}
    shrunk = found["shrunk"]
    assert (shrunk["shape"], shrunk["nonzero_elements"], shrunk["wrong"]) == ([1, 16, 64], 2, 1)
    assert shrunk["first_wrong"] == {
        "index": [0, 3], "got": 16.0, "got_hex": "0x4180", "expected": 2.0, "expected_hex": "0x4000",
        "certified": True, "steps": 384,
    }  # fmt: skip


def test_every_stage_has_plain_words():
    assert tuple(IN_WORDS) == STAGES
    assert len(set(IN_WORDS.values())) == len(STAGES)


def test_a_report_of_nothing_is_refused():
    with pytest.raises(Exception, match="a report must have a diagnosis or a comparison, not neither"):
        html(None)
