"""v_cvt_scalef32_pk_fp4_bf16: certain behaviour exactly, unknown behaviour by its policy value."""

import ml_dtypes
import numpy as np
import pytest
import torch

from mxassay.errors import ContractError
from mxassay.reference import CvtPolicy, cvt_scalef32_pk_fp4_bf16, quantize

ONE = 127 << 23
BITS = "view its bits as integers"


def cvt(low, high=0, e=127, policy=None, old=0):
    keywords = {} if policy is None else {"policy": policy}
    return int(cvt_scalef32_pk_fp4_bf16(high << 16 | low, e << 23, old, **keywords))


def test_every_bfloat16_under_every_scale_agrees_with_ml_dtypes():
    """65,536 x 254, each number once in either half of the register."""
    bits = torch.arange(65536)
    finite = bits[(bits & 0x7F80) != 0x7F80]
    pairs = finite | finite.flip(0) << 16
    x = finite.to(torch.int16).view(torch.bfloat16).double().numpy()
    for e in range(1, 255):
        scaled = np.clip(x * 2.0 ** (127 - e), -8, 8).astype(np.float32)
        codes = torch.from_numpy(scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)).long()
        found = cvt_scalef32_pk_fp4_bf16(pairs, e << 23, 0)
        assert torch.equal(found, codes | codes.flip(0) << 4), e


def test_it_agrees_with_quantize():
    x = torch.randn(64, 128).to(torch.bfloat16)
    q = quantize(x)
    halves = x.view(torch.int16).long() & 0xFFFF
    pairs = halves[:, 0::2] | halves[:, 1::2] << 16
    scales = q.scales.long().repeat_interleave(16, 1) << 23
    assert torch.equal(cvt_scalef32_pk_fp4_bf16(pairs, scales, 0), q.packed.long())


def test_element_zero_goes_to_the_low_nibble():
    assert cvt(low=0x3F00, high=0x40C0) == 0x71


@pytest.mark.parametrize(("byte", "expected"), [(0, 0xAABBCC71), (1, 0xAABB71DD), (2, 0xAA71CCDD), (3, 0x71BBCCDD)])
def test_the_byte_select_preserves_the_other_bytes(byte, expected):
    assert int(cvt_scalef32_pk_fp4_bf16(0x40C03F00, ONE, 0xAABBCCDD, byte)) == expected


def test_sign_and_mantissa_of_the_scale_are_ignored():
    for scale in (ONE, ONE | 0x7FFFFF, ONE | 1 << 31, ONE | 0x80400000):
        assert int(cvt_scalef32_pk_fp4_bf16(0x40C03F00, scale, 0)) == 0x71


def test_ties_go_to_the_even_code():
    ties = {0x3E80: 0, 0x3F40: 2, 0x3FA0: 2, 0x3FE0: 4, 0x4020: 4, 0x4060: 6, 0x40A0: 6}
    assert {bits: cvt(bits) for bits in ties} == ties


def test_infinity_saturates():
    assert (cvt(0x7F80), cvt(0xFF80)) == (7, 15)


def test_positive_nan_is_six():
    assert (cvt(0x7FC0), cvt(0x7F81), cvt(0x7FFF)) == (7, 7, 7)


def test_policy_of_negative_nan():
    assert cvt(0xFFC0) == 15
    assert cvt(0xFFC0, policy=CvtPolicy(negative_nan=7)) == 7
    assert cvt(0xFF80, policy=CvtPolicy(negative_nan=7)) == 15


def test_policy_of_negative_zero():
    assert cvt(0x8000) == 8
    assert cvt(0x8000, policy=CvtPolicy(negative_zero=0)) == 0
    assert cvt(0xB000, policy=CvtPolicy(negative_zero=0)) == 8  # a small negative number is not -0


def test_policy_of_denormals():
    assert (cvt(0x0040, e=0), cvt(0x8040, e=1)) == (2, 9)  # 2^-127
    flush = CvtPolicy(denormals="flush")
    assert (cvt(0x0040, e=0, policy=flush), cvt(0x8040, e=1, policy=flush)) == (0, 8)
    assert cvt(0x0080, e=1, policy=flush) == 2  # the least normal number
    both = CvtPolicy(denormals="flush", negative_zero=0)
    assert {cvt(0x8000 | bits, e=0, policy=both) for bits in range(0x80)} == {0}  # each is -0 then, and treated so


def test_policy_of_scale_field_zero():
    assert cvt(0x0080, e=0) == 4
    assert cvt(0x0080, e=0, policy=CvtPolicy(scale_0_exponent=-126)) == 2


def test_policy_of_scale_field_255():
    assert cvt(0x3F80, 0xBF80, e=255) == 0xF7
    assert cvt(0x3F80, 0xBF80, e=255, policy=CvtPolicy(scale_255="keep_old"), old=0x12345678) == 0x12345678


def test_integer_dtypes_and_broadcasting():
    pairs = torch.tensor([[0x40C03F00], [0x3F0040C0]], dtype=torch.uint32)
    scales = torch.tensor([ONE, 128 << 23], dtype=torch.int32)
    found = cvt_scalef32_pk_fp4_bf16(pairs, scales, torch.tensor(-256))
    assert found.tolist() == [[0xFFFFFF71, 0xFFFFFF50], [0xFFFFFF17, 0xFFFFFF05]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cvt_scalef32_pk_fp4_bf16(0, ONE, 0, 4), "byte must be 0, 1, 2 or 3, not 4"),
        (
            lambda: cvt_scalef32_pk_fp4_bf16(0, 1.0, 0),
            "scale_u32 must hold integers, not float32; " + BITS,
        ),
        (lambda: cvt_scalef32_pk_fp4_bf16(0, ONE, True), "old must hold integers, not bool; " + BITS),
        (
            lambda: cvt_scalef32_pk_fp4_bf16(0, 1j, 0),
            "scale_u32 must hold integers, not complex64; " + BITS,
        ),
        (
            lambda: cvt_scalef32_pk_fp4_bf16(0.5, ONE, 0),
            "pair_u32 must hold integers, not float32; " + BITS,
        ),
        (lambda: CvtPolicy(negative_nan=16), f"negative_nan must be one of {', '.join(map(str, range(16)))}, not 16"),
        (lambda: CvtPolicy(denormals="keep_all"), "denormals must be one of keep, flush, not 'keep_all'"),
        (lambda: CvtPolicy(scale_0_exponent=-128), "scale_0_exponent must be one of -127, -126, not -128"),
        (lambda: CvtPolicy(negative_zero=1), "negative_zero must be one of 0, 8, not 1"),
        (lambda: CvtPolicy(scale_255="nan"), "scale_255 must be one of sign_seven, keep_old, not 'nan'"),
    ],
)
def test_contracts(call, message):
    with pytest.raises(ContractError) as caught:
        call()
    assert str(caught.value) == message
