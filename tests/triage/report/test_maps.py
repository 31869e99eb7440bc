"""Maps and counts against outputs whose errors are known one by one."""

from dataclasses import replace

import pytest
import torch

from mxassay.properties.kernel import Launch
from mxassay.triage.report.drawing import drawing
from mxassay.triage.report.maps import CERTIFICATE, STEPS, VALUES, maps
from mxassay.triage.report.outputs import outputs_of, ranges


@pytest.fixture
def small(diagnoses):
    """One row of 16 certified outputs, right."""
    shrunk = diagnoses["scale"].shrunk
    return replace(shrunk, out=shrunk.operands.expectation.exact.clone())


def _with(failure, changes):
    out = failure.out.clone()
    for place, value in changes.items():
        out[place] = value
    return replace(failure, out=out)


def _keys(drawn):
    return [drawn.levels[level].key for level in drawn.cells[0]]


def test_one_cell_for_each_output(small):
    """The one output that is not zero must be 2."""
    found = _with(small, {(0, 3): -2.0, (0, 4): 0.0625, (0, 5): float("nan"), (0, 6): -1.0, (0, 7): float("inf")})
    outputs = outputs_of(found)
    values, steps, certificate = maps("", found, outputs).maps
    assert _keys(values)[3:9] == ["low3", "high1", "nan", "low3", "high3", "right"]
    assert _keys(steps)[3:9] == ["step5", "step4", "nan", "step4", "step4", "right"]
    assert _keys(certificate)[3:9] == ["sure-wrong"] * 5 + ["sure"]
    assert outputs.count == 5
    assert outputs.first == (0, 3)


@pytest.mark.parametrize(
    ("value", "steps", "key"),
    [(2.015625, 1, "step1"), (2.03125, 2, "step2"), (2.25, 16, "step3"), (3.984375, 127, "step3"), (4.0, 128, "step4"),
     (-2.0, 2 * 0x4000, "step5")],
)  # fmt: skip
def test_bit_distance_counts_bfloat16(small, value, steps, key):
    found = _with(small, {(0, 3): value})
    outputs = outputs_of(found)
    assert int(outputs.steps[0, 3]) == steps
    assert _keys(maps("", found, outputs).maps[1])[3] == key


def test_minus_zero_is_right_where_zero_is(small):
    assert outputs_of(_with(small, {(0, 0): -0.0})).count == 0


def test_wide_cases_show_tiles_by_their_worst(diagnoses):
    failure = diagnoses["scale"].failure
    out = failure.operands.expectation.exact.clone()
    out[17, 70] *= -1
    out[17, 71] = out[17, 71] + 2.0 ** torch.frexp(out[17, 71].abs())[1] / 128
    failure = replace(failure, out=out)
    outputs = outputs_of(failure)
    values, steps, certificate, folded = maps("", failure, outputs).maps
    for drawn in (values, steps, certificate):
        assert (len(drawn.cells), len(drawn.cells[0])) == (3, 5)
    wrong = [(i, j) for i, row in enumerate(steps.cells) for j, level in enumerate(row) if level]
    assert wrong == [(1, 1)]
    assert steps.levels[steps.cells[1][1]].key == "step5"
    places = [(i, j) for i, row in enumerate(folded.cells) for j, level in enumerate(row) if level]
    assert places == [(1, 6), (1, 7)]


def test_tiles_at_the_rim_are_parts(diagnoses):
    """288 columns are four tiles of 64 and a half."""
    failure = diagnoses["scale"].failure
    out = failure.operands.expectation.exact.clone()
    out[47, 287] = float("nan")
    drawn = maps("", failure, outputs_of(replace(failure, out=out))).maps[0]
    assert drawn.levels[drawn.cells[2][4]].key == "nan"
    assert sum(level > 0 for row in drawn.cells for level in row) == 1


def test_without_a_plan_cells_are_outputs_of_one_mfma(diagnoses):
    failure = replace(diagnoses["scale"].failure, launch=Launch())
    drawn = maps("", failure, outputs_of(failure)).maps[0]
    assert (len(drawn.cells), len(drawn.cells[0])) == (3, 18)
    assert "16 × 16" in drawn.cell


def test_uncertified_outputs_are_told_apart(diagnoses):
    failure = diagnoses["unexplained"].failure
    outputs = outputs_of(failure)
    certified = outputs.expectation.certified
    assert certified.any()
    assert not certified.all()
    cells = torch.tensor(maps("", failure, outputs).maps[2].cells)
    keys = [level.key for level in CERTIFICATE]
    assert torch.equal(cells == keys.index("bound-wrong"), outputs.wrong & ~certified)
    assert torch.equal(cells == keys.index("sure"), ~outputs.wrong & certified)


def test_an_output_of_another_shape_has_no_maps(small):
    assert outputs_of(replace(small, out=small.out[:, :8])) is None
    assert outputs_of(replace(small, out=small.out.float())) is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([0] * 4, "none"),
        ([1] * 4, "0–3"),
        ([0, 1, 0, 0, 1, 1], "1, 4–5"),
        ([0, 1] * 8, "1 of every 2"),
        ([0, 0, 1, 0] * 4 + [0, 0, 1], "2 of every 4"),
        ([1] + [0] * 62 + [1], "0, 63"),
    ],
)
def test_ranges(mask, words):
    assert ranges(torch.tensor(mask, dtype=torch.bool)) == words


def test_levels_have_a_letter_of_their_own():
    for levels in (VALUES, STEPS, CERTIFICATE):
        assert len({level.glyph for level in levels}) == len(levels)
        assert all(level.glyph.isascii() for level in levels)


def test_every_cell_is_drawn_once(diagnoses):
    failure = diagnoses["unexplained"].failure
    for drawn in maps("", failure, outputs_of(failure)).maps:
        picture = drawing(drawn)
        area = 0
        for run in picture.split("M")[1:]:
            if "v1h-" in run:
                area += int(run.split("h")[1].split("v")[0])
        assert area == len(drawn.cells) * len(drawn.cells[0])
