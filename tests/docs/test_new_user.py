"""Someone who knows GEMM but not these layouts finds a byte, from the pages alone."""

import re
from pathlib import Path
from typing import Any

import pytest

N, K = 2880, 7168


def _function(docs: Path, page: str) -> Any:
    found: dict[str, Any] = {}
    exec(re.search(r"```python\n(def address.*?)```", (docs / page).read_text(encoding="utf-8"), re.DOTALL)[1], found)
    return found["address"]


def test_by_the_formulas_of_the_pages(docs: Path) -> None:
    weights = (docs / "spec/weight-preshuffle.md").read_text(encoding="utf-8")
    assert "code k has kb = ⌊k / 2⌋, and KB is K / 2" in weights
    assert _function(docs, "spec/weight-preshuffle.md")(37, 1000 // 2, K // 2) == 122_708
    scales = (docs / "spec/scale-shuffle.md").read_text(encoding="utf-8")
    assert "code k has g = ⌊k / 32⌋, and Gp is K / 32 rounded up to a multiple of 8" in scales
    assert _function(docs, "spec/scale-shuffle.md")(37, 31, K // 32) == 8_150


def test_by_the_explorer(browser: Any, docs: Path) -> None:
    page = browser.new_page()
    page.goto((docs / "explorer" / "index.html").as_uri())
    page.select_option("#shapes", "2880,512")
    for box, value in (("#K", K), ("#row", 37), ("#k", 1000)):
        page.fill(box, str(value))
    assert page.locator('[data-side="a"] .main').inner_text() == "byte 122,708"
    page.fill('[data-side="b"] [data-reverse="g"]', "31")
    page.keyboard.press("Enter")
    assert page.locator('[data-side="b"] .main').inner_text() == "byte 8,150"
    page.close()


@pytest.mark.parametrize(
    ("words", "byte"),
    [
        (["layout", "weight_preshuffle", "--shape", "2880,3584", "--at", "37,500"], "122708"),
        (["layout", "scale_shuffle", "--shape", "2880,224", "--at", "37,31"], "8150"),
        (["layout", "weight_preshuffle", "--matrix", "2880,7168", "--at", "37,1000"], "122708"),
        (["layout", "scale_shuffle", "--matrix", "2880,7168", "--at", "37,1000"], "8150"),
    ],
)
def test_in_the_terminal(words: list[str], byte: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mxassay import cli

    assert cli.main(words) == 0
    assert f"byte offset {byte} " in capsys.readouterr().out


def test_who_counts_in_codes_where_bytes_are_meant_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from mxassay import cli

    assert cli.main(["layout", "weight_preshuffle", "--shape", f"{N},{K}", "--at", "37,1000"]) == 0
    assert "the codes k = 2000 and 2001 of row 37, in a matrix with K = 14336" in capsys.readouterr().out
