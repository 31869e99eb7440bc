"""The judges: each `assert_*` is exact, or holds to a derived bound, and fails with a message that stands alone."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from mxassay.arenas import Arena, GuardedAllocations
from mxassay.errors import MxassayError
from mxassay.properties.claims import running

if TYPE_CHECKING:
    from mxassay.properties.kernel import Outcome

_HEX_DIGITS = {torch.bfloat16: 4, torch.uint8: 2, torch.float32: 8, torch.int32: 0, torch.int64: 0}
_BITS: dict[torch.dtype, torch.dtype] = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


class PropertyError(AssertionError):
    """A property does not hold. `facts` are the lines of the message by name."""

    def __init__(self, text: str, facts: dict[str, str]) -> None:
        super().__init__(text)
        self.facts = facts


def violation(wrong: str, **facts: str) -> PropertyError:
    """The failure of the property that runs: what is wrong, and what someone must know to see it again."""
    entry = running.property
    head = f"{entry.id}: {entry.statement}" if entry else "outside the suite"
    found = {"wrong": wrong, **facts, **_kernel()}
    if running.replay:
        found["replay"] = running.replay
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {text}" for name, text in found.items() if text]
    failure = PropertyError("\n  ".join([head, *lines]), found)
    running.violation = running.violation or failure
    return failure


def unrepeatable() -> PropertyError | None:
    """What to say where Hypothesis could not repeat a failure: the first one, and that it came only once."""
    seen = running.violation
    if not isinstance(seen, PropertyError):
        return None
    note = "the same calls did not fail again: the kernel keeps state between calls, or has a race"
    return PropertyError(f"{seen}\n  {'once':<{max(map(len, seen.facts))}}  {note}", {**seen.facts, "once": note})


def _kernel() -> dict[str, str]:
    from mxassay.properties.kernel import under_test

    try:
        kernel = under_test()
    except MxassayError:
        return {}
    return {"kernel": f"{kernel.kernel.name} on {kernel.device}, dialect {kernel.kernel.dialect}"}


def shown(value: torch.Tensor) -> str:
    """One element in decimal and in hexadecimal.

    >>> shown(torch.tensor(1.5, dtype=torch.bfloat16))
    '1.5 (0x3FC0)'
    """
    digits = _HEX_DIGITS[value.dtype]
    if digits == 0:
        return str(int(value))
    bits = int(value.reshape(1).view(_BITS.get(value.dtype, torch.uint8))) & ((1 << 4 * digits) - 1)
    return f"{value.item()!r} (0x{bits:0{digits}X})"


def assert_same_bits(found: torch.Tensor, expected: torch.Tensor, names: Iterable[str], **facts: str) -> None:
    """Equality, bit for bit. `names` name the coordinates. Any NaN equals any other: payloads are nobody's contract.

    Raises PropertyError.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        got, want = (f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}" for x in (found, expected))
        raise violation(f"the result must be {want}, not {got}", **facts)
    found, expected = found.detach().cpu().contiguous(), expected.detach().cpu().contiguous()
    raw = _BITS.get(found.dtype, found.dtype)
    wrong = found.view(raw) != expected.view(raw)
    if found.dtype in _BITS:
        wrong &= ~(found.isnan() & expected.isnan())
    _assert_none(wrong, found, expected, names, facts)


def assert_same_values(found: torch.Tensor, expected: torch.Tensor, names: Iterable[str], **facts: str) -> None:
    """As `assert_same_bits`, but -0 equals +0: the sign of a sum of zeros depends on where the sum starts.

    Raises PropertyError.
    """
    assert_same_bits(found + 0.0, expected + 0.0, names, **facts)


def _assert_none(
    wrong: torch.Tensor, found: torch.Tensor, expected: torch.Tensor, names: Iterable[str], facts: dict[str, str]
) -> None:
    if not wrong.any():
        return
    at = tuple(int(x) for x in wrong.nonzero()[0])
    place = ", ".join(f"{name} {index}" for name, index in zip(names, at, strict=True))
    raise violation(
        f"{int(wrong.sum())} of {wrong.numel()}; first at {place}: {shown(found[at])}, not {shown(expected[at])}",
        **facts,
    )


def assert_product(outcome: "Outcome") -> None:
    """Certified outputs have the one right bit pattern; the others lie within the derived bound.

    Raises PropertyError.
    """
    out, expectation = outcome.out, outcome.operands.expectation
    if out.shape != expectation.exact.shape or out.dtype != torch.bfloat16:
        got = f"{str(out.dtype).removeprefix('torch.')} {tuple(out.shape)}"
        raise violation(f"the output must be bfloat16 {tuple(expectation.exact.shape)}, not {got}", case=outcome.words)
    wrong = expectation.wrong(out)
    if not wrong.any():
        return
    i, j = (int(x) for x in wrong.nonzero()[0])
    certified = bool(expectation.certified[i, j])
    limits = f"{shown(expectation.lower[i, j])} to {shown(expectation.upper[i, j])}"
    raise violation(
        f"{int(wrong.sum())} of {wrong.numel()} outputs; first at row {i}, column {j}: {shown(out[i, j])}, "
        f"not {shown(expectation.exact[i, j]) if certified else limits}",
        why="certified: every order of summation gives these bits (mxassay.reference.certificate)"
        if certified
        else "not certified: no float32 summation leaves this bound (mxassay.reference.error_bound)",
        case=outcome.words,
        layout=f"W in WEIGHT_PRESHUFFLE, its scales in SCALE_SHUFFLE with padding 0x{outcome.placement.padding:02X}",
    )


def assert_relation(relation: str, found: torch.Tensor, expected: torch.Tensor, *outcomes: "Outcome") -> None:
    """The outputs of two calls, brought into the same order, are the same values.

    Raises PropertyError.
    """
    cases = {f"call {number}": outcome.words for number, outcome in enumerate(outcomes, start=1)}
    assert_same_values(found, expected, ("row", "column"), why=relation, **cases)


def assert_left_alone(arenas: list[Arena], allocations: GuardedAllocations, outcome: "Outcome") -> None:
    """Inputs, and the bytes around inputs and around everything the kernel allocated, are what they were.

    Raises PropertyError.
    """
    strays = [f"{arena.name} (or the bytes around it)" for arena in arenas if arena.changed()]
    strays += [f"the bytes around {name}" for name in allocations.overruns()]
    if strays:
        raise violation(f"written, though nobody may: {'; '.join(strays)}", case=outcome.words)


def assert_refused(call: Callable[[], Any], error: type[Exception], words: str, case: str) -> None:
    """`call` raises exactly `error`, and the message contains `words`.

    Raises PropertyError.
    """
    try:
        call()
    except error as refusal:
        if words not in str(refusal):
            raise violation(f"the refusal must name {words!r}, not say {refusal!s}", case=case) from refusal
        return
    except Exception as other:
        raise violation(
            f"the call must raise {error.__name__}, not {type(other).__name__}: {other}", case=case
        ) from other
    raise violation(f"the call must raise {error.__name__} naming {words!r}, but returned", case=case)


def assert_bijection(numbers: torch.Tensor, count: int, case: str) -> None:
    """`numbers` hold each of range(count) once.

    Raises PropertyError.
    """
    flat = numbers.flatten().long()
    if len(flat) != count or bool(((flat < 0) | (flat >= count)).any()):
        outside = flat[(flat < 0) | (flat >= count)]
        what = f"{len(flat)} numbers" if len(flat) != count else f"{int(outside[0])}"
        raise violation(f"each of the {count} numbers must come once, but there is {what}", case=case)
    times = torch.bincount(flat, minlength=count)
    if bool((times != 1).any()):
        first = int((times != 1).nonzero()[0])
        raise violation(f"number {first} must come once, not {int(times[first])} times", case=case)
