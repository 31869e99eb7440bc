"""From a failing call to class, stage and rule, by outputs alone; and what is said where nothing is known."""

from dataclasses import replace

import pytest
import torch
from simulated import dense, failing, follows, right

from mxassay.optimized import Plan
from mxassay.properties.catalogue import CATALOGUE
from mxassay.properties.faults import CLASSES, STAGES
from mxassay.properties.kernel import Placement
from mxassay.triage.diagnose import diagnose
from mxassay.triage.diagnosis import Blame, Checkpoint, XRay
from mxassay.triage.prior import PRIORS, likely
from mxassay.triage.rerun import fails
from mxassay.triage.screen import nothing, ties
from mxassay.triage.suspects import SUSPECTS, exact

SPLIT = Plan(tile_m=16, tile_n=32, tile_k=256, splits=2)


@pytest.mark.parametrize(
    ("rule", "shape", "plan"),
    [
        ("weight-halves-over-the-step", (17, 48, 320), None),
        ("scale-rows-interleaved", (17, 48, 320), None),
        ("k-in-packed-bytes", (17, 48, 320), None),
        ("span-in-packed-bytes", (5, 48, 576), SPLIT),
        ("split-runs-to-the-end", (5, 48, 576), SPLIT),
        ("first-partial-twice", (5, 48, 1088), SPLIT),
        ("remap-without-splits", (41, 144, 576), SPLIT),
        ("output-cut", (17, 48, 320), None),
    ],
)
def test_the_rule_is_named(rule, shape, plan):
    run = follows(rule)
    failure = failing(run, dense(*shape), plan or Plan(tile_m=16, tile_n=32, tile_k=256))
    assert fails(failure)
    found = diagnose(failure, run, seconds=60)
    suspect = SUSPECTS[rule]
    assert (found.class_, found.stage) == (suspect.class_, suspect.stage)
    assert found.explanations[0].exact
    assert fails(found.shrunk)
    assert set(found.seconds) == {"shrink", "suspects"}


def test_the_experiments_that_tell_the_most_come_first():
    """Read padding makes all outputs NaN, as many orders of scales do that read it; few calls must tell them apart."""
    run = follows("padding-scales-reach-the-product")
    failure = failing(run, ties("even"), Plan(tile_m=16, tile_n=32, tile_k=256), Placement(padding=0xFF))
    found = diagnose(failure, run, seconds=60)
    assert (found.class_, found.stage) == ("padding", "scales.layout")


def test_experiments_tell_apart_what_one_call_cannot():
    """A ragged last step left out, or every step but the first: one and the same where there are two steps."""
    run = follows("ragged-step-dropped")
    found = diagnose(failing(run, dense(17, 48, 320)), run, seconds=60)
    assert (found.class_, found.stage) == ("k-tail", "k-loop")
    assert any(note.startswith("with ") and "a-step-too-few" in note for note in found.notes)


def test_none_is_said_plainly():
    def run(failure):
        out = right(failure)
        out[0, 0] += 4096
        return out

    found = diagnose(failing(run), run, seconds=60)
    assert not exact(found.explanations)
    assert any(f"none of {len(SUSPECTS)} wrong rules" in note for note in found.notes)
    assert (found.class_, found.stage) == (None, None)


def test_the_first_divergence_names_the_stage_where_no_rule_does():
    def run(failure):
        out = right(failure)
        out[0, 0] += 4096
        return out

    ok = Checkpoint("activations", "as loaded", 8, 0)
    torn = Checkpoint("accumulate", "sums", 8, 1)
    found = diagnose(failing(run), run, xray=lambda case: XRay((ok, torn)), blame=lambda case: Blame("source", "why"))
    assert found.stage == "accumulate"
    assert found.xray.first_divergence is torn
    assert found.blame.culprit == "source"


def test_an_x_ray_that_breaks_is_a_note():
    run = follows("output-cut")

    def broken(case):
        raise ValueError("no card")

    found = diagnose(failing(run), run, xray=broken)
    assert found.xray is None
    assert "no x-ray: ValueError: no card" in found.notes
    assert found.stage == "store"


def test_a_failure_in_words_falls_back_on_its_property():
    failure = nothing(failing(right).subject, "xcd-remap", "each of 13 tiles must come once")
    found = diagnose(failure, right)
    assert (found.class_, found.stage) == ("tile-map", "tile-map")
    assert found.shrunk is failure
    assert any("xcd-remap" in note for note in found.notes)


def test_words_that_hide_a_wrong_product_are_looked_behind():
    run = follows("output-cut")
    failure = replace(failing(run), out=None, error="a second call gave something else")
    found = diagnose(failure, run, seconds=60)
    assert (found.class_, found.stage) == ("precision", "store")
    assert found.failure.out is not None


def test_every_prior_is_of_a_property_a_class_and_a_stage():
    assert set(PRIORS) <= set(CATALOGUE)
    for class_, stage in PRIORS.values():
        assert class_ in CLASSES
        assert stage in STAGES
    assert likely(failing(right)).class_ is None
    assert torch.equal(right(failing(right)), dense().expectation.exact)


def test_an_access_outside_of_every_buffer_is_of_the_stage_whose_buffer_is_closest():
    def run(failure):
        raise RuntimeError("MemoryFault: a load must stay inside a buffer, not at 0x1e0")

    call = replace(failing(right), out=None, error="RuntimeError: MemoryFault: a load must stay inside a buffer")
    outside = XRay((Checkpoint("scales.layout", "addresses loaded from ws_ptr", 1, 1),))
    found = diagnose(call, run, xray=lambda case: outside, seconds=60)
    assert (found.class_, found.stage) == ("padding", "scales.layout")
    assert found.xray is outside
    found = diagnose(call, run, seconds=60)
    assert (found.class_, found.stage) == ("k-tail", "activations")


@pytest.mark.parametrize(("stage", "class_"), [("activations", "strides"), ("quantizer.element", "element-rounding")])
def test_strides_are_at_fault_only_where_the_activations_are_wrong_first(stage, class_):
    """A view that is read by other code may meet a fault of its registers."""

    def run(failure):
        out = right(failure)
        if failure.placement.view != "contiguous":
            out[0, 0] += 4096
        return out

    xray = XRay((Checkpoint(stage, "what is wrong first", 4, 1),))
    failure = failing(run, placement=Placement(view="every other element", padding=0x7F))
    found = diagnose(failure, run, xray=lambda case: xray, seconds=60)
    assert (found.class_, found.stage) == (class_, stage)
    assert any(note.startswith("a contiguous copy of A gives the right product") for note in found.notes)
