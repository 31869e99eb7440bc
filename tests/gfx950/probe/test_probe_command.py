"""`mxassay probe`: files written and compared, exit codes, JSON."""

import argparse
import json

import pytest

from mxassay.commands import probe
from mxassay.errors import ContractError, UnsupportedError
from mxassay.gfx950.pins import Pins
from mxassay.gfx950.probe import QUESTIONS, Record, why_no_card


def run(**given):
    options = {
        "device": "emulated",
        "out": None,
        "compare": None,
        "pins": None,
        "only": ["cvt.fp4"],
        "list": False,
        "json": False,
    }
    return probe.run(argparse.Namespace(**{**options, **given}))


def test_answers_are_written_and_shown(tmp_path, capsys):
    assert run(out=str(tmp_path / "probe.json")) == 0
    text = capsys.readouterr().out
    asked = [identity for identity in QUESTIONS if identity.startswith("cvt.fp4.")]
    assert list(Record.read(tmp_path / "probe.json").answers) == asked
    for identity in asked:
        assert identity in text
    assert f"{len(asked) - 4} of {len(asked)} questions answered by emulated gfx950" in text
    assert f"answers written to {tmp_path / 'probe.json'}" in text


def test_one_id_and_a_beginning_choose_in_the_usual_order(tmp_path):
    run(only=["start.m0", "lanes", "cvt.fp4.nan"], out=str(tmp_path / "p.json"))
    names = list(Record.read(tmp_path / "p.json").answers)
    assert names[0] == "cvt.fp4.nan"
    assert names[-1] == "start.m0"
    assert all(name.startswith("lanes.") for name in names[1:-1])
    assert len(names) > 8


def test_the_same_card_has_no_differences(tmp_path, capsys):
    path = str(tmp_path / "probe.json")
    run(out=path)
    assert run(out=path, compare=path) == 0
    assert f"no differences from {path}" in capsys.readouterr().out


def test_a_real_cards_other_answer_fails_and_says_what_it_settles(tmp_path, capsys, planted, monkeypatch):
    path = tmp_path / "old.json"
    run(only=None, out=str(path))
    card = planted({"cvt.fp4.nan": "becomes plus 6"})
    monkeypatch.setattr(probe, "_card", lambda name: card)
    capsys.readouterr()
    assert run(only=None, device="mi355x", compare=str(path), pins=str(tmp_path / "pins.json")) == 1
    text = capsys.readouterr().out
    assert f"1 differences from {path}" in text
    assert "refutes the policy `saturates with its sign`: becomes plus 6" in text
    assert dict(Pins.read(tmp_path / "pins.json").readings)["cvt.fp4.nan"] == "becomes plus 6"


def test_a_contradicted_control_fails(capsys, planted, monkeypatch):
    monkeypatch.setattr(probe, "_card", lambda name: planted({"lanes.dpp_source_off_0": "0"}))
    assert run(only=["lanes"], device="mi355x") == 1
    assert "contradicts what is certain: lanes.dpp_source_off_0" in capsys.readouterr().out


def test_json_is_one_document(capsys):
    assert run(json=True, only=["mfma.f32"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["command"], document["verdict"]) == (1, "probe", "PASS")
    assert (document["device"], document["card"]) == ("emulated", {"device": "emulated gfx950"})
    assert document["hypotheses"] == {"mfma.f32": ["one product after another in float32"]}
    assert document["differences"] == document["contradictions"] == []
    assert set(document["answers"]) == {i for i in QUESTIONS if i.startswith("mfma.f32.")}
    assert {"torch", "mxassay"} <= set(document["environment"])


def test_questions_are_listed(capsys):
    assert run(list=True, only=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(QUESTIONS)
    assert "unknown" in next(line for line in lines if line.startswith("cvt.fp4.nan"))


def test_an_unknown_question_or_device_is_a_usage_error():
    with pytest.raises(ContractError, match=r"a question must be one that --list shows, .*, not cvt\.fp5"):
        run(only=["cvt.fp5"])
    with pytest.raises(ContractError, match="device must be one of emulated, mi355x, not cuda"):
        run(device="cuda")


def test_pins_of_the_emulated_card_are_refused(tmp_path):
    with pytest.raises(ContractError, match="pins must come from a real card's answers"):
        run(pins=str(tmp_path / "pins.json"))


@pytest.mark.skipif(why_no_card() is None, reason="this machine has a HIP device")
def test_without_a_card_the_reason_is_told():
    with pytest.raises(UnsupportedError, match=r"libamdhip64\.so must be on the loader's path|the HIP device must be"):
        run(device="mi355x")
