"""Asks a card every question, and tells two records of answers apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from mxassay.errors import ContractError, MxassayError, UnsupportedError
from mxassay.gfx950.assembler import assemble, module
from mxassay.gfx950.probe import atomics, conversion, floats, functions, lanes, matrix, memory, narrowing, scaled_matrix
from mxassay.gfx950.probe.cards import Card
from mxassay.gfx950.probe.question import REFUSED, UNANSWERED, Question, Words
from mxassay.gfx950.probe.record import Answer, Record
from mxassay.gfx950.registry import CERTAIN

__all__ = ["QUESTIONS", "Difference", "ask", "code_object", "compare", "contradictions", "hypotheses"]

_TOPICS = (conversion, narrowing, scaled_matrix, matrix, floats, functions, memory, atomics, lanes)
QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {question.id: question for topic in _TOPICS for question in topic.QUESTIONS}
)
"""Every question by id, in the order in which they are asked."""
_TIMES = 2  # an answer that isn't the same again is no answer
_SHOWN = 6


@cache
def code_object() -> bytes:
    """The one code object that holds every question's kernel. Assembled once in a process."""
    return assemble(module(*(question.program.kernel(question.kernel_name) for question in QUESTIONS.values())))


def ask(card: Card, identities: Iterable[str] | None = None, told: Callable[[str], None] | None = None) -> Record:
    """The card's answers, each question asked twice. `identities`: some questions; all when left out. `told` hears the
    id of each question before it is asked.

    Raises:
        ContractError: an id that no question has.

    >>> from mxassay.gfx950.probe.cards import EmulatedCard
    >>> ask(EmulatedCard(), ["cvt.fp4.nan"]).answers["cvt.fp4.nan"].readings
    ('saturates with its sign',)
    """
    chosen = list(QUESTIONS) if identities is None else list(identities)
    unknown = [identity for identity in chosen if identity not in QUESTIONS]
    if unknown:
        raise ContractError(f"a question must be one of {', '.join(QUESTIONS)}, not {unknown[0]}")
    answers = {}
    for identity in chosen:
        if told is not None:
            told(identity)
        answers[identity] = _answer(card, QUESTIONS[identity])
    return Record(card.kind, dict(card.environment()), answers)


def _answer(card: Card, question: Question) -> Answer:
    heard: list[Words] = []
    refused = None
    try:
        heard = [_run(card, question) for _ in range(_TIMES)]
    except UnsupportedError as error:
        refused = getattr(error, "why", None) or str(error)
    except MxassayError as error:
        refused = f"{type(error).__name__}: {str(error).split(' (wave')[0]}"
    outputs = heard[0] if heard else None
    return Answer(
        question.statement, question.digest, question.status.value, question.policy, outputs,
        question.readings_of(outputs) if outputs is not None else (),
        _decoded(question, outputs) if outputs is not None else (),
        all(np.array_equal(other, heard[0]) for other in heard), refused,
    )  # fmt: skip


def _run(card: Card, question: Question) -> Words:
    inputs = question.program.data.copy()
    outputs = np.full((*inputs.shape[:2], question.program.out_words), UNANSWERED, np.uint32)
    card.run(code_object(), question.kernel_name, (len(inputs), 1, 1), question.program.block, [inputs, outputs])
    return outputs


def _decoded(question: Question, outputs: Words) -> tuple[str, ...]:
    """The first outputs beside their inputs; where the policy predicts others, the first that differ."""
    predicted = question.predictions.get(question.policy)
    where = np.argwhere(outputs != predicted) if predicted is not None else np.argwhere(np.ones_like(outputs))
    lines = []
    if predicted is not None and len(where):
        lines.append(f"{len(where)} of {outputs.size} words are not what `{question.policy}` predicts")
    if not len(where):
        where = np.argwhere(np.ones_like(outputs))
    for wave, lane, word in where[:_SHOWN]:
        inputs = " ".join(f"{int(value):08x}" for value in question.program.data[wave, lane])
        expected = ""
        if predicted is not None and predicted[wave, lane, word] != outputs[wave, lane, word]:
            expected = f", predicted {_shown(question, predicted[wave, lane, word])}"
        got = _shown(question, outputs[wave, lane, word])
        lines.append(f"wave {wave} lane {lane} word {word}: {got}{expected} from {inputs}")
    return tuple(lines)


def _shown(question: Question, word: np.uint32) -> str:
    text = f"{int(word):#010x}"
    return f"{text} ({np.uint32(word).view(np.float32)!s})" if question.shows == "f32" else text


@dataclass(frozen=True, slots=True)
class Difference:
    """One question that two cards answered differently, or that only one answered.

    `settles` says, for people, which policy of the emulator the newer answer confirms or refutes.
    """

    id: str
    before: str
    after: str
    settles: str

    def text(self) -> str:
        return f"{self.id}\n  before  {self.before}\n  now     {self.after}\n  {self.settles}"


def compare(old: Record, new: Record) -> tuple[Difference, ...]:
    """What `new` says otherwise than `old`, by question. Answers to different code or inputs are told as such."""
    found = []
    for identity in dict.fromkeys([*old.answers, *new.answers]):
        before, after = old.answers.get(identity), new.answers.get(identity)
        if before is not None and after is not None and _same(before, after):
            continue
        found.append(Difference(identity, _told(before), _told(after), _settled(identity, before, after)))
    return tuple(found)


def _same(before: Answer, after: Answer) -> bool:
    if before.digest != after.digest or before.stable != after.stable:
        return False
    if before.outputs is None or after.outputs is None:
        return before.outputs is after.outputs and before.refused == after.refused
    return np.array_equal(before.outputs, after.outputs)


def _told(answer: Answer | None) -> str:
    if answer is None:
        return "not asked"
    if answer.outputs is None:
        return f"no answer: {answer.refused}"
    stable = "" if answer.stable else " (not the same when asked again)"
    if answer.readings:
        return " = ".join(answer.readings[:3]) + (" = ..." if len(answer.readings) > 3 else "") + stable
    return f"none of the readings{stable}; {'; '.join(answer.decoded[:3])}"


def _settled(identity: str, before: Answer | None, after: Answer | None) -> str:
    question = QUESTIONS.get(identity)
    if question is None or after is None or after.outputs is None:
        return "settles nothing"
    if before is not None and before.digest != after.digest:
        return "settles nothing: the question itself changed between the two"
    if after.digest != question.digest:
        return "settles nothing: this version asks with other code or inputs"
    if not after.stable:
        return f"the policy `{question.policy}` can't be settled by an answer that changes"
    if question.status is CERTAIN and question.policy not in after.readings:
        return f"contradicts what is held for certain: {question.policy}; look at the probe and the driver first"
    if question.policy == REFUSED:
        return f"settles what the emulator refuses to guess: {_told(after)}"
    if question.policy in after.readings:
        return f"confirms the policy `{question.policy}`"
    return f"refutes the policy `{question.policy}`: {_told(after)}"


def contradictions(record: Record) -> tuple[str, ...]:
    """The controls (questions whose answer is certain) that the card answered otherwise, or refused."""
    return tuple(
        identity
        for identity, answer in record.answers.items()
        if identity in QUESTIONS
        and QUESTIONS[identity].status is CERTAIN
        and QUESTIONS[identity].policy not in answer.readings
    )


def hypotheses(record: Record) -> Mapping[str, tuple[str, ...]]:
    """For each matrix instruction the ways of adding that give all of its answers."""
    found: dict[str, list[Sequence[str]]] = {}
    for identity, answer in record.answers.items():
        instruction, _, topic = identity.rpartition(".")
        if topic in ("order", "ties", "small") and answer.outputs is not None:
            found.setdefault(instruction, []).append(answer.readings)
    return {
        instruction: tuple(name for name in answers[0] if all(name in other for other in answers))
        for instruction, answers in found.items()
    }
