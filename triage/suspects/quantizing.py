"""Wrong rules of the quantizer: which activations it sees, scale bytes, codes, the order in which codes are packed."""

from collections.abc import Callable
from dataclasses import replace

import torch

from mxassay.reference import DIALECTS, Dialect, decode_scales
from mxassay.triage.suspects.pipeline import as_floats, right_element, right_scale
from mxassay.triage.suspects.suspect import Suspect

_NAN = 0x7F80  # magnitudes above are NaN
Words = torch.Tensor


def _carry(carry: int) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        return right_scale(words, replace(dialect, carry=carry))

    return scale


def _as(name: str) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        return right_scale(words, DIALECTS[name])

    return scale


def _moved(step: int) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        return (right_scale(words, dialect).int() + step).clamp(0, 255).to(torch.uint8)

    return scale


def _one_more_after_the_clamp(words: Words, dialect: Dialect) -> torch.Tensor:
    return (right_scale(words, dialect).int() + 1).clamp(max=255).to(torch.uint8)


def _of(change: Callable[[Words], Words]) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        return right_scale(change(words), dialect)

    return scale


def _kept(keep: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Words, Dialect], torch.Tensor]:
    """The scale of the words for which `keep` holds, the others 0."""
    return _of(lambda words: torch.where(keep(words), words, 0))


def _at(places: torch.Tensor) -> Callable[[Words, Dialect], torch.Tensor]:
    """The scale of the words at these places of a block."""
    return _of(lambda words: words[..., places])


def _least(least: int, of_zeros: bool = True) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        found = right_scale(words, dialect)
        raised = found.clamp(min=least)
        if of_zeros:
            return raised
        return torch.where((words & 0x7FFF).amax(-1) == 0, found, raised)

    return scale


def _zero_block(byte: int) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        found = right_scale(words, dialect)
        return torch.where((words & 0x7FFF).amax(-1) == 0, byte, found).to(torch.uint8)

    return scale


def _special(infinity: int | None, nan: int | None) -> Callable[[Words, Dialect], torch.Tensor]:
    def scale(words: Words, dialect: Dialect) -> torch.Tensor:
        return right_scale(
            words,
            replace(
                dialect,
                infinity=dialect.infinity if infinity is None else infinity,
                nan=dialect.nan if nan is None else nan,
            ),
        )

    return scale


def _unclamped_nan(words: Words, dialect: Dialect) -> torch.Tensor:
    """A NaN's payload takes part in the rounding of amax."""
    amax = (words & 0x7FFF).amax(-1)
    field = (amax + (dialect.carry >> 16)) >> 7
    carried = (field.clamp(min=2) - 2).to(torch.uint8)
    return torch.where(amax > _NAN, carried, right_scale(words, dialect))


def _clamped(bits: int) -> Callable[[Words, Dialect], torch.Tensor]:
    return _of(lambda words: (words & 0x7FFF).clamp(max=bits))


def _element(change: Callable[[Words], Words]) -> Callable[[Words, torch.Tensor, Dialect], torch.Tensor]:
    def element(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
        return right_element(change(words), scales, dialect)

    return element


def _away(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    return right_element(words, scales, replace(dialect, ties="away"))


# Where codes change, and the place from which a rule counts up: (midpoint, whether the midpoint itself goes up).
_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _steps(thresholds: tuple[float, ...], up: tuple[bool, ...]) -> Callable[..., torch.Tensor]:
    """Codes by thresholds on x over its scale, in float64, which is exact."""

    def element(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
        x = as_floats(words).double().abs() / decode_scales(scales).nan_to_num(1).unsqueeze(-1)
        code = torch.zeros(words.shape, dtype=torch.int64)
        for threshold, reaches in zip(thresholds, up, strict=True):
            code += (x >= threshold) if reaches else (x > threshold)
        right = right_element(words, scales, dialect)
        ordinary = (words & 0x7FFF) < _NAN
        return torch.where(ordinary, code.to(torch.uint8) | (right & 8), right)

    return element


_EVEN = (False, True, False, True, False, True, False)


def _tie(index: int) -> Callable[..., torch.Tensor]:
    return _steps(_MIDPOINTS, tuple(up != (place == index) for place, up in enumerate(_EVEN)))


def _ties_toward_zero() -> Callable[..., torch.Tensor]:
    return _steps(_MIDPOINTS, (False,) * 7)


def _away_from(least: int) -> Callable[..., torch.Tensor]:
    return _steps(_MIDPOINTS, tuple(up or place >= least for place, up in enumerate(_EVEN)))


def _cut_from(least: int) -> Callable[..., torch.Tensor]:
    """Cut, not rounded, from code `least` up."""
    thresholds = tuple(_VALUES[place + 1] if place >= least else midpoint for place, midpoint in enumerate(_MIDPOINTS))
    return _steps(thresholds, tuple(up or place >= least for place, up in enumerate(_EVEN)))


def _wraps(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    x = as_floats(words).double().abs() / decode_scales(scales).nan_to_num(1).unsqueeze(-1)
    right = right_element(words, scales, dialect)
    return torch.where((x >= 7) & ((words & 0x7FFF) < _NAN), right & 8, right)


def _special_code(low: int, high: int, code: int) -> Callable[..., torch.Tensor]:
    """Magnitudes low..high become `code`, with their sign."""

    def element(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
        magnitude = words & 0x7FFF
        right = right_element(words, scales, dialect)
        return torch.where((magnitude >= low) & (magnitude <= high), (right & 8) | code, right).to(torch.uint8)

    return element


def _unsigned_zero(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    right = right_element(words, scales, dialect)
    return torch.where(right == 8, 0, right).to(torch.uint8)


def _no_sign(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    return right_element(words, scales, dialect) & 7


def _subnormals_up(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    """Subnormal elements count twice."""
    magnitude = words & 0x7FFF
    doubled = torch.where(magnitude < 0x80, words + magnitude, words)
    return right_element(doubled, scales, dialect)


def _flush(words: Words) -> Words:
    return torch.where((words & 0x7F80) == 0, 0, words)


def _flush_but_sign(words: Words) -> Words:
    return torch.where((words & 0x7F80) == 0, words & 0x8000, words)


def _without_last(bits: int) -> Callable[[Words], Words]:
    return lambda words: words & (0xFFFF ^ ((1 << bits) - 1))


def _next_scale(step: int) -> Callable[[Words, torch.Tensor, Dialect], torch.Tensor]:
    """Codes over the scale of a neighbouring block."""

    def element(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
        return right_element(words, scales.roll(step, -1), dialect)

    return element


def _lane_neighbour(words: Words, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    """Every fourth byte of two codes repeats the third."""
    codes = right_element(words, scales, dialect).clone()
    pairs = codes.view(*codes.shape[:-1], 4, 4, 2)
    pairs[..., 3, :] = pairs[..., 2, :]
    return codes


def _order(places: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    def pack(codes: torch.Tensor) -> torch.Tensor:
        return codes[..., places]

    return pack


_K = torch.arange(32)
_SWAPPED = _K ^ 1
_HALVES = torch.stack((torch.arange(16), torch.arange(16, 32)), 1).flatten()
_HALVES_BACK = torch.cat((torch.arange(0, 32, 2), torch.arange(1, 32, 2)))
_BYTES = torch.arange(16).view(-1, 2, 2).transpose(1, 2).flatten()
_MIDDLE_BYTES = torch.stack((2 * _BYTES, 2 * _BYTES + 1), 1).flatten()
_REVERSED_BYTES = torch.stack((2 * (torch.arange(16) ^ 3), 2 * (torch.arange(16) ^ 3) + 1), 1).flatten()


def _scale(id_: str, statement: str, rule: Callable[..., torch.Tensor], class_: str = "scale-rule") -> Suspect:
    return Suspect(id_, class_, "quantizer.scale", statement, {"scale": rule})


def _code(id_: str, statement: str, rule: Callable[..., torch.Tensor], class_: str = "element-rounding") -> Suspect:
    return Suspect(id_, class_, "quantizer.element", statement, {"element": rule})


def _packed(id_: str, statement: str, places: torch.Tensor) -> Suspect:
    return Suspect(id_, "nibble-order", "pack", statement, {"pack": _order(places)})


def _loaded(change: Callable[[Words], Words]) -> dict[str, Callable[..., torch.Tensor]]:
    """A change of activations before everything else: of amax and of elements."""
    return {"scale": _of(change), "element": _element(change)}


QUANTIZING: tuple[Suspect, ...] = (
    _scale("scale-floor", "the scale follows FLOOR: amax is never rounded up", _carry(0)),
    _scale("scale-even", "the scale follows EVEN: amax is rounded up from mantissa 1.75", _carry(0x200000)),
    _scale("scale-ceil", "the scale follows CEIL: amax is rounded up from the first bit", _carry(0x7F0000)),
    _scale("scale-rceil", "the scale follows RCEIL: amax is rounded up above mantissa 1.5", _carry(0x3F0000)),
    _scale("scale-boundary-1.5", "amax is rounded up from mantissa 1.5", _carry(0x400000)),
    _scale("scale-boundary-late", "amax of exactly 1.75 * 2^e is not rounded up", _carry(0x1F0000)),
    _scale("scale-boundary-early", "amax one unit below 1.75 * 2^e is rounded up", _carry(0x210000)),
    _scale("scale-step-high", "scale bytes are one too high", _one_more_after_the_clamp),
    _scale("scale-step-low", "scale bytes are one too low", _moved(-1)),
    _scale("scale-offset-twice", "the exponent of 4 is taken off twice: scale bytes are two too low", _moved(-2)),
    _scale("scale-offset-missing", "the exponent of 4 is not taken off: scale bytes are two too high", _moved(2)),
    _scale("amax-of-even-places", "amax is taken of the elements at even k alone", _at(_K[::2])),
    _scale("amax-of-odd-places", "amax is taken of the elements at odd k alone", _at(_K[1::2])),
    _scale("amax-of-first-half", "amax is taken of the first 16 elements of a block", _at(_K[:16])),
    _scale("amax-of-second-half", "amax is taken of the last 16 elements of a block", _at(_K[16:])),
    *(
        _scale(f"amax-where-{bit}-is-{value}", f"amax is taken of the elements alone whose k has {value} at bit {bit}",
               _at(_K[_K >> bit & 1 == value]))
        for bit in (1, 2, 3)
        for value in (0, 1)
    ),
    _scale("amax-of-first", "the scale follows from the first element of a block alone", _at(_K[:1])),
    _scale("amax-of-positive", "amax ignores negative elements", _kept(lambda words: words < 0x8000)),
    _scale("amax-of-negative", "amax ignores positive elements", _kept(lambda words: words >= 0x8000)),
    _scale(
        "amax-negative-at-odd-places", "amax ignores negative elements at odd k",
        _kept(lambda words: (words < 0x8000) | (_K % 2 == 0)),
    ),
    _scale(
        "amax-negative-at-even-places", "amax ignores negative elements at even k",
        _kept(lambda words: (words < 0x8000) | (_K % 2 == 1)),
    ),
    _scale("scale-least-1", "the least scale byte is 1: 2^-127 is lost", _least(1), "e8m0-special"),
    _scale("scale-least-1-but-zeros", "the least scale byte is 1, but for blocks of zeros", _least(1, False),
           "e8m0-special"),
    _scale("zero-block-1", "a block of zeros gets scale byte 1", _zero_block(1), "zero-tiny"),
    _scale("zero-block-127", "a block of zeros gets scale byte 127", _zero_block(127), "zero-tiny"),
    *(
        _scale(f"inf-block-{byte}", f"a block with Inf or NaN gets scale byte {byte}", _special(byte, byte), "nan-inf")
        for byte in (252, 253, 254, 255)
    ),
    _scale("infinity-254", "a block with Inf gets scale byte 254", _special(254, None), "nan-inf"),
    _scale("nan-255", "a block with NaN gets scale byte 255", _special(None, 255), "nan-inf"),
    _scale("nan-payload-carries", "a NaN's payload carries into the scale's exponent", _unclamped_nan, "nan-inf"),
    _scale("amax-drops-nan", "amax ignores NaN", _kept(lambda words: (words & 0x7FFF) <= _NAN), "nan-inf"),
    _scale("amax-drops-inf-and-nan", "amax ignores Inf and NaN", _kept(lambda words: (words & 0x7FFF) < _NAN),
           "nan-inf"),
    _scale("amax-clamped", "amax is cut at 1.5 * 2^127, so Inf, NaN and the largest get byte 252", _clamped(0x7F40),
           "nan-inf"),
    Suspect("subnormals-flushed", "zero-tiny", "activations", "subnormal activations are read as zero",
            _loaded(_flush)),
    Suspect("negative-zero-dropped", "zero-tiny", "activations", "-0 is read as +0",
            _loaded(lambda words: torch.where(words == 0x8000, 0, words))),
    _code("ties-away", "ties between codes go away from zero", _away),
    _code("ties-toward-zero", "ties between codes go toward zero", _ties_toward_zero()),
    *(
        _code(f"tie-{value}", f"the tie at {value} goes to the other side", _tie(index))
        for index, value in enumerate(_MIDPOINTS)
    ),
    _code("ties-away-from-1", "ties between codes from 1.0 up go away from zero", _away_from(2)),
    _code("elements-cut", "elements are cut, not rounded", _cut_from(0)),
    _code("elements-cut-from-1", "elements from 1.0 up are cut, not rounded", _cut_from(2)),
    *(
        _code(f"elements-lose-{bits}-bits", f"elements lose their last {bits} bits before they are rounded",
              _element(_without_last(bits)))
        for bits in (3, 4, 2, 5, 1)
    ),
    _code("sticky-bit", "the last bit of every element is set before it is rounded", _element(lambda words: words | 1)),
    _code("saturation-missing", "magnitudes from 7 on wrap to zero", _wraps),
    _code("negative-codes-of-zero", "negative values that round to zero lose their sign", _unsigned_zero),
    _code("sign-lost", "codes lose their sign", _no_sign),
    _code("inf-becomes-4", "Inf becomes 4, not 6", _special_code(_NAN, _NAN, 6), "nan-inf"),
    _code("inf-becomes-0", "Inf becomes 0", _special_code(_NAN, _NAN, 0), "nan-inf"),
    _code("nan-becomes-0", "NaN becomes 0", _special_code(_NAN + 1, 0x7FFF, 0), "nan-inf"),
    _code("nan-becomes-4", "NaN becomes 4, not 6", _special_code(_NAN + 1, 0x7FFF, 6), "nan-inf"),
    _code("subnormal-elements-doubled", "subnormal elements count twice", _subnormals_up, "zero-tiny"),
    _code("subnormal-elements-flushed", "subnormal elements become 0", _element(_flush), "zero-tiny"),
    _code(
        "subnormal-elements-zeroed",
        "subnormal elements become 0 of their sign",
        _element(_flush_but_sign),
        "zero-tiny",
    ),
    _code("repeats-third-of-four", "every fourth byte of two codes repeats the third", _lane_neighbour,
          "compiler-hazard"),
    _code("over-next-scale", "elements are divided by the scale of the next block", _next_scale(-1), "scale-order"),
    _code("over-previous-scale", "elements are divided by the scale of the previous block", _next_scale(1),
          "scale-order"),
    _packed("a-nibbles-swapped", "the activation of even k lies in the high nibble", _SWAPPED),
    _packed("a-halves-interleaved", "byte j of a block holds elements j and j + 16 of A", _HALVES),
    _packed("a-halves-parted", "even elements of A come first, odd ones after them", _HALVES_BACK),
    _packed("a-middle-bytes", "the two middle bytes of each dword of A are exchanged", _MIDDLE_BYTES),
    _packed("a-bytes-reversed", "the bytes of each dword of A are reversed", _REVERSED_BYTES),
    Suspect("a-unscaled", "scale-rule", "quantizer.scale", "the scale of A is left out of the product",
            {"exchange": lambda a, w: (torch.full_like(a, 127), w)}),
)  # fmt: skip
"""Rules that act on blocks of activations."""
