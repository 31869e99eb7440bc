"""The catalogue is whole: every property is claimed by a test, every test claims a property, the page is up to date."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mxassay.errors import ContractError
from mxassay.properties.catalogue import CATALOGUE, CHAPTERS, NEEDS, Property, markdown
from mxassay.properties.claims import claim

ROOT = Path(__file__).resolve().parents[2]
CHAPTER_FILES = sorted((ROOT / "properties").glob("test_*.py"))


def claims():
    """(file, test, id) of every claim, and of every test without one."""
    for file in CHAPTER_FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                ids = [
                    call.args[0].value
                    for call in node.decorator_list
                    if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "claim"
                ]
                yield file.stem, node.name, ids[0] if ids else None


def test_every_property_is_claimed_and_every_test_claims_one():
    found = list(claims())
    assert {name for _, _, name in found} == set(CATALOGUE)
    assert not [test for _, test, name in found if name is None]


def test_a_property_stands_in_the_file_of_its_chapter():
    for file, _, name in claims():
        assert file == "test_" + CATALOGUE[name].chapter.replace(" ", "_").replace("-", "_").lower()


def test_chapters_are_files():
    assert {f"test_{chapter.replace(' ', '_').replace('-', '_').lower()}" for chapter in CHAPTERS} == {
        file.stem for file in CHAPTER_FILES
    }


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.id)
def test_a_statement_is_one_sentence(entry):
    assert entry.statement.endswith(".")
    assert entry.statement[0].isupper()
    assert ". " not in entry.statement
    assert entry.source


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "properties.md").read_text() == markdown()


def test_the_page_is_printed_without_torch():
    code = (
        "import runpy, sys; runpy.run_module('mxassay.properties.catalogue', run_name='__main__');"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert done.stdout == markdown()


def test_unknown_names_are_refused():
    with pytest.raises(ContractError, match=r"^a property's needs must be among own, .*, not luck$"):
        Property("x", "gemm", "X holds.", "nobody", ("luck",))
    with pytest.raises(ContractError, match=r"^a claimed property must be one of .*, not luck$"):
        claim("luck")


def test_every_need_is_used():
    assert {need for entry in CATALOGUE.values() for need in entry.needs} == set(NEEDS)
