"""The page as a file: its chapters and their order, what it escapes, what it may ask for."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from mxassay.triage.casefile import from_json
from mxassay.triage.report import html
from mxassay.triage.report.contents import verdict_words
from mxassay.triaging import replay_of

CHAPTERS = ["case", "rule", "maps", "xray", "blame", "again"]
COMPARED = {
    "fault": ["case", "rule", "maps", "xray", "blame", "versions", "instructions", "again"],
    "order-only": ["versions", "instructions", "again"],
}
# Elements without an end tag (HTML standard, 13.1.2).
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Elements(HTMLParser):
    """Every element with its attributes, all text, and whether each end tag closes what is open."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self._open = [], [], []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


NAMES = ["scale", "raising", "unexplained", "hostile", "fault", "order-only"]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def page(name, reports):
    return Elements(reports[name])


def test_every_chapter_stands_in_its_order(page, name):
    assert [a["id"] for tag, a in page.elements if tag == "section"] == COMPARED.get(name, CHAPTERS)


def test_every_link_leads_to_a_place_of_the_page(page, name):
    places = {a["id"] for _, a in page.elements if "id" in a}
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert set(COMPARED.get(name, CHAPTERS)) == {link.removeprefix("#") for link in links}
    assert {link.removeprefix("#") for link in links} <= places
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert sorted(set(ids)) == sorted(ids)


def test_nothing_is_fetched_and_nothing_runs(page):
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "base", "video", "audio", "source"}
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "action", "style", "xlink:href", "background", "formaction")
            if name == "href":
                assert value.startswith("#") or (tag, value) == ("link", "data:,")
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_style_fetches_nothing(reports):
    style = re.search(r"<style>(.*?)</style>", reports["scale"], re.DOTALL)[1]
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert not re.search(r"url\(|@import|https?:", style)


def test_hostile_names_are_text(reports, hostile_text):
    page = reports["hostile"]
    page.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    shown = "".join(Elements(page).text)
    assert hostile_text[: hostile_text.index("\x1b")] in shown
    assert "\\x1b[31m\\u202e\\x00\\udcff" in shown


def _first_screen(page):
    return page[page.index("<header>") : page.index("</header>") + len("</header>")]


def test_the_first_screen_says_what_where_and_how_to_run_it(reports):
    text = " ".join("".join(Elements(_first_screen(reports["scale"])).text).split())
    for words in (
        "FAIL",
        "kernels/fused.py:gemm on emulated MI355X",
        "The scale of the next K group was used.",
        "bit for bit",
        "reading the shuffled scales (scales.layout), at buffer_load_ubyte, fused_gemm.py:118",
        "out[0, 3] is 16 (0x4180), must be 2 (0x4000)",
        "M=1, N=16, K=64 with 2 nonzero elements, shrunk from M=48, N=288, K=256",
        "mxassay replay case.mxcase",
    ):
        assert words in text


def test_no_rule_is_named_where_none_fits(reports):
    text = "".join(Elements(_first_screen(reports["unexplained"])).text)
    assert "The outputs are wrong by no rule that is known." in text
    assert "The nearest gives 17 of 402 wrong outputs: The output is truncated, not rounded." in text


def test_a_kernel_without_an_output_says_why(reports):
    text = "".join(Elements(_first_screen(reports["raising"])).text)
    assert "No output came: RuntimeError: out of LDS." in text
    assert "  at line 3" in reports["raising"]


def test_a_stage_that_fails_by_itself_is_no_product(diagnoses):
    whole = diagnoses["raising"]
    x = whole.failure.operands
    nothing = replace(x, a=torch.zeros_like(x.a), codes=torch.zeros_like(x.codes))
    failure = replace(whole.failure, operands=nothing, error="two conversions share an operand")
    notes = ("looked at by itself (inline-assembly): two conversions share an operand",)
    found = replace(
        whole, failure=failure, shrunk=failure, stage="quantizer.element", statement=failure.error, notes=notes
    )
    page = html(found, replay=replay_of(failure))
    text = " ".join("".join(Elements(page).text).split())
    assert "Two conversions share an operand. Seen with that stage by itself, rounding elements to codes." in text
    assert "mxassay triage kernels/fused.py:gemm --device emulated" in text
    assert "mxassay replay" not in text
    assert "Smallest case" not in text
    assert "out of LDS" not in text


def test_the_first_divergence_is_marked_once(reports):
    rows = [a["class"] for tag, a in Elements(reports["scale"]).elements if tag == "tr" and "class" in a]
    xray = rows[-7:]
    assert xray == ["right"] * 4 + ["first", "wrong", "wrong"]
    assert [row for row in rows if row == "chosen"] == ["chosen"]


def test_a_comparison_says_what_changed(reports):
    whole = Elements(reports["order-only"])
    text = " ".join("".join(whole.text).split())
    for words in (
        "ORDER-ONLY",
        "The candidate is no worse than the base.",
        "1234abcd “Read scales in one load” and feed5678 “Read scales in one load”",
        "plan 16x64x128 became 16x64x256",
        "first out[0, 3] was 2, is 16",
    ):
        assert words in text
    table = reports["order-only"][reports["order-only"].index('id="instructions"') :]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table)
    assert [re.sub("<[^>]*>", "", cell) for cell in cells[2:6]] == ["VGPRs", "96", "120", "+25 %"]
    assert [re.sub("<[^>]*>", "", cell) for cell in cells[8:12]] == ["spilled VGPRs", "0", "8", "new"]


def test_rules_of_another_stage_are_counted_as_doubt(diagnoses):
    whole = diagnoses["scale"]
    first, second, _ = whole.explanations
    exact = replace(second, reproduced=second.wrong, spoiled=0)
    alike, other = (
        replace(whole, explanations=(first, replace(exact, stage=stage))) for stage in (first.stage, "store")
    )
    assert verdict_words(alike)[1].endswith("So does 1 other rule of the same stage and class.")
    assert verdict_words(other)[1].endswith(
        "So does 1 rule of another stage or class; this case does not tell them apart."
    )


def test_what_a_stage_does_by_itself_is_the_finding(diagnoses):
    found = replace(diagnoses["unexplained"], stage="quantizer.scale", statement="zero blocks get scale byte 1")
    assert verdict_words(found) == (
        "Zero blocks get scale byte 1.",
        "Seen with that stage by itself, choosing the scale of a block.",
    )
    judged = replace(found, stage="reference", statement="two thirds are rounded up")
    assert verdict_words(judged)[0] == "Not the kernel is wrong but what judges it: two thirds are rounded up."


def test_the_case_file_can_be_copied_from_the_page(diagnoses):
    whole = diagnoses["scale"]
    page = Elements(html(whole, replay=replay_of(whole.shrunk)))
    texts = [text for text in page.text if text.startswith("{")]
    copied = from_json(json.loads(texts[0]))
    assert torch.equal(copied.out.view(torch.int16), whole.shrunk.out.view(torch.int16))
    assert torch.equal(copied.operands.scales, whole.shrunk.operands.scales)
    assert copied.launch.plan == whole.shrunk.launch.plan
