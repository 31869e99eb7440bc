"""The benchmark measures what it says; no time is taken here that a busy machine could change."""

import sys
import warnings
from importlib.metadata import version

import pytest
import torch

from mxassay.reference import EVEN_TORCHAO, benchmark, expectation, quantize

X = torch.randn(64, 256, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)


def test_ml_dtypes_is_asked_for_the_same_bytes():
    pytest.importorskip("ml_dtypes")
    packed, scales = benchmark._ml_dtypes(X)()
    ours = quantize(X)
    assert torch.equal(torch.from_numpy(packed).view(64, 128), ours.packed)
    assert torch.equal(torch.from_numpy(scales).view(64, 8), ours.scales)


def test_ml_dtypes_is_asked_for_the_same_bytes_at_both_ends_of_the_range():
    pytest.importorskip("ml_dtypes")
    x = torch.zeros(3, 32, dtype=torch.bfloat16)
    x[0, 0], x[1, 0], x[2, 0] = 2.0**-120, 1.5 * 2.0**127, 1.75 * 2.0**-125
    packed, scales = benchmark._ml_dtypes(x)()
    ours = quantize(x)
    assert scales.tolist() == ours.scales.flatten().tolist() == [5, 252, 1]
    assert torch.equal(torch.from_numpy(packed), ours.packed)
    assert benchmark._ml_dtypes(torch.zeros(1, 32, dtype=torch.bfloat16))()[1].tolist() == [1]  # numpy knows no byte 0
    assert benchmark._ml_dtypes(torch.full((1, 32), float("inf"), dtype=torch.bfloat16))()[1].tolist() == [253]


def test_torchao_is_asked_for_the_same_bytes():
    pytest.importorskip("torchao")
    scales, packed = benchmark._torchao(X)()
    ours = quantize(X, EVEN_TORCHAO)
    assert torch.equal(packed.view(torch.uint8), ours.packed)
    assert torch.equal(scales.view(torch.uint8), ours.scales)


def test_an_absent_peer_is_reported():
    assert benchmark._prepared("no-such-peer", benchmark._torchao, X) is None

    def broken(x):
        raise ImportError

    assert benchmark._prepared("torch", broken, X) is None
    assert benchmark._peer_row("no-such-peer", [0.25, 0.5, 4.0], None) == {
        "id": "quantize 4096x4096 bf16, beside no-such-peer",
        "value": 500.0,
        "unit": "ms",
        "repeats": 3,
        "low": 250.0,
        "high": 4000.0,
        "peer": "no-such-peer: not installed",
        "ratio": None,
    }


def test_a_peer_that_is_there_is_prepared_without_its_noise(capsys):
    def prepare(x):
        warnings.warn("a peer's own", stacklevel=1)
        print("a peer's own", file=sys.stderr)
        return lambda: x

    assert benchmark._prepared("torch", prepare, X)() is X
    assert capsys.readouterr().err == ""
    row = benchmark._peer_row("torch", [0.25, 0.5, 4.0], [1.0, 0.75, 9.0])
    assert (row["peer"], row["ratio"]) == (f"torch {version('torch')}: 1000 ms", 2.0)


def test_a_figure_is_the_median_and_holds_up_to_its_bar():
    assert benchmark._figure("a", [3.0, 1.0, 2.0], 1e3, "ms", None) == {
        "id": "a", "value": 2000.0, "unit": "ms", "repeats": 3, "low": 1000.0, "high": 3000.0,
    }  # fmt: skip
    once = {"id": "a", "value": 2.0, "unit": "s", "repeats": 1}
    assert benchmark._figure("a", [2.0], 1.0, "s", 2.0) == once | {"bar": 2.0, "holds": True}
    assert benchmark._figure("a", [2.0], 1.0, "s", 1.5) == once | {"bar": 1.5, "holds": False}


def test_calls_are_timed_in_turn_after_one_to_warm_up(monkeypatch):
    order, clock = [], iter([10.0, 11.0, 20.0, 22.0, 30.0, 33.0, 40.0, 44.0])
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(clock))
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    assert benchmark._in_turn(calls, 2) == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert order == list("ababab")


def test_the_peak_counts_what_is_held_at_once():
    def call():
        first = torch.empty(1 << 20, dtype=torch.uint8)
        second = torch.empty(1 << 21, dtype=torch.uint8)
        del first, second
        torch.empty(1 << 20, dtype=torch.uint8)

    assert benchmark._peak(call) == 3 << 20


def test_the_problems_are_the_leaderboards():
    assert benchmark.LEADERBOARD == (
        (4, 2880, 512),
        (16, 2112, 7168),
        (32, 4096, 512),
        (32, 2880, 512),
        (64, 7168, 2048),
        (256, 3072, 1536),
    )
    assert benchmark.QUANTIZE_SHAPE == (4096, 4096)
    a, weights = benchmark._problem(3, 32, 64)
    assert (a.shape, a.dtype) == ((3, 64), torch.bfloat16)
    assert (weights.packed.shape, weights.scales.shape) == ((32, 32), (32, 2))
    assert benchmark._bytes(a, weights) == 3 * 64 * 2 + 32 * 32 + 32 * 2
    found, want = benchmark._reference(a, weights), expectation(*quantize(a), *weights)
    assert all(map(torch.equal, found, want))
    again = benchmark._problem(3, 32, 64)
    assert torch.equal(again[0], a)
    assert torch.equal(again[1].packed, weights.packed)


def test_what_is_measured_on_how_many_threads(monkeypatch):
    """Times and bytes are planted; what is called, how often and under which name must be true."""
    threads, asked, made = [], [], []

    def in_turn(calls, repeats):
        asked.append((list(calls), repeats))
        threads.append(torch.get_num_threads())
        made.extend(call() for call in calls.values())
        return {name: [0.002 * (1 + place)] * 2 for place, name in enumerate(calls)}

    def peak(call):
        made.append(call())
        return 7680

    monkeypatch.setattr(benchmark, "LEADERBOARD", ((2, 32, 64), (3, 16, 32)))
    monkeypatch.setattr(benchmark, "QUANTIZE_SHAPE", (64, 96))
    monkeypatch.setattr(benchmark, "_in_turn", in_turn)
    monkeypatch.setattr(benchmark, "_peak", peak)
    monkeypatch.setattr(benchmark, "_torchao", lambda x: lambda: x)
    monkeypatch.setattr(benchmark, "_ml_dtypes", lambda x: lambda: x)
    monkeypatch.setattr(benchmark, "version", lambda name: "1.2")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = benchmark.figures()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert asked == [(["ours", "torchao", "ml_dtypes"], 5), (["ours"], 5), (["all"], 5)]
    assert threads == [2, 1, 2]
    x = made[1]
    assert (x.shape, x.dtype, made[2] is x) == ((64, 96), torch.bfloat16, True)
    assert torch.equal(x, torch.randn(64, 96, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16))
    for quantized in (made[0], made[3], made[5]):
        assert all(map(torch.equal, quantized, quantize(x)))
    assert [len(found.exact) for found in made[4]] == [2, 3]
    assert [len(found.exact) for found in made[6:]] == [2, 3]
    times = {"unit": "ms", "repeats": 2, "value": 2.0, "low": 2.0, "high": 2.0}
    bytes_ = {"unit": "MB/MB", "repeats": 1, "bar": 10.0}
    smallest = 3 * 32 * 2 + 16 * 16 + 16
    assert rows == [
        times | {"id": "quantize 4096x4096 bf16", "bar": 60.0, "holds": True},
        times | {"id": "quantize 4096x4096 bf16, beside torchao", "peer": "torchao 1.2: 4 ms", "ratio": 2.0},
        times | {"id": "quantize 4096x4096 bf16, beside ml_dtypes", "peer": "ml_dtypes 1.2: 6 ms", "ratio": 3.0},
        times | {"id": "quantize 4096x4096 bf16, one thread"},
        {"id": "six leaderboard references", "unit": "s", "repeats": 2, "value": 0.002, "low": 0.002, "high": 0.002,
         "bar": 3.0, "holds": True},
        bytes_ | {"id": "quantize, temporaries", "value": 7680 / (64 * 96 * 2), "holds": True},
        bytes_ | {"id": "leaderboard reference, temporaries", "value": 7680 / smallest, "holds": False},
    ]  # fmt: skip


def test_figures_as_they_are(monkeypatch):
    monkeypatch.setattr(benchmark, "LEADERBOARD", ((2, 32, 64), (3, 16, 32)))
    monkeypatch.setattr(benchmark, "QUANTIZE_SHAPE", (64, 64))
    rows = benchmark.figures(repeats=1)
    assert [row["unit"] for row in rows] == ["ms", "ms", "ms", "ms", "s", "MB/MB", "MB/MB"]
    for row in rows:
        assert row["value"] > 0
        assert "peer" not in row or row["ratio"] is None or row["ratio"] > 0
