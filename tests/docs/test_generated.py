"""The generated pages: up to date, true to the layouts, and tagged as the questions to a card are."""

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from mxassay.layouts import LAYOUTS
from mxassay.reference import DIALECTS, E2M1, decode_scales, encode

SHAPES = {
    "PACKING": ((2,), (64,), (130,)),
    "WEIGHT_PRESHUFFLE": ((16, 32), (48, 96), (32, 256)),
    "SCALE_SHUFFLE": ((1, 1), (40, 12), (300, 9)),
}


def test_committed_pages_are_what_the_code_says(generate: ModuleType) -> None:
    assert generate.differing() == [], "run: python docs/generate.py"


def test_a_changed_declaration_would_be_seen(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = replace(LAYOUTS["PACKING"], purpose="Something else.")
    monkeypatch.setitem(LAYOUTS, "PACKING", changed)
    assert {"spec/packing.md", "spec/index.md", "explorer/index.html"} <= set(generate.differing())


def test_named_causes_have_a_page_while_they_are_recorded(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mxassay.properties.faults import causes
    from mxassay.triage_campaign import Triaged, score

    monkeypatch.setattr(causes, "RECORD", tmp_path / "causes.json")
    without = generate.pages()
    assert "named-causes.md" not in without
    assert "named-causes" not in without["index.md"]
    found = [Triaged("one", "precision", "store", True, "precision", "store", True, 1, 3, 4.0, 3.0)]
    facts = {"date": "2026-12-01", "shipped": 1, "seconds": 90, "jobs": 2, "environment": {}, "score": score(found)}
    causes.write(causes.RECORD, facts, [one.as_json() for one in found])
    made = generate.pages()
    assert made["named-causes.md"].startswith("# Named causes\n")
    assert made["index.md"] == without["index.md"].replace("planted-faults\n", "planted-faults\nnamed-causes\n")
    docs = tmp_path / "docs"
    for path, text in made.items():
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(text)
    monkeypatch.setattr(generate, "DOCS", docs)
    assert generate.differing() == []
    causes.RECORD.unlink()
    assert set(generate.differing()) == {"index.md", "named-causes.md"}


def _functions(docs: Path, name: str) -> dict[str, Any]:
    text = (docs / "spec" / f"{name.lower().replace('_', '-')}.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, found)
    return found


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_printed_functions_are_the_layout(docs: Path, name: str, chapters: dict[str, ModuleType]) -> None:
    layout = LAYOUTS[name]
    functions = _functions(docs, name)
    symbols = chapters["layout"].arguments(layout)[len(layout.axes) :]
    for shape in SHAPES.get(name, (layout.fixed_shape,)):
        bound = layout.bind(shape)
        stored = dict(zip((axis.symbol for axis in layout.axes), bound.padded_shape, strict=True))
        given = [stored[symbol] for symbol in symbols]
        for offset in range(bound.size):
            coords = bound.coords(offset)
            found = functions["address"](*coords, *given)
            where = (offset,) if layout.space == "memory" else tuple(bound.place(coords).values())
            assert found == (offset if layout.space == "memory" else where if len(where) > 1 else where[0])
            back = functions["coordinates"](*where, *given)
            assert (back if isinstance(back, tuple) else (back,)) == coords


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_mathematics_are_the_layout(name: str, chapters: dict[str, ModuleType]) -> None:
    layout = LAYOUTS[name]
    bound = layout.bind(SHAPES.get(name, (layout.fixed_shape,))[-1])
    symbols = dict(zip((axis.symbol for axis in layout.axes), bound.padded_shape, strict=True))
    for line in chapters["layout"].mathematics(layout):
        left, _, right = line.partition(" = ")
        code = re.sub(r" / (\d+)⌋", r"//\1)", right).replace("⌊", "(").replace("·", "*").replace(" mod ", " % ")
        for offset in range(0, bound.size, 7):
            coords = bound.coords(offset)
            names = symbols | dict(zip((axis.name for axis in layout.axes), coords, strict=True))
            assert eval(code, {}, names) == (offset if left == "offset" else bound.place(coords)[left])


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_cell_of_the_picture(name: str, chapters: dict[str, ModuleType]) -> None:
    layout, picture = LAYOUTS[name], chapters["picture"]
    tile = picture.tile_of(layout)
    bound = layout.bind(tile.shape)
    seen = []
    for row, column, offset, label, title in picture.cells(layout):
        down = tile.run if tile.axis == 0 and len(tile.shape) > 1 else 1
        across = tile.run if down == 1 else 1
        coords = (row * down, column * across)[-len(tile.shape) :]
        assert bound.offset(coords) == offset
        assert str(next(iter(bound.place(coords).values()))) in label
        assert title.startswith(f"{layout.axes[0].name} {coords[0]}")
        seen += range(offset, offset + tile.run)
    assert (
        sorted(seen)
        == list(range(bound.padded_shape[0] * (bound.padded_shape[1] if len(tile.shape) > 1 else 1)))[: len(seen)]
    )


def _statements(chapters: dict[str, ModuleType]) -> list[Any]:
    kind = chapters["statement"].Statement
    found = [s for module in chapters.values() for s in vars(module).get("_STATEMENTS", ())]
    found += [s for group in chapters["users"].USERS.values() for s in group]
    assert all(isinstance(s, kind) for s in found)
    return found


def test_tags_agree_with_the_questions_to_a_card(chapters: dict[str, ModuleType]) -> None:
    from mxassay.gfx950.probe import QUESTIONS

    asked = [(s, identity) for s in _statements(chapters) for identity in s.probe]
    assert len(asked) > 20
    wrong = [
        (s.kind, identity, QUESTIONS[identity].status.value)
        for s, identity in asked
        if s.kind != QUESTIONS[identity].status.value
    ]
    assert wrong == []


def test_every_statement_has_a_source_that_opens(chapters: dict[str, ModuleType], root: Path) -> None:
    for statement in _statements(chapters):
        source = chapters["sources"].SOURCES[statement.source]
        assert source.url.startswith("https://") or (root / source.title).exists()


_CHAPTERS = [*(name.lower().replace("_", "-") for name in LAYOUTS), "formats", "dialects", "conversion", "scaled-mfma",
             "certificate"]  # fmt: skip


@pytest.mark.parametrize("name", _CHAPTERS)
def test_every_section_says_how_sure_it_is(docs: Path, name: str) -> None:
    text = (docs / "spec" / f"{name}.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    bare = [s.splitlines()[0] for s in sections if not re.search(r"\*\*(certain|inferred|unknown)\*\*", s)]
    assert len(sections) > 5
    assert [title for title in bare if title != "In the terminal"] == []


def test_the_printed_code_of_formats_is_the_reference(docs: Path) -> None:
    functions = _functions(docs, "formats")
    assert [functions["value"](code) for code in range(16)] == list(E2M1.values)
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    finite = every[every.isfinite()][::7]
    for byte in (1, 127, 131):
        scales = torch.full((finite.numel() // 32, 1), byte, dtype=torch.uint8)
        blocks = finite[: scales.numel() * 32].view(-1, 32)
        expected = encode(blocks, scales).flatten().tolist()
        assert [functions["code"](x, byte) for x in blocks.flatten().tolist()] == expected


def test_the_printed_code_of_dialects_is_the_reference(docs: Path) -> None:
    function = _functions(docs, "dialects")["scale_byte"]
    bits = torch.cat([torch.arange(1 << 15, dtype=torch.int32) << 16, torch.arange(9, dtype=torch.int32)])
    bits = bits[(bits <= 0x7F800000) | (bits == 0x7FC00000)]
    for dialect in DIALECTS.values():
        assert [function(x, dialect) for x in bits.view(torch.float32).tolist()] == dialect.scale_bytes(bits).tolist()


def test_dequantized_values_are_bfloat16(chapters: dict[str, ModuleType]) -> None:
    values = torch.tensor(E2M1.values, dtype=torch.float64)
    scales = decode_scales(torch.arange(253, dtype=torch.uint8))
    products = values.unsqueeze(0) * scales.unsqueeze(1)
    assert torch.equal(products.to(torch.bfloat16).double(), products)


@pytest.mark.parametrize("k", [128, 512, 1536, 2048, 7168, 16384])
def test_the_printed_spread_is_safe_and_no_larger(k: int, chapters: dict[str, ModuleType]) -> None:
    from mxassay.reference import certificate

    spread = chapters["certificate"].safe_spread(k)
    for bits, holds in ((spread, True), (spread + 1, False)):
        codes = torch.full((1, k // 2), 0x77, dtype=torch.uint8)
        codes[0, 0] = 0x11
        scales = torch.full((1, k // 32), 127 + bits, dtype=torch.uint8)
        scales[0, 0] = 127
        ones = torch.full((1, k // 32), 127, dtype=torch.uint8)
        least = certificate(codes, scales, codes, ones).item()
        assert least or not holds
