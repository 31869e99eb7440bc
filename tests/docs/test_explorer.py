"""The explorer in a headless browser: its arithmetic against layouts/, its state, its keys, its looks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from mxassay.layouts import LAYOUTS

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "PACKING": ((64,), (3, 32), (2, 5, 66)),
    "WEIGHT_PRESHUFFLE": ((16, 32), (96, 160), (2, 48, 96)),
    "SCALE_SHUFFLE": ((1, 1), (257, 9), (300, 24)),
}
MATRICES = ((32, 128), (64, 256), (32, 384))  # rows and K, in whole tiles of every register map
SIZES = {"desktop": (1440, 1000), "phone": (390, 844)}


# WCAG 2.2, relative luminance and contrast ratio. Colours go through a canvas, which reduces all notations to bytes.
_LEAST_CONTRAST = """() => {
    const size = { width: 1, height: 1 };
    const canvas = Object.assign(document.createElement("canvas"), size).getContext("2d", { willReadFrequently: true });
    const bytes = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const weights = [0.2126, 0.7152, 0.0722];
    const light = (color) => weights.reduce((sum, w, i) => sum + w * linear(color[i] / 255), 0);
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const color = bytes(getComputedStyle(node).backgroundColor);
            if (color[3] > 250) return color;
        }
        return [255, 255, 255];
    };
    const shown = (n) => n.children.length === 0 && n.textContent.trim() && n.getClientRects().length;
    const ratios = [...document.querySelectorAll("body *")].filter(shown).map((node) => {
        const [a, b] = [light(bytes(getComputedStyle(node).color)), light(behind(node))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
    return Math.min(...ratios);
}"""


@pytest.fixture(scope="module")
def address(docs: Path) -> str:
    return (docs / "explorer" / "index.html").as_uri()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page, opened from a file. What it says on the console and what it asks for must be nothing but itself."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme="light")
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith((address, "data:")) else None
    )
    opened.goto(address)
    yield opened
    context.close()
    assert said == []


def _hash(**state: object) -> str:
    return "#" + "&".join(f"{name}={value}" for name, value in state.items())


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_of_every_layout(page: Any, name: str) -> None:
    layout = LAYOUTS[name]
    for shape in SHAPES.get(name, (layout.fixed_shape,)):
        bound = layout.bind(shape)
        text = page.evaluate(
            """([name, shape]) => {
                const x = window.explorer, b = x.bind(x.LAYOUTS[name], shape);
                const offsets = x.offsetsOf(name, shape);
                const places = {};
                for (const p of b.layout.places) places[p.name] = x.offsetsOf(name, shape, null, p.name);
                const back = offsets.map((at) => x.coordinates(b, at));
                const from = offsets.map((_, i) => x.fromPlaces(b, Object.fromEntries(
                    b.layout.places.map((p) => [p.name, places[p.name][i]]))));
                return JSON.stringify({ padded: b.padded, offsets, places, back, from });
            }""",
            [name, list(shape)],
        )
        found = json.loads(text)
        assert tuple(found["padded"]) == bound.padded_shape
        assert found["offsets"] == bound.offsets().flatten().tolist()
        for place, numbers in found["places"].items():
            assert numbers == bound.offsets(place).flatten().tolist()
        every = torch.cartesian_prod(*map(torch.arange, bound.padded_shape)).reshape(bound.size, -1)
        assert found["back"] == every.tolist()
        assert found["from"] == every.tolist()


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_of_matrices(page: Any, name: str) -> None:
    layout = LAYOUTS[name]
    for rows, k in MATRICES:
        found = page.evaluate(
            """([name, rows, K]) => {
                const x = window.explorer, b = x.bindMatrix(x.LAYOUTS[name], rows, K), all = [];
                for (let row = 0; row < rows; row++) for (let k = 0; k < K; k++) {
                    const d = x.describe(b, row, k);
                    const e = x.elementOf(b, x.coordinates(b, d.offset), d.tile, { row, k });
                    if (e.row !== row || e.k !== k) throw new Error(`no way back from ${row}, ${k}`);
                    all.push(d.offset, d.byte, d.bits[1], d.bits[0] - d.bits[1] + 1, ...Object.values(d.places));
                }
                return JSON.stringify(all);
            }""",
            [name, rows, k],
        )
        expected = _expected(layout, rows, k)
        assert torch.equal(torch.tensor(json.loads(found)).view(expected.shape), expected)


def _expected(layout: Any, rows: int, k: int) -> torch.Tensor:
    """(elements, 4 + places): offset, byte, lowest bit, bits, then each place's number, from `layouts/` alone."""
    row, code = torch.meshgrid(torch.arange(rows), torch.arange(k), indexing="ij")
    fixed = layout.fixed_shape
    step = layout.axes[-1].codes or 1
    if fixed is not None:
        bound, at = layout.bind(fixed), (row % fixed[0], code // step % fixed[1])
    else:
        bound, at = layout.bind((rows, k // step)), (row, code // step)
    offsets = bound.offsets()[at]
    low = torch.zeros_like(offsets)
    width = torch.full_like(offsets, layout.element_bits)
    if layout.element_bits == 4:
        low = offsets % 2 * 4
    elif step * 4 == layout.element_bits:
        low, width = code % step * 4, torch.full_like(offsets, 4)
    places = [bound.offsets(place.name)[at] for place in layout.places]
    columns = [offsets, offsets * layout.element_bits // 8, low, width, *places]
    return torch.stack(columns, dim=-1).reshape(rows * k, -1)


def test_other_padding(page: Any) -> None:
    bound = LAYOUTS["SCALE_SHUFFLE"].bind((64, 24))
    found = page.evaluate("window.explorer.offsetsOf('SCALE_SHUFFLE', [40, 20], { r: 32, g: 24 })")
    assert found == bound.offsets()[:64].flatten().tolist()


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("WEIGHT_PRESHUFFLE", [17, 32], "n must be a multiple of 16, not 17; pad to 32"),
        ("WEIGHT_PRESHUFFLE", [16, 33], "kb must be a multiple of 32, not 33; pad to 64"),
        ("MFMA_16X16X128_A", [16, 64], "k must be 128, not 64"),
    ],
)
def test_shapes_that_the_layout_refuses(page: Any, name: str, shape: list[int], message: str) -> None:
    words = page.evaluate(
        "([n, s]) => { try { explorer.bind(explorer.LAYOUTS[n], s); } catch (e) { return e.message; } }", [name, shape]
    )
    assert words == message


def test_the_link_holds_the_state(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=2112, K=7168, row=18, k=75, a="WEIGHT_PRESHUFFLE", b="none"))
    assert page.locator(".answer .main").inner_text() == "byte 57,893"
    page.fill("#k", "76")
    assert "k=76" in page.url
    assert page.locator(".answer .main").inner_text() == "byte 57,894"
    page.goto(address + _hash(rows=300, K=320, row=299, k=0, a="SCALE_SHUFFLE", b="none", pa="r320.g16"))
    expected = LAYOUTS["SCALE_SHUFFLE"].bind((320, 16)).offset((299, 0))
    assert page.locator(".answer .main").inner_text() == f"byte {expected:,}"


def test_a_place_leads_back_to_its_element(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=64, K=512, row=0, k=0, a="WEIGHT_PRESHUFFLE", b="MFMA_16X16X128_A"))
    page.fill('[data-side="a"] [data-reverse="byte"]', "5005")
    page.keyboard.press("Enter")
    n, kb = LAYOUTS["WEIGHT_PRESHUFFLE"].bind((64, 256)).coords(5005)
    assert (page.input_value("#row"), page.input_value("#k")) == (str(n), str(2 * kb))
    page.fill('[data-side="b"] [data-reverse="lane"]', "63")
    page.keyboard.press("Enter")
    assert page.locator('[data-side="b"] .main').inner_text().startswith("lane 63")


def test_bytes_and_blocks_lead_back_too(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=64, K=2048, row=37, k=3, a="WEIGHT_PRESHUFFLE", b="SCALE_SHUFFLE"))
    page.fill('[data-side="a"] [data-reverse="kb"]', "500")
    page.keyboard.press("Enter")
    assert page.input_value("#k") == "1001"
    page.fill('[data-side="b"] [data-reverse="g"]', "31")
    page.keyboard.press("Enter")
    assert (page.input_value("#row"), int(page.input_value("#k")) // 32) == ("37", 31)
    expected = LAYOUTS["SCALE_SHUFFLE"].bind((64, 64)).offset((37, 31))
    assert page.locator('[data-side="b"] .main').inner_text() == f"byte {expected:,}"


@pytest.mark.parametrize(("row", "k"), [(0, 0), (18, 75), (37, 1000), (63, 2047)])
def test_the_lanes_that_read_an_element(page: Any, address: str, row: int, k: int) -> None:
    page.goto(address + _hash(rows=64, K=2048, row=row, k=k, a="WEIGHT_PRESHUFFLE", b="SCALE_SHUFFLE"))
    said = page.locator('[data-side="a"] .answer').inner_text()
    for shape, rows, depth in (("16X16X128", 16, 128), ("32X32X64", 32, 64)):
        place = LAYOUTS[f"MFMA_{shape}_B"].bind((rows, depth)).place((row % rows, k % depth))
        assert f"lane {place['lane']}, VGPR {place['vgpr']}, nibble {place['nibble']} of B" in said
    lane = LAYOUTS["MFMA_16X16X128_SCALE"].bind((16, 4)).place((row % 16, k // 32 % 4))["lane"]
    byte = 2 * (k // 128 % 2) + row // 16 % 2  # the layout's two innermost factors
    scales = page.locator('[data-side="b"] .answer').inner_text()
    assert f"lane {lane} of the scales, byte {byte} of its dword" in scales


def test_keys_move_through_a_grid(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=64, K=512, row=5, k=64, a="SCALE_SHUFFLE", b="WEIGHT_PRESHUFFLE"))
    page.locator('[data-side="a"] [data-which="elements"] [aria-selected="true"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert (page.input_value("#row"), page.input_value("#k")) == ("6", "96")
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    page.keyboard.press("End")
    assert (page.input_value("#row"), page.input_value("#k")) == ("31", "224")


def test_a_click_chooses_and_hover_shows_both_ends(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=64, K=512, row=5, k=64, a="SCALE_SHUFFLE", b="none"))
    cell = page.locator('[data-which="elements"] [role="gridcell"]').nth(8 * 7 + 3)
    cell.hover()
    assert page.locator(".peek").count() == 2
    assert page.locator(".say").inner_text() == cell.get_attribute("title")
    cell.click()
    assert (page.input_value("#row"), page.input_value("#k")) == ("7", "96")


def test_wrong_shapes_say_what_to_change(page: Any, address: str) -> None:
    page.goto(address + _hash(rows=17, K=512, row=0, k=0, a="WEIGHT_PRESHUFFLE", b="SCALE_SHUFFLE"))
    assert (
        page.locator('[data-side="a"] [role="alert"]').inner_text() == "n must be a multiple of 16, not 17; pad to 32"
    )
    assert page.locator('[data-side="b"] .main').inner_text() == "byte 0"


def test_everything_has_a_name(page: Any) -> None:
    unnamed = page.evaluate(
        """[...document.querySelectorAll("input, select, button, [role=grid], [role=gridcell]")].filter((node) =>
            !(node.getAttribute("aria-label") || (node.labels && node.labels.length) || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_text_is_legible_and_nothing_is_cut(browser: Any, address: str, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    for state in ({"a": "SCALE_SHUFFLE", "rows": 300, "K": 320, "row": 290, "k": 319}, {"a": "MFMA_32X32X64_D"}, {}):
        page.goto("about:blank")
        page.goto(address + _hash(**state))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        worst = page.evaluate(_LEAST_CONTRAST)
        assert worst >= 4.5, "WCAG 2.2, 1.4.3: contrast of text"
    context.close()


def test_the_theme_can_be_changed(page: Any) -> None:
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert page.locator("#theme").inner_text() == "Light"


def test_the_contests_shapes_are_offered(page: Any) -> None:
    from mxassay.reference.benchmark import LEADERBOARD

    offered = page.evaluate("[...document.querySelectorAll('#shapes option')].map((o) => o.value).filter(Boolean)")
    assert set(offered) == {f"{n},{k}" for _, n, k in LEADERBOARD}
