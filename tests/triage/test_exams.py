"""Exams: judges know what they must, and tell when they don't; stages of a right kernel are right."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from mxassay.properties.catalogue import CATALOGUE
from mxassay.properties.faults import CLASSES, STAGES
from mxassay.reference import exactness
from mxassay.triage.exams import EXAMS, JUDGES, Exam, Seen, contracts, exams_for, host, judges, look, machine, stages
from mxassay.triage.exams.exam import refused
from mxassay.triaging import opened

NOBODY = SimpleNamespace(own=False, device="none")


@pytest.fixture(scope="module")
def own():
    from mxassay.triage.failure import Subject

    with opened(Subject()) as kernel:
        yield kernel


@pytest.mark.parametrize("exam", [exam for exam in JUDGES if exam.id != "card"], ids=lambda exam: exam.id)
def test_judges_know_their_answers(exam):
    assert exam.look(NOBODY) is None


class Lax(exactness.Expectation):
    """Takes everything for right."""

    def wrong(self, out):
        return torch.zeros(out.shape, dtype=torch.bool)


def lax(*operands):
    return Lax(*exactness.expectation(*operands))


SHUFFLE = SimpleNamespace(apply=lambda x: x, bind=judges.WEIGHT_PRESHUFFLE.bind)
# What takes the place of a judge, the exam that must see it, and the stage that the exam names.
BROKEN = {
    "POISON": (0, "surroundings", "checker"),
    "encode": (lambda x: torch.ones(x.shape, dtype=torch.uint8), "formats", "reference"),
    "matmul": (lambda *x: exactness.expectation(*x).exact + 1, "product", "reference"),
    "certificate": (lambda *x: torch.ones(1, 1, dtype=torch.bool), "certificates", "certificate"),
    "expectation": (lax, "verdicts", "checker"),
    "WEIGHT_PRESHUFFLE": (SHUFFLE, "layouts", "layouts"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_judge_is_seen(name, monkeypatch):
    instead, exam_id, stage = BROKEN[name]
    monkeypatch.setattr(judges, name, instead)
    seen = next(exam for exam in JUDGES if exam.id == exam_id).look(NOBODY)
    assert seen is not None
    assert seen.stage == stage


def test_a_judge_of_the_suite_that_accepts_everything_is_seen(monkeypatch):
    monkeypatch.setattr(judges.checks, "assert_product", lambda outcome: None)
    seen = next(exam for exam in JUDGES if exam.id == "judges").look(NOBODY)
    assert seen.statement == "assert_product must refuse one wrong output among right ones"


def test_what_costs_no_launch_is_right(own):
    quick = [exam for exam in EXAMS if not exam.launches]
    assert len(quick) >= 10
    assert list(look(quick, own)) == []


def test_stages_of_our_own_kernel_are_right(own):
    told = []
    assert list(look([exam for exam in stages.STAGES if exam.id != "output-pitch"], own, told.append)) == []
    assert told == []


def test_a_wrong_quantizer_is_named_by_its_rule(own, monkeypatch):
    import mxassay.optimized as optimized
    from mxassay.reference import EVEN, quantize

    monkeypatch.setattr(optimized, "quantize", lambda x: quantize(x, replace(EVEN, carry=0)))
    seen = next(exam for exam in stages.STAGES if exam.id == "quantizer").look(own)
    assert (seen.class_, seen.stage, seen.suspect) == ("scale-rule", "quantizer.scale", "scale-floor")


def test_a_wrong_cut_and_a_wrong_map_are_seen(own, monkeypatch):
    import mxassay.optimized as optimized
    from mxassay.optimized import tile_map
    from mxassay.optimized.split_k import SplitK

    monkeypatch.setattr(optimized, "reconcile", lambda k, tile_k, splits: SplitK(tile_k, tile_k, splits))
    assert host.HOST[0].look(own).stage == "split-k"
    monkeypatch.setattr(tile_map, "xcd_remap_py", lambda pid, total: pid)
    assert next(exam for exam in host.HOST if exam.id == "tile-map-twins").look(own).class_ == "tile-map"


def test_a_plan_that_must_be_refused_has_a_class(own, monkeypatch):
    from mxassay.optimized import Plan

    monkeypatch.setattr(Plan, "__post_init__", lambda self: None)
    seen = next(exam for exam in contracts.CONTRACTS if exam.id == "illegal-plans").look(own)
    assert (seen.class_, seen.stage) == ("compiler-hazard", "contract")


def test_an_exam_that_breaks_is_told_and_another_kernel_is_left_alone(own):
    def broken(kernel):
        raise ValueError("oh")

    told = []
    exams = [Exam("one", "x", broken), Exam("two", "x", lambda kernel: Seen("race", "store", "seen"))]
    assert [seen.stage for _, seen in look(exams, own, told.append)] == ["store"]
    assert told == ["one could not be looked at: ValueError: oh"]
    assert list(look(exams, NOBODY, told.append)) == []


def test_refusals_tell_what_they_refuse():
    assert refused("Plan.splits must be in 1..65536, not 0").stage == "plan"
    assert refused("a.dtype must be bfloat16, not float16").stage == "contract"
    assert refused("a load must stay inside a buffer, not at 0x1") is None
    assert refused("something else") is None


def test_names_are_known():
    assert len({exam.id for exam in (*EXAMS, *JUDGES)}) == len(EXAMS) + len(JUDGES)
    for exam in EXAMS:
        assert set(exam.properties) <= set(CATALOGUE), exam.id
    for _, class_, _ in (*contracts.ILLEGAL, *contracts.PLANS):
        assert class_ in CLASSES
    for stage, *classes in machine._BUFFERS.values():
        assert stage in STAGES
        assert set(classes) <= set(CLASSES)


def test_exams_of_the_failing_property_come_first():
    assert exams_for("reduce-alone", product=False)[0].id == "reduction"
    assert exams_for("illegal-plans", product=False)[0].id == "illegal-plans"
    assert not {exam.id for exam in exams_for("gemm-certified", product=True)} & {"illegal-calls", "illegal-plans"}
