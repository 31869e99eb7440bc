"""Pins: the emulator takes on each behaviour of a card, from a real card's record alone."""

import pytest

from mxassay.errors import ContractError
from mxassay.gfx950 import Options
from mxassay.gfx950.pins import PINNABLE, Pins
from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, ask, pins_of

EVERY = [(identity, reading) for identity, readings in PINNABLE.items() for reading in readings]
SUMMING = [identity for identity in QUESTIONS if identity.rpartition(".")[2] in ("order", "ties", "small")]


@pytest.mark.parametrize(("identity", "reading"), EVERY)
def test_the_emulator_takes_on_each_behaviour(identity, reading):
    card = EmulatedCard(Options(pins=Pins(((identity, reading),))))
    assert reading in ask(card, [identity]).answers[identity].readings


@pytest.mark.parametrize("identity", PINNABLE)
def test_every_reading_of_a_pinnable_question_can_be_pinned(identity):
    assert set(PINNABLE[identity]) == set(QUESTIONS[identity].readings)


def test_pins_leave_what_is_certain_alone():
    pins = Pins(tuple((identity, readings[-1]) for identity, readings in PINNABLE.items()))
    asked = ["cvt.fp4.finite", "cvt.fp4.scale_bits", "cvt.fp4.byte_2", "cvt.fp4.exec"]
    for identity, answer in ask(EmulatedCard(Options(pins=pins)), asked).answers.items():
        assert QUESTIONS[identity].policy in answer.readings, (identity, answer.decoded)


def test_a_cards_answers_become_pins_and_the_emulator_then_answers_alike(planted, tmp_path):
    behaviours = {
        "cvt.fp4.nan": "becomes plus 6",
        "cvt.fp4.scale_255": "leaves the byte alone",
        "cvt.fp4.denormal": "flushed with the sign",
    }
    card = planted(behaviours)
    found = pins_of(ask(card))
    assert found.open == {}
    assert dict(found.pins.readings) == {**{i: QUESTIONS[i].policy for i in PINNABLE}, **behaviours}
    assert found.pins.accumulation == "exact"
    found.pins.write(tmp_path / "pins.json")
    again = Pins.read(tmp_path / "pins.json")
    assert again == found.pins
    answers = ask(EmulatedCard(Options(pins=again)), list(PINNABLE)).answers
    heard = ask(card, list(PINNABLE)).answers
    assert all((answers[i].outputs == heard[i].outputs).all() for i in PINNABLE)


def test_the_way_of_adding_is_pinned_when_all_instructions_agree(planted):
    class Chain(planted):
        def __init__(self):
            super().__init__()
            self.emulated = EmulatedCard(Options(accumulation="sequential-f32"))

    assert pins_of(ask(Chain(), SUMMING)).pins.accumulation == "sequential-f32"
    mixed = planted({"mfma.bf16.small": "one product after another in float32"})
    found = pins_of(ask(mixed, SUMMING))
    assert found.pins.accumulation is None
    assert found.open["accumulation"] == "no one model gives the answers of every matrix instruction"


def test_what_cannot_be_pinned_says_why(planted):
    class Odd(planted):
        def run(self, code, kernel, grid, block, args):
            super().run(code, kernel, grid, block, args)
            if kernel == "cvt_fp4_inf":
                args[1][:] = 9

    found = pins_of(ask(Odd(noise=["cvt.fp4.nan"]), ["cvt.fp4.nan", "cvt.fp4.inf"]))
    assert found.pins == Pins()
    assert found.open["cvt.fp4.nan"] == "the answer changes"
    assert found.open["cvt.fp4.inf"] == "no behaviour that the emulator has gives these bits"
    assert found.open["cvt.fp4.scale_0"] == "no answer"


def test_an_emulated_cards_answers_pin_nothing(record):
    with pytest.raises(ContractError, match="pins must come from a real card's answers, not from the emulated one's"):
        pins_of(record)


def test_a_card_that_contradicts_a_control_pins_nothing(planted):
    record = ask(planted({"lanes.dpp_source_off_0": "0"}), ["lanes.dpp_source_off_0", "cvt.fp4.nan"])
    with pytest.raises(ContractError, match=r"the controls must be answered as is certain.*lanes\.dpp_source_off_0"):
        pins_of(record)


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (
            ("cvt.fp4.finite", "x"),
            r"a pinned question must be one of cvt\.fp4\.negative_zero, .*, not cvt\.fp4\.finite",
        ),
        (("cvt.fp4.nan", "x"), r"the pin of cvt\.fp4\.nan must be one of saturates with its sign; .*; not x"),
    ],
)
def test_unknown_pins_are_refused(pin, message):
    with pytest.raises(ContractError, match=message):
        Pins((pin,))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2, "pinned": {}, "accumulation": null}', "1"])
def test_files_that_hold_no_pins_are_refused(tmp_path, text):
    (tmp_path / "pins.json").write_text(text)
    with pytest.raises(ContractError, match="the pins must"):
        Pins.read(tmp_path / "pins.json")
