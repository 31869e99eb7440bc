"""A failing call of a kernel, looked for among few: products that touch every path once, then each stage by itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from mxassay.kernels import Shape
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.matrices import activations_of, ramped, random_codes
from mxassay.properties.strategies.plans import plan
from mxassay.properties.strategies.scales import ramp
from mxassay.triage.exams import EXAMS, JUDGES, look
from mxassay.triage.exams.stages import sharp_rows
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import Run, again, fails, on

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

Call = tuple[Operands, Launch, Placement]


def sharp(dialect: str, k: int = 64) -> Operands:
    """Activations at every edge of the quantizer, two blocks a row and zeros behind them, times random codes."""
    rows = sharp_rows()
    a = torch.zeros(len(rows), k, dtype=torch.bfloat16)
    a[:, :64] = rows
    codes = random_codes(16, k, torch.Generator().manual_seed(0))
    # Half of the columns keep the tiniest blocks above zero, the other half the largest ones below infinity.
    scales = torch.tensor([126] * 8 + [90] * 8, dtype=torch.uint8).unsqueeze(1).repeat(1, k // 32)
    return Operands(a, codes, scales, dialect, "sharp and special blocks")


def ties(dialect: str, k: int = 576) -> Operands:
    """Outputs at ties of the store and a little above them: 1 + 2^-8, 1 + 3 * 2^-8, each plus 2^-9, 2^-10, ..."""
    a = torch.zeros(24, k, dtype=torch.float64)
    a[:, 0] = 1
    a[:12, 32], a[12:, 32] = 2.0**-8, 3 * 2.0**-8
    a[1:12, k - 32] = a[13:, k - 32] = 2.0 ** -torch.arange(9, 20).double()
    codes = torch.full((16, k // 2), 0x22, dtype=torch.uint8)
    codes[8:] = 0xAA
    return Operands(a.bfloat16(), codes, torch.full((16, k // 32), 127, dtype=torch.uint8), dialect, "ties of outputs")


def powers(dialect: str, level: int, byte: int, m: int = 8, k: int = 320) -> Operands:
    """One activation a row, 4 * 2^(level - 127), times every code under one scale byte: single products."""
    a = torch.zeros(m, k, dtype=torch.float64)
    a[torch.arange(m), (torch.arange(m) * 37) % k] = 2.0 ** (level - 127) * 4
    codes = (torch.arange(16).unsqueeze(1) * 0x11 + torch.zeros(k // 2)).to(torch.uint8)
    scales = torch.full((16, k // 32), byte, dtype=torch.uint8)
    return Operands(a.bfloat16(), codes, scales, dialect, f"one-hot A of byte {level}, W under byte {byte}")


def spoiled(dialect: str, shape: Shape, bytes_: tuple[int, ...]) -> Operands:
    """A ramp whose weight scales hold special bytes here and there, over tiny codes elsewhere."""
    whole = ramped(shape, 3, level=100)  # so that even byte 254 overflows nothing
    scales = whole.scales.clone()
    for number, byte in enumerate(bytes_):
        scales[number::7, number % scales.shape[1]] = byte
    return replace(whole, scales=scales, dialect=dialect, words=f"{whole.words}; scale bytes {bytes_} among them")


def precise(dialect: str, shape: Shape) -> Operands:
    """Sums near ties of the output, each block with a scale of its own."""
    m, n, k = shape
    generator = torch.Generator().manual_seed(5)
    a = activations_of(ramp(m, k // 32, 3, 126), generator)
    return Operands(a, random_codes(n, k, generator), ramp(n, k // 32, 2, 127), dialect, "another ramp")


def calls(kernel: "KernelUnderTest") -> Iterator[Call]:
    """The products, cheapest first."""
    fitted = kernel.contract.fitted
    dialect = kernel.kernel.dialect
    plain, neutral = Placement(), Placement(padding=0x7F)
    if not kernel.own:
        for shape in ((17, 48, 320), (3, 272, 1088), (64, 256, 512), (33, 112, 2112)):
            yield ramped(fitted(shape), 0), Launch(), plain
        if kernel.contract.admits((len(sharp_rows()), 16, 64)) and kernel.full_range:
            yield sharp(dialect), Launch(), plain
        return
    yield from _by_one_plan(kernel)
    if kernel.device in ("emulated", "mi355x"):
        # The kernel with layouts by hand: rows and columns that end inside a tile, edges of blocks, splits.
        yield ramped((17, 80, 512), 0), Launch(plan(10)), plain
        yield sharp(dialect, 256), Launch(plan(10)), plain
        yield ties(dialect, 768), Launch(plan(10)), plain
        for joined in (False, True):
            yield ramped((17, 80, 1024), 0), Launch(replace(plan(10), splits=2, joined=joined)), plain
    # Gathered scales, splits, linear weights; whole steps in a last span cut short; the 32x32 MFMA.
    for index, shape in ((2, (3, 48, 1088)), (1, (5, 48, 320)), (3, (9, 80, 704)), (7, (5, 48, 576))):
        yield ramped(shape, index), Launch(plan(index)), neutral
    yield ramped((16, 64, 1280), 4), Launch(plan(2)), plain
    yield ties(dialect), Launch(plan(2)), plain
    if kernel.full_range:
        yield spoiled(dialect, (5, 48, 320), (255,)), Launch(plan(1)), plain
        yield spoiled(dialect, (5, 48, 576), (255,)), Launch(plan(2)), plain
    for index, shape in ((2, (3, 48, 1280)), (8, (3, 48, 1088)), (4, (3, 48, 192))):
        yield ramped(shape, index), Launch(plan(index)), plain
    yield ramped((5, 48, 576), 4), Launch(plan(2), "matmul(out=columns of a wider buffer)"), plain
    yield ramped((5, 48, 576), 4), Launch(None, "custom_kernel"), plain
    yield precise(dialect, (17, 64, 1088)), Launch(plan(3)), plain
    if not kernel.slow:
        yield ramped((41, 272, 320), 1), Launch(replace(plan(3), splits=1)), plain
        yield ramped((70, 144, 320), 1), Launch(replace(plan(3), group_m=4, splits=2)), plain
        for index in (5, 6, 9):
            yield ramped((17, 80, 1088), index), Launch(plan(index)), plain
        yield ramped((33, 80, 576), 2), Launch(), plain


def _by_one_plan(kernel: "KernelUnderTest") -> Iterator[Call]:
    """All that one plan can show: few kernels to compile."""
    dialect, one = kernel.kernel.dialect, Launch(plan(0))
    plain, neutral = Placement(), Placement(padding=0x7F)
    # Wide loads, K ragged; then the quantizer, and ties of the store.
    yield ramped((17, 48, 320), 0), one, neutral
    yield sharp(dialect) if kernel.full_range else _narrow(sharp(dialect)), one, neutral
    yield ties(dialect), one, plain
    yield ramped((17, 48, 320), 0), one, plain
    if kernel.full_range:
        yield spoiled(dialect, (5, 48, 512), (255, 0, 254)), one, plain
        for level, byte in ((127, 0), (120, 3), (95, 105), (252, 254), (150, 254)):
            yield powers(dialect, level, byte), one, plain
        yield powers(dialect, 127, 0, k=64), one, plain
        yield powers(dialect, 252, 254, k=64), one, plain
    yield ramped((16, 32, 256), 5), Launch(plan(7)), plain
    for entry in ("matmul(out=columns of a wider buffer)", "matmul_prepared", "matmul(workspace=), twice"):
        yield ramped((5, 48, 320), 4), Launch(plan(0), entry), plain
    for view in ("columns of a wider buffer", "transposed", "every other element"):
        yield ramped((5, 48, 320), 4), one, Placement(view=view)
    # Whole tiles of rows and columns: masks are left out where K is taken for whole, too.
    yield ramped((16, 64, 384), 3), one, plain
    yield precise(dialect, (17, 64, 1024)), one, plain


def _narrow(operands: Operands) -> Operands:
    """Rows whose scales a bfloat16 can hold."""
    fine = (operands.quantized.scales[:, 0].int() - 127).abs() < 100
    return replace(operands, a=operands.a[fine].contiguous())


def nothing(subject: Subject, property_: str, error: str, dialect: str = "even") -> Failure:
    """A failure in which no product is wrong: the least call stands for its inputs."""
    operands = Operands(
        torch.zeros(1, 64, dtype=torch.bfloat16),
        torch.zeros(16, 32, dtype=torch.uint8),
        torch.full((16, 2), 127, dtype=torch.uint8),
        dialect,
        "no product is wrong: zeros stand for it",
    )
    return Failure(subject, operands, Launch(), Placement(), None, property_, error)


def _silent(words: str) -> None:
    pass


def find_failure(
    kernel: "KernelUnderTest",
    subject: Subject,
    told: Callable[[str], Any] = _silent,
    products: Iterable[Call] | None = None,
) -> Failure | None:
    """The first failing call found: judges, what costs no launch, products, stages by themselves; None where all is
    right.

    `told` hears what is tried. `products`: these calls, and no stages by themselves; `calls` without it.
    """
    for exam, seen in look(JUDGES[:-1], kernel, told):
        return nothing(subject, f"judge:{exam.id}", seen.statement)
    run = on(kernel)
    if products is not None:
        return _first_wrong(products, subject, run, told)
    quick = [exam for exam in EXAMS if not exam.launches]
    for exam, seen in look(quick, kernel, told):
        return nothing(subject, exam.properties[0], seen.statement)
    if found := _first_wrong(calls(kernel), subject, run, told):
        return found
    for exam, seen in look([exam for exam in (*EXAMS, JUDGES[-1]) if exam.launches], kernel, told):
        return nothing(subject, exam.properties[0] if exam.properties else f"judge:{exam.id}", seen.statement)
    return None


def _first_wrong(products: Iterable[Call], subject: Subject, run: Run, told: Callable[[str], Any]) -> Failure | None:
    for operands, launch, placement in products:
        told(f"{operands!r}, {launch!r}")
        found = again(Failure(subject, operands, launch, placement, None), run)
        if fails(found):
            return found
    return None
