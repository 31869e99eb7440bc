"""What is said of the mutation of reference/ and layouts/ is what was measured."""

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutant_scores import spoken  # noqa: E402

SCORES = json.loads((HERE / "scores.json").read_text(encoding="utf-8"))


def test_the_scores_are_of_the_files_that_are_there():
    there = [
        file.relative_to(ROOT).as_posix()
        for folder in ("layouts", "reference")
        for file in (ROOT / folder).glob("*.py")
    ]
    assert sorted(SCORES) == sorted(there)
    for row in SCORES.values():
        assert 0 < row["tried"] <= row["mutants"]
        assert row["killed"] + row["explained"] <= row["tried"]


@pytest.mark.parametrize("folder", ["layouts/", "reference/"])
def test_nine_tenths_of_what_was_tried_are_killed(folder):
    rows = [row for file, row in SCORES.items() if file.startswith(folder)]
    assert sum(row["killed"] for row in rows) >= 0.9 * sum(row["tried"] for row in rows)


def test_the_sentence_in_the_documents_is_the_measured_one():
    assert spoken(SCORES) in " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
