"""Records of answers: as JSON and back, damaged files, and what a difference between two cards settles."""

import json

import numpy as np
import pytest

from mxassay.errors import ContractError
from mxassay.gfx950.probe import QUESTIONS, Answer, EmulatedCard, Record, ask, compare, contradictions

SOME = ("cvt.fp4.nan", "cvt.fp4.scale_sgpr", "cvt.fp4.finite", "start.exec", "lds.outside")


@pytest.fixture
def some():
    return ask(EmulatedCard(), SOME)


def test_a_written_record_is_read_back_whole(some, tmp_path):
    path = tmp_path / "probe.json"
    some.write(path)
    again = Record.read(path)
    assert (again.kind, again.environment, list(again.answers)) == (
        "emulated",
        {"device": "emulated gfx950"},
        list(SOME),
    )
    for identity, answer in some.answers.items():
        other = again.answers[identity]
        if answer.outputs is None:
            assert other == answer
        else:
            assert other.outputs.shape == answer.outputs.shape
            assert (other.outputs == answer.outputs).all()
            assert (other.readings, other.decoded, other.digest) == (answer.readings, answer.decoded, answer.digest)
    assert compare(some, again) == ()


def test_the_bytes_in_the_file_are_the_outputs_little_endian(some):
    short = some.answers["start.exec"].as_json()
    assert (short["encoding"], short["shape"]) == ("zlib+base64", [1, 64, 2])
    tiny = Answer("?", "d", "unknown", "p", np.array([[[1, 0xA0B0C0D0]]], np.uint32)).as_json()
    assert (tiny["encoding"], tiny["bytes"]) == ("hex", "01000000d0c0b0a0")
    # By another tool: printf '\\x01\\x00\\x00\\x00\\xd0\\xc0\\xb0\\xa0' | sha256sum
    assert tiny["sha256"] == "aabc9eaf67f7d10ab049084b53cd1726ef27767d91654b0052c8145a94ec338c"


def damaged(document, how):
    answer = document["answers"]["cvt.fp4.nan"]
    if how == "other bytes":
        other = document["answers"]["cvt.fp4.finite"]
        answer["bytes"], answer["shape"] = other["bytes"], other["shape"]
    elif how == "no base64":
        answer["bytes"] = "?" + answer["bytes"]
    elif how == "another shape":
        answer["shape"] = [1, 64, 1]
    elif how == "no readings":
        del answer["readings"]
    elif how == "another schema":
        document["schema_version"] = 2
    elif how == "no answers":
        del document["answers"]
    return document


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("other bytes", "the bytes of cvt.fp4.nan must have the file's sha256; the file is damaged"),
        ("no base64", "the answer cvt.fp4.nan must be one that mxassay probe wrote, not this"),
        ("another shape", "the answer cvt.fp4.nan must be one that mxassay probe wrote, not this"),
        ("no readings", "the answer cvt.fp4.nan must be one that mxassay probe wrote, not this"),
        ("another schema", "the probe file must have schema_version 1, not that of"),
        ("no answers", "the probe file must hold a device and its answers, not those of"),
    ],
)
def test_a_damaged_file_is_refused_by_name(some, tmp_path, how, message):
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(damaged(some.as_json(), how)))
    with pytest.raises(ContractError) as refusal:
        Record.read(path)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("text", ["", "[]", "{}", '"x"', "{"])
def test_any_other_file_is_refused(tmp_path, text):
    path = tmp_path / "probe.json"
    path.write_text(text)
    with pytest.raises(ContractError, match="the probe file must"):
        Record.read(path)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(ContractError, match="the probe file must be readable"):
        Record.read(tmp_path / "none.json")


def settled(planted, readings, noise=(), identities=None):
    asked = identities or list(readings) + list(noise)
    (difference,) = compare(ask(EmulatedCard(), asked), ask(planted(readings, noise), asked))
    return difference


def test_another_reading_refutes_the_policy(planted):
    found = settled(planted, {"cvt.fp4.nan": "becomes plus 6"})
    assert (found.id, found.before, found.after) == ("cvt.fp4.nan", "saturates with its sign", "becomes plus 6")
    assert found.settles == "refutes the policy `saturates with its sign`: becomes plus 6"


def test_an_answer_where_the_emulator_refuses_settles_it(planted):
    found = settled(planted, {"cvt.fp4.scale_inline_1_0": "2^0"})
    assert found.before == "no answer: a scale that is not in a VGPR (the card reads other bits then)"
    assert (found.after, found.settles) == ("2^0", "settles what the emulator refuses to guess: 2^0")


def test_another_answer_to_a_control_is_a_contradiction(planted):
    asked = ["cvt.fp4.byte_1", "lanes.dpp_source_off_0"]
    record = ask(planted({"lanes.dpp_source_off_0": "0"}), asked)
    assert contradictions(record) == ("lanes.dpp_source_off_0",)
    (found,) = compare(ask(EmulatedCard(), asked), record)
    assert found.settles.startswith("contradicts what is held for certain: the old value stays")


def test_an_answer_that_changes_settles_nothing(planted):
    found = settled(planted, {}, ["cvt.fp4.nan"])
    assert "not the same when asked again" in found.after
    assert found.settles == "the policy `saturates with its sign` can't be settled by an answer that changes"


def test_bits_that_no_reading_gives_are_shown(planted):
    class Other(planted):
        def run(self, code, kernel, grid, block, args):
            args[1][:] = 7

    asked = ["cvt.fp4.inf"]
    (found,) = compare(ask(EmulatedCard(), asked), ask(Other(), asked))
    assert found.after.startswith(
        "none of the readings; 512 of 512 words are not what `saturates with its sign` predicts"
    )
    assert "0x00000007, predicted 0xa5c3e177 from 7f807f80 00800000 a5c3e17b" in found.after


def test_a_question_that_changed_is_not_compared(some):
    answers = dict(some.answers)
    old = answers["cvt.fp4.nan"]
    answers["cvt.fp4.nan"] = Answer(old.question, "0" * 16, old.status, old.policy, old.outputs, old.readings)
    (found,) = compare(Record("mi355x", {}, answers), some)
    assert found.settles == "settles nothing: the question itself changed between the two"


def test_questions_asked_of_one_card_only_are_named(some):
    fewer = some.chosen(SOME[:-1])
    (gone,), (new,) = compare(some, fewer), compare(fewer, some)
    assert (gone.id, gone.after, gone.settles) == ("lds.outside", "not asked", "settles nothing")
    assert new.before == "not asked"


def test_digests_follow_code_and_inputs():
    digests = {question.digest for question in QUESTIONS.values()}
    assert len(digests) == len(QUESTIONS)
    assert all(len(digest) == 16 for digest in digests)
