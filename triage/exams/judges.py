"""Exams of what judges: layouts, reference, certificate, checks, emulated card, against answers worked out by hand.

Before a kernel is blamed, its judges are asked what they must know. They are our own code, whatever kernel is tested.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import torch

from mxassay.arenas import POISON, Arena
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties import checks
from mxassay.reference import (
    DIALECTS,
    certificate,
    decode,
    dequantize,
    encode,
    error_bound,
    expectation,
    matmul,
    pack,
    quantize,
    round_to_bfloat16,
    unpack,
)
from mxassay.triage.exams.exam import Exam, Seen

_Wrong = Iterator[tuple[str, str]]
"""Classes and sentences: what a judge answers wrongly."""


def _exam(id_: str, stage: str, statement: str, wrong: Callable[[], _Wrong]) -> Exam:
    def look(_: Any) -> Seen | None:
        for class_, words in wrong():
            return Seen(class_, stage, words)
        return None

    return Exam(id_, statement, look, needs=())


def _bytes(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


def _layouts() -> _Wrong:
    if pack(_bytes(1, 7)).tolist() != [0x71] or unpack(_bytes(0x71)).tolist() != [1, 7]:
        yield "nibble-order", "codes 1 and 7 must pack to 0x71"
    row, byte = torch.arange(48).unsqueeze(1), torch.arange(96)
    place = row // 16 * 16 * 96 + byte // 32 * 512 + byte % 32 // 16 * 256 + row % 16 * 16 + byte % 16
    numbers = (torch.arange(48 * 96) % 251).to(torch.uint8).view(48, 96)
    if not torch.equal(WEIGHT_PRESHUFFLE.apply(numbers).flatten()[place], numbers):
        yield "weight-order", "the weight preshuffle must follow aiter's address formula"
    group, row = torch.arange(10), torch.arange(40).unsqueeze(1)
    scales = (torch.arange(400) % 251).to(torch.uint8).view(40, 10)
    stored = SCALE_SHUFFLE.apply(scales, fill=255)
    if tuple(stored.shape) != (256, 16):
        yield "padding", f"scales (40, 10) must be padded to (256, 16), not {tuple(stored.shape)}"
        return
    place = row // 32 * 32 * 16 + group // 8 * 256 + group % 4 * 64 + row % 16 * 4 + group % 8 // 4 * 2 + row % 32 // 16
    if not torch.equal(stored.flatten()[place], scales):
        yield "scale-order", "the scale shuffle must follow aiter's address formula"
    if int((stored == 255).sum()) != 256 * 16 - 400:
        yield "padding", "the padding of the scale table must hold the fill byte"
    bound = SCALE_SHUFFLE.bind((40, 10))
    if any(bound.offset((int(r), int(g))) != int(place[r, g]) for r in range(40) for g in range(10)):
        yield "harness", "the address formula of the scale shuffle must agree with the bytes it moves"
    bound = WEIGHT_PRESHUFFLE.bind((48, 96))
    for r, b in ((0, 17), (15, 31), (16, 0), (17, 33), (47, 95), (3, 64)):
        right = r // 16 * 16 * 96 + b // 32 * 512 + b % 32 // 16 * 256 + r % 16 * 16 + b % 16
        if bound.offset((r, b)) != right or bound.coords(right) != (r, b):
            yield "harness", f"W[{r}, byte {b}] must lie at {right}, and back"


_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
_TIES = {0.25: 0.0, 0.75: 1.0, 1.25: 1.0, 1.75: 2.0, 2.5: 2.0, 3.5: 4.0, 5.0: 4.0, 7.5: 6.0, 0.26: 0.5, 4.9: 4.0}
# Largest magnitude and the scale byte of EVEN.
_EVEN = {1.0: 125, 1.5: 125, 1.74: 125, 1.75: 126, 6.0: 127, 6.96875: 127, 7.0: 128, 0.0: 0, 2.0**-126: 0}


def _formats() -> _Wrong:
    if decode(torch.arange(16, dtype=torch.uint8)).tolist() != _VALUES + [-value for value in _VALUES]:
        yield "nibble-order", "the element table must be 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives"
        return
    for value, code in _TIES.items():
        for sign in (1, -1):
            if float(decode(encode(torch.tensor([sign * value])))[0]) != sign * code:
                yield "harness", f"the reference must round {sign * value} to {sign * code}"
    for amax, byte in _EVEN.items():
        for sign in (1, -1):
            block = torch.zeros(32, dtype=torch.bfloat16)
            block[7] = sign * amax
            if int(quantize(block).scales[0]) != byte:
                yield "harness", f"EVEN must give a block of amax {sign * amax} the scale byte {byte}"
    floor, rceil = DIALECTS["floor"], DIALECTS["rceil"]
    if [int(d.scale_bytes(torch.tensor([7.0]).view(torch.int32))[0]) for d in (floor, rceil)] != [127, 128]:
        yield "harness", "FLOOR and RCEIL must give amax 7 the scale bytes 127 and 128"
    if dequantize(_bytes(*[0x71] * 16), _bytes(128))[:2].tolist() != [1.0, 12.0]:
        yield "harness", "0x71 under scale byte 128 must mean 1 and 12"


# float64 and the bits of its bfloat16.
_ROUNDED = {
    1 + 2**-8: 0x3F80, 1 + 3 * 2**-8: 0x3F82, 1 + 2**-8 + 2**-40: 0x3F81, -(1 + 2**-8): 0xBF80,
    2.0**-134: 0, 3 * 2.0**-134: 2, 2.0**128 - 2.0**119: 0x7F80, 2.0**128 - 2.0**120: 0x7F7F,
}  # fmt: skip


def _one_hot(terms: list[tuple[int, int]]) -> tuple[torch.Tensor, ...]:
    """Operands whose one output is the sum of 2^(exponent + 0 of codes 1): a block a term, (sign, exponent)."""
    blocks = len(terms)
    a = torch.zeros(1, 16 * blocks, dtype=torch.uint8)
    b = a.clone()
    scales = torch.full((1, blocks), 127, dtype=torch.uint8)
    other = scales.clone()
    for block, (sign, exponent) in enumerate(terms):
        a[0, 16 * block] = 2 if sign > 0 else 10
        b[0, 16 * block] = 2
        half = exponent // 2
        scales[0, block], other[0, block] = 127 + half, 127 + exponent - half
    return a, scales, b, other


def _product() -> _Wrong:
    for value, bits in _ROUNDED.items():
        found = int(round_to_bfloat16(torch.tensor([value], dtype=torch.float64)).view(torch.int16)) & 0xFFFF
        if found != bits:
            yield "harness", f"{value!r} must round to 0x{bits:04X}, not 0x{found:04X}"
    ones, plain = torch.full((2, 16), 0x22, dtype=torch.uint8), torch.full((2, 1), 127, dtype=torch.uint8)
    if not bool((matmul(ones, plain, ones, plain) == 32).all()):
        yield "harness", "32 ones times ones must be 32"
    spoiled = plain.clone()
    spoiled[1] = 255
    for side, out in enumerate((matmul(ones, spoiled, ones, plain), matmul(ones, plain, ones, spoiled))):
        nan = out.isnan() if side == 0 else out.isnan().T
        if nan.tolist() != [[False, False], [True, True]]:
            yield "harness", "a scale byte of 255 must make its row or column NaN, and nothing else"
    for terms in (
        [(1, 0), (1, -8), (1, -100)], [(1, 0), (1, -8), (-1, -100)], [(1, 0), (1, -8)], [(1, 60), (1, 0), (-1, 60)],
        [(1, 90), (1, 82), (1, -100)], [(1, 40), (1, 32), (-1, -30)], [(1, 0), (1, -60), (-1, 0)],
        [(1, 33), (1, 25), (1, -24)], [(1, 33), (1, 25), (1, -34)], [(1, 64), (1, 56), (1, 1)],
    ):  # fmt: skip
        total = sum((Fraction(sign) * Fraction(2) ** exponent for sign, exponent in terms), Fraction(0))
        given = float(matmul(*_one_hot(terms)))
        if given != _nearest(total):
            yield "harness", f"the sum of {terms} (sign, exponent) must be {_nearest(total)!r}, not {given!r}"


def _nearest(exact: Fraction) -> float:
    """The bfloat16 nearest to a positive or zero fraction, ties to even."""
    if exact == 0:
        return 0.0
    exponent = 0
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 7)
    return float(round(exact / unit) * unit)


def _certificates() -> _Wrong:
    for gap, right in ((20, True), (23, True), (24, False), (26, False), (40, False)):
        # T = 2^gap + 1 units against 2^24.
        if bool(certificate(*_one_hot([(1, gap), (1, 0)]))) != right:
            yield "harness", f"2^{gap} + 1 must {'' if right else 'not '}be certified"
    top = [(1, 127)] * 2
    if bool(certificate(*_one_hot(top))):
        yield "harness", "a sum beyond float32's range must not be certified"
    lower, upper, _ = error_bound(*_one_hot([(1, 30), (1, 0)]))
    if float(lower) != float(upper):
        yield "harness", "2^30 + 1 may only be 2^30 in bfloat16"
    # 1 + 2^-8 - 2^-30 lies just below a tie: either neighbour may come out, and no other.
    lower, upper, _ = error_bound(*_one_hot([(1, 0), (1, -8), (-1, -30)]))
    if (float(lower), float(upper)) != (1.0, 1 + 2**-7):
        yield "harness", f"1 + 2^-8 - 2^-30 may be 1 or 1.0078125, not {float(lower)!r} to {float(upper)!r}"


def _verdicts() -> _Wrong:
    ones, plain = torch.full((2, 16), 0x22, dtype=torch.uint8), torch.full((2, 1), 127, dtype=torch.uint8)
    expected = expectation(ones, plain, ones, plain)
    nan = float("nan")
    for value, wrong in ((32.0, False), (32.25, True), (31.875, True), (-32.0, True), (nan, True), (0.0, True)):
        out = torch.full((2, 2), 32.0, dtype=torch.bfloat16)
        out[1, 0] = value
        if expected.wrong(out).tolist() != [[False, False], [wrong, False]]:
            yield "harness", f"{value} in place of 32 must be {'wrong' if wrong else 'right'}"
    spoiled = plain.clone()
    spoiled[1] = 255
    expected = expectation(ones, plain, ones, spoiled)
    out = torch.full((2, 2), 32.0, dtype=torch.bfloat16)
    if expected.wrong(out).tolist() != [[False, True], [False, True]]:
        yield "harness", "a number where NaN is due must be wrong"
    minus = torch.full((2, 2), -64, dtype=torch.int16).view(torch.bfloat16)  # NaN with its sign set
    if not bool(expected._replace(exact=minus, lower=minus, upper=minus).wrong(out).all()):
        yield "harness", "a number where a NaN of either sign is due must be wrong"


def _raises(judge: Callable[[], None]) -> bool:
    from mxassay.properties.claims import running

    before = running.violation
    try:
        judge()
    except checks.PropertyError:
        return True
    finally:
        running.violation = before
    return False


def _judges() -> _Wrong:
    right = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16)
    for index, value in ((0, 1.5), (2, -3.0), (1, float("nan"))):
        other = right.clone()
        other[index] = value
        for judge in (checks.assert_same_bits, checks.assert_same_values):
            for one, two in ((right, other), (other, right)):
                if not _raises(lambda: judge(one, two, ("place",))):  # noqa: B023
                    yield "harness", f"{judge.__name__} must tell {one.tolist()} from {two.tolist()}"
    if _raises(lambda: checks.assert_same_bits(right, right.clone(), ("place",))):
        yield "harness", "assert_same_bits must accept equal tensors"
    from mxassay.properties.kernel import KernelUnderTest, Launch, Outcome, Placement
    from mxassay.properties.operands import Operands

    operands = Operands(
        torch.ones(2, 64, dtype=torch.bfloat16),
        torch.full((16, 32), 0x22, dtype=torch.uint8),
        torch.full((16, 2), 127, dtype=torch.uint8),
    )
    out = torch.full((2, 16), 64.0, dtype=torch.bfloat16)
    kernel: Any = KernelUnderTest(kernel=None, device="", tensors_on="cpu")  # type: ignore[arg-type]
    if _raises(lambda: checks.assert_product(Outcome(out, operands, Launch(), Placement(), kernel))):
        yield "harness", "assert_product must accept the right product"
    out[1, 3] = 65.0
    if not _raises(lambda: checks.assert_product(Outcome(out, operands, Launch(), Placement(), kernel))):
        yield "harness", "assert_product must refuse one wrong output among right ones"


def _surroundings() -> _Wrong:
    if POISON != 0xFF:
        yield "harness", f"memory around buffers must be 0xFF, not 0x{POISON:02X}"
    arena = Arena("x", torch.zeros(4, 4), "cpu", fill=True)
    if arena.changed() or arena.overrun():
        yield "harness", "an arena that nobody wrote must be unchanged"
    arena.tensor[1, 1] = 1
    if not arena.changed() or arena.overrun():
        yield "harness", "a write inside a buffer must be seen as a change, and only as that"
    arena = Arena("x", torch.zeros(4, 4), "cpu", fill=False)
    arena.tensor.as_strided((17,), (1,))[16] = 1
    if not arena.overrun():
        yield "harness", "four bytes behind a buffer must be seen"


def _card() -> _Wrong:
    from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, ask, contradictions

    asked = [name for name, question in QUESTIONS.items() if question.status.value == "certain"]
    chosen = [name for name in asked if name.startswith(("cvt.fp4.", "mfma.scaled."))]
    for name in contradictions(ask(EmulatedCard(), chosen, lambda identity: None)):
        yield "harness", f"the emulated card contradicts what is certain: {name}"


JUDGES: tuple[Exam, ...] = (
    _exam("layouts", "layouts", "layouts follow their address formulas", _layouts),
    _exam("formats", "reference", "the reference knows codes, ties and scale bytes", _formats),
    _exam("product", "reference", "the reference adds exactly and rounds once", _product),
    _exam("certificates", "certificate", "the certificate and the bound are neither lax nor strict", _certificates),
    _exam("verdicts", "checker", "a wrong output is wrong, a right one right", _verdicts),
    _exam("judges", "checker", "the suite's judges tell wrong from right", _judges),
    _exam("surroundings", "checker", "writes beside buffers are seen", _surroundings),
    _exam("card", "checker", "the emulated card answers what is certain", _card),
)
"""Cheapest first."""
