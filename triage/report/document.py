"""What a report says, apart from how it is shown: built once, then written as a page or as text."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Code:
    """A name, a number of bytes or a command: shown in the typeface of machines."""

    text: str


Words = str | Code | tuple[str | Code, ...]


def plain(words: Words) -> str:
    """The words without their typeface.

    >>> plain(("load of ", Code("v17")))
    'load of v17'
    """
    parts = words if isinstance(words, tuple) else (words,)
    return "".join(part.text if isinstance(part, Code) else part for part in parts)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. `soft`: an aside."""

    words: Words
    soft: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and what stands beside them."""

    rows: tuple[tuple[str, Words], ...]


class Mark(Enum):
    """What a row of a table says about itself."""

    NONE = ""
    RIGHT = "right"
    WRONG = "wrong"
    FIRST = "first wrong"
    CHOSEN = "every bit"


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: tuple[Words, ...]
    mark: Mark = Mark.NONE


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        headings, rows: one cell for each heading.
        caption: what it shows.
        numeric: which columns hold numbers.
        narrow: whether its cells are so short that it fits on a phone.
    """

    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str
    numeric: tuple[int, ...] = ()
    narrow: bool = False


@dataclass(frozen=True)
class Listing:
    """Lines as they are. `language`: console, diff, python or text. `folded`: a title under which they hide."""

    text: str
    language: str = "text"
    folded: str = ""


@dataclass(frozen=True)
class Level:
    """A kind of cell: its key (a style of the page), its one character for terminals, and what it means."""

    key: str
    glyph: str
    meaning: str


@dataclass(frozen=True)
class Map:
    """A grid of cells.

    Attributes:
        title: what the cells show.
        cell: what one cell is, such as "one output" or "one tile of 16 × 64 outputs".
        levels: what a cell can be; `cells` are indices into it, row by row.
        rows, columns: first and last index along each side, in outputs, and the side's name.
        summary: the same in words.
    """

    title: str
    cell: str
    levels: tuple[Level, ...]
    cells: tuple[tuple[int, ...], ...]
    rows: tuple[str, int, int]
    columns: tuple[str, int, int]
    summary: str


@dataclass(frozen=True)
class Maps:
    """Maps of the same cells, side by side. `title` says of what."""

    title: str
    maps: tuple[Map, ...]


Part = Paragraph | Facts | Table | Listing | Maps


@dataclass(frozen=True)
class Section:
    """A chapter of the report. `anchor` is its name in links."""

    anchor: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        verdict: one word, of `mxassay.verdicts` or of a comparison.
        good: whether that word is good news.
        kernel: what was tested, in a line.
        sentence: what was found, in one sentence.
        certainty: how sure that is, in one sentence.
        facts: what a reader needs first.
        sections: the chapters, in order.
    """

    verdict: str
    good: bool
    kernel: str
    sentence: str
    certainty: str
    facts: tuple[tuple[str, Words], ...]
    sections: tuple[Section, ...]
