"""From a diagnosis to the report: which chapters there are, in which order, and what each of them says."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mxassay.errors import ContractError
from mxassay.triage.diagnosis import Diagnosis, Explanation
from mxassay.triage.failure import is_call
from mxassay.triage.report.comparing import cases, instructions, versions_fact
from mxassay.triage.report.document import (
    Code,
    Document,
    Facts,
    Listing,
    Paragraph,
    Part,
    Section,
    Words,
)
from mxassay.triage.report.evidence import blamed, rules, why_none, wrong_outputs, xray_table
from mxassay.triage.report.outputs import Outputs, bfloat16_words, outputs_of
from mxassay.triage.report.smallest import came_from, nonzero_elements, smallest_case
from mxassay.triage.report.words import JUDGES, STAGES, count, device_words, kernel_words, sentence, shape_words

if TYPE_CHECKING:
    from mxassay.triage.versions.compare import Compared


@dataclass(frozen=True)
class Replay:
    """How to see the failure again.

    Attributes:
        command: for a shell, such as `mxassay replay case.mxcase`.
        script: a Python program that needs nothing else, or "".
        case: the text of the case file, or "".
        environment: versions and machine, by name.
    """

    command: str = ""
    script: str = ""
    case: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def document(diagnosis: Diagnosis | None, compared: "Compared | None" = None, replay: Replay | None = None) -> Document:
    """The report of a diagnosis, of a comparison of two versions, or of both."""
    replay = replay or Replay()
    if diagnosis is None:
        if compared is None:
            raise ContractError("a report must have a diagnosis or a comparison, not neither")
        return _of_comparison(compared, replay)
    failure, shrunk = diagnosis.failure, diagnosis.shrunk
    came, small = outputs_of(failure), outputs_of(shrunk)
    said, certainty = verdict_words(diagnosis)
    facts = _first_facts(diagnosis, small or came, replay)
    chapters = [
        smallest_case(failure, shrunk, small),
        rules(diagnosis),
        wrong_outputs(diagnosis, came, small),
        xray_table(diagnosis.xray, why_none(diagnosis)),
        blamed(diagnosis.blame, why_none(diagnosis)),
    ]
    if compared is not None:
        chapters += [cases(compared), instructions(compared)]
        facts = (versions_fact(compared), *facts)
    return Document(
        verdict="FAIL",
        good=False,
        kernel=f"{kernel_words(failure.subject)} on {device_words(failure.subject.device)}",
        sentence=said,
        certainty=certainty,
        facts=facts,
        sections=(*chapters, _again(diagnosis, replay)),
    )


def _of_comparison(compared: "Compared", replay: Replay) -> Document:
    comparison = compared.comparison
    facts = [versions_fact(compared)]
    if replay.command:
        facts.append(("Run it again", Code(replay.command)))
    return Document(
        verdict=comparison.change.value.upper(),
        good=not comparison.wrong,
        kernel=compared.candidate.name,
        sentence=sentence(comparison.words),
        certainty="The candidate is worse than the base."
        if comparison.wrong
        else "The candidate is no worse than the base.",
        facts=tuple(facts),
        sections=(cases(compared), instructions(compared), _replaying(replay, [])),
    )


def verdict_words(diagnosis: Diagnosis) -> tuple[str, str]:
    """What was found, and how sure that is: a sentence each; the second may be ""."""
    exact = [explanation for explanation in diagnosis.explanations if explanation.exact]
    divergence = diagnosis.xray.first_divergence if diagnosis.xray else None
    if exact and diagnosis.stage not in JUDGES:
        return sentence(exact[0].statement), _sure(diagnosis, exact)
    if diagnosis.statement and diagnosis.stage in JUDGES:
        return sentence(f"not the kernel is wrong but what judges it: {diagnosis.statement}"), ""
    if diagnosis.statement:
        return sentence(
            diagnosis.statement
        ), f"Seen with that stage by itself, {STAGES.get(diagnosis.stage or '', '')}."
    if diagnosis.failure.error:
        nothing = "no output came: " if diagnosis.failure.out is None else ""
        return sentence(nothing + _first_line(diagnosis.failure.error)), ""
    nearest = _nearest(diagnosis)
    if divergence is not None:
        return sentence(f"the first wrong value is in {divergence.what}"), nearest
    if diagnosis.blame is not None and diagnosis.blame.culprit == "compiler":
        return sentence(diagnosis.blame.statement), nearest
    if diagnosis.xray is not None and diagnosis.xray.checkpoints:
        return "The outputs are wrong, and yet every value looked at in the code object is right.", nearest
    return "The outputs are wrong by no rule that is known.", nearest


def _sure(diagnosis: Diagnosis, exact: list[Explanation]) -> str:
    first = exact[0]
    same = f"This rule gives {_all(first.reproduced, 'wrong output')} bit for bit, and every right one as well."
    if first.open:
        open_ = count(first.open, "other", "others")
        same = (
            f"This rule gives {first.reproduced:,} of {first.wrong:,} wrong outputs bit for bit, and every right one "
            f"as well; its bound allows the {open_}, and is wide."
        )
    alike = sum((one.class_, one.stage) == (exact[0].class_, exact[0].stage) for one in exact[1:])
    others = len(exact) - 1 - alike
    if others:
        doubt = "the notes say what tells them apart" if diagnosis.notes else "this case does not tell them apart"
        return f"{same} So {_do(others)} {count(others, 'rule')} of another stage or class; {doubt}."
    return f"{same} So {_do(alike)} {count(alike, 'other rule')} of the same stage and class." if alike else same


def _do(number: int) -> str:
    return "does" if number == 1 else "do"


def _nearest(diagnosis: Diagnosis) -> str:
    if not diagnosis.explanations:
        return "No known wrong rule gives any of the wrong outputs."
    best = diagnosis.explanations[0]
    return f"No known wrong rule gives these bits. The nearest gives {_reach(best)}: {sentence(best.statement)}"


def _reach(explanation: Explanation) -> str:
    spoiled = f" at the price of {explanation.spoiled:,} right ones" if explanation.spoiled else ""
    return f"{explanation.reproduced:,} of {count(explanation.wrong, 'wrong output')}{spoiled}"


def _all(number: int, noun: str) -> str:
    return f"the only {noun}" if number == 1 else f"all {number:,} {noun}s"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[0]


def _first_facts(diagnosis: Diagnosis, outputs: Outputs | None, replay: Replay) -> tuple[tuple[str, Words], ...]:
    rows: list[tuple[str, Words]] = [("Where", _where(diagnosis))]
    if outputs is not None and outputs.first is not None:
        i, j = outputs.first
        must = bfloat16_words(outputs.expectation.exact[i, j])
        rows.append(first_wrong((i, j), bfloat16_words(outputs.out[i, j]), must))
    if not is_call(diagnosis.failure):
        return (*rows, ("Run it again", Code(replay.command))) if replay.command else tuple(rows)
    after, came = nonzero_elements(diagnosis.shrunk), came_from(diagnosis.failure, diagnosis.shrunk)
    smaller = f" with {count(after, 'nonzero element')}" + (f", shrunk from {came}" if came else ", as it came")
    rows.append(("Smallest case", (Code(shape_words(diagnosis.shrunk.operands.shape)), smaller)))
    if replay.command:
        rows.append(("Run it again", Code(replay.command)))
    return tuple(rows)


def first_wrong(index: tuple[int, int], found: str, must: str) -> tuple[str, Words]:
    """The row of facts that names an output and its two values."""
    i, j = index
    return "First wrong output", (Code(f"out[{i}, {j}]"), " is ", Code(found), ", must be ", Code(must))


def _where(diagnosis: Diagnosis) -> Words:
    stage = diagnosis.stage
    words: list[str | Code] = (
        ["no stage is known"] if stage is None else [STAGES.get(stage, stage), " (", Code(stage), ")"]
    )
    divergence = diagnosis.xray.first_divergence if diagnosis.xray else None
    if divergence is not None and divergence.instruction:
        words += [", at ", Code(divergence.instruction.split()[0])]
    if divergence is not None and divergence.source:
        words += [", ", Code("{}:{}".format(*divergence.source))]
    return tuple(words)


def _again(diagnosis: Diagnosis, replay: Replay) -> Section:
    error = diagnosis.failure.error
    parts: list[Part] = [Listing(error, "text")] if error and error != diagnosis.statement else []
    if diagnosis.seconds:
        spent = ", ".join(f"{step} {seconds:.2f}" for step, seconds in diagnosis.seconds.items())
        parts.append(Paragraph(f"Seconds of triage: {spent}.", soft=True))
    return _replaying(replay, parts)


def _replaying(replay: Replay, more: list[Part]) -> Section:
    parts: list[Part] = [Listing(replay.command, "console")] if replay.command else []
    if replay.script:
        parts.append(Listing(replay.script, "python", "The same as a Python program"))
    if replay.case:
        parts.append(Listing(replay.case, "text", "The case file, to be saved under that name"))
    if replay.environment:
        parts.append(Facts(tuple((name, Code(value)) for name, value in replay.environment.items())))
    return Section("again", "Run it again", (*parts, *more))
