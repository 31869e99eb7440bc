"""Exams of splits that are summed in the launch that makes them: counters, the order of arrival, what memory sees."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import torch

from mxassay.errors import MxassayError
from mxassay.properties.kernel import Launch
from mxassay.properties.observers import emulation
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import ramped
from mxassay.triage.exams.exam import Exam, Seen
from mxassay.triage.exams.machine import beyond
from mxassay.triage.rerun import sentence

if TYPE_CHECKING:
    from mxassay.gfx950.instruction import Instruction
    from mxassay.kernels import Shape
    from mxassay.properties.kernel import KernelUnderTest

_ALONE, _TOGETHER = 1, 4096  # waves that run side by side: fewer than a workgroup has, more than a launch has


def _counters(kernel: "KernelUnderTest") -> Seen | None:
    """Counters as launches take them, one after another, one inside the other, and in two threads."""
    from mxassay.arenas import GuardedAllocations
    from mxassay.optimized.arrivals import APART, counters

    device = torch.device(kernel.tensors_on)

    def kept(tiles: int) -> tuple[bool, bool, int]:
        with GuardedAllocations(), counters(tiles, device) as found:
            return len(found) >= tiles * APART, not bool(found.any()), found.data_ptr()

    def looks() -> Iterator[tuple[bool, str, str]]:
        enough, zero, _ = kept(3)
        yield enough and zero, "stale-buffers", "fresh counters of arrivals are not zero"
        enough, zero, _ = kept(64)
        yield enough, "cache-key", "kept counters of arrivals are taken for more tiles than they serve"
        yield zero, "stale-buffers", "fresh counters of arrivals are not zero"
        with counters(2, device) as outer, counters(2, device) as inner:
            yield outer.data_ptr() != inner.data_ptr(), "stale-buffers", "two launches in flight share their counters"
        with suppress(RuntimeError), counters(2, device) as found:
            found.fill_(1)
            raise RuntimeError("the launch failed")
        yield kept(2)[1], "stale-buffers", "a launch that failed leaves its counters to the next one"
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(kept, 2).result()[2] != kept(2)[2], "stale-buffers", "two threads share their counters"

    with ThreadPoolExecutor(1) as pool:  # of its own, where nothing is kept yet
        found = pool.submit(lambda: next((look for look in looks() if not look[0]), None)).result()
    return Seen(found[1], "workspace", found[2]) if found else None


class _Look(NamedTuple):
    """A product, and the class and stage of what goes wrong if it is wrong and all looks before it were right.
    `watched`: whether no access may leave an argument either.
    """

    class_: str
    stage: str
    words: str
    shape: "Shape"
    splits: int
    waves: int = _TOGETHER
    entry: str = "matmul"
    launches: int = 1
    watched: bool = False


_WIDER = "matmul(out=columns of a wider buffer)"
# Each has one circumstance more than those before it. Tiles are of 16 x 64 and steps of 256.
_LOOKS = (
    _Look("partials", "reduce", "two splits of one tile, one after another", (16, 64, 512), 2, _ALONE),
    _Look("partials", "reduce", "three splits of one tile, one after another", (16, 64, 768), 3, _ALONE),
    _Look("partials", "reduce", "three splits of one tile, all at once", (16, 64, 768), 3),
    _Look(
        "stale-buffers", "reduce", "a second launch with the first one's counters", (16, 64, 768), 3, _ALONE, launches=2
    ),
    _Look("split-span", "launch", "fewer splits than were asked for", (16, 64, 768), 5),
    _Look("strides", "reduce", "an output of another pitch", (16, 64, 768), 3, entry=_WIDER),
    _Look("race", "reduce", "several tiles", (32, 192, 512), 2, watched=True),
    _Look("n-tail", "store", "columns that end inside a tile", (16, 80, 768), 3, watched=True),
    _Look("small-m", "store", "rows that end inside a tile", (17, 64, 768), 3, watched=True),
)


def _launch(splits: int, entry: str = "matmul") -> Launch:
    from mxassay.optimized import Plan

    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=splits, direct=True, joined=True)
    return Launch(plan, entry)


def _drop_counters() -> None:
    from mxassay.optimized import arrivals

    arrivals._kept.by_stream.clear()


def _goes_wrong(kernel: "KernelUnderTest", look: _Look) -> str:
    """How the last of its launches goes wrong, or ""."""
    _drop_counters()
    operands, launch, words = ramped(look.shape, 0), _launch(look.splits, look.entry), ""
    for _ in range(look.launches):
        try:
            with emulation(waves_per_batch=look.waves):
                out = kernel.run(operands, launch).out
        except (MxassayError, AssertionError) as error:  # it reached outside of a buffer, or wrote what it may not
            words = sentence(error)
        else:
            words = "the product is wrong" if bool(operands.expectation.wrong(out).any()) else ""
    if not words and look.watched:
        words = beyond(lambda: kernel.run(operands, launch))
    _drop_counters()
    return words


def _joined(kernel: "KernelUnderTest") -> Seen | None:
    """Products that are summed in their own launch, each with one circumstance more than the last."""
    for look in _LOOKS:
        words = _goes_wrong(kernel, look)
        if "arrivals_ptr" in words or "torch.zeros" in words:
            return Seen("stale-buffers", "workspace", f"with {look.words} a counter lies outside of the counters")
        if words:
            statement = f"splits that are summed in their own launch go wrong with {look.words}: {words}"
            return Seen(look.class_, look.stage, statement)
    return _ascending(kernel) or _once(kernel)


def _ascending(kernel: "KernelUnderTest") -> Seen | None:
    """Partials of 256 and of a large number and its opposite: 256 is lost where it meets the large one first."""
    codes = torch.zeros((16, 384), dtype=torch.uint8)
    scales = torch.full((16, 24), 127, dtype=torch.uint8)
    signs, small = ((2, 2, 10), (2, 2, 10), (2, 10, 2), (10, 2, 2)), (0, 1, 2, 1)
    for row, (codes_of, at) in enumerate(zip(signs, small, strict=True)):
        for split, code in enumerate(codes_of):
            codes[row, 128 * split : 128 * (split + 1)] = 17 * code
            scales[row, 8 * split : 8 * (split + 1)] = 127 + 40 * (split != at)
    a = torch.ones((1, 768), dtype=torch.bfloat16)
    operands = Operands(a, codes, scales, kernel.kernel.dialect, "one split small, the others large")
    found = kernel.run(operands, _launch(3)).out[0, :4].tolist()
    if found != [0.0, 0.0, 256.0, 0.0]:
        return Seen("partials", "reduce", "partials are not added in ascending order")
    return None


def _once(kernel: "KernelUnderTest") -> Seen | None:
    """One launch, and no reduction behind it."""
    from mxassay.gfx950.launches import launches
    from mxassay.optimized import direct_gemm
    from mxassay.optimized.split_k import SplitK

    launch = _launch(3)
    with launches() as ran:
        kernel.run(ramped((16, 64, 768), 0), launch)
    names = [kernel.code.name for kernel, _ in ran.ran]
    if names == ["direct_gemm_kernel"]:
        return None
    if not direct_gemm.joins(launch.plan, SplitK(256, 256, 3), torch.device(kernel.tensors_on)):
        return Seen("plan-lookup", "plan", "a plan that asks for the sum in the same launch is not followed")
    return Seen("plan-lookup", "launch", "partials that are summed already are summed once more, by a second launch")


def _arrives(kernel: "KernelUnderTest") -> Seen | None:
    """Emulated memory has no caches and no stores under way: this is read off the machine code."""
    from mxassay.gfx950.flow import flow_of
    from mxassay.gfx950.launches import launches

    with launches() as ran:
        kernel.run(ramped((16, 64, 768), 0), _launch(3))
    for launched, _ in ran.ran:
        code = list(flow_of(launched.code).instructions.values())
        count = next((at for at, one in enumerate(code) if one.op == "global_atomic_add"), None)
        if count is None:
            continue
        stores = [at for at, one in enumerate(code[:count]) if one.op.startswith("buffer_store")]
        loads = [one for one in code[count:] if one.op.startswith("buffer_load")]
        for at in stores:
            if not _reaches_all(code[at]):
                return Seen("race", "store", f"a partial may stay in the cache of one die: {code[at]}")
        for one in loads:
            if not _reaches_all(one):
                return Seen("race", "reduce", f"a partial may come from the cache of one die: {one}")
        between = code[stores[-1] + 1 : count] if stores else []
        waited = next((at for at, one in enumerate(between) if _waits_for_stores(one)), None)
        if waited is None:
            return Seen("race", "reduce", "a workgroup is counted before its stores have arrived")
        if not any(one.op == "s_barrier" for one in between[waited:]):
            return Seen("race", "reduce", "one wave counts its workgroup while others may still write")
    return None


def _reaches_all(one: "Instruction") -> bool:
    """System scope (AMD CDNA4 ISA, "Memory scopes")."""
    return bool(one["sc0"] and one["sc1"])


def _waits_for_stores(one: "Instruction") -> bool:
    """VMCNT, bits 3:0 and 15:14, is zero (AMD CDNA4 ISA, S_WAITCNT)."""
    return one.op == "s_waitcnt" and one["simm16"] & 0xC00F == 0


JOINS: tuple[Exam, ...] = (
    Exam("counters", "counters of arrivals are zero, enough, and a launch's own", _counters, ("counters-apart",),
         launches=False),
    Exam("joined-sums", "the workgroup that comes last sums all partials, in their order, for every tail and pitch",
         _joined, ("joined-sums",), ("own", "emulated")),
    Exam("partials-arrive", "what the last workgroup sums has been written past every cache, and has arrived",
         _arrives, ("joined-visible",), ("own", "emulated")),
)  # fmt: skip
"""In the order in which they are worth the time."""
