"""The chapters of evidence: the rule, the maps, the x-ray, the compiler."""

from mxassay.triage.diagnosis import Blame, Checkpoint, Diagnosis, XRay
from mxassay.triage.failure import is_call
from mxassay.triage.report.document import (
    Code,
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
from mxassay.triage.report.outputs import Outputs
from mxassay.triage.report.smallest import NO_CALL
from mxassay.triage.report.words import count, sentence, shape_words

_RULE = "Which rule was broken"


def why_none(diagnosis: Diagnosis) -> str:
    """Why there is no x-ray and nobody to blame, as the end of a sentence."""
    if not is_call(diagnosis.failure):
        return ": there is no product to look at"
    return f"; the notes of “{_RULE}” may say why" if diagnosis.notes else ""


def rules(diagnosis: Diagnosis) -> Section:
    """The suspects, what they reproduce, and the notes of triage."""
    notes = tuple(Paragraph(sentence(note)) for note in diagnosis.notes)
    if not diagnosis.explanations:
        none = Paragraph("No known wrong rule gives any of the wrong outputs.", soft=True)
        if notes and not is_call(diagnosis.failure):
            return Section("rule", _RULE, notes)
        return Section("rule", _RULE, (*notes, none) if notes else (none,))
    rows = tuple(
        Row((sentence(x.statement), Code(x.stage), Code(x.class_), f"{x.reproduced:,} of {x.wrong:,}",
             f"{x.spoiled:,}"), Mark.CHOSEN if x.exact else Mark.NONE)
        for x in diagnosis.explanations
    )  # fmt: skip
    told = (
        "Each row is the product under one wrong rule: how many of the wrong outputs it reproduces bit for bit, and "
        "how many right ones it would have spoiled. Marked is what explains every output."
    )
    table = Table(("wrong rule", "stage", "class", "reproduced", "spoiled"), rows, "Wrong rules, best first", (3, 4))
    return Section("rule", _RULE, (*notes, Paragraph(told, soft=True), table))


def wrong_outputs(diagnosis: Diagnosis, came: Outputs | None, small: Outputs | None) -> Section:
    """Counts, rows and columns, and the maps; of the smallest case too where it is another."""
    parts: list[Part] = []
    title = "Where the wrong outputs are"
    if not is_call(diagnosis.failure):
        return Section("maps", title, (Paragraph(NO_CALL),))
    if came is None or not came.count:
        right = "Every output is right; what is wrong stands above."
        return Section("maps", title, (Paragraph("Nothing came out." if came is None else right),))
    rows, columns = where_wrong(came)
    total = came.wrong.numel()
    share = _share(came.count, total)
    facts = (("wrong", f"{came.count:,} of {count(total, 'output')} ({share})"), ("rows", rows), ("columns", columns))
    parts += [
        Facts(facts),
        maps(f"The failing case as it came, {shape_words(diagnosis.failure.operands.shape)}", diagnosis.failure, came),
    ]
    if small is not None and small.count and diagnosis.shrunk.operands.shape != diagnosis.failure.operands.shape:
        parts.append(
            maps(f"The smallest case, {shape_words(diagnosis.shrunk.operands.shape)}", diagnosis.shrunk, small)
        )
    return Section("maps", title, tuple(parts))


def _share(part: int, whole: int) -> str:
    return f"{100 * part // whole} %" if part in (0, whole) else f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def xray_table(xray: XRay | None, why: str) -> Section:
    """The checkpoints in the data's order, the first divergence in full. `why` follows where there is none."""
    title = "X-ray of the code object"
    if xray is None:
        return Section("xray", title, (Paragraph(f"No x-ray was taken{why}."),))
    first = xray.first_divergence
    parts: list[Part] = []
    if first is not None:
        parts.append(Facts(_divergence(first)))
    parts += [Paragraph(sentence(note)) for note in xray.notes]
    rows = tuple(_checkpoint(checkpoint, checkpoint is first) for checkpoint in xray.checkpoints)
    if rows:
        headings = ("stage", "looked at", "wrong", "first wrong value, and what made or used it")
        parts.append(Table(headings, rows, "Values on their way through the kernel, in the data's order", (2,)))
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
    told: list[str | Code] = []
    if x.differing:
        told += [", ".join(x.index), ": " if x.index else "", Code(x.found), ", must be ", Code(x.expected)]
    for made in ([x.instruction.split()[0]] if x.instruction else []) + (
        ["{}:{}".format(*x.source)] if x.source else []
    ):
        told += [", " if told else "", Code(made)]
    return Row((Code(x.stage), x.what, f"{x.differing:,} of {x.compared:,}", tuple(told)), mark)


def _kernel_place(x: Checkpoint) -> str:
    return " ".join(filter(None, [x.kernel, f"+0x{x.pc:x}" if x.pc is not None else ""]))


def _lane_place(x: Checkpoint) -> Words:
    words = [f"{name} {value}" for name, value in (("wave", x.wave), ("lane", x.lane)) if value is not None]
    place = (", " if words else "", Code(x.place)) if x.place else ()
    return (", ".join(words), *place)


def blamed(blame: Blame | None, why: str) -> Section:
    """Source or compiler. `why` as in `xray_table`."""
    title = "Source or compiler"
    if blame is None:
        return Section("blame", title, (Paragraph(f"Not asked{why}."),))
    rows: list[tuple[str, Words]] = [("culprit", blame.culprit)]
    if blame.compiler_stage:
        rows.append(("first stage that differs", Code(blame.compiler_stage)))
    if blame.passing:
        rows.append(("passes with", Code(blame.passing)))
    parts: list[Part] = [Paragraph(sentence(blame.statement)), Facts(tuple(rows))]
    if blame.difference:
        parts.append(Listing(blame.difference, "diff"))
    return Section("blame", title, tuple(parts))
