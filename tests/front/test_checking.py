"""The checks themselves: kernels that are wrong in one known way, written in plain torch, each told apart."""

import os

import pytest
import torch

from mxassay.arenas import MARGIN, Arena, GuardedAllocations
from mxassay.cases import EDGES, Case, build, cases
from mxassay.checking import check_case
from mxassay.devices import DEVICES
from mxassay.errors import ContractError
from mxassay.kernels import Kernel, Returned
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import matmul, quantize
from mxassay.verdicts import Verdict

SHAPE = (5, 48, 320)


def right(x):
    n, k = x.b_preshuffled.shape[0], 2 * x.b_preshuffled.shape[1]
    weights = WEIGHT_PRESHUFFLE.invert(x.b_preshuffled)
    scales = SCALE_SHUFFLE.invert(x.b_scales_shuffled, (n, k // 32))
    return matmul(*quantize(x.a), weights, scales)


def verdict_on(function, shape=SHAPE):
    kernel = Kernel("planted", "mxfp4-gemm", "even", lambda x, _plan: Returned(function(x)))
    return check_case(kernel, Case(shape), DEVICES["emulated"])


def through_empty(x):
    out = torch.empty(x.a.shape[0], x.b.shape[0], dtype=torch.bfloat16)
    return out.copy_(right(x))


def one_ulp_off(x):
    out = right(x)
    out.view(torch.int16)[3, 7] += 1
    return out


def one_output_unwritten(x):
    out = torch.empty(x.a.shape[0], x.b.shape[0], dtype=torch.bfloat16)
    values = right(x)
    out.view(-1)[:-1] = values.view(-1)[:-1]
    return out


def input_written(x):
    out = right(x)
    x.a[0, 0] += 1
    return out


def beside_an_input_written(x):
    out = right(x)
    row = x.b_preshuffled[-1]
    row.as_strided((row.numel() + 1,), (1,))[-1] = 0
    return out


def beside_the_output_written(x):
    out = through_empty(x)
    out.view(-1).as_strided((out.numel() + 4,), (1,))[-1] = 0
    return out


def raises(_x):
    raise RuntimeError("no such tile")


def exits(_x):
    raise SystemExit(0)


def lazily_negated(x):
    return torch._neg_view(-right(x))


def refuses(_x):
    raise ContractError("K must be a multiple of 512, not 320; pad it")


@pytest.mark.parametrize("function", [right, through_empty, lazily_negated])
def test_a_right_kernel_passes(function):
    record = verdict_on(function)
    assert record.verdict is Verdict.PASS, record.message
    assert (record.outputs, record.bit_differences) == (240, 0)
    assert record.certified == 240


def test_one_unit_in_the_last_place_is_found_where_it_is():
    record = verdict_on(one_ulp_off)
    assert (record.verdict, record.bit_differences) == (Verdict.FAIL, 1)
    wrong = record.first_wrong
    assert wrong.index == (3, 7)
    assert int(wrong.got_hex, 16) == int(wrong.expected_hex, 16) + 1
    assert wrong.certified


def test_an_output_nobody_wrote_is_nan():
    record = verdict_on(one_output_unwritten)
    assert (record.verdict, record.bit_differences) == (Verdict.FAIL, 1)
    assert record.first_wrong.index == (4, 47)
    assert record.first_wrong.got_hex == "0xFFFF"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (input_written, "not a: written"),
        (beside_an_input_written, "not b_preshuffled: written"),
        (beside_the_output_written, "not around torch.empty (5, 48) bfloat16: written"),
    ],
)
def test_stray_writes_are_named(function, words):
    record = verdict_on(function)
    assert record.verdict is Verdict.FAIL
    assert record.bit_differences == 0
    prefix = "inputs, and the bytes around every buffer, must be left alone, "
    assert record.message == prefix + words


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (torch.zeros(5, 48), "not torch.float32 of shape (5, 48)"),
        ((torch.zeros(5, 48),), "not a tuple"),
        (None, "not a NoneType"),
        (torch.zeros(5, 48, dtype=torch.bfloat16, device="meta"), "not a torch.strided tensor on meta"),
        (torch.zeros(5, 48, dtype=torch.bfloat16).to_sparse(), "not a torch.sparse_coo tensor on cpu"),
        (torch.zeros(48, 5, dtype=torch.bfloat16), "not torch.bfloat16 of shape (48, 5)"),
    ],
)
def test_an_output_of_the_wrong_kind(out, words):
    record = verdict_on(lambda _x: out)
    assert record.verdict is Verdict.FAIL
    assert record.message == f"the output must be a dense torch.bfloat16 tensor of shape (5, 48), {words}"


def test_a_kernel_that_raises_is_an_error_with_its_traceback():
    record = verdict_on(raises)
    assert record.verdict is Verdict.ERROR
    assert record.message.startswith("the kernel raised RuntimeError: no such tile\n")
    assert "test_checking.py" in record.message
    assert "/checking.py" not in record.message.replace("test_checking.py", "")
    assert "in raises" in record.message


def test_a_kernel_that_exits_has_not_passed():
    record = verdict_on(exits)
    assert record.verdict is Verdict.ERROR
    assert record.message.startswith("the kernel raised SystemExit: 0\n")


def test_the_contest_gets_weights_that_are_not_quantized_yet():
    x = build(Case(SHAPE), "cpu").arguments
    assert torch.equal(quantize(x.b).packed, x.b_packed)
    assert x.b.unique().numel() > 200


def test_a_k_of_no_whole_blocks_is_refused():
    with pytest.raises(ContractError) as refused:
        build(Case((1, 16, 16)), "cpu")
    assert str(refused.value) == "K must be a multiple of 32, not 16; a block has 32 elements along K"


def test_a_kernel_that_refuses_is_unsupported():
    record = verdict_on(refuses)
    assert (record.verdict, record.message) == (Verdict.UNSUPPORTED, "K must be a multiple of 512, not 320; pad it")


def test_inputs_follow_from_the_seed_alone():
    one, same, other = (build(Case(SHAPE, seed), "cpu").arguments for seed in (0, 0, 1))
    assert torch.equal(one.a, same.a)
    assert torch.equal(one.b_preshuffled, same.b_preshuffled)
    assert not torch.equal(one.a, other.a)


@pytest.mark.parametrize("shape", [*EDGES, (16, 256, 7168)])
def test_inputs_spread_their_scales_and_stay_certified(shape):
    problem = build(Case(shape), "cpu")
    scales = quantize(problem.arguments.a).scales
    if scales.numel() >= 50:
        assert scales.unique().numel() >= 5
    assert problem.expectation.certified.float().mean() > 0.99


def test_padding_and_surroundings_are_nan():
    x = build(Case(SHAPE), "cpu").arguments
    scales = SCALE_SHUFFLE.bind((48, 10))
    stored = x.b_scales_shuffled.view(-1)
    data = scales.offsets()[:48, :10].reshape(-1)
    padding = torch.ones(stored.numel(), dtype=torch.bool)
    padding[data] = False
    assert padding.sum() == 256 * 16 - 480
    assert (stored[padding] == 0xFF).all()
    flat = x.a.as_strided((x.a.numel() + 8,), (1,))
    assert flat[-8:].isnan().all()


def test_a_slow_device_gets_two_tiles_and_a_part():
    kernel = Kernel("other", "mxfp4-gemm", "even", lambda x, _plan: Returned(right(x)))
    small, same = cases(kernel, [(256, 3072, 1536), (5, 48, 320)], full_size=False, seed=3)
    assert (small.shape, small.reduced_from, small.seed) == ((33, 528, 1536), (256, 3072, 1536), 3)
    assert (same.shape, same.reduced_from) == ((5, 48, 320), None)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64])
def test_an_arena_keeps_values_strides_and_offset(dtype):
    whole = torch.arange(60).to(dtype).reshape(6, 10)
    view = whole[1:5, 2:7].t()
    arena = Arena("view", view, "cpu", fill=True)
    assert torch.equal(arena.tensor, view)
    assert (arena.tensor.stride(), arena.tensor.dtype) == (view.stride(), dtype)
    assert arena.tensor.data_ptr() != view.data_ptr()
    assert not arena.changed()
    arena.tensor[0, 0] += 1
    assert arena.changed()
    assert not arena.overrun()


def test_allocations_are_poisoned_and_watched():
    with GuardedAllocations() as allocations:
        empty = torch.empty(3, 4)
        zeros = torch.zeros(3, dtype=torch.bfloat16)
        like = torch.full_like(zeros, 2)
        new = empty.new_empty((2,), dtype=torch.uint8)
        assert torch.empty(0).numel() == 0
    assert empty.isnan().all()
    assert new.tolist() == [255, 255]
    assert zeros.tolist() == [0, 0, 0]
    assert like.tolist() == [2, 2, 2]
    assert allocations.overruns() == []
    zeros.as_strided((4,), (1,))[-1] = 1
    assert allocations.overruns() == ["torch.zeros (3,) bfloat16"]
    assert MARGIN % 4096 == 0


def test_the_interpreter_is_not_on():
    assert os.environ.get("TRITON_INTERPRET") != "1"
