"""Memory: what a launch touches, and buffers larger than 32 bits can count."""

import mmap
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from mxassay.properties.checks import assert_product, assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch, Outcome, Placement, viewed
from mxassay.properties.observers import running_checks, watched
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import certified_operands, every_launch, launches
from mxassay.properties.strategies.matrices import ramped
from mxassay.properties.strategies.plans import plan

# Rows so far apart that row 15 is more than 2^31 elements away, while a tile of 16 rows spans less than 2^33 bytes.
_PITCH = 150_000_000
# Linux' MAP_NORESERVE, which Python 3.11 and 3.12 don't name: pages that nobody touches count as nothing.
_NO_RESERVE = 0x4000
# A tail of rows, of columns and of K for every tile of PLANS; K is, and is not, a multiple of half a tile. The last has
# tails where layouts by hand take it.
_RAGGED = ((5, 48, 320), (17, 80, 448), (3, 16, 64), (23, 80, 512))


@claim("within-buffers")
def test_tails_reach_nothing_beside_the_arguments(mx_kernel: KernelUnderTest) -> None:
    for shape in _RAGGED:
        operands = ramped(mx_kernel.contract.fitted(shape), 0)
        for launch in every_launch(mx_kernel):
            assert_within(lambda: mx_kernel.run(operands, launch), f"{operands!r}, {launch!r}")  # noqa: B023
    if mx_kernel.own:
        from mxassay.optimized import quantize, reduce_partials

        for m, k in ((17, 288), (3, 64), (33, 544)):
            x = viewed(torch.ones(m, k, dtype=torch.bfloat16), "columns of a wider buffer")
            assert_within(lambda: quantize(x), f"quantize of ({m}, {k}), columns of a wider buffer")  # noqa: B023
            parts = torch.ones(3, m, k + 24)[:, :, 8 : k + 8]
            assert_within(lambda: reduce_partials(parts), f"3 partials ({m}, {k}), columns of wider ones")  # noqa: B023


@claim("within-buffers")
def test_tails_of_joined_sums_reach_nothing_beside_the_arguments(mx_kernel: KernelUnderTest) -> None:
    """In a second row of tiles. What lies behind the partials is NaN, as is what lies behind the output: read and
    written there, it leaves no other trace."""
    if not mx_kernel.own:
        pytest.skip("only our own kernel sums splits in the launch that makes them")
    from mxassay.optimized import Plan

    operands = ramped((17, 144, 512), 0)
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=2, direct=True, joined=True)
    assert_within(lambda: mx_kernel.run(operands, Launch(plan)), f"{operands!r}, {plan.words}")


@claim("within-buffers", examples=0.2)
@given(operands=certified_operands(most=1 << 18), launch=launches(entries=True))
def test_any_call_stays_within_its_arguments(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_within(lambda: mx_kernel.run(operands, launch), f"{operands!r}, {launch!r}")


def assert_within(call: Callable[[], object], case: str) -> None:
    """No load and no store of a launch in `call` reaches a byte that is no element of an argument.

    Raises PropertyError.
    """
    checks = running_checks("views")
    with watched(checks):
        call()
    if checks.findings:
        raise violation(f"{len(checks.findings)} instructions do; first: {checks.findings[0].text()}", case=case)


def far_apart(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A tensor of zeros whose memory is reserved as a whole and taken only where somebody touches it."""
    elements = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    size = elements * dtype.itemsize
    if device != "cpu":
        try:
            whole = torch.empty(size, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError:
            pytest.skip(f"needs {size >> 30} GiB of memory on the device")
        return whole.view(dtype).as_strided(shape, strides).zero_()
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    return torch.frombuffer(pages, dtype=dtype).as_strided(shape, strides)


@claim("wide-offsets")
@pytest.mark.parametrize("tile_m", [16, 4])
@pytest.mark.parametrize("splits", [1, 2])
def test_rows_that_lie_far_apart(mx_kernel: KernelUnderTest, tile_m: int, splits: int) -> None:
    from mxassay.optimized import matmul

    operands = ramped((17, 16, 576), 0)
    m, n, k = operands.shape
    device = mx_kernel.tensors_on
    a = far_apart((m, k), (_PITCH, 1), torch.bfloat16, device).copy_(operands.a)
    out = far_apart((m, n), (_PITCH, 1), torch.bfloat16, device)
    launch = Launch(replace(plan(0), tile_m=tile_m, splits=splits))
    matmul(a, *operands.stored(device), plan=launch.plan, out=out)
    assert_product(Outcome(out.cpu().clone(), operands, launch, Placement(), mx_kernel))


@claim("wide-offsets")
def test_tiles_that_lie_far_apart(mx_kernel: KernelUnderTest) -> None:
    """The last tile of rows begins more than 2^31 elements on, while no tile spans 2^31 bytes: layouts by hand count
    in 32 bits inside of a tile."""
    from mxassay.optimized import Plan, matmul

    operands = ramped((82, 64, 256), 0)
    m, n, _ = operands.shape
    device = mx_kernel.tensors_on
    out = far_apart((m, n), (30_000_000, 1), torch.bfloat16, device)
    launch = Launch(Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True))
    matmul(operands.a.to(device), *operands.stored(device), plan=launch.plan, out=out)
    assert_product(Outcome(out.cpu().clone(), operands, launch, Placement(), mx_kernel))


@claim("wide-offsets")
def test_columns_that_lie_far_apart(mx_kernel: KernelUnderTest) -> None:
    """A step of the loop over K is more than 2^31 elements wide where A is transposed and has many rows."""
    from mxassay.optimized import matmul

    operands = ramped((3, 16, 576), 0)
    device = mx_kernel.tensors_on
    a = far_apart((3, 576), (1, 9_000_000), torch.bfloat16, device).copy_(operands.a)
    launch = Launch(plan(0))
    out = matmul(a, *operands.stored(device), plan=launch.plan)
    assert_product(Outcome(out.cpu(), operands, launch, Placement(), mx_kernel))


@claim("wide-offsets")
def test_stages_whose_rows_lie_far_apart(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized import quantize, reduce_partials

    device = mx_kernel.tensors_on
    near = torch.arange(17 * 64).reshape(17, 64).to(torch.bfloat16)
    far = far_apart((17, 64), (_PITCH, 1), torch.bfloat16, device).copy_(near)
    for found, expected, name in zip(quantize(far), quantize(near.to(device)), ("bytes", "scales"), strict=True):
        assert_same_bits(found, expected, ("row", name), case=f"quantize, rows {_PITCH} elements apart")
    parts = torch.arange(2 * 3 * 16.0).reshape(2, 3, 16)
    wide = far_apart((2, 3, 16), (16, 1 << 30, 1), torch.float32, device).copy_(parts)
    expected = reduce_partials(parts.to(device))
    assert_same_bits(reduce_partials(wide), expected, ("row", "column"), case="partials whose rows lie 2^30 apart")
