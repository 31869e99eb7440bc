"""Launching prebuilt code objects: arguments in order, by name and as bytes, and what is refused."""

import os
import struct

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mxassay.errors import ContractError
from mxassay.gfx950 import CodeObjectError, Fidelity, Kernel, launch, load_code_object, survey


@triton.jit
def axpy(x, y, out, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor * tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@pytest.fixture(scope="module")
def code() -> bytes:
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "factor": "fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(axpy, signature, {"BLOCK": 128})
    return triton.compile(source, target=GPUTarget("hip", "gfx950", 64), options={"num_warps": 2}).asm["hsaco"]


@pytest.fixture
def vectors():
    rng = np.random.default_rng(3)
    return rng.standard_normal(200).astype(np.float32), rng.standard_normal(200).astype(np.float32)


def expected(x, y):
    # The compiler contracts to one fused multiply-add, which is exact in float64 before the last rounding here.
    return (2.5 * x.astype(np.float64) + y).astype(np.float32)


def test_numpy_arrays_and_numbers_in_order(code, vectors):
    x, y = vectors
    out = np.zeros(200, np.float32)
    kernel = Kernel(load_code_object(code))
    extra = [0] * (len([a for a in kernel.code.args if not a.hidden]) - 5)
    counts = launch(kernel, (2,), (128,), [x, y, out, 2.5, 200, *extra])
    assert (out == expected(x, y)).all()
    assert counts.wave_instructions == 4 * counts.steps


def test_torch_tensors_and_a_kernarg_of_bytes_give_the_same(code, vectors):
    x, y = (torch.from_numpy(v) for v in vectors)
    out = torch.zeros(200)
    kernel = Kernel(load_code_object(code))
    extra = [0] * (len([a for a in kernel.code.args if not a.hidden]) - 5)
    launch(kernel, (2, 1, 1), (128, 1, 1), [x, y, out, 2.5, 200, *extra])
    assert (out.numpy() == expected(*vectors)).all()


def test_a_small_batch_changes_nothing(code, vectors):
    from mxassay.gfx950 import Options

    x, y = vectors
    kernel = Kernel(load_code_object(code))
    extra = [0] * (len([a for a in kernel.code.args if not a.hidden]) - 5)
    outs = []
    for waves in (1, 2, 256):
        out = np.zeros(200, np.float32)
        launch(kernel, (2,), (128,), [x, y, out, 2.5, 200, *extra], options=Options(waves_per_batch=waves))
        outs.append(out.tobytes())
    assert len(set(outs)) == 1


def test_the_wrong_number_of_arguments_is_refused(code):
    with pytest.raises(ContractError, match=r"the arguments of axpy must be \d+ \(.*\), not 1"):
        launch(code, (1,), (128,), [np.zeros(4, np.float32)])


def test_what_has_no_memory_is_refused_by_name(code):
    kernel = Kernel(load_code_object(code))
    visible = [a for a in kernel.code.args if not a.hidden]
    with pytest.raises(ContractError, match=r"must be a CPU tensor, a numpy array, an address or None, not object"):
        launch(kernel, (1,), (128,), [object()] * len(visible))


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        ((1, 1, -1), (64,), "grid and block must be three sizes each"),
        ((1,), (0,), "grid and block must be three sizes each"),
        ((1,), (4096,), "a workgroup of axpy must have at most"),
    ],
)
def test_a_grid_no_card_takes_is_refused(code, grid, block, words):
    kernel = Kernel(load_code_object(code))
    with pytest.raises(ContractError, match=words):
        launch(kernel, grid, block, bytes(kernel.code.kernarg_size))


def test_lds_beyond_160_kib_is_refused(code):
    kernel = Kernel(load_code_object(code))
    with pytest.raises(ContractError, match=r"a workgroup's LDS must fit into 163840 bytes, not 163841"):
        launch(kernel, (1,), (128,), bytes(kernel.code.kernarg_size), dynamic_lds=163841)


def test_damaged_code_is_refused(code):
    with pytest.raises(CodeObjectError):
        launch(code[:200], (1,), (128,), [])


def test_an_empty_grid_runs_nothing(code):
    kernel = Kernel(load_code_object(code))
    assert launch(kernel, (0,), (128,), bytes(kernel.code.kernarg_size)).steps == 0


def test_a_survey_names_every_operation_its_fidelity_and_source(code):
    kernel = Kernel(load_code_object(code))
    entries = {entry.op: entry for entry in survey(kernel)}
    assert sum(entry.count for entry in entries.values()) == len(
        list(kernel.program.walk(kernel.code.entry, kernel.code.code_size))
    )
    assert entries["s_endpgm"].fidelity is Fidelity.CERTAIN
    assert all(entry.source and entry.why is None for entry in entries.values())


def test_the_kernarg_is_packed_at_the_metadatas_offsets(code):
    from mxassay.gfx950.hostmemory import HostMemory
    from mxassay.gfx950.launcher import pack_kernarg

    kernel, memory = Kernel(load_code_object(code)), HostMemory()
    x = np.zeros(4, np.float32)
    extra = [0] * (len([a for a in kernel.code.args if not a.hidden]) - 5)
    kernarg = pack_kernarg(kernel, [x, x, None, 2.5, -3, *extra], memory, (1, 1, 1), (128, 1, 1), 0)
    assert struct.unpack_from("<QQQfi", kernarg) == (memory.space._segments[0].base,) * 2 + (0, 2.5, -3)
