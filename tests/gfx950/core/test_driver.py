"""The Triton driver: unmodified launch code on CPU tensors, with Triton's specialization, heuristics and autotuner."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from mxassay.errors import ContractError
from mxassay.gfx950 import KernelFault, MemoryFault, Options, emulated
from mxassay.gfx950.driver import EmulatedDriver


@pytest.fixture(autouse=True)
def card():
    with emulated() as driver:
        yield driver


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def scaled(x, out, factor, shift, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i) * factor + shift
    tl.store(out + i, tl.where(flag, value, -value))


@triton.jit
def unmasked(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=2), triton.Config({"BLOCK": 256})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) + 1.0)
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 256, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_vector_add_is_exact_and_leaves_the_rest_alone(n, dtype):
    x, y = (torch.randn(n) * 100).to(dtype), (torch.randn(n) * 100).to(dtype)
    out = torch.full((n + 64,), 77, dtype=dtype)
    add[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    assert torch.equal(out[:n], x + y)
    assert (out[n:] == 77).all()


@pytest.mark.parametrize("factor", [2.5, -0.0])
@pytest.mark.parametrize(("shift", "flag"), [(3, True), (-7, False), (1, True)])
def test_scalars_arrive_whatever_their_type(factor, shift, flag):
    x, out = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    scaled[(1,)](x, out, factor, shift, flag, BLOCK=64, num_warps=1)
    want = x * factor + shift
    assert torch.equal(out, want if flag else -want)


def test_views_of_one_storage_share_their_memory():
    room = torch.arange(192, dtype=torch.float32)
    unmasked[(1,)](room[:64], room[128:], BLOCK=64, num_warps=1)
    assert torch.equal(room[128:], torch.arange(64, dtype=torch.float32))
    assert torch.equal(room[64:128], torch.arange(64, 128, dtype=torch.float32))


def test_a_view_that_starts_between_alignments_works():
    room, out = torch.arange(65, dtype=torch.float32), torch.zeros(64)
    unmasked[(1,)](room[1:], out, BLOCK=64, num_warps=1)
    assert torch.equal(out, room[1:])


def test_an_access_past_the_allocation_names_the_argument():
    with pytest.raises(MemoryFault, match=r"a load must stay inside a buffer.* past the end of x of 252 bytes"):
        unmasked[(1,)](torch.zeros(63), torch.zeros(64), BLOCK=64, num_warps=1)
    with pytest.raises(
        MemoryFault, match=r"a store must stay inside a buffer.* past the end of out of 252 bytes"
    ) as caught:
        unmasked[(1,)](torch.zeros(64), torch.zeros(63), BLOCK=64, num_warps=1)
    assert (caught.value.wave, caught.value.lane, caught.value.kernel) == (0, 63, "unmasked")


def test_after_a_fault_the_next_launch_is_clean():
    with pytest.raises(KernelFault):
        unmasked[(1,)](torch.zeros(3), torch.zeros(64), BLOCK=64, num_warps=1)
    x, out = torch.randn(64), torch.zeros(64)
    unmasked[(1,)](x, out, BLOCK=64, num_warps=1)
    assert torch.equal(out, x)


def test_a_second_launch_reuses_the_code_and_reads_the_new_buffers():
    compiled = None
    for round_ in range(3):
        x, out = torch.randn(64) + round_, torch.zeros(64)
        kernel = unmasked[(1,)](x, out, BLOCK=64, num_warps=1)
        assert torch.equal(out, x)
        assert compiled is None or kernel is compiled
        compiled = kernel


def test_the_autotuner_compiles_all_and_takes_the_first():
    x, out = torch.randn(300), torch.zeros(300)
    tuned[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, out, 300)
    assert tuned.best_config.kwargs == {"BLOCK": 128}
    assert torch.equal(out, x + 1)


def test_a_gpu_tensor_is_refused_by_name():
    with pytest.raises(ContractError, match=r"x must be a CPU tensor, not one on meta"):
        unmasked[(1,)](torch.zeros(64, device="meta"), torch.zeros(64), BLOCK=64, num_warps=1)


def test_counts_of_the_last_launch(card):
    unmasked[(3,)](torch.zeros(64), torch.zeros(64), BLOCK=64, num_warps=1)
    assert card.last.wave_instructions == 3 * card.last.steps
    assert card.last.lane_instructions == 64 * card.last.wave_instructions


def test_uninitialised_registers_do_not_reach_the_output():
    x = torch.randn(1000)
    for fill in (0, 0x7FC00001, 0xFFFFFFFF):
        with emulated(Options(fill=fill)):
            out = torch.zeros(1000)
            add[(4,)](x, x, out, 1000, BLOCK=256)
            assert torch.equal(out, x + x)


def test_the_driver_from_before_comes_back():
    outer = triton.runtime.driver.active

    def fail_inside():
        with emulated() as inner:
            assert triton.runtime.driver.active is inner
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert triton.runtime.driver.active is outer
    assert isinstance(outer, EmulatedDriver)


@triton.jit
def block_scaled(a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 2), tl.arange(0, K // 32)
    left = tl.load(a + m[:, None] * (K // 2) + k[None, :])
    right = tl.load(b + n[None, :] * (K // 2) + k[:, None])
    left_scale = tl.load(sa + m[:, None] * (K // 32) + g[None, :])
    right_scale = tl.load(sb + n[:, None] * (K // 32) + g[None, :])
    total = tl.dot_scaled(left, left_scale, "e2m1", right, right_scale, "e2m1")
    tl.store(out + m[:, None] * N + n[None, :], total)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def decoded(packed: torch.Tensor, scales: torch.Tensor) -> np.ndarray:
    codes = np.stack([packed.numpy() & 15, packed.numpy() >> 4], -1).reshape(packed.shape[0], -1)
    return (E2M1[codes].reshape(*scales.shape, 32) * 2.0 ** (scales.numpy()[..., None] - 127.0)).reshape(codes.shape)


@pytest.mark.parametrize(("M", "N", "K"), [(16, 16, 128), (32, 32, 64), (32, 64, 256), (64, 32, 512)])
def test_a_block_scaled_product_is_the_exact_sum_rounded_once(M, N, K):
    rng = torch.Generator().manual_seed(M * N + K)
    a, b = (torch.randint(0, 256, (rows, K // 2), dtype=torch.uint8, generator=rng) for rows in (M, N))
    # Seven steps of scale: every order of summation is exact in float32, so one result is right.
    sa, sb = (torch.randint(125, 128, (rows, K // 32), dtype=torch.uint8, generator=rng) for rows in (M, N))
    out = torch.zeros(M, N)
    block_scaled[(1,)](a, sa, b, sb, out, M, N, K)
    want = torch.from_numpy((decoded(a, sa) @ decoded(b, sb).T).astype(np.float32))
    assert torch.equal(out, want)
