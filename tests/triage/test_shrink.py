"""Failing calls shrink to a tile and a few elements, still failing in the same way, within their budget."""

from dataclasses import replace

import pytest
import torch
from simulated import dense, failing, follows, right

from mxassay.optimized import Plan
from mxassay.properties.kernel import Placement
from mxassay.triage.rerun import fails, kind
from mxassay.triage.shrink import shrink, size_of

RULES = (
    "w-nibbles-swapped",
    "weight-halves-over-the-step",
    "scale-row-groups-exchanged",
    "scales-of-previous-block",
    "ragged-step-dropped",
    "split-starts-in-packed-bytes",
    "scale-floor",
    "last-partial-lost",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_tile_and_four_elements_are_left(rule):
    run = follows(rule)
    operands = dense(17, 80, 704) if rule != "scale-floor" else replace(dense(), a=dense().a * 1.26)
    plan = Plan(tile_m=16, tile_n=32, tile_k=256, splits=2, group_m=2)
    failure = failing(run, operands, plan, Placement(0x7F, "every third row"))
    assert fails(failure)
    small = shrink(failure, run, seconds=60)
    assert fails(small)
    assert kind(small) == kind(failure)
    assert size_of(small).small, (size_of(small), small.operands)
    assert torch.equal(small.out.view(torch.int16), run(small).view(torch.int16))
    assert small.placement.view == "contiguous"
    if rule != "last-partial-lost":
        assert small.launch.plan.splits == 1 or rule == "split-starts-in-packed-bytes"


@pytest.mark.parametrize("rule", ["output-cut", "output-ties-away", "output-rounded-up"])
def test_two_terms_are_left_of_a_sum_that_is_rounded_wrongly(rule):
    """Losing one element after the other such a sum becomes exact, and right."""
    operands = dense(17, 48, 576)
    failure = failing(follows(rule), replace(operands, a=operands.a * 1.0078125))
    small = shrink(failure, follows(rule), seconds=60)
    assert kind(small) == kind(failure) == "certified"
    assert (size_of(small).tiles, size_of(small).elements) == (1, 4)


def test_a_tile_that_is_missing_needs_the_one_before_it():
    run = follows("last-tiles-of-n-not-launched")
    small = shrink(failing(run, dense(17, 144, 704)), run, seconds=60)
    assert kind(small) == "NaN"
    assert small.operands.shape == (1, 48, 64)
    assert (size_of(small).tiles, size_of(small).elements) == (2, 0)


def test_the_simplest_values_are_left():
    small = shrink(failing(follows("w-nibbles-swapped")), follows("w-nibbles-swapped"), seconds=60)
    assert set(small.operands.a.unique().tolist()) <= {0.0, 1.0}
    assert bool((small.operands.scales == 127).all())


def test_the_budget_of_calls_is_kept():
    run = follows("w-nibbles-swapped")
    failure = failing(run)
    run.calls = 0
    assert fails(shrink(failure, run, runs=5))
    assert run.calls <= 6


def test_a_call_that_does_not_fail_again_is_left_as_it_came():
    failure = failing(follows("w-nibbles-swapped"))
    assert shrink(failure, right) is failure


def test_an_error_shrinks_to_the_same_error():
    def run(failure):
        if bool((failure.operands.a[:, 40] != 0).any()) and failure.operands.shape[0] > 0:
            raise RuntimeError("no such luck at 40")
        return right(failure)

    failure = replace(failing(right), out=None, error="RuntimeError: no such luck at 40")
    small = shrink(failure, run, seconds=60)
    assert small.out is None
    assert small.error == "RuntimeError: no such luck at 40"
    assert size_of(small).elements == 1


def test_another_kind_of_failure_is_not_taken():
    """Zeros would give NaN here; the case keeps giving numbers."""

    def run(failure):
        out = follows("w-nibbles-swapped")(failure)
        sparse = int((failure.operands.a != 0).sum()) < 9
        return torch.full_like(out, float("nan")) if sparse else out

    failure = failing(run)
    small = shrink(failure, run, seconds=60)
    assert kind(small) == kind(failure) == "certified"
    assert int((small.operands.a != 0).sum()) >= 9
