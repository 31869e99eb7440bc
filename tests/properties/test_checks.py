"""The judges by themselves: what counts as the same, what as wrong, with the words that say so."""

import pytest
import torch

from mxassay.properties.checks import PropertyError, assert_same_bits, assert_same_values

NAMES = ("row", "column")
NAN = float("nan")
QUIET, NEGATIVE, SIGNALLING = 0x7FC0, 0xFFC0, 0x7F81  # bfloat16


def matrix(*values):
    """bfloat16 (1, len(values))."""
    return torch.tensor([values], dtype=torch.bfloat16)


def of_bits(*bits):
    """bfloat16 (1, len(bits))."""
    return torch.tensor([bits], dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


@pytest.mark.parametrize("judge", [assert_same_bits, assert_same_values])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (matrix(1.0, NAN, 2.0), matrix(1.0, NAN, 2.0)),
        (of_bits(NEGATIVE, SIGNALLING), of_bits(QUIET, QUIET)),
        (matrix(float("inf"), -float("inf"), -0.0), matrix(float("inf"), -float("inf"), -0.0)),
        (torch.tensor([[NAN, -1.5]]), torch.tensor([[NAN, -1.5]])),
        (torch.zeros(0, 4, dtype=torch.bfloat16), torch.zeros(0, 4, dtype=torch.bfloat16)),
    ],
    ids=["a NaN among numbers", "NaN of any payload", "infinities and -0", "float32", "nothing"],
)
def test_the_same_is_the_same(judge, found, expected):
    judge(found, expected, NAMES)


# Every pair in both orders: a judge must not care which side is the kernel's.
DIFFERENT = {
    "NaN and a number": (NAN, 1.0),
    "NaN and zero": (NAN, 0.0),
    "NaN and Inf": (NAN, float("inf")),
    "opposite numbers": (1.0, -1.0),
    "opposite infinities": (float("inf"), -float("inf")),
    "one unit in the last place": (1.0, 1.0078125),
    "a number and zero": (2.0**-133, 0.0),
}


@pytest.mark.parametrize("judge", [assert_same_bits, assert_same_values])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
def test_one_difference_among_equals_is_wrong(judge, dtype, pair, swapped):
    one, other = reversed(pair) if swapped else pair
    found, expected = (torch.tensor([[3.0, NAN, x, -0.5]]).to(dtype) for x in (one, other))
    with pytest.raises(PropertyError, match=r"1 of 4; first at row 0, column 2: "):
        judge(found, expected, NAMES)


def test_zeros_of_opposite_sign_are_the_same_value_and_other_bits():
    zeros, minus = matrix(0.0, 0.0), matrix(0.0, -0.0)
    for found, expected in ((zeros, minus), (minus, zeros)):
        assert_same_values(found, expected, NAMES)
        with pytest.raises(PropertyError, match=r"1 of 2; first at row 0, column 1: -?0\.0 \(0x"):
            assert_same_bits(found, expected, NAMES)


def test_one_byte_among_equals_is_wrong():
    found, expected = (torch.tensor([[0, 255, last]], dtype=torch.uint8) for last in (7, 8))
    with pytest.raises(PropertyError, match=r"1 of 3; first at row 0, column 2: 7 \(0x07\), not 8 \(0x08\)"):
        assert_same_bits(found, expected, NAMES)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (torch.zeros(1, 3, dtype=torch.bfloat16), r"the result must be bfloat16 \(1, 2\), not bfloat16 \(1, 3\)"),
        (torch.zeros(1, 2), r"the result must be bfloat16 \(1, 2\), not float32 \(1, 2\)"),
    ],
)
def test_another_shape_or_dtype_is_wrong(found, words):
    with pytest.raises(PropertyError, match=words):
        assert_same_bits(found, torch.zeros(1, 2, dtype=torch.bfloat16), NAMES)
