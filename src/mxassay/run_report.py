"""`mxassay check --report`: a run as one page, with the diagnosis of its first failing case."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from mxassay.cases import Case
from mxassay.devices import Device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.kernels import Kernel, Shape
from mxassay.suite import PropertyRecord, suite_verdict
from mxassay.terminal import failure_report, share
from mxassay.triage.diagnosis import Diagnosis
from mxassay.triage.failure import Subject
from mxassay.triage.report.contents import document, first_wrong
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
)
from mxassay.triage.report.page import page
from mxassay.triage.report.words import count, device_words, shape_words
from mxassay.triage.rerun import fails
from mxassay.triaging import called, diagnosed, replay_of
from mxassay.verdicts import CaseRecord, Verdict, worst

_MARKS = {Verdict.PASS: Mark.RIGHT, Verdict.FAIL: Mark.WRONG, Verdict.ERROR: Mark.WRONG, Verdict.UNSUPPORTED: Mark.NONE}

_VERBS = {
    Verdict.FAIL: ("fails", "fail"),
    Verdict.ERROR: ("raises an error", "raise an error"),
    Verdict.UNSUPPORTED: ("can't be run", "can't be run"),
    Verdict.PASS: ("passes", "pass"),
}


@dataclass(frozen=True)
class Found:
    """What became of the search for the cause of the first failing case.

    Attributes:
        diagnosis: None where nothing fails, or where `why` says why there is none.
    """

    diagnosis: Diagnosis | None = None
    why: str = ""


def found_out(
    checked: Iterable[tuple[Kernel, Case, CaseRecord]],
    device: Device,
    takes: Shape,
    subject: Callable[[Kernel], Subject],
) -> Found:
    """The diagnosis of the first case that fails, else of the first that raises.

    The kernels must still be open. `takes`: the multiples that M, N and K must be of. `subject`: how to open a kernel
    again.
    """
    failed = [entry for entry in checked if entry[2].verdict in (Verdict.FAIL, Verdict.ERROR)]
    if not failed:
        return Found()
    kernel, case, _ = min(failed, key=lambda entry: entry[2].verdict is not Verdict.FAIL)
    try:
        failure, under_test = called(kernel, case, device, takes, subject(kernel))
        if not fails(failure) and not failure.error:
            return Found(why="The case did not fail when it was run again, so no cause was looked for.")
        return Found(diagnosed(failure, under_test))
    except Exception as error:  # the verdicts must not be lost with the cause
        return Found(why=f"The search for the cause broke off: {type(error).__name__}: {error}")


def write(
    place: Path,
    records: list[CaseRecord],
    properties: list[PropertyRecord],
    found: Found | None = None,
) -> None:
    """Write the page.

    Raises ContractError where the file can't be written.
    """
    text = page(run_document(records, properties, found or Found()))
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ContractError(f"--report must be a file that can be written, not {place}: {error.strerror}") from error


def run_document(records: list[CaseRecord], properties: list[PropertyRecord], found: Found) -> Document:
    """The report of a run."""
    verdicts = [record.verdict for record in records] + ([suite_verdict(properties)] if properties else [])
    verdict = worst(verdicts)
    chapters = [_cases(records), *([_properties(properties)] if properties else [])]
    if found.diagnosis is not None:
        told = document(found.diagnosis, replay=replay_of(found.diagnosis.shrunk))
        ran = ("Cases", _summary(records))
        return replace(told, verdict=verdict.value, facts=(*told.facts, ran), sections=(*chapters, *told.sections))
    failed = [record for record in records if record.verdict is not Verdict.PASS]
    if failed:
        chapters.append(_failures(failed, found.why))
    return Document(
        verdict=verdict.value,
        good=verdict is Verdict.PASS,
        kernel=", ".join(dict.fromkeys(f"{record.kernel} on {device_words(record.device)}" for record in records)),
        sentence=_sentence(records, properties),
        certainty=_certainty(records),
        facts=_facts(failed),
        sections=(*chapters, _again(failed or records)),
    )


def _sentence(records: list[CaseRecord], properties: list[PropertyRecord]) -> str:
    failing = [p for p in properties if p.verdict in (Verdict.FAIL, Verdict.ERROR)]
    if failing and all(record.verdict is Verdict.PASS for record in records):
        return f"Every case passes, but not {', '.join(p.property for p in failing)}."
    return f"{_summary(records)}."


def _summary(records: Iterable[CaseRecord]) -> str:
    found = Counter(record.verdict for record in records)
    whole = sum(found.values())
    if found[Verdict.PASS] == whole:
        return "The case passes" if whole == 1 else f"All {whole} cases pass"
    told = [f"{found[v]} {_VERBS[v][found[v] > 1]}" for v in _VERBS if found[v]]
    return f"Of {count(whole, 'case')}, {', '.join(told)}"


def _certainty(records: list[CaseRecord]) -> str:
    outputs, certified = sum(r.outputs for r in records), sum(r.certified for r in records)
    if not outputs:
        return ""
    wrong = sum(r.bit_differences for r in records)
    judged = f"{share(certified, outputs)} of {outputs:,} outputs are certified, so that one bit pattern alone is right"
    return f"{judged}; {wrong:,} are wrong." if wrong else f"{judged}; none is wrong."


def _facts(failed: list[CaseRecord]) -> tuple[tuple[str, Words], ...]:
    if not failed:
        return ()
    first = next((record for record in failed if record.verdict is Verdict.FAIL), failed[0])
    rows: list[tuple[str, Words]] = [
        ("First case that does not pass", (Code(shape_words(first.shape)), f", {first.verdict.value}"))
    ]
    if wrong := first.first_wrong:
        found, must = f"{wrong.got:g} ({wrong.got_hex})", f"{wrong.expected:g} ({wrong.expected_hex})"
        rows.append(first_wrong(wrong.index, found, must))
    elif first.message:
        rows.append(("Message", first.message.strip().splitlines()[0]))
    rows.append(("Run it again", Code(first.replay)))
    return tuple(rows)


def _cases(records: list[CaseRecord]) -> Section:
    several = len({record.kernel for record in records}) > 1
    headings = ("M, N, K", "plan", "verdict", "certified", "wrong", "seconds")
    rows = tuple(_case(record, several) for record in records)
    table = Table(
        ("kernel", *headings) if several else headings, rows, "One row a case", tuple(range(3 + several, 6 + several))
    )
    parts: list[Part] = [table]
    if any(record.reduced_from for record in records):
        parts.append(
            Paragraph("* M and N reduced to two tiles and a part of a third, because this device is slow.", soft=True)
        )
    return Section("cases", "The cases", tuple(parts))


def _case(record: CaseRecord, several: bool) -> Row:
    shape = ", ".join(map(str, record.shape)) + (" *" if record.reduced_from else "")
    ran = record.outputs > 0
    cells: tuple[Words, ...] = (
        Code(shape),
        Code(record.plan),
        record.verdict.value,
        share(record.certified, record.outputs) if ran else "-",
        f"{record.bit_differences:,} of {record.outputs:,}" if ran else "-",
        f"{record.seconds + record.compile_seconds:.2f}",
    )
    return Row((record.kernel, *cells) if several else cells, _MARKS[record.verdict])


def _properties(records: list[PropertyRecord]) -> Section:
    rows = tuple(
        Row(
            (Code(record.property), record.statement, record.verdict.value if _applies(record) else "skipped",
             f"{record.examples:,}" if _applies(record) else "-"),
            _MARKS[record.verdict],
        )
        for record in records
    )  # fmt: skip
    parts: list[Part] = [Table(("property", "what it says", "verdict", "examples"), rows, "One row a property", (3,))]
    parts += [Listing(r.message) for r in records if r.verdict in (Verdict.FAIL, Verdict.ERROR)]
    return Section("properties", "The properties", tuple(parts))


def _applies(record: PropertyRecord) -> bool:
    return record.verdict is not Verdict.UNSUPPORTED


def _failures(records: list[CaseRecord], why: str) -> Section:
    told: list[Part] = [Paragraph(why)] if why else []
    told += [Listing(failure_report(record)) for record in records]
    return Section("failures", "What did not pass", tuple(told))


def _again(records: list[CaseRecord]) -> Section:
    parts: list[Part] = [Listing(record.replay, "console") for record in records[:1]]
    parts.append(Facts(tuple((name, Code(value)) for name, value in environment().items())))
    return Section("again", "Run it again", tuple(parts))
