"""What a failure needs in order to happen, found by doing without."""

from dataclasses import replace

import pytest
import torch
from simulated import dense, failing, right

from mxassay.optimized import Plan
from mxassay.properties.faults import CLASSES, STAGES
from mxassay.triage.circumstances import circumstance
from mxassay.triage.diagnose import diagnose
from mxassay.triage.diagnosis import Checkpoint, XRay
from mxassay.triage.prior import OF_STAGES

PLAN = Plan(tile_m=16, tile_n=32, tile_k=256, splits=2)


def wrong_where(condition):
    """A run whose last output is off where the call is so."""

    def run(failure):
        out = right(failure)
        if condition(failure):
            out.view(torch.int16)[-1, -1] ^= 0x40
        return out

    return run


@pytest.mark.parametrize(
    ("condition", "class_", "words"),
    [
        (lambda call: call.launch.plan.splits > 1, "split-span", "K is split"),
        (lambda call: call.operands.shape[2] % 256, "k-tail", "K ends inside a step"),
        (lambda call: call.operands.shape[1] % 32, "n-tail", "N ends inside a tile"),
        (lambda call: call.operands.shape[0] % 16, "small-m", "M ends inside a tile"),
    ],
)
def test_what_it_needs_is_named(condition, class_, words):
    run = wrong_where(condition)
    assert circumstance(failing(run, dense(17, 48, 576), PLAN), run) == (class_, words)


def test_what_it_can_do_without_is_not_named():
    run = wrong_where(lambda call: True)
    failure = failing(run, dense(17, 48, 576), PLAN)
    assert circumstance(failure, run) is None
    assert circumstance(failure, run, until=lambda: True) is None


def test_a_diagnosis_without_a_rule_takes_its_class_from_there():
    """The x-ray names the stage, and the circumstance the class; without one, the stage's name gives a guess."""
    xray = XRay((Checkpoint("weights.layout", "codes of W", 4, 1),))
    run = wrong_where(lambda call: call.operands.shape[2] % 256)
    found = diagnose(failing(run, dense(3, 48, 320), replace(PLAN, splits=1)), run, xray=lambda case: xray, seconds=60)
    assert (found.class_, found.stage) == ("k-tail", "weights.layout")
    assert "the small case fails only where K ends inside a step" in found.notes
    run = wrong_where(lambda call: True)
    found = diagnose(failing(run, dense(3, 48, 320), replace(PLAN, splits=1)), run, xray=lambda case: xray, seconds=60)
    assert (found.class_, found.stage) == ("weight-order", "weights.layout")
    assert any("the class is a guess" in note for note in found.notes)


def test_every_stage_has_a_class():
    assert set(OF_STAGES) == set(STAGES)
    assert set(OF_STAGES.values()) <= set(CLASSES)
