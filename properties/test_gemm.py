"""GEMM agreement: exact where the certificate holds, within the derived bound elsewhere, through every entry point."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation, violation
from mxassay.properties.claims import claim
from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.observers import StoreCounts, launched_code, running_checks, watched
from mxassay.properties.operands import Operands
from mxassay.properties.strategies import (
    block_matrices,
    certified_operands,
    every_launch,
    launches,
    placements,
    ramped_operands,
    sharp_blocks,
    wide_operands,
)
from mxassay.properties.strategies.blocks import SPECIAL, turning_blocks
from mxassay.properties.strategies.matrices import ramped, rows_of_blocks


@claim("gemm-certified", examples=1.5, seconds=5)
@given(operands=certified_operands(), launch=launches(entries=True), placement=placements())
def test_certified_outputs_are_exact(
    mx_kernel: KernelUnderTest, operands: Operands, launch: Launch, placement: Placement
) -> None:
    assert_product(mx_kernel.run(operands, launch, placement))


@claim("gemm-bounded", examples=0.5)
@given(operands=wide_operands(), launch=launches())
def test_other_outputs_stay_within_the_bound(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("gemm-scale-ramp")
@given(operands=ramped_operands(), launch=launches())
def test_every_scale_byte(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


@claim("gemm-sharp-blocks")
@given(operands=block_matrices(sharp_blocks()), launch=launches())
@example(operands=None, launch=Launch())  # drawn blocks seldom tell RCEIL from EVEN
def test_sharp_blocks(mx_kernel: KernelUnderTest, operands: Operands | None, launch: Launch) -> None:
    shape = mx_kernel.contract.fitted((len(turning_blocks()), 16, 128))
    operands = operands or rows_of_blocks(turning_blocks(), shape, "blocks at which rules of scales turn")
    assert_product(mx_kernel.run(operands, launch))


# One and several steps, both ways to read activations, tails of M and N, splits, 32 rows, a K of one MFMA for each wave
# and of several.
_BY_HAND: tuple[tuple[tuple[int, int, int], dict[str, Any]], ...] = (
    ((9, 80, 256), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}),
    ((17, 144, 1024), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}),
    ((33, 128, 512), {"tile_m": 32, "tile_n": 128, "tile_k": 512}),
    ((16, 160, 2048), {"tile_m": 16, "tile_n": 128, "tile_k": 1024, "splits": 2}),
    ((23, 272, 1536), {"tile_m": 16, "tile_n": 256, "tile_k": 512, "splits": 3}),
)


@claim("layouts-by-hand")
@pytest.mark.parametrize("data", ["ramped", "sharp", "special", "sweep"])
@pytest.mark.parametrize("case", range(len(_BY_HAND)))
def test_layouts_by_hand(mx_kernel: KernelUnderTest, case: int, data: str) -> None:
    from mxassay.optimized import Plan

    shape, fields = _BY_HAND[case]
    if data == "ramped":
        operands = ramped(shape, case)
    elif data == "sweep":
        operands = ramped(shape, case, start=1 + 60 * case, sweep_rows=case % 2 == 1)
    else:
        rows = turning_blocks() if data == "sharp" else [[block] for block in SPECIAL.values()]
        first = 7 * case % len(rows)  # M may be less than all of them
        operands = rows_of_blocks([*rows[first:], *rows[:first]], shape, f"{data} blocks")
    with launched_code() as code:
        outcome = mx_kernel.run(operands, Launch(Plan(**fields, direct=True)))
    assert_product(outcome)
    if not any(name == "direct_gemm_kernel" for name, _ in code):
        names = ", ".join(name for name, _ in code)
        raise violation(f"direct_gemm_kernel must take a launch that suits it, not {names}", case=outcome.words)


@claim("entry-points-agree", examples=0.2)
@given(operands=st.one_of(certified_operands(), wide_operands()), launch=launches())
def test_entry_points_agree(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    first = mx_kernel.run(operands, launch)
    for entry in ENTRIES:
        plan = None if entry == "custom_kernel" else launch.plan
        other = mx_kernel.run(operands, Launch(plan, entry))
        assert_product(other)
        if plan is launch.plan and not operands.expectation.certified.all():
            continue
        certified = operands.expectation.certified
        relation = f"matmul and {entry} implement one product"
        assert_relation(relation, other.out[certified], first.out[certified], other, first)


# One observer a process: the emulated card keeps a kernel's steps for each observer it met.
_stores = StoreCounts()


@claim("output-written-once", examples=0.8)
@given(operands=certified_operands(most=1 << 20), launch=launches(entries=True))
def test_every_output_is_written_once(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    _stores.forget()
    with watched(_stores):
        outcome = mx_kernel.run(operands, launch)
    if not _stores.launches:
        raise violation("the kernel must launch something, but nothing was launched", case=outcome.words)
    if _stores.atomics:
        return  # sums through atomics: that every addend comes once is what each-k-once sees
    for kernel, counts, outside in _stores.launches:
        if outside:
            raise violation(f"{kernel} stores {outside} bytes outside its arguments' elements", case=outcome.words)
        for name, times in counts.items():
            wrong = (times != 1).nonzero()
            if len(wrong[0]):
                at = tuple(int(axis[0]) for axis in wrong)[:-1]
                raise violation(
                    f"{kernel} must write every element of {name} once; {len(wrong[0])} bytes are not, first "
                    f"{list(at)}: {int(times[tuple(int(axis[0]) for axis in wrong)])} times",
                    case=outcome.words,
                )


@claim("clean-execution", examples=0.3)
@given(operands=certified_operands(most=1 << 18), launch=launches())
def test_the_running_kernel_is_clean(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    checks = running_checks("default")
    with checks, watched(checks):
        outcome = mx_kernel.run(operands, launch, guarded=False)
    if checks.findings:
        raise violation(f"{len(checks.findings)} findings; first: {checks.findings[0].text()}", case=outcome.words)


@claim("wait-states", seconds=4)
def test_the_machine_code_waits_long_enough(mx_kernel: KernelUnderTest) -> None:
    from mxassay.gfx950.hazards import hazards_of
    from mxassay.gfx950.liveness import unread_results

    with launched_code() as code:
        for shape in ((3, 48, 320), (64, 64, 512)):
            operands = ramped(mx_kernel.contract.fitted(shape), 0)
            for launch in every_launch(mx_kernel):
                mx_kernel.run(operands, launch)
        if mx_kernel.own:
            from mxassay.optimized import quantize

            quantize(operands.a)
    for kernel, code_object in code.values():
        # Inline assembly converts four pairs at a time. Where there are fewer, the others are whatever their registers
        # hold, such as a product on its way; nobody reads what they become.
        unread = unread_results(kernel)
        found = [one for one in hazards_of(kernel, code_object) if not (one.pc in unread and one.rule.only_reads)]
        if found:
            raise violation(f"{kernel.name} has {len(found)} pairs too close; first: {found[0]}")
