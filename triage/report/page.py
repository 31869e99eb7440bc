"""A report as one HTML file that asks nobody for anything: no script, no picture, no font from elsewhere."""

from collections import Counter
from html import escape
from importlib.resources import files

from mxassay.triage.report.document import (
    Code,
    Document,
    Facts,
    Listing,
    Map,
    Maps,
    Mark,
    Paragraph,
    Part,
    Row,
    Section,
    Table,
    Words,
    plain,
)
from mxassay.triage.report.drawing import cell_size, drawing
from mxassay.triage.report.maps import MOST_CELLS
from mxassay.triage.report.words import visible

# What a hostile name could smuggle in would still neither run nor fetch anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_MARKS = {Mark.NONE: "", Mark.RIGHT: "✓", Mark.WRONG: "✕", Mark.FIRST: "▶", Mark.CHOSEN: "●"}

_SHORT = 22  # characters
_LINE = 46  # characters
_TWO_LINES = 44  # CSS pixels


def page(document: Document) -> str:
    """The whole file."""
    style = files("mxassay.triage.report").joinpath("page.css").read_text(encoding="utf-8")
    chapters = "".join(f'<li><a href="#{s.anchor}">{_text(s.title)}</a></li>' for s in document.sections)
    certainty = f'<p class="certainty">{_text(document.certainty)}</p>' if document.certainty else ""
    facts = "".join(_fact(name, words) for name, words in document.facts)
    facts = f'<dl class="lead">{facts}</dl>' if facts else ""
    title = _text(f"{document.verdict}: {document.sentence}")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#{document.sections[0].anchor}">Skip to the first chapter</a>
<header>
<p class="subject"><strong class="verdict {"good" if document.good else "bad"}">{_text(document.verdict)}</strong>
<span>{_text(document.kernel)}</span></p>
<h1>{_text(document.sentence)}</h1>
{certainty}
{facts}
<nav aria-label="Chapters"><ul>{chapters}</ul></nav>
</header>
<main>
{"".join(_section(section) for section in document.sections)}</main>
<footer>Written by mxassay. This page is one file: it fetches nothing and runs nothing.</footer>
</body>
</html>
"""


def _text(text: str) -> str:
    return escape(visible(text))


def _words(words: Words) -> str:
    parts = words if isinstance(words, tuple) else (words,)
    return "".join(_code(part.text) if isinstance(part, Code) else _text(part) for part in parts)


def _code(text: str) -> str:
    """Short names and numbers are not broken in two."""
    return f"<code{' class=short' if len(text) <= _SHORT else ''}>{_text(text)}</code>"


def _fact(name: str, words: Words) -> str:
    return f"<div><dt>{_text(name)}</dt><dd>{_words(words)}</dd></div>"


def _section(section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    heading = f'<h2 id="{section.anchor}-title">{_text(section.title)}</h2>'
    return f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">\n{heading}\n{parts}\n</section>\n'


def _part(part: Part) -> str:
    match part:
        case Paragraph():
            kind = ' class="soft"' if part.soft else ""
            return f"<p{kind}>{_words(part.words)}</p>"
        case Facts():
            return f'<dl class="facts">{"".join(_fact(name, words) for name, words in part.rows)}</dl>'
        case Table():
            return _table(part)
        case Listing():
            return _listing(part)
        case Maps():
            drawn = "".join(_figure(each) for each in part.maps)
            return f'<h3>{_text(part.title)}</h3>\n<div class="maps">{drawn}</div>'


def _table(table: Table) -> str:
    marked = any(row.mark is not Mark.NONE for row in table.rows)
    first = '<th role="columnheader" scope="col"><span class="hidden">mark</span></th>' if marked else ""
    heads = "".join(
        f'<th role="columnheader" scope="col"{_numeric(table, i)}>{_text(head)}</th>'
        for i, head in enumerate(table.headings)
    )
    body = "\n".join(_row(table, row, marked) for row in table.rows)
    return (
        f'<table role="table" class="{"narrow" if table.narrow else "wide"}"><caption>{_text(table.caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{first}{heads}</tr></thead>\n'
        f'<tbody role="rowgroup">{body}</tbody></table>'
    )


def _row(table: Table, row: Row, marked: bool) -> str:
    mark = f'<td role="cell" class="mark"><span aria-hidden="true">{_MARKS[row.mark]}</span> '
    mark = f'{mark}<span class="said">{_text(row.mark.value)}</span></td>' if marked else ""
    if not any(plain(words) for words in row.cells[1:]):
        cells = f'<td role="cell" colspan="{len(row.cells)}">{_words(row.cells[0])}</td>'
    else:
        cells = "".join(
            f'<td role="cell" data-label="{_text(table.headings[i])}"{_numeric(table, i)}>{_cell(words)}</td>'
            for i, words in enumerate(row.cells)
        )
    return f'<tr role="row" class="{row.mark.name.lower()}">{mark}{cells}</tr>'


def _cell(words: Words) -> str:
    """One box, so that a phone can put it beside its heading; nothing at all where there is nothing to say."""
    return f"<span>{_words(words)}</span>" if plain(words) else ""


def _numeric(table: Table, column: int) -> str:
    kinds = ["number"] if column in table.numeric else ["whole"] if column in _whole(table) else []
    return f' class="{kinds[0]}"' if kinds else ""


def _whole(table: Table) -> set[int]:
    """Columns of words so short that a wide screen need not fold them; what is left goes to the last column."""
    longest = [
        max((len(plain(row.cells[i])) for row in table.rows if len(row.cells) > i), default=0)
        for i in range(len(table.headings))
    ]
    words = {i for i, length in enumerate(longest[:-1]) if length <= _LINE and i not in table.numeric}
    return words if sum(longest[i] for i in words) <= 2 * _LINE else set()


def _listing(listing: Listing) -> str:
    text = visible(listing.text.rstrip("\n"))
    lines = [escape(line) for line in text.split("\n")]
    if listing.language == "diff":
        lines = [f'<span class="{_side(line)}">{line}</span>' for line in lines]
    label = listing.folded or {"diff": "Difference", "console": "Command"}.get(listing.language, "Text")
    opening = f'<pre class="{listing.language}" tabindex="0" role="region" aria-label="{_text(label)}">'
    body = opening + "\n".join(lines) + "</pre>"
    return f"<details><summary>{_text(listing.folded)}</summary>{body}</details>" if listing.folded else body


def _side(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "head"
    return {"+": "plus", "-": "minus"}.get(line[:1], "same")


def _figure(drawn: Map) -> str:
    present = Counter(level for row in drawn.cells for level in row)
    legend = "".join(
        f'<li><svg class="swatch" viewBox="0 0 1 1" aria-hidden="true"><rect class="{level.key}" width="1" height="1"/>'
        f"{_letter(level.key, level.glyph)}</svg><span>{_text(level.meaning)}</span><b>{present[i]:,}</b></li>"
        for i, level in enumerate(drawn.levels)
        if present[i]
    )
    columns = drawn.columns
    wide = " wide" if len(drawn.cells[0]) > MOST_CELLS else ""
    return (
        f"<figure><figcaption><strong>{_text(drawn.title)}</strong> {_text(drawn.summary)}.</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(drawn.title)}">'
        f'<div class="axes{wide}">'
        f'<span class="across"><span>{_text(columns[0])} {columns[1]}</span>{_end(columns)}</span>'
        f'<span class="down">{_down(drawn)}</span>'
        f"{drawing(drawn)}</div></div>"
        f'<p class="soft">A cell is {_text(drawn.cell)}.</p><ul class="legend">{legend}</ul></figure>'
    )


def _down(drawn: Map) -> str:
    """First and last row, in one line where two would not fit."""
    name, first, last = drawn.rows
    if last > first and len(drawn.cells) * cell_size(drawn) < _TWO_LINES:
        return f"<span>{_text(name)}s {first}–{last}</span>"
    return f"<span>{_text(name)} {first}</span>{_end(drawn.rows)}"


def _end(side: tuple[str, int, int]) -> str:
    return f"<span>{side[2]}</span>" if side[2] > side[1] else ""


def _letter(key: str, glyph: str) -> str:
    return "" if glyph == "." else f'<text class="{key}" x=".5" y=".5">{escape(glyph)}</text>'
