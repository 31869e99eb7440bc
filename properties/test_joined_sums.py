"""Splits that are summed in the launch that makes them, by the workgroup that comes last to a tile."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import torch

from mxassay.properties.checks import assert_product, assert_same_bits, assert_same_values, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.observers import emulation
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import ramped
from mxassay.reference import partials, round_to_bfloat16

if TYPE_CHECKING:
    from mxassay.gfx950.codeobject import KernelCode
    from mxassay.gfx950.instruction import Instruction

_SMALL = {"tile_m": 16, "tile_n": 64, "tile_k": 256, "num_warps": 2}
# More tiles one way and the other, a split alone in a tile, fewer splits than were asked for, 32 rows.
_CASES: tuple[tuple[tuple[int, int, int], dict[str, Any]], ...] = (
    ((17, 144, 512), {**_SMALL, "splits": 2}),
    ((33, 80, 768), {**_SMALL, "splits": 5}),
    ((33, 272, 1024), {"tile_m": 32, "tile_n": 256, "tile_k": 256, "num_warps": 8, "splits": 4}),
)
_WIDER = "matmul(out=columns of a wider buffer)"


def _joined(fields: dict[str, Any], entry: str = "matmul") -> Launch:
    from mxassay.optimized import Plan

    return Launch(Plan(**fields, direct=True, joined=True), entry)


@claim("joined-sums")
@pytest.mark.parametrize("waves", [1, 12, 4096])
@pytest.mark.parametrize("case", range(len(_CASES)))
def test_the_last_workgroup_sums_all_partials(mx_kernel: KernelUnderTest, case: int, waves: int) -> None:
    """Workgroups run one after another, a few at a time, all together; the counters serve one launch after another."""
    from mxassay.gfx950.launches import launches

    shape, fields = _CASES[case]
    for seed, entry in enumerate(("matmul", _WIDER, "matmul")):
        operands = ramped(shape, seed)
        launch = _joined(fields, entry)
        with emulation(waves_per_batch=waves), launches() as launched:
            outcome = mx_kernel.run(operands, launch)
        assert_product(outcome)
        names = [kernel.code.name for kernel, _ in launched.ran]
        if names != ["direct_gemm_kernel"]:
            raise violation(f"one launch of direct_gemm_kernel must do, not {', '.join(names)}", case=outcome.words)


@claim("joined-sums")
def test_partials_are_added_in_ascending_order(mx_kernel: KernelUnderTest) -> None:
    """In row n of W one split is worth 256, others a large number and its opposite: 256 is lost where it is added to
    the large one first."""
    signs = ((2, 2, 10), (2, 2, 10), (2, 10, 2), (10, 2, 2))
    small = (0, 1, 2, 1)
    codes = torch.zeros((16, 384), dtype=torch.uint8)
    scales = torch.full((16, 24), 127, dtype=torch.uint8)
    for row, (codes_of, at) in enumerate(zip(signs, small, strict=True)):
        for split, code in enumerate(codes_of):
            codes[row, 128 * split : 128 * (split + 1)] = 17 * code
            scales[row, 8 * split : 8 * (split + 1)] = 127 + 40 * (split != at)
    a = torch.ones((1, 768), dtype=torch.bfloat16)
    words = "ones, and rows of W that are small in one split and large in the others"
    operands = Operands(a, codes, scales, mx_kernel.kernel.dialect, words)
    outcome = mx_kernel.run(operands, _joined({**_SMALL, "splits": 3}))
    total, *rest = partials(*operands.quantized, codes, scales, span=256)
    for part in rest:
        total = total + part
    assert_same_values(outcome.out, round_to_bfloat16(total.double()), ("row", "column"), case=outcome.words)


@claim("joined-visible")
def test_what_is_summed_has_arrived(mx_kernel: KernelUnderTest) -> None:
    """On a card the workgroups of a tile may run on dies whose caches don't see each other; emulated memory has no
    caches, so this is read off the machine code."""
    from mxassay.gfx950.launches import launches

    for case, (shape, fields) in enumerate(_CASES):
        with launches() as launched:
            mx_kernel.run(ramped(shape, case), _joined(fields))
        case_words = f"{shape}, {fields}"
        joining = [kernel.code for kernel, _ in launched.ran if kernel.code.name == "direct_gemm_kernel"]
        if not joining:
            raise violation("a plan with joined sums must run direct_gemm_kernel, but does not", case=case_words)
        for code in joining:
            assert_arrives(code, case_words)


def assert_arrives(kernel: "KernelCode", case: str) -> None:
    """Of a kernel whose last workgroup sums: partials are written and read past every cache, and each wave's writes
    have arrived before its workgroup is counted.

    Raises PropertyError.
    """
    from mxassay.gfx950.flow import flow_of

    code = list(flow_of(kernel).instructions.values())
    counts = [at for at, one in enumerate(code) if one.op == "global_atomic_add"]
    if len(counts) != 1:
        raise violation(f"workgroups must be counted at one place, not at {len(counts)}", case=case)
    before, after = code[: counts[0]], code[counts[0] + 1 :]
    stores = [at for at, one in enumerate(before) if one.op.startswith("buffer_store")]
    loads = [one for one in after if one.op.startswith("buffer_load")]
    if not stores or not loads:
        raise violation("partials must be written before the count and read behind it, but are not", case=case)
    for one in (*(before[at] for at in stores), *loads):
        if not (one["sc0"] and one["sc1"]):
            what = "store" if one.op.startswith("buffer_store") else "load"
            raise violation(f"the {what} of a partial must have system scope, SC0 and SC1, not be: {one}", case=case)
    between = before[stores[-1] + 1 :]
    waits = [at for at, one in enumerate(between) if _waits_for_all(one)]
    if not waits:
        raise violation(
            "each wave must wait for its stores, s_waitcnt vmcnt(0), before the count: none does", case=case
        )
    if not any(one.op == "s_barrier" for one in between[waits[0] :]):
        raise violation("waves must meet between their waits and the count, at an s_barrier: they don't", case=case)


def _waits_for_all(one: "Instruction") -> bool:
    """Whether no access to memory is under way behind it: VMCNT is bits 3:0 and 15:14 (AMD CDNA4 ISA, S_WAITCNT)."""
    return one.op == "s_waitcnt" and one["simm16"] & 0xC00F == 0


@claim("counters-apart")
def test_launches_that_may_meet_have_counters_of_their_own(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized.arrivals import APART, counters

    device = torch.device(mx_kernel.tensors_on)

    def kept(tiles: int, threads_own: str) -> int:
        with counters(tiles, device) as found:
            if len(found) < tiles * APART or found.dtype != torch.int32:
                words = f"{tiles * APART} int32, not {len(found)} {found.dtype}"
                raise violation(f"counters of {tiles} tiles must be at least {words}", case=threads_own)
            assert_same_bits(found, torch.zeros_like(found), ("counter",), case=threads_own)
            return found.data_ptr()

    if APART * 4 < 128:
        raise violation(f"counters must lie in lines of their own, 128 bytes apart, not {APART * 4}", case="two tiles")
    kept(3, "the first launch")
    kept(64, "a launch of more tiles")
    with counters(2, device) as outer, counters(2, device) as inner:
        if outer.data_ptr() == inner.data_ptr():
            raise violation("two launches in flight must not share counters, but do", case="one inside the other")
    with ThreadPoolExecutor(1) as pool, counters(2, device) as mine:
        if pool.submit(kept, 2, "another thread").result() == mine.data_ptr():
            raise violation("launches of two threads must not share counters, but do", case="two threads")
    here = kept(2, "this thread")
    with ThreadPoolExecutor(1) as pool:
        if pool.submit(kept, 2, "another thread").result() == here:
            raise violation("launches of two threads must not share counters, but do", case="one after another")
    with suppress(RuntimeError), counters(2, device) as found:
        found.fill_(1)
        raise RuntimeError("the launch failed")
    kept(2, "after a launch that raised")
