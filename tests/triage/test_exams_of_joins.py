"""Exams of sums joined to their launch, and of inline assembly by itself: nothing is seen on a right kernel."""

import contextlib
from dataclasses import replace

import pytest
import torch
import triton.language as tl

from mxassay.optimized import arrivals, direct_gemm, pack
from mxassay.triage.exams import joins, look, machine
from mxassay.triage.exams.order import exams_for
from mxassay.triage.failure import Subject
from mxassay.triaging import opened


@pytest.fixture(scope="module")
def own():
    with opened(Subject()) as kernel:
        yield kernel


def exam(id_):
    return next(exam for exam in (*joins.JOINS, *machine.MACHINE) if exam.id == id_)


def test_joined_sums_of_our_own_kernel_are_right(own):
    told = []
    assert list(look(joins.JOINS, own, told.append)) == []
    assert told == []
    assert arrivals._kept.by_stream.keys() <= {(torch.device("cpu"), 0)}


SHARED = torch.zeros(64 * arrivals.APART, dtype=torch.int32)


@contextlib.contextmanager
def one_for_all(tiles, device):
    yield SHARED


@contextlib.contextmanager
def used(tiles, device):
    yield torch.ones(tiles * arrivals.APART, dtype=torch.int32)


@contextlib.contextmanager
def too_few(tiles, device):
    yield torch.zeros(3 * arrivals.APART, dtype=torch.int32)


@pytest.mark.parametrize(
    ("counters", "class_", "words"),
    [
        (one_for_all, "stale-buffers", "two launches in flight share their counters"),
        (used, "stale-buffers", "fresh counters of arrivals are not zero"),
        (too_few, "cache-key", "kept counters of arrivals are taken for more tiles than they serve"),
    ],
)
def test_wrong_counters_are_seen(own, monkeypatch, counters, class_, words):
    monkeypatch.setattr(arrivals, "counters", counters)
    seen = exam("counters").look(own)
    assert (seen.class_, seen.stage, seen.statement) == (class_, "workspace", words)


def test_a_sum_left_to_another_launch_is_the_plan_s(own, monkeypatch):
    monkeypatch.setattr(direct_gemm, "joins", lambda *_: False)
    seen = exam("joined-sums").look(own)
    assert (seen.class_, seen.stage) == ("plan-lookup", "plan")


def test_looks_at_joined_sums_are_worth_the_time_only_where_a_product_is_joined():
    ids = {exam.id for exam in joins.JOINS}
    assert ids <= {exam.id for exam in exams_for("joined-sums", product=False)}
    assert exams_for("gemm-agreement", product=True, joined=True)[0].id in ids
    assert not ids & {exam.id for exam in exams_for("gemm-agreement", product=True)}


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("_CONVERT_CONSTRAINTS", ("=&v", "=v"), "must be an early clobber"),
        ("_CONVERT", ("$7", "$6"), "reads its operand $7"),
        ("_CONVERT", ("s_nop 1", "s_nop 0"), "comes too early"),
    ],
)
def test_inline_assembly_is_read_by_itself(own, monkeypatch, name, change, words):
    look_at = exam("inline-assembly")
    assert not look_at.launches
    assert look_at.look(own) is None
    monkeypatch.setattr(pack, name, tl.constexpr(getattr(pack, name).value.replace(*change)))
    seen = look_at.look(own)
    assert (seen.class_, seen.stage) == ("compiler-hazard", "quantizer.element")
    assert words in seen.statement


def test_what_the_x_ray_sees_right_is_not_blamed():
    from mxassay.triage.diagnose import _Findings, _seen_right
    from mxassay.triage.diagnosis import Checkpoint, XRay
    from mxassay.triage.screen import nothing

    failure = nothing(Subject(), "gemm-agreement", "")
    right = Checkpoint("activations", "loads", 8, 0)
    wrong = Checkpoint("quantizer.element", "codes", 8, 2)
    found = _Findings(failure, failure, xray=XRay((right, wrong)))
    assert _seen_right(found, "activations")
    assert not _seen_right(found, "quantizer.element")
    assert not _seen_right(found, "store")
    assert not _seen_right(found, "quantizer.scale")  # nobody looked
    found.xray = XRay((replace(right, differing=1), wrong))
    assert not _seen_right(found, "activations")
    assert not _seen_right(_Findings(failure, failure), "activations")
