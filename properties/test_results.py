"""Results: what a call returns is the caller's own, torch learns of writes, and kept weights are kept no longer than
they are right."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from mxassay.kernels import GemmArguments
from mxassay.properties.checks import assert_product, assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import KernelUnderTest, Launch, Outcome, Placement
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import activations_of, ramped
from mxassay.properties.strategies.plans import plan
from mxassay.properties.strategies.scales import ramp
from mxassay.reference import dequantize

Call = Callable[[int], tuple[torch.Tensor, ...]]


def calls(kernel: KernelUnderTest) -> Iterator[tuple[str, Call]]:
    """Every way to a result, each with data that follow from a number and shapes that do not."""

    def product(launch: Launch) -> Call:
        def call(number: int) -> tuple[torch.Tensor, ...]:
            shape = min(kernel.contract.shapes, default=kernel.contract.fitted((3, 32, 576)), key=math.prod)
            operands = ramped(shape, number)
            a = activations_of(ramp(shape[0], shape[2] // 32, 2, 120 + number), torch.Generator().manual_seed(number))
            b = dequantize(operands.codes, operands.scales).bfloat16()
            given = (a, b, operands.codes, *operands.stored("cpu"))
            return (kernel.call(GemmArguments(*(tensor.to(kernel.tensors_on) for tensor in given)), launch),)

        return call

    yield "the kernel", product(Launch())
    if not kernel.own:
        return
    from mxassay.optimized import quantize, reduce_partials

    yield from ((entry, product(Launch(plan(2), entry))) for entry in ENTRIES)
    yield "quantize", lambda number: quantize(torch.full((3, 64), 1.0 + number).bfloat16().to(kernel.tensors_on))
    yield (
        "reduce_partials",
        lambda number: (reduce_partials(torch.full((2, 3, 32), 1.0 + number, device=kernel.tensors_on)),),
    )


@claim("results-apart")
def test_a_later_call_leaves_results_alone(mx_kernel: KernelUnderTest) -> None:
    for name, call in calls(mx_kernel):
        held = [result for number in range(3) for result in call(number)]
        kept = [result.clone() for result in held]
        for number in (4, 5):
            call(number)
        for result, before in zip(held, kept, strict=True):
            assert_same_bits(result, before, ("row", "column"), case=f"{name}: held during later calls")
        assert_apart(held, f"results of {name}")


@claim("partials-apart")
def test_partials_of_two_calls_lie_apart(mx_kernel: KernelUnderTest) -> None:
    """Two calls may be in flight on two streams, whatever shares their workspace."""
    from mxassay.optimized import Workspace, matmul

    class Holding(Workspace):
        def __init__(self) -> None:
            super().__init__()
            self.held: list[torch.Tensor] = []

        def partials(self, *asked: Any) -> torch.Tensor:
            self.held.append(super().partials(*asked))
            return self.held[-1]

    workspace = Holding()
    for number, shape in enumerate(((3, 16, 576), (3, 16, 576), (17, 48, 1088), (3, 16, 576))):
        operands = ramped(shape, number)
        for index in (2, 8):
            launch = Launch(plan(index))
            a = operands.a.to(mx_kernel.tensors_on)
            out = matmul(a, *operands.stored(mx_kernel.tensors_on), plan=launch.plan, workspace=workspace)
            assert_product(Outcome(out.cpu(), operands, launch, Placement(), mx_kernel))
    assert_apart(workspace.held, "partials of calls that share a workspace")


def assert_apart(tensors: list[torch.Tensor], what: str) -> None:
    """No two of them share memory.

    Raises PropertyError.
    """
    extents = sorted((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) for t in tensors)
    for (first, size), (second, _) in pairwise(extents):
        if first + size > second:
            raise violation(f"{what} must not share memory, but two of {len(tensors)} do", case=what)


@claim("writes-noted")
@pytest.mark.parametrize("splits", [1, 3])
def test_torch_learns_of_writes(mx_kernel: KernelUnderTest, splits: int) -> None:
    from mxassay.optimized import matmul, matmul_prepared, prepare, reduce_partials

    operands, device = ramped((3, 16, 576), 0), mx_kernel.tensors_on
    chosen, a, weights = replace(plan(1), splits=splits), operands.a.to(device), operands.stored(device)
    out = torch.zeros(3, 16, dtype=torch.bfloat16, device=device)
    writing: dict[str, Callable[[], torch.Tensor]] = {
        "matmul": lambda: matmul(a, *weights, plan=chosen, out=out),
        "matmul_prepared": lambda: matmul_prepared(a, prepare(*weights), plan=chosen, out=out),
        "reduce_partials": lambda: reduce_partials(torch.zeros(splits, 3, 16, device=device), out=out),
    }
    for name, call in writing.items():
        before = out._version
        call()
        if out._version == before:
            words = f"{name}(out=), plan {chosen.words}"
            raise violation("torch's count of writes to `out` must grow, but did not", case=words)
    inputs = [a, *weights]
    if any(tensor._version > 1 for tensor in inputs):
        raise violation("torch's count of writes to an input must not grow, but did", case=chosen.words)


@claim("kept-weights")
def test_a_workspace_keeps_weights_while_they_are_the_same(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized import Workspace

    workspace, device = Workspace(), mx_kernel.tensors_on
    one, other = ramped((1, 32, 320), 0), ramped((1, 32, 320), 1)
    other = replace(other, scales=one.scales ^ 1)
    weights, scales = one.stored(device)
    first = workspace.prepared(weights, scales)

    def expect(operands: Operands, same: bool, when: str) -> None:
        found = workspace.prepared(weights, scales)
        assert_same_bits(found.packed, operands.codes, ("row", "byte"), case=when)
        assert_same_bits(found.scales, operands.scales, ("row", "group"), case=when)
        if (found is first) != same:
            does = "be used again" if same else "be prepared anew"
            raise violation(f"weights must {does}", case=when)

    expect(one, True, "the same tensors")
    weights, scales = weights.clone(), scales.clone()
    expect(one, True, "the same bytes at other addresses")
    weights.copy_(other.stored(device)[0])
    expect(replace(one, codes=other.codes), False, "codes changed in place")
    weights.copy_(one.stored(device)[0])
    scales.copy_(other.stored(device)[1])
    expect(replace(one, scales=other.scales), False, "scales changed in place")
    first = workspace.prepared(weights, scales)
    workspace.clear()
    expect(replace(one, scales=other.scales), False, "the same bytes after clear()")
    first = workspace.prepared(weights, scales)
    workspace.clear()
    weights.copy_(other.stored(device)[0])
    expect(other, False, "other bytes after clear()")
