"""Statements, each with how sure it is and where it comes from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chapters.sources import link

KINDS = ("certain", "inferred", "unknown")


@dataclass(frozen=True)
class Statement:
    """One statement.

    Attributes:
        kind: "certain" (a public source says it, or it was computed and a test repeats that), "inferred" (follows from
            other facts, no source says it outright) or "unknown" (no public source; what is said is our policy).
        text: Markdown.
        source: a key of SOURCES. where: the part of it.
        probe: ids of the questions that `mxassay probe` asks a real card about it.
    """

    kind: str
    text: str
    source: str
    where: str = ""
    probe: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind}")


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table. Cells may hold Markdown; a bar in a cell is escaped."""
    found = [f"| {' | '.join(map(str, heads))} |", f"|{'---|' * len(heads)}"]
    found += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return found


def statements(found: Iterable[Statement]) -> list[str]:
    """A table of statements: the tag, the words, the source."""
    return table(("how sure", "statement", "source"), map(tagged, found))


def tagged(statement: Statement) -> tuple[str, str, str]:
    """The row of one statement: the tag, the words, the source."""
    return f"**{statement.kind}**", _text(statement), link(statement.source, statement.where)


def tag(kind: str, source: str, where: str = "") -> list[str]:
    """A line that says how sure everything in a section is."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind}")
    return [f"**{kind}**: {link(source, where)}.", ""]


def _text(statement: Statement) -> str:
    asked = ", ".join(f"`{identity}`" for identity in statement.probe)
    return statement.text + (f" *Asked by* {asked}." if asked else "")


TAGS = [
    (
        "Every statement carries a tag. **certain**: a public source says it, or it was computed and a test "
        "computes it "
        "again. **inferred**: it follows from other facts, but no source says it outright. **unknown**: no "
        "public source "
        "tells; what stands here is a declared policy of mxassay, and no kernel fails on it by default. Where the tag "
        "names a question, `mxassay probe --only ID --device mi355x` asks a real card."
    ),
]
