"""What lies outside the contract is refused by name, before any launch; nothing is launched into garbage."""

import re

import pytest
import torch

from mxassay.errors import ContractError, UnsupportedError
from mxassay.optimized import Plan, custom_kernel, matmul
from mxassay.optimized import device as device_module
from mxassay.optimized.contracts import may_overlap
from mxassay.optimized.device import Target, current_target

M, N, K = 3, 48, 320
RUN_OF_BYTES = "a shuffled tensor is a run of bytes, so shuffle into a contiguous tensor"


@pytest.fixture
def arguments(device):
    return {
        "a": torch.zeros(M, K, dtype=torch.bfloat16, device=device),
        "b_preshuffled": torch.zeros(N, K // 2, dtype=torch.uint8, device=device),
        "b_scales_shuffled": torch.zeros(256, 16, dtype=torch.uint8, device=device),
    }


def refused(arguments, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        matmul(**arguments)


ACTIVATIONS = {
    "wrong type": (lambda a: [1.0], "a must be a torch.Tensor, not list"),
    "float32": (lambda a: a.float(), "a.dtype must be bfloat16, not float32; convert or view it"),
    "float16": (lambda a: a.half(), "a.dtype must be bfloat16, not float16; convert or view it"),
    "one dimension": (lambda a: a[0], "a must have 2 dimensions, not 1; reshape it"),
    "three dimensions": (lambda a: a[None], "a must have 2 dimensions, not 3; reshape it"),
    "sparse": (lambda a: a.to_sparse(), "a must be a dense tensor, not torch.sparse_coo; call to_dense()"),
    "no depth": (lambda a: a[:, :0], "a.shape[1] (K) must be a positive multiple of 64, not 0; pad with zeros"),
    "half a weight tile": (
        lambda a: a[:, :288],
        "a.shape[1] (K) must be a positive multiple of 64, not 288; pad with zeros",
    ),
    "another depth": (
        lambda a: a[:, :256],
        "b_preshuffled.shape[1] must be K // 2 = 128, not 160; two codes lie in one byte",
    ),
    "meta": (
        lambda a: a.to("meta"),
        "b_preshuffled must be on the device of a, meta, not on {device}; move it",
    ),
    "wants a gradient": (
        lambda a: a.clone().requires_grad_(),
        "a must not require a gradient, since none is computed; detach it or use torch.no_grad()",
    ),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, arguments):
    make, message = ACTIVATIONS[name]
    placed = arguments["b_preshuffled"].device
    arguments["a"] = make(arguments["a"])
    refused(arguments, message.replace("{device}", str(placed)))


WEIGHTS = {
    "wrong type": (lambda b: None, "b_preshuffled must be a torch.Tensor, not NoneType"),
    "signed bytes": (
        lambda b: b.view(torch.int8),
        "b_preshuffled.dtype must be uint8 or float4_e2m1fn_x2, not int8; convert or view it",
    ),
    "words": (
        lambda b: b.view(torch.int32),
        "b_preshuffled.dtype must be uint8 or float4_e2m1fn_x2, not int32; convert or view it",
    ),
    "flat": (lambda b: b.flatten(), "b_preshuffled must have 2 dimensions, not 1; reshape it"),
    "rows cut": (
        lambda b: b[:40],
        "b_preshuffled.shape[0] (N) must be a positive multiple of 16, not 40; the preshuffle has 16-row tiles",
    ),
    "no rows": (
        lambda b: b[:0],
        "b_preshuffled.shape[0] (N) must be a positive multiple of 16, not 0; the preshuffle has 16-row tiles",
    ),
    "half a tile of depth": (
        lambda b: b[:, :144].contiguous(),
        "b_preshuffled.shape[1] (K // 2) must be a positive multiple of 32, not 144; pad K with zero codes",
    ),
    "columns cut": (
        lambda b: torch.cat([b, b], dim=1)[:, :160],
        f"b_preshuffled must be contiguous, not of strides (320, 1); {RUN_OF_BYTES}",
    ),
    "transposed": (
        lambda b: b.t().contiguous().t(),
        f"b_preshuffled must be contiguous, not of strides (1, 48); {RUN_OF_BYTES}",
    ),
    "unpacked": (
        lambda b: torch.cat([b, b], dim=1),
        "b_scales_shuffled.shape must be (256, 24) (N padded to 256, K // 32 padded to 8), not (256, 16)",
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name, arguments):
    make, message = WEIGHTS[name]
    arguments["b_preshuffled"] = make(arguments["b_preshuffled"])
    refused(arguments, message)


SCALES = {
    "not padded": (lambda s: s[:48, :10], "(48, 10)"),
    "rows not padded": (lambda s: s[:48], "(48, 16)"),
    "columns not padded": (lambda s: s[:, :10], "(256, 10)"),
    "columns padded too far": (lambda s: torch.cat([s, s], dim=1), "(256, 32)"),
    "transposed": (lambda s: s.t(), "(16, 256)"),
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_of_a_wrong_shape(name, arguments):
    make, found = SCALES[name]
    arguments["b_scales_shuffled"] = make(arguments["b_scales_shuffled"])
    refused(
        arguments,
        f"b_scales_shuffled.shape must be (256, 16) (N padded to 256, K // 32 padded to 8), not {found}",
    )


def test_scales_of_a_wrong_dtype_or_stride(arguments):
    good = arguments["b_scales_shuffled"]
    arguments["b_scales_shuffled"] = good.float()
    refused(arguments, "b_scales_shuffled.dtype must be uint8 or float8_e8m0fnu, not float32; convert or view it")
    arguments["b_scales_shuffled"] = torch.cat([good, good], dim=1)[:, ::2]
    refused(
        arguments,
        f"b_scales_shuffled must be contiguous, not of strides (32, 2); {RUN_OF_BYTES}",
    )


OUTPUTS = {
    "wrong type": (lambda out: 3, "out must be a torch.Tensor, not int"),
    "float32": (lambda out: out.float(), "out.dtype must be bfloat16, not float32; convert or view it"),
    "another shape": (lambda out: out[:2], "out.shape must be (3, 48), not (2, 48)"),
    "transposed": (
        lambda out: out.t().contiguous().t(),
        "out must have unit column stride and rows at least 48 apart, not strides (1, 3)",
    ),
    "every second column": (
        lambda out: torch.cat([out, out], dim=1)[:, ::2],
        "out must have unit column stride and rows at least 48 apart, not strides (96, 2)",
    ),
    "one row for all": (
        lambda out: out[:1].expand(3, -1),
        "out must have unit column stride and rows at least 48 apart, not strides (0, 1)",
    ),
    "wants a gradient": (
        lambda out: out.clone().requires_grad_(),
        "out must not require a gradient, since none is computed; detach it",
    ),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name, arguments, device):
    make, message = OUTPUTS[name]
    arguments["out"] = make(torch.zeros(M, N, dtype=torch.bfloat16, device=device))
    refused(arguments, message)


@pytest.mark.parametrize("name", ["a", "b_preshuffled", "b_scales_shuffled"])
def test_an_output_over_an_input_is_refused(name, arguments):
    flat = arguments[name].view(-1).view(torch.bfloat16)
    arguments["out"] = flat[: M * N].view(M, N)
    refused(arguments, f"out must not share memory with {name}; pass another tensor, or clone {name}")


def test_input_and_output_side_by_side_in_one_buffer(arguments, device):
    buffer = torch.zeros(M, K + N, dtype=torch.bfloat16, device=device)
    arguments |= {"a": buffer[:, :K], "out": buffer[:, K:]}
    assert matmul(**arguments) is arguments["out"]


@pytest.mark.parametrize(
    ("first", "width", "overlap"),
    [(0, 10, True), (9, 5, True), (10, 6, False), (10, 10, False), (10, 11, True), (5, 2, True), (19, 2, True)],
)
def test_overlap_of_column_ranges(first, width, overlap):
    buffer = torch.zeros(200, dtype=torch.uint8)
    one = buffer.as_strided((5, 10), (20, 1))
    other = buffer.as_strided((5, width), (20, 1), first)
    shared = {int(i) for i in one.data_ptr() + offsets(one)} & {int(i) for i in one.data_ptr() + offsets(other)}
    assert bool(shared) == overlap
    assert may_overlap(one, other) == overlap
    assert may_overlap(other, one) == overlap


def offsets(view):
    rows = torch.arange(view.shape[0])[:, None] * view.stride(0)
    return (view.storage_offset() + rows + torch.arange(view.shape[1])).flatten()


def test_lazily_negated_bytes_are_refused(arguments):
    arguments["b_preshuffled"] = torch._neg_view(arguments["b_preshuffled"])
    refused(arguments, "b_preshuffled must hold its bytes, not a lazy negation; call resolve_neg()")


def test_a_plan_of_another_type_is_refused(arguments):
    arguments["plan"] = {"tile_m": 4}
    refused(arguments, "plan must be a Plan or None, not dict")


def test_a_grid_too_large_is_refused(arguments, monkeypatch):
    arguments["a"] = arguments["a"][:1].expand(1 << 30, -1)
    arguments["plan"] = Plan(tile_m=1, tile_n=16, tile_k=128)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: pytest.fail("memory was taken for it"))
    refused(arguments, "plan must need fewer than 2**31 workgroups, not 3221225472; take larger tiles")


def test_a_device_that_the_kernel_cannot_reach_is_refused(arguments, monkeypatch, device):
    monkeypatch.setattr("mxassay.optimized.gemm.current_target", lambda: Target("cuda", "90", "xpu"))
    refused(arguments, f"a must be on xpu, not on {arguments['a'].device}; move it")


def test_meta_tensors_are_refused(arguments):
    refused(
        {name: tensor.to("meta") for name, tensor in arguments.items()},
        f"a must be on {current_target().tensors or 'a device with memory'}, not on meta; move it",
    )


def test_no_triton_device_is_a_clear_error(arguments, monkeypatch):
    class NoDriver:
        @property
        def active(self):
            raise RuntimeError("0 active drivers ([]). There should only be one.")

    monkeypatch.setattr(device_module, "JITFunction", object)
    monkeypatch.setattr(device_module.triton.runtime, "driver", NoDriver())
    with pytest.raises(UnsupportedError, match="the Triton driver must be active, not absent"):
        matmul(**arguments)


def test_an_interpreter_without_dot_scaled_is_a_clear_error(arguments, monkeypatch):
    monkeypatch.delattr("triton.runtime.interpreter.InterpreterBuilder.create_dot_scaled", raising=False)
    monkeypatch.setattr("mxassay.optimized.gemm.current_target", lambda: Target("interpreter", "", None))
    with pytest.raises(UnsupportedError, match=r"^Triton's interpreter must know dot_scaled, not be that of 3\."):
        matmul(**arguments)


@pytest.mark.parametrize(
    ("backend", "arch", "use_asm"), [("hip", "gfx950:sramecc+", True), ("hip", "gfx942", False), ("cuda", "90", False)]
)
def test_what_depends_on_the_target(backend, arch, use_asm):
    target = Target(backend, arch, "cuda")
    assert target.use_asm == use_asm
    assert not target.round_in_integers
    plan = Plan(tile_m=16, tile_n=64, tile_k=64, matrix_instr_nonkdim=32, waves_per_eu=2)
    hip_only = {"waves_per_eu": 2, "matrix_instr_nonkdim": 32} if backend == "hip" else {}
    assert target.options(plan, 128) == {"num_warps": 4, "num_stages": 2} | hip_only
    assert target.split_k(640, plan).tile_k == (128 if backend == "cuda" else 64)


def test_the_contest_entry_takes_the_five_tuple(make_case, assert_same_bits):
    case = make_case(3, 48, 320)
    data = (case.a, None, None, case.b, case.scales)
    first = custom_kernel(data)
    assert_same_bits(first, case.expected)
    assert custom_kernel(list(data)).data_ptr() != first.data_ptr()


@pytest.mark.parametrize(("data", "found"), [((1, 2, 3), "3 items"), (None, "NoneType"), ("abcde", "str")])
def test_the_contest_entry_refuses_anything_else(data, found):
    message = f"data must be the five-tuple (A, B, B_q, B_shuffle, B_scale_sh), not {found}"
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        custom_kernel(data)


@pytest.mark.parametrize(
    ("tile_m", "tile_k", "warps"), [(1, 256, 1), (2, 128, 1), (4, 128, 2), (2, 256, 2), (16, 128, 4), (16, 512, 4)]
)
def test_small_tiles_take_fewer_warps_on_cuda(tile_m, tile_k, warps):
    plan = Plan(tile_m=tile_m, tile_n=16, tile_k=tile_k)
    target = Target("cuda", "90", "cuda")
    assert target.split_k(2048, plan).tile_k == tile_k
    assert target.options(plan, tile_k)["num_warps"] == warps


def test_one_row_takes_deeper_steps_on_cuda():
    plan = Plan(tile_m=1, tile_n=16, tile_k=128)
    assert Target("cuda", "90", "cuda").split_k(64, plan).tile_k == 256
    assert Target("hip", "gfx950", "cpu").split_k(64, plan).tile_k == 128
    assert Target("hip", "gfx950", "cuda").options(plan, 128)["num_warps"] == 4


def test_an_output_that_is_negated_lazily_is_refused(device):
    a = torch.ones(1, 64, dtype=torch.bfloat16, device=device)
    weights = torch.zeros(16, 32, dtype=torch.uint8, device=device)
    scales = torch.zeros(256, 8, dtype=torch.uint8, device=device)
    out = torch._neg_view(torch.zeros(1, 16, dtype=torch.bfloat16, device=device))
    with pytest.raises(ContractError, match=r"^out must hold its values, not a lazy negation; call resolve_neg\(\)$"):
        matmul(a, weights, scales, out=out)
