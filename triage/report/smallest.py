"""The chapter on the smallest case: its operands element by element, and the wrong outputs worked out by hand."""

import torch

from mxassay.reference import decode, decode_scales, unpack
from mxassay.triage.failure import Failure, is_call
from mxassay.triage.report.document import Code, Facts, Paragraph, Part, Row, Section, Table, Words
from mxassay.triage.report.outputs import Outputs, bfloat16_words
from mxassay.triage.report.words import shape_words

NO_CALL = "No product failed: a stage looked at by itself gives the wrong answer."
_MOST = 12  # rows of a table that a reader still looks at
_FIRST = 4  # of each operand, where there are more


def nonzero_elements(failure: Failure) -> int:
    """How many elements of A and of W are not zero; a NaN counts."""
    return int((failure.operands.a != 0).sum()) + int((unpack(failure.operands.codes) % 8 != 0).sum())


def smallest_case(failure: Failure, shrunk: Failure, outputs: Outputs | None) -> Section:
    """What is left of the failing case after shrinking, and what must come of it."""
    if not is_call(failure):
        return Section("case", "The smallest case", (Paragraph(f"{NO_CALL} There is nothing to make smaller."),))
    parts: list[Part] = [Facts(_facts(failure, shrunk))]
    parts += [_elements(shrunk), Facts(_scales(shrunk))]
    if outputs is not None and outputs.count:
        parts.append(_wrong_outputs(outputs))
        parts += _worked(shrunk, outputs)
    return Section("case", "The smallest case", tuple(parts))


def came_from(failure: Failure, shrunk: Failure) -> str:
    """The case before shrinking; "" where nothing was shrunk."""
    before, after = ((case.operands.shape, nonzero_elements(case)) for case in (failure, shrunk))
    return "" if before == after else f"{shape_words(failure.operands.shape)} with {before[1]:,}"


def _facts(failure: Failure, shrunk: Failure) -> tuple[tuple[str, Words], ...]:
    plan, placement = shrunk.launch.plan, shrunk.placement
    rows: list[tuple[str, Words]] = [
        ("shape", Code(shape_words(shrunk.operands.shape))),
        ("nonzero elements", f"{nonzero_elements(shrunk):,}"),
        ("plan", Code(plan.words) if plan is not None and hasattr(plan, "words") else "the kernel's own"),
        ("dialect", Code(shrunk.operands.dialect)),
    ]
    if plan is not None:
        rows.append(("entry", Code(shrunk.launch.entry)))
    rows.append(("scale padding", Code(f"0x{placement.padding:02X}")))
    if placement.view != "contiguous":
        rows.append(("strides of A", placement.view))
    rows.append(("property", Code(shrunk.property)))
    rows.append(("shrunk from", came_from(failure, shrunk) or "nothing larger: this is the case as it came"))
    return tuple(rows)


def _elements(shrunk: Failure) -> Table | Paragraph:
    x = shrunk.operands
    packed, scales = x.quantized
    a_codes, w_codes = unpack(packed), unpack(x.codes)
    a_places, w_places = (x.a != 0).nonzero(), (w_codes % 8 != 0).nonzero()
    most = _MOST if len(a_places) + len(w_places) <= _MOST else _FIRST
    rows = [
        Row((Code(f"A[{i}, {k}]"), f"{float(x.a[i, k]):g}", _code(a_codes[i, k]), _scale(scales[i, k // 32])))
        for i, k in a_places[:most].tolist()
    ]
    rows += [
        Row((Code(f"W[{j}, {k}]"), _value(w_codes[j, k], x.scales[j, k // 32]), _code(w_codes[j, k]),
             _scale(x.scales[j, k // 32])))
        for j, k in w_places[:most].tolist()
    ]  # fmt: skip
    if not rows:
        return Paragraph("Every element of A and of W is zero.")
    hidden = nonzero_elements(shrunk) - len(rows)
    if hidden:
        rows.append(Row((f"and {hidden:,} more", "", "", "")))
    return Table(("element", "value", "code", "scale of its block"), tuple(rows), "Nonzero elements", (1,), True)


def _code(code: torch.Tensor) -> Words:
    return Code(f"0x{int(code):X} ({float(decode(code.reshape(1))) + 0.0:g})")


def _scale(byte: torch.Tensor) -> Words:
    return Code(scale_words(int(byte)))


def scale_words(byte: int) -> str:
    """An E8M0 byte as bits and as a power of two.

    >>> scale_words(130), scale_words(255)
    ('0x82 (2^3)', '0xFF (NaN)')
    """
    return f"0x{byte:02X} (NaN)" if byte == 255 else f"0x{byte:02X} (2^{byte - 127})"


def _value(code: torch.Tensor, scale: torch.Tensor) -> str:
    return f"{float(decode(code.reshape(1), torch.float64)) * float(decode_scales(scale.reshape(1)).double()):.17g}"


def _scales(shrunk: Failure) -> tuple[tuple[str, Words], ...]:
    """Scales as the byte that most blocks have, and the blocks that differ."""
    x = shrunk.operands
    return tuple(
        (f"scales of {name}", _most_and_others(scales, name))
        for name, scales in (("A", x.quantized[1]), ("W", x.scales))
    )


def _most_and_others(scales: torch.Tensor, name: str) -> Words:
    most = int(scales.flatten().long().bincount().argmax())
    others = (scales != most).nonzero()
    whole = scales.numel()
    if not len(others):
        return (Code(scale_words(most)), " in the only block" if whole == 1 else f" in all {whole:,} blocks")
    words: list[str | Code] = [Code(scale_words(most)), f" in {whole - len(others):,} of {whole:,} blocks"]
    for row, block in others[:4].tolist():
        words += ["; ", Code(f"{scale_words(int(scales[row, block]))}"), f" in row {row}, block {block}"]
    if len(others) > 4:
        words.append(f"; and {len(others) - 4:,} more that differ")
    return tuple(words)


def _wrong_outputs(outputs: Outputs) -> Table:
    rows = []
    for i, j in outputs.wrong.nonzero()[:_MOST].tolist():
        exact, low, high = (
            x[i, j] for x in (outputs.expectation.exact, outputs.expectation.lower, outputs.expectation.upper)
        )
        alone = bool(outputs.expectation.certified[i, j]) or bool(low == high)
        must = bfloat16_words(exact) if alone else f"{bfloat16_words(low)} to {bfloat16_words(high)}"
        steps = "NaN" if outputs.special[i, j] else f"{int(outputs.steps[i, j]):,}"
        rows.append(Row((Code(f"out[{i}, {j}]"), Code(bfloat16_words(outputs.out[i, j])), Code(must), steps)))
    if outputs.count > len(rows):
        rows.append(Row((f"and {outputs.count - len(rows):,} more", "", "", "")))
    return Table(("output", "came out", "must be", "steps off"), tuple(rows), "Wrong outputs", (3,), True)


def _worked(shrunk: Failure, outputs: Outputs) -> list[Part]:
    """The products of the first wrong output, where a reader can follow them."""
    if outputs.first is None:
        return []
    i, j = outputs.first
    x = shrunk.operands
    packed, scales = x.quantized
    a, w = unpack(packed)[i], unpack(x.codes)[j]
    places = ((a % 8 != 0) & (w % 8 != 0)).nonzero().flatten().tolist()
    if len(places) > 6 or bool((scales[i] == 255).any()) or bool((x.scales[j] == 255).any()):
        return []
    if not places:
        return [
            Paragraph((Code(f"out[{i}, {j}]"), " must be 0: it has no product of two nonzero elements."), soft=True)
        ]
    terms = " + ".join(f"({_value(a[k], scales[i, k // 32])} × {_value(w[k], x.scales[j, k // 32])})" for k in places)
    where = ", ".join(f"k={k}" for k in places)
    total = sum(_product(a, w, scales[i], x.scales[j], k) for k in places)
    exact = float(outputs.expectation.exact[i, j])
    rounded = "" if total == exact else f", rounded to {exact:g}"
    sum_ = Code(f"out[{i}, {j}] = {terms} = {total:.17g}")
    return [Paragraph(("By hand: ", sum_, f"{rounded}, with {where}."), soft=True)]


def _product(a: torch.Tensor, w: torch.Tensor, a_scales: torch.Tensor, w_scales: torch.Tensor, k: int) -> float:
    return float(_value(a[k], a_scales[k // 32])) * float(_value(w[k], w_scales[k // 32]))
