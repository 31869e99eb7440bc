"""The page in headless Chromium: silent, within the width of a phone, legible in both themes, no dead links."""

import os
from pathlib import Path

import pytest

SIZES = {"phone": (390, 844), "desktop": (1440, 900)}

# WCAG 2.2, relative luminance and contrast ratio; colours go through a canvas, which reduces all notations to bytes.
_LEAST_CONTRAST = """() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
        .getContext("2d", { willReadFrequently: true });
    const bytes = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => sum + w * linear(c[i] / 255), 0);
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const color = bytes(getComputedStyle(node).backgroundColor);
            if (color[3] > 250) return color;
        }
        return [255, 255, 255];
    };
    const ratio = (x, y) => (Math.max(light(x), light(y)) + 0.05) / (Math.min(light(x), light(y)) + 0.05);
    const shown = (n) => n.textContent.trim() && n.getClientRects().length;
    const words = [...document.querySelectorAll("body *:not(svg *)")].filter((n) => n.tagName !== "svg" && shown(n))
        .map((n) => ratio(bytes(getComputedStyle(n).color), behind(n)));
    const letters = [...document.querySelectorAll("svg.map text")].map((n) => {
        const cell = n.ownerSVGElement.querySelector(`path.${n.getAttribute("class")}`);
        return ratio(bytes(getComputedStyle(n).fill), bytes(getComputedStyle(cell).fill));
    });
    return [Math.min(...words), Math.min(...letters, 99)];
}"""


@pytest.fixture(scope="module")
def files(reports, tmp_path_factory):
    folder = Path(os.environ.get("MXASSAY_SCREENSHOTS") or tmp_path_factory.mktemp("reports"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in reports.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, files):
    """Opens a sample; nothing may be said on the console, and nothing asked for but the file itself."""
    said, contexts = [], []

    def open_page(name, size="desktop", scheme="light"):
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        address = (files / f"{name}.html").as_uri()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: said.append(r.url) if not r.url.startswith((address, "data:")) else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["scale", "raising", "unexplained", "hostile", "fault", "order-only"])
def test_it_is_legible_and_within_the_screen(opened, files, name, size, scheme):
    page = opened(name, size, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    words, letters = page.evaluate(_LEAST_CONTRAST)
    assert words >= 4.5, "WCAG 2.2, 1.4.3: contrast of text"
    assert letters >= 4.5, "WCAG 2.2, 1.4.3: contrast of letters in cells"
    shot = page.screenshot(path=str(files / f"{name}-{size}-{scheme}.png"), full_page=True)
    assert len(shot) > 10_000


def test_the_verdict_is_on_the_first_screen(opened):
    for size in SIZES:
        page = opened("scale", size)
        for words in ("FAIL", "mxassay replay case.mxcase"):
            box = page.locator("header").get_by_text(words, exact=True).bounding_box()
            assert 0 <= box["y"] < SIZES[size][1] - box["height"]


def test_every_link_moves_to_its_chapter(opened):
    page = opened("scale")
    links = page.locator("nav a")
    assert links.count() == 6
    for i in range(links.count()):
        links.nth(i).click()
        anchor = links.nth(i).get_attribute("href")
        assert page.url.endswith(anchor)
        assert page.locator(f"section{anchor} h2").count() == 1


def test_keys_reach_every_link_and_every_frame_that_scrolls(opened):
    page = opened("scale")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    whole = page.evaluate("[...document.querySelectorAll('a, summary, .scroll, pre:not(details pre)')]"
                          ".map((node) => node.outerHTML.slice(0, 200))")  # fmt: skip
    assert set(whole) <= reached


def test_pictures_have_words(opened):
    page = opened("scale")
    names = page.evaluate("[...document.querySelectorAll('svg[role=img]')].map((n) => n.getAttribute('aria-label'))")
    assert len(names) == 7
    assert all(len(name) > 20 for name in names)


def test_letters_do_not_leave_their_cells(opened):
    page = opened("scale", "phone")
    outside = page.evaluate("""[...document.querySelectorAll('svg.map')].filter((svg) => {
        const whole = svg.getBoundingClientRect(), columns = svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll('text')].some((t) => t.getBoundingClientRect().width > whole.width / columns);
    }).length""")
    assert outside == 0


def test_it_prints(opened):
    page = opened("scale")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf()[:5] == b"%PDF-"
