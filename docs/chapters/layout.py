"""The chapter of one layout, from its declaration."""

import json
import re
from pathlib import Path

from chapters import picture
from chapters.mistakes import mistakes
from chapters.reading import reading
from chapters.statement import Statement, statements, table, tag
from chapters.users import users
from mxassay.layouts import LAYOUTS, Axis, Layout, explain, golden
from mxassay.layouts import formula as expressions

EXAMPLES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "PACKING": ((64,), (43,)),
    "WEIGHT_PRESHUFFLE": ((2112, 3584), (18, 37)),
    "SCALE_SHUFFLE": ((2112, 224), (53, 14)),
}
"""(shape, coordinates) of the worked example; register maps take an element in the middle."""


def slug(name: str) -> str:
    """The file name of a chapter."""
    return name.lower().replace("_", "-")


def chapter(name: str) -> str:
    """spec/<slug>.md."""
    layout = LAYOUTS[name]
    lines = [f"# {name}", "", layout.purpose, ""]
    lines += _facts(layout)
    computed = tag("certain", "layouts", "computed from the declaration")
    lines += ["## Axes and tile factors", "", f"`{layout!r}`".replace(f"{name}: ", ""), "", *_factors(layout), ""]
    lines += computed
    lines += ["## Address", "", *_units(layout), "In plain mathematics (⌊ ⌋ rounds down, mod is the remainder):", ""]
    lines += ["```text"]
    lines += [*_stacked(mathematics(layout)), "```", "", "In code:", "", "```python", *code(layout), "```", ""]
    lines += ["The inverse:", "", "```python", *inverse(layout), "```", ""]
    if layout.leading:
        lines += ["Leading dimensions stay outermost: each plane is stored whole, in row-major order.", ""]
    lines += computed
    lines += ["## Worked example", "", *_worked(layout), "", *computed]
    lines += ["## One tile", "", (f"{picture.caption(layout)} Point at a cell to see its elements. "
              f'<a href="{_explorer(layout)}">Open it in the explorer</a>.'), "",
              f'<figure class="tile">{picture.svg(layout)}</figure>', "", *computed]  # fmt: skip
    lines += ["## Which lane and register reads it", "", *reading(name), ""]
    lines += ["## Golden vectors", "", *_golden(layout), ""]
    lines += tag(
        "certain", "layouts", "golden.json, compared by tests with the declaration and with formulas written by hand"
    )
    lines += ["## Who uses it", "", *statements(users(name)), ""]
    lines += ["## Usual mistakes", "", *mistakes(name), ""]
    lines += ["## In the terminal", "", *_terminal(layout), ""]
    return "\n".join(lines).rstrip() + "\n"


def _explorer(layout: Layout) -> str:
    """The explorer's address with the worked example chosen."""
    shape, coords = example(layout)
    per = [axis.codes or 1 for axis in layout.axes]
    rows, row = (shape[0], coords[0]) if len(shape) > 1 else (1, 0)
    parts = {
        "rows": rows,
        "K": shape[-1] * per[-1],
        "row": row,
        "k": coords[-1] * per[-1],
        "a": layout.name,
        "b": "none",
    }
    return "../explorer/index.html#" + "&amp;".join(f"{name}={value}" for name, value in parts.items())


def _facts(layout: Layout) -> list[str]:
    padded = [axis for axis in layout.axes if axis.pad_to is not None]
    padding = "; ".join(
        f"`{axis.name}` up to a multiple of {axis.pad_to}, stored extent `{axis.symbol}`" for axis in padded
    )
    rows = [
        ("Shape", f"`{layout.signature}`"),
        ("Element", f"{layout.element}, {layout.element_bits} bits"),
        ("Where", "memory" if layout.space == "memory" else "registers of one wave"),
        ("Preconditions", "; ".join(_condition(axis) for axis in layout.axes)),
        ("Padding", padding or "none"),
        ("Other names", "; ".join(f"`{alias}`" if " " not in alias else alias for alias in layout.aliases) or "none"),
    ]
    what = "The order of the factors, the preconditions" + (" and the padding." if padded else ".")
    said = [Statement("certain", f"{what} {layout.source}.", _source(layout))]
    said += [Statement("certain", note, _source(layout)) for note in layout.notes]
    return [*table(("what", "value"), rows), "", *statements(said), ""]


def _source(layout: Layout) -> str:
    if layout.space == "registers":
        return "isa"
    return {"PACKING": "pytorch"}.get(layout.name, "aiter-shuffle")


def _condition(axis: Axis) -> str:
    if axis.extent is not None:
        return f"`{axis.name}` exactly {axis.extent}"
    if axis.pad_to is not None:
        return f"`{axis.name}` any extent"
    return f"`{axis.name}` a multiple of {axis.multiple}"


def _factors(layout: Layout) -> list[str]:
    rows = []
    for place in layout.places:
        for name in place.factors:
            axis, position = layout.axis_of(name)
            rows.append(
                (
                    place.name,
                    f"`{name}`",
                    f"`{expressions.extent_expression(axis, position)}`",
                    f"`{expressions.digit_expression(axis, position)}`",
                    axis.factors[position].meaning,
                )
            )
    axes = [(f"`{axis.name}`", _condition(axis), axis.meaning) for axis in layout.axes]
    return [
        *table(("axis", "extent", "meaning"), axes),
        "",
        "The factors in the order of the destination, outermost first:",
        "",
        *table(("place", "factor", "values", "digit", "meaning"), rows),
    ]


def mathematics(layout: Layout) -> list[str]:
    """The address formula without a programming language's operators, one line a place."""
    if layout.space == "memory":
        names = [name for place in layout.places for name in place.factors]
        lines = [f"offset = {_sum(layout, names)}"]
        return lines if len(layout.places) == 1 else [*lines, *_places(layout)]
    return _places(layout)


def _units(layout: Layout) -> list[str]:
    """What the formula counts in, and how a matrix of K codes a row gives its letters."""
    if layout.space == "registers":
        return []
    axis, unit = layout.axes[-1], {4: "nibbles", 8: "bytes"}[layout.element_bits]
    words = [f"The offset counts {unit} from the start of the tensor."]
    if axis.codes and axis.codes > 1:
        size = f"K / {axis.codes}"
        if axis.pad_to is not None:
            size += f" rounded up to a multiple of {axis.pad_to}"
        words += [
            f"In a matrix with K codes a row, code k has {axis.name} = ⌊k / {axis.codes}⌋, and {axis.symbol} is {size}."
        ]
        if all(rows.symbol not in layout.formula() for rows in layout.axes[:-1]):
            words += ["The number of rows has no part in it."]
    return [" ".join(words), ""]


def _stacked(lines: list[str]) -> list[str]:
    """Each sum with one term a line, so that no page need be scrolled to see the last."""
    found = []
    for line in lines:
        left, _, right = line.partition(" = ")
        first, *rest = right.split(" + ")
        indent = " " * len(left)
        found += [f"{left} = {first}", *(f"{indent} + {term}" for term in rest)]
    return found


def _places(layout: Layout) -> list[str]:
    return [f"{place.name} = {_sum(layout, list(place.factors))}" for place in layout.places]


def _sum(layout: Layout, names: list[str]) -> str:
    terms = []
    for index, name in enumerate(names):
        axis, position = layout.axis_of(name)
        step, extent = axis.step(position), axis.factors[position].extent
        inner = f"{axis.name} mod {extent * step}" if position and extent is not None else axis.name
        digit = f"⌊{f'({inner})' if ' ' in inner else inner} / {step}⌋" if step > 1 else inner
        if " " in digit and not digit.startswith("⌊"):
            digit = f"({digit})"
        stride = expressions.stride_expression(layout, names[index + 1 :]).replace("*", "·")
        terms.append(digit if stride == "1" else f"{stride} · {digit}")
    return " + ".join(terms)


def arguments(layout: Layout) -> list[str]:
    """The names that the code of `code` takes: axes, then the stored extents that its address needs."""
    text = layout.formula() + layout.inverse_formula()
    found = [axis.symbol for axis in layout.axes if axis.extent is None and axis.symbol in text]
    return [*(axis.name for axis in layout.axes), *found]


def code(layout: Layout) -> list[str]:
    """A Python function from coordinates to the offset, or to the places."""
    head = f"def address({', '.join(arguments(layout))}):"
    if layout.space == "memory":
        terms = _spaced(layout.formula()).split(" + ")
        if len(terms) < 3:
            return [head, f"    return {' + '.join(terms)}"]
        meant = [layout.factor(name).meaning for place in layout.places for name in place.factors]
        signed = [terms[0], *(f"+ {term}" for term in terms[1:])]
        rows = [f"        {term}  # {words}" for term, words in zip(signed, meant, strict=True)]
        return [head, "    return (", *rows, "    )"]
    assignments = [f"    {_spaced(part)}" for part in layout.formula().split("; ")]
    return [head, *assignments, f"    return {', '.join(place.name for place in layout.places)}"]


def inverse(layout: Layout) -> list[str]:
    """A Python function back to the coordinates."""
    given = ["offset"] if layout.space == "memory" else [place.name for place in layout.places]
    given += list(arguments(layout)[len(layout.axes) :])
    assignments = [f"    {_spaced(part)}" for part in layout.inverse_formula().split("; ")]
    names = ", ".join(axis.name for axis in layout.axes)
    return [f"def coordinates({', '.join(given)}):", *assignments, f"    return {names}"]


def _spaced(expression: str) -> str:
    """Operators with a space on either side."""
    return re.sub(r"(//|[*%])", r" \1 ", expression)


def example(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, coordinates) of the worked example."""
    if layout.name in EXAMPLES:
        return EXAMPLES[layout.name]
    shape = layout.fixed_shape or ()
    return shape, tuple(extent // 2 + 3 for extent in shape) if min(shape) > 6 else (shape[0] // 2 + 3, shape[1] - 1)


def _worked(layout: Layout) -> list[str]:
    shape, coords = example(layout)
    names = ", ".join(f"{axis.name} = {c}" for axis, c in zip(layout.axes, coords, strict=True))
    at = ",".join(map(str, coords))
    sizes = ",".join(map(str, shape))
    return [
        f"Element {names} of a tensor of shape {shape}:",
        "",
        "```console",
        f"$ mxassay layout {slug(layout.name)} --shape {sizes} --at {at}",
        *explain(layout, shape, coords).splitlines(),
        "```",
    ]


def _golden(layout: Layout) -> list[str]:
    entry = json.loads(Path(golden.GOLDEN).read_text(encoding="utf-8"))["layouts"][layout.name]
    rows = [
        (*(" × ".join(map(str, h[key])) for key in ("shape", "padded_shape")), f"`{h['sha256'][:16]}…`")
        for h in entry["hashes"]
    ]
    lines = [
        (
            "SHA-256 of the offsets of every coordinate, padding included, row-major, as little-endian "
            "int64. The whole "
            "hashes, and addresses where a factor turns over, are in `layouts/golden.json`."
        ),
        "",
        *table(("shape", "stored", "SHA-256"), rows),
        "",
    ]
    at, places = entry["table"]["at"], entry["table"]["places"]
    shape = " × ".join(map(str, entry["table"]["shape"]))
    names = list(at)
    for place, grid in places.items():
        lines += [f"The {place} at shape {shape}:", ""]
        if len(names) == 1:
            lines += [*table((names[0], *map(str, at[names[0]])), [(place, *grid)]), ""]
        else:
            head = (f"{names[0]} ↓ {names[1]} →", *map(str, at[names[1]]))
            lines += [*table(head, [(i, *row) for i, row in zip(at[names[0]], grid, strict=True)]), ""]
    return lines[:-1]


def _terminal(layout: Layout) -> list[str]:
    name = slug(layout.name)
    return [
        (
            f"`mxassay layout {name}` prints this chapter's facts; with `--at` it prints the worked example for "
            f"any element."
        )
    ]
