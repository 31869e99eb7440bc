"""float64 to bfloat16 in one rounding, against a search over all bfloat16 numbers."""

from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.reference import round_to_bfloat16


def bits_of(*values):
    return (round_to_bfloat16(torch.tensor(values, dtype=torch.float64)).view(torch.int16).int() & 0xFFFF).tolist()


@given(significand=st.integers(1 << 52, (1 << 53) - 1), exponent=st.integers(-260, 130), negative=st.booleans())
@example(significand=1 << 52, exponent=-134, negative=False)  # half the least subnormal: a tie, to zero
@example(significand=(1 << 52) + 1, exponent=-134, negative=True)
@example(significand=(1 << 53) - 1, exponent=-127, negative=False)  # up into the normal range
@example(significand=(1 << 53) - (1 << 44), exponent=127, negative=False)  # the tie at the top: overflow
@example(significand=(1 << 53) - (1 << 44) - 1, exponent=127, negative=False)
@example(significand=(1 << 52) + (1 << 44), exponent=0, negative=False)
@example(significand=(1 << 52) + (3 << 44), exponent=0, negative=False)
@example(significand=(1 << 52) + (1 << 44) + 1, exponent=0, negative=False)  # float32 would drop the last bit
def test_nearest(bfloat16_of, significand, exponent, negative):
    value = Fraction(significand) * Fraction(2) ** (exponent - 52) * (-1 if negative else 1)
    assert bits_of(float(value)) == [bfloat16_of(value)]


def test_every_bfloat16_and_every_midpoint(bfloat16_of):
    finite = torch.arange(0x7F80, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    assert torch.equal(round_to_bfloat16(finite.double()), finite)
    assert torch.equal(round_to_bfloat16(-finite.double()).view(torch.int16), (-finite).view(torch.int16))
    values = torch.cat([finite.double(), torch.tensor([2.0**128], dtype=torch.float64)])
    middle = (values[1:] + values[:-1]) / 2
    even = torch.arange(0x7F80) + torch.arange(0x7F80) % 2
    for nudge, expected in ((0, even), (1, torch.arange(1, 0x7F81)), (-1, torch.arange(0x7F80))):
        x = (middle.view(torch.int64) + nudge).view(torch.float64)
        assert torch.equal(round_to_bfloat16(x).view(torch.int16).long(), expected)


def test_specials():
    inf = float("inf")
    assert bits_of(0.0, -0.0, inf, -inf, 1e300, -1e300) == [0, 0x8000, 0x7F80, 0xFF80, 0x7F80, 0xFF80]
    assert bits_of(float("nan")) == [0x7FC0]


def test_every_nan_becomes_the_quiet_one_of_its_sign():
    """The least signalling NaN included, whose one bit would be rounded away into Inf."""
    patterns = torch.tensor([0x7FF0000000000001, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF])
    for sign, expected in ((0, 0x7FC0), (-(1 << 63), 0xFFC0)):
        found = round_to_bfloat16((patterns | sign).view(torch.float64)).view(torch.int16).int() & 0xFFFF
        assert found.tolist() == [expected] * 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_another_dtype_is_refused_by_name(dtype):
    with pytest.raises(ContractError, match=f"^x must be float64, not {dtype}; call double\\(\\)$"):
        round_to_bfloat16(torch.zeros(1, dtype=getattr(torch, dtype)))


def test_rounding_does_not_depend_on_flush_to_zero():
    x = torch.tensor([2.0**-130, -(2.0**-133), 3 * 2.0**-134], dtype=torch.float64)
    expected = bits_of(*x.tolist())
    assert expected == [8, 0x8001, 2]
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU has no flush-to-zero mode")
    try:
        assert bits_of(*x.tolist()) == expected
    finally:
        torch.set_flush_denormal(False)
