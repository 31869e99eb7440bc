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
    ((words, found),) = usual._runs(32, 80, 512)  # no kernel of its own takes this shape
    assert words == usual.RUNS[0]
    assert tuple(found.values()) == passes


@pytest.mark.parametrize("wrong", [None, "own", "usual"])
def test_a_plan_that_takes_a_kernel_of_its_own_runs_on_the_usual_one_too(wrong, monkeypatch):
    shape = (4, 2880, 512)
    assert mxassay.optimized.plan_for(*shape).direct
    plans = []

    def multiply(a, shuffled, scales, *, plan):
        plans.append(plan)
        n, k = shuffled.shape[0], 2 * shuffled.shape[1]
        packed = WEIGHT_PRESHUFFLE.invert(shuffled)
        out = matmul(*quantize(a), packed, SCALE_SHUFFLE.invert(scales, (n, k // 32)))
        return -out if wrong == "usual" else out

    monkeypatch.setattr(mxassay.optimized, "matmul", multiply)
    monkeypatch.setattr(mxassay.optimized, "TEST_SHAPES", (shape,))
    monkeypatch.setattr(
        mxassay.optimized, "custom_kernel", lambda data: -exact(data) if wrong == "own" else exact(data)
    )
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(usual, "_INTERPRETED", shape[:2])
    found = usual.measure("interpreter")
    assert found["passed"] == dict.fromkeys(usual.GATES, wrong is None)
    said = {None: "", "own": usual.RUNS[0], "usual": usual.RUNS[1]}[wrong]
    assert found["message"] == (f"M,N,K = {shape} {said}" if wrong else "")
    assert [(plan.direct, plan.joined, plan.splits) for plan in plans] == (
        [] if wrong == "own" else [(False, False, 1)]
    )


def test_a_kernel_that_raises_passes_nothing(monkeypatch):
    def raises(data):
        raise RuntimeError("no")

    monkeypatch.setattr(mxassay.optimized, "custom_kernel", raises)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert usual.measure("interpreter") == {"passed": dict.fromkeys(usual.GATES, False), "message": "RuntimeError: no"}
