"""Results lie where the operands do, whatever device is the default: here one that has no data shows what strays.

And they are of the type that is promised, whatever type is the default.
"""

import pytest
import torch

from mxassay import reference
from mxassay.reference import formats
from mxassay.reference.operands import check_operands
from mxassay.reference.superaccumulator import exact_sums

X = torch.randn(4, 96, generator=torch.Generator().manual_seed(7))
PACKED, SCALES = reference.quantize(X)
FAR = torch.tensor([[0, 127, 254]], dtype=torch.uint8).expand(4, 3)  # no float64 holds such sums
NEAR, WIDE = (PACKED, SCALES, PACKED, SCALES), (PACKED, FAR, PACKED, FAR)

CALLS = {
    "quantize": lambda: reference.quantize(X),
    "quantize, scales given": lambda: reference.quantize(X, scales=SCALES),
    "dequantize": lambda: [reference.dequantize(PACKED, SCALES)],
    "encode": lambda: [reference.encode(X), reference.encode(X, SCALES)],
    "decode": lambda: [reference.decode(PACKED), reference.decode_scales(SCALES)],
    "pack": lambda: [reference.pack(PACKED & 15), reference.unpack(PACKED)],
    "matmul": lambda: [reference.matmul(*NEAR), reference.matmul(*WIDE)],
    "exact sums": lambda: [exact_sums(*check_operands(*WIDE))],
    "partials": lambda: [reference.partials(*NEAR, 2), reference.partials(*WIDE, 2)],
    "certificate": lambda: [reference.certificate(*NEAR), reference.certificate(*WIDE)],
    "error_bound": lambda: [*reference.error_bound(*NEAR), *reference.error_bound(*WIDE)],
    "expectation": lambda: [*reference.expectation(*NEAR), *reference.expectation(*WIDE)],
    "round_to_bfloat16": lambda: [reference.round_to_bfloat16(X.double())],
    "instruction": lambda: [reference.cvt_scalef32_pk_fp4_bf16(0x40C0_3F00, SCALES.int() << 23, 0)],
    "instruction, numbers": lambda: [reference.cvt_scalef32_pk_fp4_bf16(0x40C0_3F00, 127 << 23, 0)],
}


@pytest.fixture
def no_tables():
    """The tables are made again, under the default device in force."""
    caches = [made for made in vars(formats).values() if hasattr(made, "cache_clear")]
    assert len(caches) == 4
    for table in caches:
        table.cache_clear()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.usefixtures("no_tables")
def test_the_default_device_does_not_matter(call):
    with torch.device("meta"):
        found = call()
    assert {tensor.device.type for tensor in found} == {"cpu"}
    # As integers: NaN is to equal NaN.
    for tensor, want in zip(found, call(), strict=True):
        assert torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (tensor, want)))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.usefixtures("no_tables")
def test_the_default_type_does_not_matter(call):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        found = call()
    finally:
        torch.set_default_dtype(before)
    for tensor, want in zip(found, call(), strict=True):
        assert tensor.dtype == want.dtype
        assert torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (tensor, want)))
