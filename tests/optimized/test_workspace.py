"""Prepared weights are right, and no cache can be poisoned by freed or rewritten tensors."""

import re

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import Plan, PreparedWeights, Workspace, matmul, matmul_prepared, prepare


def test_prepare_gives_the_linear_tensors_without_padding(make_case, assert_same_bits):
    for n, k in ((16, 64), (48, 320), (272, 576)):
        case = make_case(1, n, k)
        found = prepare(case.b, case.scales)
        assert (found.n, found.k) == (n, k)
        assert_same_bits(found.packed, case.linear_b)
        assert_same_bits(found.scales, case.linear_scales)


def test_prepared_weights_are_a_snapshot(make_case, assert_same_bits):
    case = make_case(2, 32, 128)
    weights = prepare(case.b, case.scales)
    case.b.fill_(0xFF)
    case.scales.fill_(0xFF)
    assert_same_bits(matmul_prepared(case.a, weights), case.expected)


def test_equal_bytes_elsewhere_are_the_same_weights(make_case):
    case = make_case(1, 16, 64)
    workspace = Workspace()
    first = workspace.prepared(case.b, case.scales)
    assert workspace.prepared(case.b.clone(), case.scales.clone()) is first
    other = case.b.clone()
    other[0, 0] ^= 1
    assert workspace.prepared(other, case.scales) is not first


@pytest.mark.parametrize("write", ["data", "storage", "numpy"])
def test_a_write_that_torch_does_not_see_is_seen(write, make_case, assert_same_bits):
    case = make_case(1, 16, 64)
    if write == "numpy" and case.b.device.type != "cpu":
        pytest.skip("numpy writes to host memory alone")
    workspace = Workspace()
    workspace.prepared(case.b, case.scales)
    if write == "data":
        case.b.data.copy_(torch.full_like(case.b, 0x11))
    elif write == "storage":
        case.b.untyped_storage().fill_(0x11)
    else:
        case.b.numpy()[3, 3] ^= 0xFF
    found = workspace.prepared(case.b, case.scales)
    assert_same_bits(found.packed, WEIGHT_PRESHUFFLE.invert(case.b, (16, 32)))


@pytest.mark.parametrize("rewrite", ["whole", "through a view", "one element", "scales"])
def test_a_write_that_torch_sees_is_seen(rewrite, make_case, assert_same_bits):
    case = make_case(1, 16, 64)
    workspace = Workspace()
    workspace.prepared(case.b, case.scales)
    if rewrite == "whole":
        case.b.fill_(0x11)
    elif rewrite == "through a view":
        case.b.view(-1)[5:7].fill_(0x11)
    elif rewrite == "one element":
        case.b[3, 3] += 1
    else:
        case.scales.add_(1)
    found = workspace.prepared(case.b, case.scales)
    assert_same_bits(found.packed, WEIGHT_PRESHUFFLE.invert(case.b, (16, 32)))
    assert_same_bits(found.scales, SCALE_SHUFFLE.invert(case.scales, (16, 2)))


def test_memory_swapped_under_a_tensor_is_seen(make_case, assert_same_bits):
    first, second = make_case(1, 16, 64, seed=1), make_case(1, 16, 64, seed=2)
    workspace = Workspace()
    workspace.prepared(first.b, first.scales)
    first.b.set_(second.b)
    assert_same_bits(workspace.prepared(first.b, first.scales).packed, second.linear_b)


def test_a_kernel_that_writes_into_the_weights_is_seen(make_case, assert_same_bits):
    """`out` over the memory of kept weights: the launch must count as a write."""
    case = make_case(1, 16, 64)
    workspace = Workspace()
    workspace.prepared(case.b, case.scales)
    other = make_case(16, 16, 64, seed=3)
    matmul(other.a, other.b, other.scales, out=case.b.view(torch.bfloat16))
    found = workspace.prepared(case.b, case.scales)
    assert_same_bits(found.packed, WEIGHT_PRESHUFFLE.invert(case.b, (16, 32)))


def test_nothing_is_left_after_clear(make_case):
    case = make_case(1, 16, 64)
    workspace = Workspace()
    first = workspace.prepared(case.b, case.scales)
    workspace.clear()
    assert workspace.prepared(case.b, case.scales) is not first


def test_tensors_without_a_version_are_prepared_each_time(make_case, assert_same_bits):
    case = make_case(2, 16, 64)
    workspace = Workspace()
    with torch.inference_mode():
        b, scales = case.b.clone(), case.scales.clone()
        first = workspace.prepared(b, scales)
        b.fill_(0)
        assert workspace.prepared(b, scales) is not first
        plan = Plan(tile_m=2, tile_n=16, tile_k=128, linear=True)
        zero = matmul(case.a, b, scales, plan=plan, workspace=workspace)
        assert (zero == 0).all()


def test_partials_of_two_calls_never_share_memory(device):
    workspace = Workspace()
    one, other = (workspace.partials(2, 3, 16, device) for _ in range(2))
    assert one.data_ptr() != other.data_ptr()
    assert one.shape == (2, 3, 16)
    assert one.dtype == torch.float32


def test_refusals_of_prepared_products(make_case):
    case = make_case(2, 16, 64)
    weights = prepare(case.b, case.scales)
    with pytest.raises(ContractError, match=re.escape("weights must be PreparedWeights, not Tensor; call prepare")):
        matmul_prepared(case.a, case.b)
    wrong = torch.zeros(2, 128, dtype=torch.bfloat16, device=case.a.device)
    message = "a.shape[1] (K) must be 64, the K of the prepared weights, not 128"
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        matmul_prepared(wrong, weights)
    assert isinstance(weights, PreparedWeights)
