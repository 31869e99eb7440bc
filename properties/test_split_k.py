"""Split-K: the cut itself, each k counted once, partials, and the reduce kernel alone."""

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.checks import assert_product, assert_same_bits, assert_same_values, violation
from mxassay.properties.claims import claim, quick
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import certified_operands, launches, splits
from mxassay.properties.strategies.plans import plan
from mxassay.reference import partials, round_to_bfloat16


@claim("splits-cover")
def test_every_k_lies_in_one_split(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized import reconcile

    depths = (64, 128, 256, 512, 1024)
    for k in range(64, 8193, 64 if not quick() else 192):
        for tile_k in depths:
            for count in (*range(1, 18), 31, 32, 33, 64, 1000):
                found = reconcile(k, tile_k, count)
                case = f"K={k} tile_k={tile_k} splits={count}: {found}"
                if not 1 <= found.count <= count:
                    raise violation(f"there must be 1 to {count} splits, not {found.count}", case=case)
                if found.span % found.tile_k or found.tile_k > tile_k:
                    raise violation("a span must be whole tiles, no deeper than asked for", case=case)
                if not (found.count - 1) * found.span < k <= found.count * found.span:
                    raise violation("splits must cover K, and the last must not be empty", case=case)


@claim("each-k-once", examples=0.6, seconds=3)
@given(k=st.sampled_from((256, 64, 320, 1024, 1088, 2112, 3648)), launch=launches(), count=splits())
@example(k=1024, launch=None, count=2)  # the scale looked up with the k inside the split: 1280 instead of 10880
def test_each_k_is_counted_once(mx_kernel: KernelUnderTest, k: int, launch: Launch | None, count: int) -> None:
    """A row for each block of K that is one there and zero elsewhere, scales that name the block: a block that is
    left out, counted twice, or scaled by another's scale shows as itself."""
    _, n, k = mx_kernel.contract.fitted((1, 32, min(k, 704) if mx_kernel.slow else k))
    blocks = k // 32
    m, _, _ = mx_kernel.contract.fitted((blocks + 1, n, k))
    a = torch.zeros(m, blocks, 32)
    a[torch.arange(blocks), torch.arange(blocks)] = 1
    a[blocks] = 1
    scales = (127 + torch.arange(blocks) % 9).to(torch.uint8).expand(n, blocks).contiguous()
    codes = torch.full((n, k // 2), 0x22, dtype=torch.uint8)
    words = f"row i is one in block i, row {blocks} everywhere"
    operands = Operands(a.reshape(m, k).bfloat16(), codes, scales, mx_kernel.kernel.dialect, words)
    launch = launch or Launch()
    if mx_kernel.own:
        launch = Launch(replace(launch.plan or plan(1), splits=count), launch.entry)
    outcome = mx_kernel.run(operands, launch)
    for block in range(blocks):
        found = float(outcome.out[block, 0])
        expected = 32.0 * 2.0 ** (block % 9)
        if found != expected:
            raise violation(
                f"k from {32 * block} to {32 * block + 31} must be counted once, which gives {expected}, not {found}: "
                f"{found / expected:g} times",
                case=outcome.words,
            )
    assert_product(outcome)


@claim("partials-sum", examples=0.5)
@given(operands=certified_operands(most=1 << 20), index=st.sampled_from((2, 3, 6, 8)), count=st.integers(2, 6))
def test_partials_are_exact_and_add_up(mx_kernel: KernelUnderTest, operands: Operands, index: int, count: int) -> None:
    from mxassay.optimized import Workspace, matmul, reconcile

    class Keeping(Workspace):
        kept: torch.Tensor | None = None

        def partials(self, splits: int, m: int, n: int, device: torch.device) -> torch.Tensor:
            self.kept = super().partials(splits, m, n, device).fill_(float("nan"))
            return self.kept

    chosen, workspace = replace(plan(index), splits=count), Keeping()
    cut = reconcile(operands.shape[2], chosen.tile_k, chosen.splits)
    case = f"{operands!r}, plan {chosen.words}, {cut}"
    weights = WEIGHT_PRESHUFFLE.apply(operands.codes), SCALE_SHUFFLE.apply(operands.scales, fill=0xFF)
    on_device = (tensor.to(mx_kernel.tensors_on) for tensor in (operands.a, *weights))
    out = matmul(*on_device, plan=chosen, workspace=workspace)
    if cut.count == 1:
        return
    if workspace.kept is None:
        raise violation(f"{cut.count} splits must have partials, but none were asked for", case=case)
    found = workspace.kept.cpu()
    expected = partials(*operands.quantized, operands.codes, operands.scales, span=cut.span)
    assert_same_values(found, expected, ("split", "row", "column"), case=case)
    total = found[0].clone()
    for part in found[1:]:
        total += part
    assert_same_values(out, round_to_bfloat16(total.double()), ("row", "column"), case=case)


def _float32(exponents: st.SearchStrategy[int]) -> st.SearchStrategy[float]:
    return st.builds(lambda sign, mantissa, exponent: sign * mantissa * 2.0**exponent,
                     st.sampled_from((1, -1)), st.integers(0, (1 << 24) - 1), exponents)  # fmt: skip


@claim("reduce-alone", examples=2)
@given(
    values=st.lists(
        _float32(st.integers(-30, 10))
        | st.sampled_from((0.0, -0.0, 3.0e38, -3.0e38, 1e-45, float("inf"), float("nan"))),
        min_size=1,
        max_size=12,
    ),
    count=st.integers(1, 9),
    m=st.sampled_from((1, 2, 5)),
    n=st.sampled_from((1, 16, 255, 256, 257, 600)),
    gap=st.sampled_from((0, 7)),
)
@example(values=[1.0, 2.0**-8, 2.0**-9], count=3, m=1, n=16, gap=0)  # a tie that one more term breaks
@example(values=[1.0 + 2.0**-8, 0.0], count=2, m=1, n=16, gap=0)  # a tie that goes to even
def test_the_reduce_kernel(
    mx_kernel: KernelUnderTest, values: list[float], count: int, m: int, n: int, gap: int
) -> None:
    from mxassay.optimized import reduce_partials

    order = (torch.arange(count * m * n) * 7 + torch.arange(count * m * n) // 3) % len(values)
    whole = torch.full((count, m, n + gap), float("nan"))
    given_partials = whole[:, :, :n]
    given_partials.copy_(torch.tensor(values, dtype=torch.float32)[order].reshape(count, m, n))
    expected = given_partials[0].clone()
    for part in given_partials[1:]:
        expected += part
    on_device = whole.to(mx_kernel.tensors_on)[:, :, :n]
    out = reduce_partials(on_device)
    case = f"{count} partials of ({m}, {n}), rows {n + gap} apart, from {values}"
    assert_same_bits(out, round_to_bfloat16(expected.double()), ("row", "column"), case=case)


@claim("reduce-alone")
@pytest.mark.parametrize("count", [1, 2])
def test_a_nan_of_any_payload_stays_nan(mx_kernel: KernelUnderTest, count: int) -> None:
    """Rounding adds to the bits: a large payload must not carry into the sign, nor a small one be rounded to Inf."""
    from mxassay.optimized import reduce_partials

    payloads = (0x7F800001, 0x7F807FFF, 0x7FBFFFFF, 0x7FC00000, 0x7FFF7FFF, 0x7FFF8000, 0x7FFFFFFF)
    bits = torch.tensor([sign | payload for payload in payloads for sign in (0, -(1 << 31))], dtype=torch.int32)
    parts = torch.zeros(count, 1, 32)
    parts[0, 0, : len(bits)] = bits.view(torch.float32)
    out = reduce_partials(parts.to(mx_kernel.tensors_on))
    expected = torch.zeros(1, 32, dtype=torch.bfloat16)
    expected[0, : len(bits)] = float("nan")
    assert_same_values(out, expected, ("row", "column"), case=f"{count} partials, NaN of {len(payloads)} payloads")
