"""GEMM agreement: exact where the certificate holds, within the derived bound elsewhere, through every entry point."""

from hypothesis import given
from hypothesis import strategies as st

from mxassay.properties.checks import assert_product, assert_relation, violation
from mxassay.properties.claims import claim
from mxassay.properties.entries import ENTRIES
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.observers import LaunchedCode, StoreCounts, watched
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
from mxassay.properties.strategies.matrices import ramped


@claim("gemm-certified", examples=1.5)
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
def test_sharp_blocks(mx_kernel: KernelUnderTest, operands: Operands, launch: Launch) -> None:
    assert_product(mx_kernel.run(operands, launch))


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
    from mxassay.gfx950.checks import Checks

    with Checks() as checks, watched(checks):
        outcome = mx_kernel.run(operands, launch, guarded=False)
    if checks.findings:
        raise violation(f"{len(checks.findings)} findings; first: {checks.findings[0].text()}", case=outcome.words)


@claim("wait-states")
def test_the_machine_code_waits_long_enough(mx_kernel: KernelUnderTest) -> None:
    from mxassay.gfx950.hazards import hazards_of
    from mxassay.gfx950.liveness import unread_results

    code = LaunchedCode()
    for shape in ((3, 48, 320), (64, 64, 512)):
        operands = ramped(mx_kernel.contract.fitted(shape), 0)
        for launch in every_launch(mx_kernel):
            with watched(code):
                mx_kernel.run(operands, launch)
    if mx_kernel.own:
        from mxassay.optimized import quantize

        with watched(code):
            quantize(operands.a)
    for kernel, code_object in code.launched.values():
        # Inline assembly converts four pairs at a time. Where there are fewer, the others are whatever their registers
        # hold, such as a product on its way; nobody reads what they become.
        unread = unread_results(kernel)
        found = [one for one in hazards_of(kernel, code_object) if not (one.pc in unread and one.rule.only_reads)]
        if found:
            raise violation(f"{kernel.name} has {len(found)} pairs too close; first: {found[0]}")
