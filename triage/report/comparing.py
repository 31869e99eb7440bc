"""The chapters of a comparison of two versions: what became of each case, and how the instructions moved."""

from typing import TYPE_CHECKING

from mxassay.triage.report.document import Code, Facts, Mark, Paragraph, Part, Row, Section, Table, Words
from mxassay.triage.report.words import sentence

if TYPE_CHECKING:
    from mxassay.triage.versions.change import Row as Case
    from mxassay.triage.versions.compare import Compared
    from mxassay.triage.versions.version import Version


def versions_fact(compared: "Compared") -> tuple[str, Words]:
    """What was compared, for the head of the page."""
    return "Between", (*_version(compared.base), " and ", *_version(compared.candidate))


def _version(version: "Version") -> tuple[str | Code, ...]:
    changed = " (changed since)" if version.dirty else ""
    told = f" “{version.subject}”" if version.subject else ""
    return Code(version.words), f"{told}{changed}"


def cases(compared: "Compared") -> Section:
    """What became of each case."""
    comparison = compared.comparison
    before, now = comparison.base_dialect or "none fits", comparison.candidate_dialect or "none fits"
    facts: list[tuple[str, Words]] = [
        ("answer", (Code(comparison.change.value), f": {sentence(comparison.words)}")),
        ("dialect", Code(before) if before == now else (Code(before), " became ", Code(now))),
    ]
    parts: list[Part] = [Facts(tuple(facts))]
    if comparison.rows:
        headings = ("M, N, K", "inputs", "what became of it", "differing", "wrong before", "wrong now")
        rows = tuple(_case(row) for row in comparison.rows)
        parts.append(Table(headings, rows, "The cases that both versions ran", (3, 4, 5)))
    return Section("versions", "What changed between the versions", tuple(parts))


def _case(row: "Case") -> Row:
    change: list[str | Code] = [Code(row.change.value if row.change else "not run")]
    change += [f": {row.words}"] if row.words else []
    if row.base_plan != row.candidate_plan:
        change += [", plan ", Code(row.base_plan), " became ", Code(row.candidate_plan)]
    change += [f", first {row.first}"] if row.first else []
    differing = f"{row.differing:,} of {row.outputs:,}" if row.outputs else "nothing came out"
    cells = (Code(", ".join(map(str, row.case.shape))), row.case.inputs, tuple(change), differing)
    counts = (f"{row.base_wrong:,}", f"{row.candidate_wrong:,}")
    return Row((*cells, *counts), Mark.WRONG if row.wrong else Mark.RIGHT)


def instructions(compared: "Compared") -> Section:
    """Figures of the instructions that differ: registers, spills, what was executed, bytes, LDS conflicts."""
    title = "Instruction differences"
    if not compared.counted:
        nothing = "Nothing was counted: instructions are counted on the emulated card alone."
        return Section("instructions", title, (Paragraph(nothing),))
    rows = tuple(
        Row((Code(", ".join(map(str, entry.case.shape))), Code(found.kernel or "kernel"), found.figure,
             f"{found.before:,}", f"{found.after:,}", moved(found.before, found.after)))
        for entry in compared.counted
        for found in entry.differences
    )  # fmt: skip
    if not rows:
        same = "The same in both versions: registers, spills, instructions, bytes, LDS conflicts."
        return Section("instructions", title, (Paragraph(same),))
    headings = ("M, N, K", "kernel", "figure", "before", "now", "change")
    return Section("instructions", title, (Table(headings, rows, "Figures that differ", (3, 4, 5)),))


def moved(before: int, after: int) -> str:
    """The change in percent.

    >>> moved(8, 10), moved(0, 3), moved(3, 0)
    ('+25 %', 'new', 'gone')
    """
    if not before or not after:
        return "gone" if before else "new"
    return f"{100 * (after - before) / before:+.0f} %"
