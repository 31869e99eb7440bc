"""No false reports: right kernels, all checks, no findings. And on those kernels each wait and barrier is needed."""

import re
import tempfile
from pathlib import Path

import pytest
import torch
import triton_kernels as kernels
from assemble import assemble_object
from triton._C.libtriton import amd

from mxassay import gfx950
from mxassay.cases import Case, build
from mxassay.gfx950 import Kernel, Options, launch, load_code_object
from mxassay.gfx950.checks import Checks
from mxassay.optimized import matmul

# The contest's shapes with their tails kept and their size cut: 8 to 24 workgroups each.
SHAPES = [
    (4, 352, 512), (16, 320, 1792), (32, 512, 512), (32, 352, 512), (64, 512, 1024), (256, 384, 512),
    (8, 320, 1792), (16, 384, 768), (64, 384, 768), (192, 352, 512),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


def silent(run):
    checks = Checks("all")
    with checks, gfx950.emulated(Options(observer=checks)):
        result = run()
    assert not checks.findings, checks.text()
    assert checks.counts
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_contest_kernels(shape):
    problem = build(Case(shape), "cpu")
    given = problem.arguments
    out = silent(lambda: matmul(given.a, given.b_preshuffled, given.b_scales_shuffled))
    assert not problem.expectation.wrong(out).any()


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_reductions_through_lds(warps):
    x, weight, bias = torch.randn(3, 300), torch.randn(300), torch.randn(300)
    y = torch.empty_like(x)
    silent(lambda: kernels.softmax[(3,)](x, y, 300, 300, BLOCK=512, num_warps=warps))
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-6)
    silent(lambda: kernels.layernorm[(3,)](x, weight, bias, y, 300, BLOCK=512, num_warps=warps))
    assert torch.allclose(y, torch.nn.functional.layer_norm(x, (300,), weight, bias), atol=1e-4)
    tall, sums = torch.randn(60, 130), torch.empty(130)
    silent(lambda: kernels.column_sums[(1,)](tall, sums, 60, 130, BM=64, BN=256, num_warps=warps))
    assert torch.allclose(sums, tall.sum(0), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_transpose_through_lds(dtype):
    x = torch.randn(100, 70).mul(50).to(dtype)
    y = torch.empty(70, 100, dtype=dtype)
    silent(lambda: kernels.transpose[(2, 2)](x, y, 100, 70, B=64))
    assert torch.equal(y, x.T)


def test_atomics():
    x, y = torch.randint(0, 16, (1000,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    silent(lambda: kernels.histogram[(4,)](x, y, 1000, BLOCK=256))
    assert torch.equal(y.long(), torch.bincount(x, minlength=16))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize(("async_copy", "ping_pong", "tile", "warps"), [(0, 0, 64, 4), (1, 0, 64, 4), (0, 1, 256, 8)])
def test_pipelined_matmuls(stages, async_copy, ping_pong, tile, warps, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", str(async_copy))
    monkeypatch.setenv("TRITON_HIP_USE_BLOCK_PINGPONG", str(ping_pong))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels.matmul.device_caches.clear()
    a, b, c = torch.randn(200, 192).bfloat16(), torch.randn(192, 256).bfloat16(), torch.empty(200, 256)
    grid = (-(-200 // tile), 256 // tile)
    compiled = silent(
        lambda: kernels.matmul[grid](
            a, b, c, 200, 256, 192, BM=tile, BN=tile, BK=64, num_stages=stages, num_warps=warps
        )
    )
    assert torch.allclose(c, a.float() @ b.float(), atol=1e-3)
    if async_copy and stages > 1:
        assert re.search(r"buffer_load_dword(x4)? .* lds$", compiled.asm["amdgcn"], re.M)


def linked(text: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        relocatable, whole = Path(folder, "a.o"), Path(folder, "a.hsaco")
        relocatable.write_bytes(assemble_object(text))
        amd.link_hsaco(str(relocatable), str(whole))
        return whole.read_bytes()


class Reached:
    """Notes whether the marker was executed."""

    def __init__(self):
        self.marker = False

    def begin(self, launch): ...

    def end(self, error): ...

    def before(self, cohort, inst):
        self.marker |= inst.op == "s_nop" and inst["simm16"] == 15

    def access(self, cohort, inst, access): ...

    def after(self, cohort, inst): ...

    def barrier(self, groups): ...


@pytest.mark.parametrize("async_copy", [0, 1])
def test_a_wait_or_barrier_taken_out_of_a_pipelined_matmul_is_missed(async_copy, monkeypatch, tmp_path):
    """Every one that runs, one at a time. Two may go: the wait of the kernel arguments' preload, whose data another
    wait covers too, and a barrier that nothing but the end follows."""
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", str(async_copy))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels.matmul.device_caches.clear()
    a, b, c = torch.randn(64, 192).bfloat16(), torch.randn(192, 64).bfloat16(), torch.empty(64, 64)
    options = {"BM": 64, "BN": 64, "BK": 64, "num_stages": 2, "num_warps": 4}
    with gfx950.emulated():
        compiled = kernels.matmul[(1, 1)](a, b, c, 64, 64, 192, **options)
    lines = compiled.asm["amdgcn"].splitlines()
    at = [i for i, line in enumerate(lines) if re.match(r"\s+(s_waitcnt|s_barrier)", line)]

    def run(observer, position, instead):
        text = "\n".join([*lines[:position], *instead, *lines[position + 1 :]])
        kernel = Kernel(load_code_object(linked(text)))
        visible = [argument for argument in kernel.code.args if not argument.hidden]
        values = iter([a, b, c, 64, 64, 192])
        args = [next(values, 0) for _ in visible]
        launch(kernel, (1,), (256,), args, dynamic_lds=compiled.metadata.shared, options=Options(observer=observer))

    tried, silent_ones = 0, []
    for position in at:
        reached = Reached()
        run(reached, position, ["\ts_nop 15"])
        if not reached.marker:
            continue
        tried += 1
        checks = Checks("waitcnt,races")
        run(checks, position, [])
        if not checks.findings:
            silent_ones.append(lines[position].strip())
    assert tried >= 15
    assert set(silent_ones) <= {"s_waitcnt lgkmcnt(0)", "s_barrier"}
    assert len(silent_ones) <= 2
