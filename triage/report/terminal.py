"""A report as text for a terminal; what goes into a pipe has no colours and no letters beyond the report's own."""

from collections import Counter

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from mxassay.triage.report.document import Document, Facts, Listing, Map, Maps, Mark, Paragraph, Part, Table, plain
from mxassay.triage.report.words import visible

_MARKS = {Mark.NONE: "", Mark.RIGHT: "ok", Mark.WRONG: "wrong", Mark.FIRST: "> first", Mark.CHOSEN: "> every bit"}
_STYLES = {Mark.FIRST: "bold red", Mark.CHOSEN: "bold red", Mark.WRONG: "red", Mark.RIGHT: "dim", Mark.NONE: ""}
_INDENT = 2


def print_document(document: Document, console: Console) -> None:
    """Print the whole report."""
    style = "bold green" if document.good else "bold red"
    console.print(Text.assemble((visible(document.verdict), style), "  ", visible(document.kernel)), soft_wrap=True)
    console.print(Text(visible(document.sentence), style="bold"), soft_wrap=True)
    if document.certainty:
        console.print(Text(visible(document.certainty)), soft_wrap=True)
    console.print()
    _print_facts(console, Facts(document.facts))
    for section in document.sections:
        console.print()
        console.print(Text(visible(section.title), style="bold underline"))
        for part in section.parts:
            _print_part(console, part)


def _print_part(console: Console, part: Part) -> None:
    match part:
        case Paragraph():
            console.print(_indented(Text(visible(plain(part.words)), style="dim" if part.soft else "")))
        case Facts():
            _print_facts(console, part)
        case Table():
            _print_table(console, part)
        case Listing():
            _print_listing(console, part)
        case Maps():
            console.print(_indented(Text(visible(part.title))))
            for beside in _rows_of(part.maps, console.width):
                _print_maps(console, beside)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, _INDENT), expand=False)


def _print_facts(console: Console, facts: Facts) -> None:
    width = max((len(name) for name, _ in facts.rows), default=0)
    for name, words in facts.rows:
        line = Text.assemble((f"{'':{_INDENT}}{visible(name):<{width}}  ", "dim"), visible(plain(words)))
        console.print(line, soft_wrap=True)


def _print_table(console: Console, table: Table) -> None:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    marked = any(row.mark is not Mark.NONE for row in table.rows)
    if marked:
        grid.add_column("", no_wrap=True)
    for i, heading in enumerate(table.headings):
        grid.add_column(heading, justify="right" if i in table.numeric else "left", overflow="fold")
    for row in table.rows:
        cells = [Text(visible(plain(words))) for words in row.cells]
        grid.add_row(*([_MARKS[row.mark]] if marked else []), *cells, style=_STYLES[row.mark])
    console.print(Padding(grid, (0, 0, 0, _INDENT), expand=False))


def _print_listing(console: Console, listing: Listing) -> None:
    if listing.folded:
        return  # a page can hide a long text, a terminal can't
    styles = {"+": "green", "-": "red"} if listing.language == "diff" else {}
    for line in visible(listing.text.rstrip("\n")).split("\n"):
        text = Text(line, style=styles.get(line[:1], ""))
        console.print(Text(" " * _INDENT).append_text(text), soft_wrap=True)


def _rows_of(maps: tuple[Map, ...], width: int) -> list[list[Map]]:
    """Maps of the same height stand side by side as long as they fit."""
    rows: list[list[Map]] = []
    for drawn in maps:
        beside = [*rows[-1], drawn] if rows else [drawn]
        same_height = len({len(each.cells) for each in beside}) == 1
        if rows and same_height and sum(map(_width, beside)) <= width:
            rows[-1].append(drawn)
        else:
            rows.append([drawn])
    return rows


def _width(drawn: Map) -> int:
    return 2 * _INDENT + max(len(drawn.cells[0]), len(drawn.title))


def _print_maps(console: Console, maps: list[Map]) -> None:
    margin = " " * 2 * _INDENT
    widths = [_width(drawn) - len(margin) for drawn in maps]
    lines = ["".join(f"{margin}{drawn.title:<{width}}" for drawn, width in zip(maps, widths, strict=True))]
    for row in zip(*(drawn.cells for drawn in maps), strict=True):
        glyphs = ["".join(d.levels[level].glyph for level in cells) for d, cells in zip(maps, row, strict=True)]
        lines.append("".join(f"{margin}{text:<{width}}" for text, width in zip(glyphs, widths, strict=True)))
    for line in lines:
        console.print(Text(line.rstrip()), soft_wrap=True)
    for drawn in maps:
        present = Counter(level for row in drawn.cells for level in row)
        console.print(
            Text(f"{margin}{drawn.title}: {drawn.summary}. A cell is {drawn.cell}.", style="dim"), soft_wrap=True
        )
        for i, level in enumerate(drawn.levels):
            if present[i]:
                told = f"{margin}{level.glyph}  {level.meaning}: {present[i]:,}"
                console.print(Text(told, style="dim"), soft_wrap=True)
