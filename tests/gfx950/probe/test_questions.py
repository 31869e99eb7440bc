"""Every question: what the emulator answers is what its policy says, and the readings can be told apart."""

import numpy as np
import pytest

from mxassay.errors import ContractError
from mxassay.gfx950 import Options, load_code_object
from mxassay.gfx950.hazards import hazards_of
from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, ask, code_object, contradictions, hypotheses
from mxassay.gfx950.probe.question import REFUSED
from mxassay.gfx950.registry import CERTAIN

SUMMING = ("order", "ties", "small")
INSTRUCTIONS = sorted({identity.rpartition(".")[0] for identity in QUESTIONS if identity.endswith(".order")})


@pytest.mark.parametrize("identity", QUESTIONS)
def test_the_emulator_follows_its_declared_policy(identity, record):
    question, answer = QUESTIONS[identity], record.answers[identity]
    if question.policy == REFUSED:
        assert answer.outputs is None, answer.decoded
        assert answer.refused
    else:
        assert question.policy in answer.readings, (answer.refused, answer.decoded)
        assert answer.stable


def test_no_control_is_contradicted(record):
    assert contradictions(record) == ()
    assert sum(question.status is CERTAIN for question in QUESTIONS.values()) >= 20


@pytest.mark.parametrize("identity", [i for i in QUESTIONS if i.rpartition(".")[2] not in SUMMING])
def test_no_two_readings_predict_the_same(identity):
    predictions = QUESTIONS[identity].predictions
    assert len({outputs.tobytes() for outputs in predictions.values()}) == len(predictions)


def same_products(name):
    """Hypotheses that no product of two E2M1 values, or of float16 and BF8 powers up to 2^30, can tell apart."""
    if name.startswith("block by block") or name == "groups of 32 exact, each rounded into C":
        return "blocks exact"
    for bits in (31, 32):
        for cut in ("toward zero", "down"):
            if name == f"all terms cut {cut} at {bits} bits, then C":
                return "products exact and rounded, then C"
    return name


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_three_questions_tell_the_ways_of_adding_apart(instruction):
    asked = [QUESTIONS[f"{instruction}.{topic}"] for topic in SUMMING]
    by_bits = {}
    for name in asked[0].predictions:
        by_bits.setdefault(b"".join(q.predictions[name].tobytes() for q in asked), set()).add(name)
    for names in by_bits.values():
        assert len({same_products(name) for name in names}) == 1, names
    assert len(by_bits) > 40


def test_the_way_of_adding_is_found_when_the_card_has_another():
    names = [identity for identity in QUESTIONS if identity.rpartition(".")[2] in SUMMING]
    exact = hypotheses(ask(EmulatedCard(), names))
    chain = hypotheses(ask(EmulatedCard(Options(accumulation="sequential-f32")), names))
    cut = hypotheses(ask(EmulatedCard(Options(accumulation="truncating")), names))
    for instruction in INSTRUCTIONS:
        float32 = instruction == "mfma.f32"
        assert exact[instruction] == (
            ("one product after another in float32",) if float32 else ("exact, rounded once",)
        )
        assert "one product after another in float32" in chain[instruction]
        assert "exact, rounded once" not in chain[instruction]
        if instruction not in ("mfma.f32", "mfma.scaled"):
            assert cut[instruction] == ("as MI300X was measured (MMA-Sim)",)


def test_questions_are_complete_and_their_inputs_not_trivial():
    for identity, question in QUESTIONS.items():
        assert identity == question.id
        for text in (question.statement, question.matters, question.sources, question.policy):
            assert text, identity
        assert question.statement.endswith("?")
        assert question.policy == REFUSED or question.policy in question.readings, identity
        assert len(np.unique(question.program.data)) > 1, identity


def test_only_the_hazard_questions_lack_a_wait_state():
    code = load_code_object(code_object())
    assert set(code.kernels) == {question.kernel_name for question in QUESTIONS.values()}
    short = {kernel.name for kernel in code.kernels.values() if hazards_of(kernel, code)}
    assert short == {"cvt_fp4_hazard_0"}


def test_some_questions_alone():
    heard = []
    found = ask(EmulatedCard(), ["cvt.fp4.inf", "start.exec"], heard.append)
    assert heard == list(found.answers) == ["cvt.fp4.inf", "start.exec"]
    with pytest.raises(ContractError, match=r"a question must be one of cvt\.fp4\.finite, .*, not cvt\.fp5"):
        ask(EmulatedCard(), ["cvt.fp5"])
