"""The record of other people's answers: true where their library of that version is installed, and complete."""

from importlib.metadata import PackageNotFoundError, version

import pytest

from mxassay.properties.witnesses import WITNESSES


@pytest.fixture(scope="module")
def page(chapters):
    return chapters["witnesses"]


@pytest.mark.parametrize("name", WITNESSES)
def test_the_recorded_answers_are_what_the_library_says(name, page):
    witness = WITNESSES[name]
    known = page.recorded().get(name)
    try:
        installed = version(witness.package)
    except PackageNotFoundError:
        pytest.skip(f"{witness.package} is not installed")
    if known is None or installed != known["version"]:
        pytest.skip(f"{witness.package} {installed} is installed; ask it with python docs/generate.py --ask")
    assert page.answers(witness, witness.call) == known["answers"]


def test_the_page_tells_every_witness_and_what_differs(page):
    text = page.page()
    assert all(name in text for name in WITNESSES)
    assert "| NaN | 6 | **-0** | **raises ValueError** |" in text
    different = [line for line in text.splitlines() if line.startswith("|") and "**" in line]
    for line in different:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert any(cell.strip("*") != cells[1] for cell in cells[2:])


def test_a_library_that_changes_its_mind_is_seen(page, monkeypatch):
    record = page.recorded()
    record["ml_dtypes"]["answers"]["6"] = "4"
    monkeypatch.setattr(page, "recorded", lambda: record)
    assert "| 6 | 6 | **4** | 6 |" in page.page()
