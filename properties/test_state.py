"""Calls in sequence: a machine that calls, holds outputs, changes weights in place, frees and reallocates them, and
changes shapes, plans and entry points, while every output stays what its own arguments made it."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from mxassay.kernels import GemmArguments
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.profiles import seed_in_force
from mxassay.properties.checks import assert_product, assert_same_bits
from mxassay.properties.claims import budget, claim, running
from mxassay.properties.kernel import KernelUnderTest, Launch, Outcome, Placement, under_test
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import activations_of, random_codes
from mxassay.properties.strategies.plans import plan
from mxassay.properties.strategies.scales import ramp
from mxassay.reference import dequantize

_SIZES = ((16, 64), (48, 320), (16, 256))
_ROWS = (1, 3, 17)
# Preshuffled and linear weights, with and without partials.
_PLANS = (None, 1, 2, 7, 8)


@dataclass(eq=False)
class Weights:
    """Weights as a caller holds them: two tensors on the device. What they mean is known from `codes` and `scales`."""

    codes: torch.Tensor
    scales: torch.Tensor
    preshuffled: torch.Tensor
    shuffled: torch.Tensor

    def put(self, codes: torch.Tensor, scales: torch.Tensor) -> None:
        """Write other weights into the same two tensors."""
        self.codes, self.scales = codes, scales
        self.preshuffled.copy_(WEIGHT_PRESHUFFLE.apply(codes))
        self.shuffled.copy_(SCALE_SHUFFLE.apply(scales, fill=0xFF))


def drawn(n: int, k: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales that follow from `number`."""
    generator = torch.Generator().manual_seed(number)
    return random_codes(n, k, generator), ramp(n, k // 32, 2, 125 + number % 5)


class CallsInSequence(RuleBasedStateMachine):
    """See the module."""

    weights = Bundle("weights")
    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        running.examples += 1
        self.kernel = under_test()
        self.held: list[tuple[torch.Tensor, torch.Tensor, str]] = []
        self.workspace: Any = None
        self.made = 0
        # What the kernel treats apart has tables, pools and caches of its own; a few small ones will do.
        apart = sorted(self.kernel.contract.shapes, key=math.prod)[:2]
        self.sizes = (*_SIZES, *((n, k) for _, n, k in apart))
        self.rows = {(n, k): m for m, n, k in apart}
        if self.kernel.own:
            from mxassay.optimized import Workspace

            self.workspace = Workspace()

    @precondition(lambda self: self.made < 2)  # few, so that what is called was called before
    @rule(target=weights, size=st.runner().flatmap(lambda self: st.sampled_from(self.sizes)), number=st.integers(0, 9))
    def new_weights(self, size: tuple[int, int], number: int) -> Weights:
        """Fresh tensors."""
        self.made += 1
        _, n, k = self.kernel.contract.fitted((1, *size))
        codes, scales = drawn(n, k, number)
        found = Weights(codes, scales, torch.empty(0), torch.empty(0))
        device = self.kernel.tensors_on
        found.preshuffled = WEIGHT_PRESHUFFLE.apply(codes).to(device)
        found.shuffled = SCALE_SHUFFLE.apply(scales, fill=0xFF).to(device)
        return found

    @rule(one=weights, number=st.integers(10, 19))
    def change_in_place(self, one: Weights, number: int) -> None:
        """Other weights in the same tensors: a cache keyed by address or identity goes stale."""
        one.put(*drawn(one.codes.shape[0], 2 * one.codes.shape[1], number))

    @rule(one=weights)
    def change_scales_alone(self, one: Weights) -> None:
        """Only one of the two tensors is written."""
        one.scales = one.scales ^ 1
        one.shuffled.copy_(SCALE_SHUFFLE.apply(one.scales, fill=0xFF))

    @rule(one=weights)
    def change_codes_alone(self, one: Weights) -> None:
        """The other one of the two."""
        one.codes = one.codes ^ 0x11
        one.preshuffled.copy_(WEIGHT_PRESHUFFLE.apply(one.codes))

    @rule(one=weights, number=st.integers(20, 29))
    def free_and_reallocate(self, one: Weights, number: int) -> None:
        """New tensor objects for other weights at the very addresses of the old ones, as an allocator gives them."""
        preshuffled, shuffled = one.preshuffled, one.shuffled
        one.preshuffled = torch.empty(0, dtype=torch.uint8, device=preshuffled.device)
        one.shuffled = torch.empty(0, dtype=torch.uint8, device=shuffled.device)
        for fresh, old in ((one.preshuffled, preshuffled), (one.shuffled, shuffled)):
            fresh.set_(old.untyped_storage(), old.storage_offset(), old.shape, old.stride())
        del preshuffled, shuffled, old
        one.put(*drawn(one.codes.shape[0], 2 * one.codes.shape[1], number))

    @rule(one=weights, rows=st.sampled_from(_ROWS), number=st.integers(0, 3), index=st.sampled_from(_PLANS))
    def call(self, one: Weights, rows: int, number: int, index: int | None) -> None:
        """The product of new activations with these weights as they are now."""
        self._judge(one, rows, number, index, shared=True)

    @rule(one=weights, rows=st.sampled_from(_ROWS), number=st.integers(0, 3), index=st.sampled_from(_PLANS))
    def call_without_a_workspace(self, one: Weights, rows: int, number: int, index: int | None) -> None:
        """The same with nothing shared."""
        self._judge(one, rows, number, index, shared=False)

    @precondition(lambda self: self.kernel.own)
    @rule(target=snapshots, one=weights)
    def prepare(self, one: Weights) -> Any:
        """Our own kernel's prepared weights are a snapshot: later changes have no effect on them."""
        from mxassay.optimized import prepare

        return prepare(one.preshuffled, one.shuffled), one.codes.clone(), one.scales.clone()

    @precondition(lambda self: self.kernel.own)
    @rule(one=snapshots, rows=st.sampled_from(_ROWS), number=st.integers(0, 3))
    def call_prepared(self, one: Any, rows: int, number: int) -> None:
        """The product with a snapshot."""
        from mxassay.optimized import matmul_prepared

        prepared, codes, scales = one
        operands = self._operands(codes, scales, rows, number)
        out = matmul_prepared(operands.a.to(self.kernel.tensors_on), prepared)
        self._hold(out, operands, "matmul_prepared with a snapshot")

    @invariant()
    def held_outputs_stay(self) -> None:
        """No later call writes to an output that the caller holds."""
        for out, before, words in self.held:
            assert_same_bits(out, before, ("row", "column"), case=f"an output held since: {words}")

    def _operands(self, codes: torch.Tensor, scales: torch.Tensor, rows: int, number: int) -> Operands:
        rows = self.rows.get((codes.shape[0], 2 * codes.shape[1]), rows)
        m, _, k = self.kernel.contract.fitted((rows, 16, 2 * codes.shape[1]))
        a = activations_of(ramp(m, k // 32, 2, 126), torch.Generator().manual_seed(number))
        return Operands(a, codes, scales, self.kernel.kernel.dialect, f"activations {number}")

    def _judge(self, one: Weights, rows: int, number: int, index: int | None, *, shared: bool) -> None:
        operands = self._operands(one.codes, one.scales, rows, number)
        launch = Launch(plan(index)) if index is not None and self.kernel.own else Launch()
        a = operands.a.to(self.kernel.tensors_on)
        if self.kernel.own:
            from mxassay.optimized import matmul

            workspace = self.workspace if shared else None
            out = matmul(a, one.preshuffled, one.shuffled, plan=launch.plan, workspace=workspace)
        else:
            packed = one.codes.to(a.device)
            b = dequantize(one.codes, one.scales).bfloat16().to(a.device)
            out = self.kernel.kernel.call(GemmArguments(a, b, packed, one.preshuffled, one.shuffled), None).out
        self._hold(out, operands, repr(launch), launch)

    def _hold(self, out: torch.Tensor, operands: Operands, words: str, launch: Launch | None = None) -> None:
        assert_product(Outcome(out.detach().cpu(), operands, launch or Launch(), Placement(), self.kernel))
        self.held.append((out, out.detach().cpu().clone(), f"{operands!r}, {words}"))


@claim("calls-in-sequence")
def test_calls_in_sequence(mx_kernel: KernelUnderTest) -> None:
    machine = seed(seed_in_force())(CallsInSequence)
    run_state_machine_as_test(machine, settings=budget(0.6, stateful_step_count=12))


@claim("calls-in-sequence")
def test_one_tensor_changes_between_two_calls(mx_kernel: KernelUnderTest) -> None:
    """By hand: what a sequence of drawn calls meets now and then."""
    machine = CallsInSequence()
    one = machine.new_weights(size=(48, 320), number=3)
    for index in (7, None):
        for change in (machine.change_scales_alone, machine.change_codes_alone):
            machine.call(one=one, rows=3, number=0, index=index)
            change(one=one)
            machine.call(one=one, rows=3, number=0, index=index)
    machine.held_outputs_stay()
