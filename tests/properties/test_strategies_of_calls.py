"""Every strategy of launches, placements, orders and sequences of calls reaches what it claims."""

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings

from mxassay.properties import test_state
from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import VIEWS, viewed
from mxassay.properties.strategies import PLANS, every_launch, launches, permutations, placements, splits
from mxassay.properties.strategies.buffers import fills
from mxassay.properties.strategies.plans import plan


def examples_of(strategy, count=200):
    """Examples of a strategy."""
    found = []

    @settings(max_examples=count, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
    @given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


@pytest.fixture(autouse=True)
def _a_kernel(own_kernel):
    """Strategies ask for the kernel under test."""


def test_launches_reach_every_plan_and_entry_and_shrink_to_none():
    found = examples_of(launches(entries=True), 500)
    assert {launch.entry for launch in found} == set(ENTRIES)
    assert len({launch.plan for launch in found}) == len(PLANS) + 1
    assert find(launches(entries=True), lambda _: True).plan is None


def test_another_kernel_has_no_plans(kernel_of, right):
    kernel_of(right)
    assert {launch.plan for launch in examples_of(launches(entries=True), 50)} == {None}


def test_splits_hold_one_powers_and_primes():
    assert set(examples_of(splits(), 200)) >= {1, 2, 3, 7, 16, 17, 64}


def test_placements_reach_every_padding_and_view():
    found = examples_of(placements(), 300)
    assert {placement.padding for placement in found} == {0, 0x7F, 0xFF}
    assert {placement.view for placement in found} == set(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_holds_the_values_among_nan(view):
    a = torch.arange(1, 7 * 64 + 1, dtype=torch.float32).reshape(7, 64).bfloat16()
    found = viewed(a, view)
    assert torch.equal(found, a)
    if view not in ("contiguous", "transposed"):
        assert not found.is_contiguous()
        whole = torch.empty(0, dtype=torch.bfloat16).set_(found.untyped_storage())
        assert int(whole.isnan().sum()) == whole.numel() - a.numel()
    assert found.is_contiguous() == (view == "contiguous")


def test_the_strided_views_differ_from_each_other():
    a = torch.ones(7, 64, dtype=torch.bfloat16)
    assert len({(viewed(a, view).stride(), viewed(a, view).storage_offset()) for view in VIEWS}) == len(VIEWS)


def test_permutations_are_swaps_rotations_reversals_and_shuffles_and_never_the_identity_by_kind():
    found = [order.tolist() for order in examples_of(permutations(9), 400)]
    same = list(range(9))
    assert all(sorted(order) == same for order in found)
    swaps = {tuple(order) for order in found if sum(a != b for a, b in zip(order, same, strict=True)) == 2}
    rotations = {tuple(order) for order in found if order in [same[-i:] + same[:-i] for i in range(1, 9)]}
    assert len(swaps) == 8
    assert len(rotations) == 8
    assert same[::-1] in found
    others = {tuple(order) for order in found} - swaps - rotations - {tuple(same[::-1])}
    assert len(others) > 20
    assert sum(order == same for order in found) <= len(found) // 100


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_permutations_of_few(size):
    assert all(sorted(order.tolist()) == list(range(size)) for order in examples_of(permutations(size), 30))


def test_a_shrunk_permutation_is_one_swap():
    assert find(permutations(5), lambda _: True).tolist() == [1, 0, 2, 3, 4]


def test_fills_are_zero_the_neutral_scale_and_nan():
    assert set(examples_of(fills(), 60)) == {0x00, 0x7F, 0xFF}


def test_only_our_own_kernel_is_given_strides(kernel_of, right):
    kernel_of(right)
    found = examples_of(placements(), 60)
    assert {placement.view for placement in found} == {"contiguous"}
    assert {placement.padding for placement in found} == {0x00, 0x7F, 0xFF}


def test_every_launch_is_its_own_plan_and_each_of_the_lattice(kernel_of, right):
    assert [launch.plan for launch in every_launch(kernel_of(right, own=True))] == [None, *map(plan, range(len(PLANS)))]
    assert [launch.plan for launch in every_launch(kernel_of(right))] == [None]


def test_launches_without_plans_or_entries():
    assert {launch.plan for launch in examples_of(launches(entries=True, planned=False), 60)} == {None}
    assert {launch.entry for launch in examples_of(launches(), 60)} == {"matmul"}


def test_sequences_change_weights_in_place_scales_alone_and_reallocate(kernel_of, right):
    """What the state machine claims to do to a kernel, as the kernel sees it."""
    seen = []

    def call(x):
        weights, scales = x.b_preshuffled, x.b_scales_shuffled
        seen.append((weights, weights.data_ptr(), weights.clone(), scales.clone(), x.a.shape[0]))
        return right(x)

    kernel = kernel_of(call)
    test_state.test_calls_in_sequence(kernel)
    test_state.test_one_tensor_changes_between_two_calls(kernel)
    assert {rows for *_, rows in seen} == set(test_state._ROWS)
    assert len({weights.shape for weights, *_ in seen}) == len({*test_state._SIZES})
    changes = set()
    last = {}
    for call_seen in seen:
        tensor, address, weights, scales, _ = call_seen
        if address in last:
            before = last[address]
            changes.add((tensor is before[0], torch.equal(weights, before[2]), torch.equal(scales, before[3])))
        last[address] = call_seen
    assert (True, True, True) in changes, "called twice with the same weights"
    assert (True, False, False) in changes, "written in place"
    assert (True, True, False) in changes, "only the scales written"
    assert any(not same for same, *_ in changes), "other tensors at the same addresses"
