"""The three gates let pass what they are known to let pass, and no more."""

import pytest
import torch

import mxassay.optimized
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.faults import usual
from mxassay.reference import matmul, quantize


def exact(data):
    a, _, packed, shuffled, scales = data
    assert torch.equal(WEIGHT_PRESHUFFLE.invert(shuffled), packed)
    n, k = packed.shape[0], 2 * packed.shape[1]
    return matmul(*quantize(a), packed, SCALE_SHUFFLE.invert(scales, (n, k // 32)))


def one_wrong(data):
    out = exact(data)
    out[3, 5] += 64
    return out


def all_off_by_three_percent(data):
    return exact(data) * 1.03


def truncated(data):
    a, _, packed, _, scales = data
    n, k = packed.shape[0], 2 * packed.shape[1]
    from mxassay.reference import partials

    linear = SCALE_SHUFFLE.invert(scales, (n, k // 32))
    bits = partials(*quantize(a), packed, linear, 1)[0].view(torch.int32)
    return (bits >> 16).to(torch.int16).view(torch.bfloat16)


def nothing_written(data):
    return torch.full_like(exact(data), float("nan"))


@pytest.mark.parametrize(
    ("kernel", "passes"),
    [
        (exact, (True, True, True)),
        (truncated, (True, True, True)),
        (one_wrong, (False, True, True)),
        (all_off_by_three_percent, (False, False, True)),
        (lambda data: -exact(data), (False, False, False)),
        (lambda data: torch.zeros_like(exact(data)), (False, False, False)),
        (nothing_written, (False, False, False)),
    ],
)
def test_what_each_gate_lets_pass(kernel, passes, monkeypatch):
    monkeypatch.setattr(mxassay.optimized, "custom_kernel", kernel)
    assert tuple(usual._gates(32, 80, 512).values()) == passes


def test_a_kernel_that_raises_passes_nothing(monkeypatch):
    def raises(data):
        raise RuntimeError("no")

    monkeypatch.setattr(mxassay.optimized, "custom_kernel", raises)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert usual.measure("interpreter") == {"passed": dict.fromkeys(usual.GATES, False), "message": "RuntimeError: no"}
