"""Properties of memory and of results that the caller holds: each sees our own stages wrong in one way."""

from dataclasses import replace

import pytest
import torch

import mxassay.optimized
import mxassay.optimized.plans
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import PreparedWeights, QuantizedActivations, Workspace, plan_for, reconcile
from mxassay.properties import test_contracts as contracts
from mxassay.properties import test_memory as memory
from mxassay.properties import test_padding as padding
from mxassay.properties import test_results as results
from mxassay.properties.checks import PropertyError
from mxassay.reference import matmul as product
from mxassay.reference import partials, quantize, round_to_bfloat16


def right_matmul(a, b, scales, *, plan=None, out=None, workspace=None):
    n, k = b.shape[0], 2 * b.shape[1]
    operands = (*quantize(a.resolve_neg()), WEIGHT_PRESHUFFLE.invert(b), SCALE_SHUFFLE.invert(scales, (n, k // 32)))
    cut = reconcile(k, plan.tile_k, plan.splits) if plan else None
    if cut and cut.count > 1 and workspace:
        kept = workspace.partials(cut.count, a.shape[0], n, a.device)
        kept.copy_(partials(*operands, span=cut.span))
    found = product(*operands)
    return found if out is None else out.copy_(found)


def right_reduce(x, *, out=None):
    total = x.resolve_neg()[0].clone()
    for part in x[1:]:
        total += part
    found = round_to_bfloat16(total.double())
    return found if out is None else out.copy_(found)


def right_prepared(a, weights, *, plan=None, out=None):
    found = product(*quantize(a.resolve_neg()), weights.packed, weights.scales)
    return found if out is None else out.copy_(found)


def right_quantize(x):
    return QuantizedActivations(*quantize(x.resolve_neg().contiguous()))


@pytest.fixture
def stages(monkeypatch):
    """Put plain torch in place of our own stages, each right but for those that are given."""

    def put(**wrong):
        right = {"matmul": right_matmul, "matmul_prepared": right_prepared, "quantize": right_quantize}
        right |= {"reduce_partials": right_reduce, "custom_kernel": lambda data: right_matmul(data[0], *_bytes(data))}
        for name, stage in (right | wrong).items():
            monkeypatch.setattr(mxassay.optimized, name, stage)

    return put


def _bytes(data):
    return data[3].view(torch.uint8), data[4].view(torch.uint8)


def at_one_place(stage):
    """The stage with its results in one buffer for each shape."""
    kept = {}

    def reused(*words, **more):
        found = stage(*words, **more)
        if more.get("out") is not None:
            return found
        parts = found if isinstance(found, tuple) else (found,)
        into = [kept.setdefault((i, tuple(part.shape)), part.clone()).copy_(part) for i, part in enumerate(parts)]
        return QuantizedActivations(*into) if isinstance(found, tuple) else into[0]

    return reused


@pytest.mark.parametrize("wrong", ["none", "matmul", "matmul_prepared", "quantize", "reduce_partials", "custom_kernel"])
def test_a_result_that_a_later_call_overwrites_is_seen(wrong, own_kernel, run_property, stages):
    stages()
    stages(**{} if wrong == "none" else {wrong: at_one_place(getattr(mxassay.optimized, wrong))})
    if wrong == "none":
        run_property(results.test_a_later_call_leaves_results_alone, own_kernel)
        return
    with pytest.raises(PropertyError):
        run_property(results.test_a_later_call_leaves_results_alone, own_kernel)


class OneBuffer(Workspace):
    """Gives every call of one size the same partials."""

    def partials(self, splits, m, n, device):
        return self.__dict__.setdefault(f"{splits} {m} {n}", super().partials(splits, m, n, device))


def test_partials_of_one_buffer_are_seen(own_kernel, run_property, stages, monkeypatch):
    stages()
    run_property(results.test_partials_of_two_calls_lie_apart, own_kernel)
    monkeypatch.setattr(mxassay.optimized, "Workspace", OneBuffer)
    with pytest.raises(PropertyError, match="share memory"):
        run_property(results.test_partials_of_two_calls_lie_apart, own_kernel)


def silently(stage):
    """The stage, without torch learning that it wrote."""

    def quiet(*words, out=None, **more):
        found = stage(*words, **more)
        out.view(torch.int16).numpy()[...] = found.view(torch.int16).numpy()
        return out

    return quiet


@pytest.mark.parametrize("wrong", ["matmul", "matmul_prepared", "reduce_partials"])
def test_a_write_that_torch_does_not_learn_of_is_seen(wrong, own_kernel, run_property, stages):
    stages()
    run_property(results.test_torch_learns_of_writes, own_kernel, splits=3)
    stages(**{wrong: silently(getattr(mxassay.optimized, wrong))})
    with pytest.raises(PropertyError, match=rf"{wrong}\(out=\)"):
        run_property(results.test_torch_learns_of_writes, own_kernel, splits=3)


class KeptForever(Workspace):
    def prepared(self, *tensors):
        self._prepared = self._prepared or super().prepared(*tensors)
        return self._prepared


class NeverKept(Workspace):
    def prepared(self, *tensors):
        found = super().prepared(*tensors)
        return PreparedWeights(found.packed, found.scales)


class NotCleared(Workspace):
    def clear(self):
        """Clears nothing."""


@pytest.mark.parametrize("wrong", [KeptForever, NeverKept, NotCleared])
def test_a_workspace_that_keeps_wrongly_is_seen(wrong, own_kernel, run_property, monkeypatch):
    run_property(results.test_a_workspace_keeps_weights_while_they_are_the_same, own_kernel)
    monkeypatch.setattr(mxassay.optimized, "Workspace", wrong)
    with pytest.raises(PropertyError):
        run_property(results.test_a_workspace_keeps_weights_while_they_are_the_same, own_kernel)


def wrapping(stage):
    """The stage with offsets that leave 32 bits taken for 0."""

    def wrapped(x, *words, **more):
        far = [size > 1 and (size - 1) * step >= 2**31 for size, step in zip(x.shape, x.stride(), strict=True)]
        near = x.clone()
        for axis, too_far in enumerate(far):
            if too_far:
                near = near.narrow(axis, 0, 1).expand(x.shape).clone()
        return stage(near, *words, **more)

    return wrapped


FAR = [
    ("matmul", memory.test_rows_that_lie_far_apart, {"tile_m": 16, "splits": 1}),
    ("matmul", memory.test_columns_that_lie_far_apart, {}),
    ("quantize", memory.test_stages_whose_rows_lie_far_apart, {}),
    ("reduce_partials", memory.test_stages_whose_rows_lie_far_apart, {}),
]


@pytest.mark.parametrize(("wrong", "test", "arguments"), FAR)
def test_offsets_that_wrap_are_seen(wrong, test, arguments, own_kernel, run_property, stages):
    stages()
    run_property(test, own_kernel, **arguments)
    stages(**{wrong: wrapping(getattr(mxassay.optimized, wrong))})
    with pytest.raises(PropertyError):
        run_property(test, own_kernel, **arguments)


def test_a_lazy_negation_that_is_ignored_is_seen(own_kernel, run_property, stages):
    stages()
    run_property(padding.test_a_lazy_negation_is_read_with_its_sign, own_kernel)
    for wrong in ("matmul", "quantize", "reduce_partials"):
        stages()
        right = getattr(mxassay.optimized, wrong)
        stages(**{wrong: lambda x, *words, right=right: right(-x if x.is_neg() else x, *words)})
        with pytest.raises(PropertyError, match=wrong):
            run_property(padding.test_a_lazy_negation_is_read_with_its_sign, own_kernel)


def test_wrong_plans_of_shapes_are_seen(own_kernel, run_property, monkeypatch):
    run_property(contracts.test_every_shape_has_its_plan, own_kernel)

    def never_from_the_table(m, n, k):
        return mxassay.optimized.plans._plan_by_rule(m, n, k)

    def more_splits_than_steps(m, n, k):
        return replace(plan_for(m, n, k), splits=64)

    for wrong in (never_from_the_table, more_splits_than_steps, lambda *shape: None):
        monkeypatch.setattr(mxassay.optimized, "plan_for", wrong)
        with pytest.raises(PropertyError):
            run_property(contracts.test_every_shape_has_its_plan, own_kernel)


def test_an_entry_point_that_refuses_nothing_is_seen(own_kernel, run_property, stages):
    stages(quantize=lambda x: None)
    with pytest.raises(PropertyError):
        run_property(contracts.test_every_entry_point_refuses_what_is_illegal, own_kernel)
