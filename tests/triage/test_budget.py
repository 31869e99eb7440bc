"""Steps that would take too long are broken off, keep what they have found, and say what they left out."""

import time

import pytest
from simulated import dense, failing, follows, right

from mxassay.optimized import Plan
from mxassay.triage.budget import Clock, TimeUp, within
from mxassay.triage.diagnose import diagnose
from mxassay.triage.rerun import again
from mxassay.triage.shrink import shrink, size_of
from mxassay.triage.suspects import SUSPECTS, explanations


def busy(seconds=60.0):
    """Processor time spent in Python."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_a_block_ends_when_its_processor_time_is_up():
    spent = time.process_time()
    with pytest.raises(TimeUp), within(0.2):
        busy()
    assert time.process_time() - spent < 2
    with within(5):
        pass
    busy(0.3)  # no alarm is left over


def test_time_asleep_does_not_count():
    with within(0.2):
        time.sleep(0.5)


def test_nobody_takes_the_alarm_for_a_failure():
    failure = failing(right)
    with pytest.raises(TimeUp), within(0.1):
        again(failure, lambda failure: busy())
    assert not issubclass(TimeUp, Exception)


def test_a_clock_runs_down():
    clock = Clock(0.05)
    assert not clock.up
    assert 0 < clock.left < 0.051  # a difference of two times is rounded
    busy(0.1)
    assert clock.up
    assert clock.left == 0


def test_suspects_keep_what_they_found_when_the_time_is_up():
    failure = failing(follows("output-cut"))
    asked, told = [], []

    def until():
        asked.append(1)
        return len(asked) > 20

    all_of_them = explanations(failure)
    some = explanations(failure, until=until, told=told.append)
    assert len(some) < len(all_of_them)
    count = len(SUSPECTS)
    assert told == [f"{count} of {count} wrong rules were not held against the outputs: the time was up"]


def test_shrinking_keeps_the_smallest_so_far():
    run = follows("output-cut")
    failure = failing(run, dense(33, 96, 576), Plan(tile_m=16, tile_n=32, tile_k=256))

    def slow(case):
        if run.calls > 6:
            busy()
        return run(case)

    with within(1.0):
        small = shrink(failure, slow, seconds=60)
    assert size_of(small).tiles < size_of(failure).tiles


def test_every_step_of_a_diagnosis_is_limited(monkeypatch):
    """Judges, shrinking, suspects, stages, x-ray and blame that never end."""

    def endless(*_, **__):
        busy()

    run = follows("output-cut")
    failure = failing(run)
    monkeypatch.setattr("mxassay.triage.diagnose.tell_apart", endless)
    spent = time.process_time()
    found = diagnose(failure, run, xray=endless, blame=endless, seconds=1.0)
    assert time.process_time() - spent < 6
    assert found.xray is None
    assert found.blame is None
    assert "x-ray: not finished within its 1.0 s of processor time, and broken off" in found.notes
    assert "blame: not finished within its 1.0 s of processor time, and broken off" in found.notes
