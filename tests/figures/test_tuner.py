"""The tuner is honest: nothing wrong wins, the plan to beat stays unless it is beaten."""

import json
from dataclasses import replace

import pytest

from mxassay.cli import main
from mxassay.errors import MxassayError
from mxassay.figures import tuner
from mxassay.figures.tuner import Trial, Tuned, neighbours, tune
from mxassay.optimized import Plan

PLAN = Plan(tile_m=16, tile_n=64, tile_k=256)


def test_neighbours_differ_in_one_field_by_one_step():
    found = list(neighbours(PLAN))
    assert replace(PLAN, tile_n=128) in found
    assert replace(PLAN, tile_n=256) not in found
    assert replace(PLAN, splits=2) in found
    assert PLAN not in found
    assert len(found) == len(set(found))


class Made:
    """Judges by a rule instead of a device."""

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, []

    def __call__(self, plan):
        self.asked.append(plan)
        found = self.seconds(plan)
        return Trial(plan, None, refused=found) if isinstance(found, str) else Trial(plan, found)


@pytest.fixture
def search(monkeypatch):
    def run(seconds, candidates=20, shape=(16, 256, 4096)):
        judge = Made(seconds)
        monkeypatch.setattr(tuner, "_Judge", lambda *words: judge)
        return tune(shape, "emulated", candidates, start=PLAN), judge

    return run


def test_the_fastest_right_plan_wins(search):
    tuned, judge = search(lambda plan: 1.0 / plan.tile_n)
    assert tuned.best.plan.tile_n == 256
    assert tuned.baseline.plan == PLAN
    assert len(judge.asked) == len(set(judge.asked)) <= 21


def test_a_wrong_plan_never_wins_and_is_not_walked_from(search):
    tuned, judge = search(lambda plan: "3 outputs are wrong" if plan.tile_n == 128 else 1.0 / plan.tile_n)
    assert tuned.best.plan.tile_n == 64
    assert not [plan for plan in judge.asked if plan.tile_n == 256]
    refused = next(trial for trial in tuned.trials if trial.plan.tile_n == 128)
    assert (refused.seconds, refused.refused) == (None, "3 outputs are wrong")


def test_plans_that_launch_the_same_are_tried_once(search):
    # K of 512 holds two steps of 256: three splits are two again.
    _, judge = search(lambda plan: 1.0 / plan.splits, candidates=60, shape=(16, 256, 512))
    assert max(plan.splits for plan in judge.asked) == 2


def test_a_wrong_plan_to_beat_stops_the_search(search):
    with pytest.raises(MxassayError, match=r"the plan to beat must be right, not this: 1 outputs are wrong"):
        search(lambda plan: "1 outputs are wrong")


def test_on_a_card_the_median_must_lie_below_the_spread_of_the_plan_to_beat():
    base, near = Trial(PLAN, 2.0, 1.8, 2.2), Trial(replace(PLAN, splits=2), 1.9, 1.7, 2.1)
    clear = Trial(replace(PLAN, splits=3), 1.7, 1.6, 1.8)
    assert Tuned((1, 1, 1), "cuda", (base, near)).best is base
    assert Tuned((1, 1, 1), "cuda", (base, near, clear)).best is clear


def test_a_plan_that_does_not_compile_is_refused(monkeypatch):
    def broken(self, plan):
        if plan.splits > 1:
            raise RuntimeError("the compiler gave up")
        return Trial(plan, 1.0)

    monkeypatch.setattr(tuner._Judge, "_modelled", broken)
    tuned = tune((4, 32, 512), "emulated", 12, start=Plan(tile_m=4, tile_n=32, tile_k=256))
    (refused,) = [trial for trial in tuned.trials if trial.plan.splits == 2]
    assert refused.refused == "it does not compile: RuntimeError: the compiler gave up"


def test_the_command_tunes_on_the_emulated_card(capsys):
    assert main(["bench", "--tune", "4,32,256", "--device", "emulated", "--candidates", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["command"] == "tune"
    assert len(document["trials"]) == 3
    assert document["trials"][0] == document["baseline"]
    assert document["best"]["seconds"] <= document["baseline"]["seconds"]
    assert all(trial["how"].startswith("modelled: fused_gemm_kernel by ") for trial in document["trials"])
