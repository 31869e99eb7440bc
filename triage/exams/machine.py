"""Exams by the emulated card: what launches reach in memory, what the machine code lacks, offsets beyond 32 bits."""

import contextlib
import mmap
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from mxassay.arenas import MARGIN, Arena
from mxassay.errors import MxassayError
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.checks import PropertyError
from mxassay.properties.kernel import Launch, Placement, viewed
from mxassay.properties.observers import watched
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import ramped
from mxassay.triage.exams.exam import Exam, Seen
from mxassay.triage.rerun import sentence

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

# What a kernel reads or writes through which argument, as (stage, class where rows are ragged, where columns are,
# where K is).
_BUFFERS = {
    "a_ptr": ("activations", "small-m", "n-tail", "k-tail"),
    "pairs_ptr": ("activations", "small-m", "n-tail", "k-tail"),
    "x_ptr": ("activations", "small-m", "k-tail", "k-tail"),
    "w_ptr": ("weights.layout", "n-tail", "n-tail", "k-tail"),
    "ws_ptr": ("scales.layout", "n-tail", "n-tail", "padding"),
    "c_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "packed_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "scales_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "partials_ptr": ("reduce", "n-tail", "n-tail", "n-tail"),
    "out_ptr": ("reduce", "n-tail", "n-tail", "n-tail"),
}
# M, N, K: ragged in one of them alone, for tiles of 16 x 32 x 256; then in all of them, where masks are joined.
_SHAPES = ((5, 32, 256), (16, 48, 256), (16, 32, 320), (5, 48, 320))
_VIEW = "columns of a wider buffer"
_PLACE = re.compile(r"byte (\d+) of the storage")


def _bounds(kernel: "KernelUnderTest") -> Seen | None:
    """Each kind of tail by itself: whatever reaches beyond an argument is told by its buffer and the ragged size."""
    from mxassay.optimized import quantize

    for which, shape in enumerate(_SHAPES):
        operands = ramped(shape, 0)
        for plan in _plans():
            run = Launch(plan)
            words = beyond(lambda: kernel.run(operands, run, Placement(view=_VIEW)))  # noqa: B023
            if words:
                return _tail(words, which, shape[0], shape[2])
    for which, (m, k) in ((0, (17, 256)), (2, (16, 288)), (3, (17, 288))):
        x = Arena("x", viewed(torch.ones(m, k, dtype=torch.bfloat16), _VIEW), "cpu", fill=True)
        words = beyond(lambda: quantize(x.tensor))  # noqa: B023
        if words:
            return _tail(words, which, m, k)
    return None


def _tail(words: str, which: int, m: int, k: int) -> Seen:
    """The stage by the buffer in `words`; the class by which size is ragged, or by where in A the access went."""
    buffer = next((name for name in _BUFFERS if f" {name}" in words), "a_ptr")
    stage, *classes = _BUFFERS[buffer]
    if buffer in ("a_ptr", "x_ptr") and which == 3:
        found = _PLACE.search(words)
        element = (int(found[1]) - MARGIN) // 2 if found else 0
        # The view: 16 elements in front of each row, 16 behind it.
        row, column = divmod(element, k + 32)
        return Seen(classes[2] if row < m and not 16 <= column < k + 16 else classes[0], stage, words)
    return Seen(classes[min(which, 2)], stage, words)


def _plans() -> list[Any]:
    from mxassay.optimized import Plan

    return [
        Plan(tile_m=16, tile_n=32, tile_k=256),
        Plan(tile_m=16, tile_n=32, tile_k=256, linear=True),
        Plan(tile_m=8, tile_n=16, tile_k=128, splits=2),
        Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True),
    ]


def beyond(call: Callable[[], object]) -> str:
    """Words about the first access that leaves an argument, or ""."""
    from mxassay.gfx950.checks import Checks

    checks = Checks("views")
    with watched(checks), contextlib.suppress(AssertionError):  # a stray write, which the check saw too
        call()
    return checks.findings[0].text().splitlines()[0] if checks.findings else ""


_HALVES, _WEIGHT_SCALE = 0x11, 130  # two codes 0.5, and a scale that no block of ones has


def _operands(kernel: "KernelUnderTest") -> Seen | None:
    """What the matrix instructions get of a K that ends inside a step: blocks of A, blocks of W, and zeros."""
    from mxassay.properties.observers import MatrixOperands
    from mxassay.reference import quantize

    a = torch.ones((16, 320), dtype=torch.bfloat16)
    codes = torch.full((32, 160), _HALVES, dtype=torch.uint8)
    scales = torch.full((32, 10), _WEIGHT_SCALE, dtype=torch.uint8)
    operands = Operands(a, codes, scales, kernel.kernel.dialect, "ones, and W of 0.5 * 2^3")
    packed, its_scales = quantize(a)
    block = bytes([int(its_scales[0, 0]), *packed[0, :16].tolist()])
    weight = bytes([_WEIGHT_SCALE, *[_HALVES] * 16])
    seen = MatrixOperands()
    with watched(seen):
        kernel.run(operands, Launch(_plans()[0]))
    for side in seen.blocks:
        of_weights = weight in side
        wrong = next((found for found in side if any(found[1:]) and found != (weight if of_weights else block)), None)
        if wrong is not None:
            stage, name = ("weights.layout", "W") if of_weights else ("activations", "A")
            words = f"scale byte {wrong[0]}, codes 0x{wrong[1:].hex()}"
            return Seen("k-tail", stage, f"behind K the matrix instructions get other blocks of {name} than 0: {words}")
    return None


class _Launched:
    """Keeps the machine code of what is launched."""

    def __init__(self) -> None:
        self.codes: list[Any] = []

    def begin(self, launch: Any) -> None:
        self.codes.append((launch.code, launch.code_object))

    def end(self, error: Exception | None) -> None:
        """Nothing."""

    def before(self, cohort: Any, instruction: Any) -> None:
        """Nothing."""

    def access(self, cohort: Any, instruction: Any, access: Any) -> None:
        """Nothing."""

    def after(self, cohort: Any, instruction: Any) -> None:
        """Nothing."""

    def barrier(self, groups: Any) -> None:
        """Nothing."""


_launched = _Launched()  # one observer a process: the card keeps a kernel's steps for each observer it met


def _hazards(kernel: "KernelUnderTest") -> Seen | None:
    """Missing wait states in the code of a fused kernel and of the quantizer."""
    from mxassay.gfx950.hazards import hazards_of
    from mxassay.optimized import quantize

    _launched.codes.clear()
    with watched(_launched):
        for plan in _plans()[:1]:
            kernel.run(ramped((16, 32, 256), 0), Launch(plan))
        quantize(torch.ones(16, 256, dtype=torch.bfloat16))
    for code, code_object in _launched.codes:
        hazards = hazards_of(code, code_object)
        if hazards:
            return Seen("compiler-hazard", "quantizer.element", f"a wait state is missing: {hazards[0]}")
    return None


def _constraints(kernel: "KernelUnderTest") -> Seen | None:
    """The conversions by themselves: no operand left out, no result over an input, no reader that comes too early."""
    from mxassay.optimized import direct_gemm, pack
    from mxassay.properties.test_machine_code import Statement, assert_keeps_inputs, assert_waits

    stage = "quantizer.element"
    for found, constraints in (
        (pack._CONVERT, pack._CONVERT_CONSTRAINTS),
        (direct_gemm._CONVERT, direct_gemm._CONSTRAINTS),
    ):
        lines = tuple(line.strip() for line in str(found.value).splitlines())
        statement = Statement(lines, tuple(str(constraints.value).split(",")))
        read = {word.strip(",") for line in lines for word in line.split()[2:]}
        inputs = range(statement.results, len(statement.constraints))
        unread = [f"${number}" for number in inputs if f"${number}" not in read]
        if unread:
            words = f"no conversion of the inline assembly reads its operand {unread[0]}; another is read twice"
            return Seen("compiler-hazard", stage, words)
        try:
            assert_keeps_inputs(statement)
            assert_waits(statement)
        except PropertyError as error:
            return Seen("compiler-hazard", stage, f"the inline assembly is wrong by itself: {sentence(error)}")
    return None


_PITCH = 150_000_000
_NORESERVE = 0x4000  # Linux, MAP_NORESERVE of asm-generic/mman.h, which Python's mmap does not name


def _apart(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros whose memory is reserved as a whole and taken only where somebody touches it."""
    elements = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    pages = mmap.mmap(-1, elements * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return torch.frombuffer(pages, dtype=dtype).as_strided(shape, strides)


def _stored(operands: Operands) -> tuple[torch.Tensor, torch.Tensor]:
    return WEIGHT_PRESHUFFLE.apply(operands.codes), SCALE_SHUFFLE.apply(operands.scales, fill=0xFF)


def _wrong(call: Callable[[], torch.Tensor], usual: torch.Tensor) -> bool:
    """Whether a call gives other values than `usual`, or reaches outside of its buffers."""
    try:
        found = call()
    except MxassayError:
        return True
    return not bool(((found == usual) | (found.isnan() & usual.isnan())).all())


def _wide(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Plan, matmul, quantize, reduce_partials

    operands = ramped((17, 16, 576), 0)
    near, stored = operands.a, _stored(operands)
    far = _apart((17, 576), (_PITCH, 1), torch.bfloat16).copy_(near)

    def into_rows_apart(plan: Any) -> torch.Tensor:
        out = _apart((17, 16), (_PITCH, 1), torch.bfloat16)
        return matmul(near, *stored, plan=plan, out=out).clone()

    for tile_m in (16, 4):
        plan = replace(_plans()[0], tile_m=tile_m)
        usual = matmul(near, *stored, plan=plan)
        if _wrong(lambda: matmul(far, *stored, plan=plan), usual):  # noqa: B023
            return Seen("wide-offset", "activations", f"rows of A {_PITCH} elements apart are misread")
        if _wrong(lambda: into_rows_apart(plan), usual):  # noqa: B023
            return Seen("wide-offset", "store", f"output rows {_PITCH} elements apart are not written")
    # Layouts by hand count in 32 bits inside of a tile: only tiles may lie 2^31 elements apart.
    tall, by_hand = ramped((82, 64, 256), 0), Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True)
    tiles_apart = _apart((82, 64), (30_000_000, 1), torch.bfloat16)
    if _wrong(
        lambda: matmul(tall.a, *_stored(tall), plan=by_hand, out=tiles_apart).clone(),
        matmul(tall.a, *_stored(tall), plan=by_hand),
    ):
        return Seen("wide-offset", "store", "output tiles 2^31 elements apart are not written by the layouts by hand")
    across = ramped((3, 16, 576), 0)
    columns = _apart((3, 576), (1, 9_000_000), torch.bfloat16).copy_(across.a)
    plan, others = _plans()[0], _stored(across)
    if _wrong(lambda: matmul(columns, *others, plan=plan), matmul(across.a, *others, plan=plan)):
        return Seen("wide-offset", "activations", "columns of A 9,000,000 elements apart are misread")
    if _wrong(lambda: quantize(far[:, :64]).packed, quantize(near[:, :64]).packed):
        return Seen("wide-offset", "activations", f"the quantizer misreads rows {_PITCH} elements apart")
    parts = torch.arange(2 * 3 * 16.0).reshape(2, 3, 16)
    wide = _apart((2, 3, 16), (16, 1 << 30, 1), torch.float32).copy_(parts)
    if _wrong(lambda: reduce_partials(wide), reduce_partials(parts)):
        return Seen("wide-offset", "reduce", "partials whose rows lie 2^30 elements apart are misread")
    return None


MACHINE: tuple[Exam, ...] = (
    Exam("bounds", "no access leaves the elements of an argument, whichever size is ragged", _bounds,
         ("clean-execution", "within-buffers", "surroundings", "output-written-once"), ("own", "emulated")),
    Exam("inline-assembly", "the inline assembly may stand anywhere", _constraints,
         ("inline-assembly", "clean-execution"), ("own", "emulated"), launches=False),
    Exam("matrix-operands", "behind K the matrix instructions get zeros", _operands, ("operands-of-the-mfma",),
         ("own", "emulated")),
    Exam("hazards", "the machine code waits where the hardware needs it", _hazards,
         ("clean-execution", "wait-states"), ("own", "emulated")),
    Exam("wide-offsets", "offsets beyond 32 bits are right", _wide, ("wide-offsets",), ("own", "emulated")),
)  # fmt: skip
"""In the order in which they are worth the time."""
