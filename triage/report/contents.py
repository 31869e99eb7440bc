"""From a diagnosis to the report: which chapters there are, in which order, and what each of them says."""

from dataclasses import dataclass, field

from mxassay.triage.diagnosis import Blame, Checkpoint, Diagnosis, Explanation, XRay
from mxassay.triage.report.document import (
    Code,
    Document,
    Facts,
    Listing,
    Mark,
    Paragraph,
    Part,
    Row,
    Section,
    Table,
    Words,
    plain,
)
from mxassay.triage.report.maps import maps, where_wrong
from mxassay.triage.report.outputs import Outputs, bfloat16_words, outputs_of
from mxassay.triage.report.smallest import nonzero_elements, smallest_case
from mxassay.triage.report.words import STAGES, count, device_words, kernel_words, sentence, shape_words


@dataclass(frozen=True)
class Replay:
    """How to see the failure again.

    Attributes:
        command: for a shell, such as `mxassay replay case.mxcase`.
        script: a Python program that needs nothing else, or "".
        environment: versions and machine, by name.
    """

    command: str = ""
    script: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def document(diagnosis: Diagnosis, replay: Replay | None = None, more: tuple[Section, ...] = ()) -> Document:
    """The report of a diagnosis. `more`: chapters that stand before the last, on how to run it again."""
    replay = replay or Replay()
    failure, shrunk = diagnosis.failure, diagnosis.shrunk
    came, small = outputs_of(failure), outputs_of(shrunk)
    said, certainty = verdict_words(diagnosis)
    chapters = [
        smallest_case(failure, shrunk, small),
        _rules(diagnosis),
        _maps(diagnosis, came, small),
        _xray(diagnosis.xray),
        _blame(diagnosis.blame),
        *more,
        _again(diagnosis, replay),
    ]
    return Document(
        verdict="ERROR" if failure.out is None else "FAIL",
        good=False,
        kernel=f"{kernel_words(failure.subject)} on {device_words(failure.subject)}",
        sentence=said,
        certainty=certainty,
        facts=_first_facts(diagnosis, small or came, replay),
        sections=tuple(chapters),
    )


def verdict_words(diagnosis: Diagnosis) -> tuple[str, str]:
    """What was found, and how sure that is: a sentence each."""
    exact = [explanation for explanation in diagnosis.explanations if explanation.exact]
    divergence = diagnosis.xray.first_divergence if diagnosis.xray else None
    if exact:
        same = f"This rule gives {_all(exact[0].wrong, 'wrong output')} bit for bit, and every right one as well."
        others = len(exact) - 1
        doubt = f" {count(others, 'other rule')} cannot be told apart from it on this case." if others else ""
        return sentence(exact[0].statement), same + doubt
    if diagnosis.failure.out is None:
        return sentence(f"the kernel raised: {_first_line(diagnosis.failure.error)}"), ""
    if diagnosis.failure.error:
        return sentence(_first_line(diagnosis.failure.error)), ""
    nearest = _nearest(diagnosis)
    if divergence is not None:
        return sentence(f"the first wrong value is in {divergence.what}"), nearest
    if diagnosis.blame is not None and diagnosis.blame.culprit != "unknown":
        return sentence(diagnosis.blame.statement), nearest
    return "The outputs are wrong, and no known wrong rule gives them.", nearest


def _nearest(diagnosis: Diagnosis) -> str:
    if not diagnosis.explanations:
        return "No known wrong rule gives any of the wrong outputs."
    best = diagnosis.explanations[0]
    return f"No known wrong rule gives these bits. The nearest, {_reach(best)}: {sentence(best.statement)}"


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
        found = bfloat16_words(outputs.out[i, j])
        rows.append(("First wrong output", (Code(f"out[{i}, {j}]"), " is ", Code(found), ", must be ", Code(must))))
    before, after = nonzero_elements(diagnosis.failure), nonzero_elements(diagnosis.shrunk)
    smaller = f" with {count(after, 'nonzero element')}, shrunk from {shape_words(diagnosis.failure)} with {before:,}"
    rows.append(("Smallest case", (Code(shape_words(diagnosis.shrunk)), smaller)))
    if replay.command:
        rows.append(("Run it again", Code(replay.command)))
    return tuple(rows)


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


def _rules(diagnosis: Diagnosis) -> Section:
    title = "Which rule was broken"
    if not diagnosis.explanations:
        return Section("rule", title, (Paragraph("No known wrong rule gives any of the wrong outputs."),))
    rows = tuple(
        Row(
            (
                sentence(x.statement),
                Code(x.stage),
                Code(x.class_),
                f"{x.reproduced:,} of {x.wrong:,}",
                f"{x.spoiled:,}",
            ),
            Mark.CHOSEN if x.exact else Mark.NONE,
        )
        for x in diagnosis.explanations
    )
    headings = ("wrong rule", "stage", "class", "wrong outputs it gives", "right ones it would spoil")
    told = (
        "Each row is a product computed with one wrong rule. A rule that gives every output of the kernel, "
        "right and wrong, bit for bit, is marked."
    )
    return Section(
        "rule", title, (Paragraph(told, soft=True), Table(headings, rows, "Wrong rules, best first", (3, 4)))
    )


def _maps(diagnosis: Diagnosis, came: Outputs | None, small: Outputs | None) -> Section:
    parts: list[Part] = []
    title = "Where the wrong outputs are"
    if came is None or not came.count:
        said = (
            "Nothing came out."
            if diagnosis.failure.out is None
            else "Every output is right; what is wrong stands above."
        )
        return Section("maps", title, (Paragraph(said),))
    rows, columns = where_wrong(came)
    total = came.wrong.numel()
    share = _share(came.count, total)
    facts = (("wrong", f"{came.count:,} of {count(total, 'output')} ({share})"), ("rows", rows), ("columns", columns))
    parts += [
        Facts(facts),
        maps(f"The failing case as it came, {shape_words(diagnosis.failure)}", diagnosis.failure, came),
    ]
    if small is not None and small.count and diagnosis.shrunk.operands.shape != diagnosis.failure.operands.shape:
        parts.append(maps(f"The smallest case, {shape_words(diagnosis.shrunk)}", diagnosis.shrunk, small))
    return Section("maps", title, tuple(parts))


def _share(part: int, whole: int) -> str:
    return f"{100 * part // whole} %" if part in (0, whole) else f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def _xray(xray: XRay | None) -> Section:
    title = "X-ray of the code object"
    if xray is None:
        return Section("xray", title, (Paragraph("No x-ray was taken; the last chapter says why."),))
    first = xray.first_divergence
    parts: list[Part] = []
    if first is not None:
        parts.append(Facts(_divergence(first)))
    elif xray.checkpoints:
        parts.append(Paragraph("Every value that was looked at is right: the fault shows nowhere before the output."))
    rows = tuple(_checkpoint(checkpoint, checkpoint is first) for checkpoint in xray.checkpoints)
    if rows:
        headings = ("stage", "what was looked at", "wrong", "first wrong value", "made or used by")
        parts.append(Table(headings, rows, "Values on their way through the kernel, in the data's order", (2,)))
    parts += [Paragraph(sentence(note), soft=True) for note in xray.notes]
    return Section("xray", title, tuple(parts))


def _divergence(first: Checkpoint) -> tuple[tuple[str, Words], ...]:
    rows: list[tuple[str, Words]] = [("first divergence", first.what)]
    if first.index:
        rows.append(("at", ", ".join(first.index)))
    if first.expected or first.found:
        rows.append(("found", (Code(first.found), ", must be ", Code(first.expected))))
    if first.instruction:
        rows.append(("instruction", Code(first.instruction)))
    if first.kernel or first.pc is not None:
        rows.append(("kernel", Code(_kernel_place(first))))
    if first.source:
        rows.append(("source", Code("{}:{}".format(*first.source))))
    if plain(place := _lane_place(first)):
        rows.append(("seen in", place))
    return tuple(rows)


def _checkpoint(x: Checkpoint, first: bool) -> Row:
    mark = Mark.FIRST if first else Mark.WRONG if x.differing else Mark.RIGHT
    value: list[str | Code] = []
    if x.differing:
        value += [", ".join(x.index), ": " if x.index else "", Code(x.found), ", must be ", Code(x.expected)]
    source = [", ", Code("{}:{}".format(*x.source))] if x.source else []
    made: list[str | Code] = [Code(x.instruction.split()[0])] if x.instruction else []
    made += source if made else source[1:]
    return Row((Code(x.stage), x.what, f"{x.differing:,} of {x.compared:,}", tuple(value), tuple(made)), mark)


def _kernel_place(x: Checkpoint) -> str:
    return " ".join(filter(None, [x.kernel, f"+0x{x.pc:x}" if x.pc is not None else ""]))


def _lane_place(x: Checkpoint) -> Words:
    words = [f"{name} {value}" for name, value in (("wave", x.wave), ("lane", x.lane)) if value is not None]
    place = (", " if words else "", Code(x.place)) if x.place else ()
    return (", ".join(words), *place)


def _blame(blame: Blame | None) -> Section:
    title = "Source or compiler"
    if blame is None:
        return Section("blame", title, (Paragraph("Not asked; the last chapter says why."),))
    rows: list[tuple[str, Words]] = [("culprit", blame.culprit)]
    if blame.compiler_stage:
        rows.append(("first stage that differs", Code(blame.compiler_stage)))
    if blame.passing:
        rows.append(("passes with", Code(blame.passing)))
    parts: list[Part] = [Paragraph(sentence(blame.statement)), Facts(tuple(rows))]
    if blame.difference:
        parts.append(Listing(blame.difference, "diff"))
    return Section("blame", title, tuple(parts))


def _again(diagnosis: Diagnosis, replay: Replay) -> Section:
    parts: list[Part] = []
    if replay.command:
        parts.append(Listing(replay.command, "console"))
    if replay.script:
        parts.append(Listing(replay.script, "python", "The same as a Python program"))
    if diagnosis.failure.error:
        parts.append(Listing(diagnosis.failure.error, "text"))
    parts += [Paragraph(sentence(note), soft=True) for note in diagnosis.notes]
    facts: list[tuple[str, Words]] = [(name, Code(value)) for name, value in replay.environment.items()]
    facts += [(f"seconds, {step}", f"{seconds:.2f}") for step, seconds in diagnosis.seconds.items()]
    if facts:
        parts.append(Facts(tuple(facts)))
    return Section("again", "Run it again", tuple(parts))
