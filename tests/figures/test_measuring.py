"""Turns, processes and figures: what is measured is what is said."""

import sys
import time

import pytest

from mxassay.errors import ContractError, MxassayError
from mxassay.figures.figure import Figure
from mxassay.figures.groups import GROUPS, chosen
from mxassay.figures.machine import machine
from mxassay.figures.measure import Sample, interleaved, processes


def test_calls_take_turns_after_one_to_warm_up():
    order = []
    found = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4
    assert {name: len(sample.wall) for name, sample in found.items()} == {"a": 3, "b": 3}


def test_wall_and_processor_time_differ_where_nothing_is_done():
    sample = interleaved({"sleep": lambda: time.sleep(0.02)}, 1)["sleep"]
    assert sample.median >= 0.02
    assert sample.cpu[0] < 0.02


def test_a_sample_becomes_a_row_in_its_unit():
    row = Sample((0.003, 0.001, 0.002), (0.1, 0.3, 0.2)).row(1e3)
    assert row == {"value": 2.0, "low": 1.0, "high": 3.0, "repeats": 3, "cpu": 0.2}


def test_a_process_is_timed_and_its_memory_told():
    words = [sys.executable, "-S", "-c", "x = bytearray(64 << 20)"]
    big = processes({"big": words}, 1, warm_up=False)["big"]
    small = processes({"small": [sys.executable, "-S", "-c", "pass"]}, 1, warm_up=False)["small"]
    assert 48 << 20 < big.peak - small.peak < 80 << 20
    assert big.wall[0] > 0
    assert big.cpu[0] > 0


def test_a_process_that_fails_is_no_figure():
    words = [sys.executable, "-S", "-c", "import sys; sys.exit('out of luck')"]
    with pytest.raises(MxassayError, match=r"unlucky must end well, not with code 1: out of luck"):
        processes({"unlucky": words}, 1)


@pytest.mark.parametrize(("value", "holds"), [(1.0, True), (2.0, True), (2.1, False)])
def test_a_figure_holds_up_to_its_bar(value, holds):
    figure = Figure("f", "cli", value, "s", bar=2.0, peer="other: 4 s", ratio=value / 4)
    assert figure.holds is holds
    assert figure.as_json() == {
        "id": "f", "group": "cli", "value": value, "unit": "s", "bar": 2.0, "holds": holds, "peer": "other: 4 s",
        "ratio": value / 4, "repeats": 1,
    }  # fmt: skip


def test_a_figure_without_bar_or_peer_says_neither():
    assert Figure("f", "cli", 1.0, "s").as_json() == {
        "id": "f", "group": "cli", "value": 1.0, "unit": "s", "repeats": 1
    }  # fmt: skip


def test_groups_by_name():
    assert [group.name for group in chosen([])] == list(GROUPS)
    assert [group.name for group in chosen(["gpu", "cli"])] == ["gpu", "cli"]
    with pytest.raises(ContractError, match=r"a group of figures must be one of reference, .*, not speed"):
        chosen(["speed"])


def test_the_machine_is_told_without_its_name():
    import platform

    found = machine([0.5, 1.25])
    assert found["load"] == [0.5, 1.25]
    assert found["cores"] >= 1
    assert platform.node() not in str(found).split()
