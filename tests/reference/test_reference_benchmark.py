"""The benchmark measures what it says, without timing anything here."""

import pytest
import torch

from mxassay.reference import EVEN_TORCHAO, benchmark, quantize

X = torch.randn(64, 256, generator=torch.Generator().manual_seed(4)).to(torch.bfloat16)


def test_ml_dtypes_is_asked_for_the_same_bytes():
    pytest.importorskip("ml_dtypes")
    packed, scales = benchmark._ml_dtypes(X)()
    ours = quantize(X)
    assert torch.equal(torch.from_numpy(packed).view(64, 128), ours.packed)
    assert torch.equal(torch.from_numpy(scales).view(64, 8), ours.scales)


def test_torchao_is_asked_for_the_same_bytes():
    pytest.importorskip("torchao")
    scales, packed = benchmark._torchao(X)()
    ours = quantize(X, EVEN_TORCHAO)
    assert torch.equal(packed.view(torch.uint8), ours.packed)
    assert torch.equal(scales.view(torch.uint8), ours.scales)


def test_an_absent_peer_is_reported():
    call = benchmark._prepared("no-such-peer", benchmark._torchao, X)
    row = benchmark._peer_row("no-such-peer", [1.0], call and [1.0])
    assert (row["peer"], row["ratio"]) == ("no-such-peer: not installed", None)


def test_calls_are_timed_in_turn():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = benchmark._in_turn(calls, 2)
    assert order == list("ababab")
    assert [len(seconds[name]) for name in "ab"] == [2, 2]


def test_the_peak_counts_what_is_held_at_once():
    def call():
        first = torch.empty(1 << 20, dtype=torch.uint8)
        second = torch.empty(1 << 21, dtype=torch.uint8)
        del first, second
        torch.empty(1 << 20, dtype=torch.uint8)

    assert benchmark._peak(call) == 3 << 20


def test_figures(monkeypatch):
    monkeypatch.setattr(benchmark, "LEADERBOARD", ((2, 32, 64), (3, 16, 32)))
    monkeypatch.setattr(benchmark, "QUANTIZE_SHAPE", (64, 64))
    rows = benchmark.figures(repeats=1)
    assert [row["unit"] for row in rows] == ["ms", "ms", "ms", "ms", "s", "MB/MB", "MB/MB"]
    for row in rows:
        assert row["value"] > 0
        assert ("holds" in row) == ("bar" in row)
        assert "peer" not in row or row["ratio"] is None or row["ratio"] > 0
