"""Exams by the emulated card: what launches reach in memory, what the machine code lacks, offsets beyond 32 bits."""

import contextlib
import mmap
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.kernel import Launch, Placement, viewed
from mxassay.properties.observers import watched
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import ramped
from mxassay.triage.exams.exam import Exam, Seen

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

# What a kernel reads or writes through which argument, as (stage, class where rows are ragged, where columns are,
# where K is).
_BUFFERS = {
    "a_ptr": ("activations", "small-m", "n-tail", "k-tail"),
    "x_ptr": ("activations", "small-m", "k-tail", "k-tail"),
    "w_ptr": ("weights.layout", "n-tail", "n-tail", "k-tail"),
    "ws_ptr": ("scales.layout", "n-tail", "n-tail", "padding"),
    "c_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "packed_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "scales_ptr": ("store", "small-m", "n-tail", "n-tail"),
    "partials_ptr": ("reduce", "small-m", "n-tail", "n-tail"),
    "out_ptr": ("reduce", "small-m", "n-tail", "n-tail"),
}
# M, N, K: ragged in one of them alone, for tiles of 16 x 32 x 256.
_SHAPES = ((5, 32, 256), (16, 48, 256), (16, 32, 320))


def _bounds(kernel: "KernelUnderTest") -> Seen | None:
    """Each kind of tail by itself: whatever reaches beyond an argument is told by its buffer and the ragged size."""
    for which, shape in enumerate(_SHAPES):
        operands = ramped(shape, 0)
        for plan in _plans():
            run = Launch(plan)
            found = _beyond(lambda: kernel.run(operands, run, Placement(view="columns of a wider buffer")))  # noqa: B023
            if found:
                buffer, words = found
                stage, *classes = _BUFFERS.get(buffer, ("activations", "small-m", "n-tail", "k-tail"))
                return Seen(classes[which], stage, words)
    from mxassay.optimized import quantize

    for which, (m, k) in ((0, (5, 256)), (2, (16, 288))):
        x = viewed(torch.ones(m, k, dtype=torch.bfloat16), "columns of a wider buffer")
        found = _beyond(lambda: quantize(x))  # noqa: B023
        if found:
            buffer, words = found
            stage, *classes = _BUFFERS.get(buffer, ("activations", "small-m", "n-tail", "k-tail"))
            return Seen(classes[which], stage, words)
    return None


def _plans() -> list[Any]:
    from mxassay.optimized import Plan

    return [
        Plan(tile_m=16, tile_n=32, tile_k=256),
        Plan(tile_m=16, tile_n=32, tile_k=256, linear=True),
        Plan(tile_m=8, tile_n=16, tile_k=128, splits=2),
    ]


def _beyond(call: Callable[[], object]) -> tuple[str, str] | None:
    """The buffer that an access leaves, and words about it."""
    from mxassay.gfx950.checks import Checks

    checks = Checks("views")
    with watched(checks), contextlib.suppress(AssertionError):  # a stray write, which the check saw too
        call()
    if not checks.findings:
        return None
    first = checks.findings[0]
    buffer = first.buffer or ""
    name = next((known for known in _BUFFERS if known in f"{buffer} {first.explanation}"), "")
    return name, first.text().splitlines()[0]


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
    """The inline assembly says that results are written while inputs are still unread."""
    from mxassay.optimized import pack

    text, constraints = str(pack._CONVERT.value), str(pack._CONVERT_CONSTRAINTS.value)
    outputs = [word for word in constraints.split(",") if word.startswith("=")]
    lines = [line for line in text.splitlines() if line.startswith("v_cvt")]
    if len(lines) > 1 and not all(word.startswith("=&") for word in outputs):
        words = f"{len(lines)} conversions write results before all inputs are read, with constraints {constraints}"
        return Seen("compiler-hazard", "quantizer.element", f"the inline assembly lacks an early clobber: {words}")
    operands = [[word.strip(",") for word in line.split()[1:]] for line in lines]
    flat = [word for words in operands for word in words]
    if len(set(flat)) != len(flat):
        return Seen("compiler-hazard", "quantizer.element", "two conversions of the inline assembly share an operand")
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


def _wide(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import matmul, quantize, reduce_partials

    operands = ramped((17, 16, 576), 0)
    near = operands.a
    far = _apart((17, 576), (_PITCH, 1), torch.bfloat16).copy_(near)
    stored = _stored(operands)
    plain = _plans()[0]
    wrong = operands.expectation.wrong
    for tile_m in (16, 4):
        plan = replace(plain, tile_m=tile_m)
        if wrong(matmul(far, *stored, plan=plan)).any():
            return Seen("wide-offset", "activations", f"rows of A {_PITCH} elements apart are misread")
        out = _apart((17, 16), (_PITCH, 1), torch.bfloat16)
        if wrong(matmul(near, *stored, plan=plan, out=out).clone()).any():
            return Seen("wide-offset", "store", f"output rows {_PITCH} elements apart are not written")
    across = ramped((3, 16, 576), 0)
    columns = _apart((3, 576), (1, 9_000_000), torch.bfloat16).copy_(across.a)
    if across.expectation.wrong(matmul(columns, *_stored(across), plan=plain)).any():
        return Seen("wide-offset", "activations", "columns of A 9,000,000 elements apart are misread")
    found, right = quantize(far[:, :64]), quantize(near[:, :64])
    if not all(torch.equal(one, other) for one, other in zip(found, right, strict=True)):
        return Seen("wide-offset", "activations", f"the quantizer misreads rows {_PITCH} elements apart")
    parts = torch.arange(2 * 3 * 16.0).reshape(2, 3, 16)
    wide = _apart((2, 3, 16), (16, 1 << 30, 1), torch.float32).copy_(parts)
    if not torch.equal(reduce_partials(wide), reduce_partials(parts)):
        return Seen("wide-offset", "reduce", "partials whose rows lie 2^30 elements apart are misread")
    return None


MACHINE: tuple[Exam, ...] = (
    Exam("bounds", "no access leaves the elements of an argument, whichever size is ragged", _bounds,
         ("clean-execution", "within-buffers", "surroundings", "output-written-once"), ("own", "emulated")),
    Exam("inline-assembly", "the inline assembly says what it does", _constraints, ("clean-execution",), ("own",)),
    Exam("hazards", "the machine code waits where the hardware needs it", _hazards,
         ("clean-execution", "wait-states"), ("own", "emulated")),
    Exam("wide-offsets", "offsets beyond 32 bits are right", _wide, ("wide-offsets",), ("own", "emulated")),
)  # fmt: skip
"""In the order in which they are worth the time."""
