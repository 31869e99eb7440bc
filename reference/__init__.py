"""What is right: the MXFP4 formats, the quantizer, the conversion instruction, the exact product and its bounds.

Pure PyTorch, on any device with float64.
"""

from mxassay.reference.dialects import (
    CEIL,
    CEIL_AITER_MX,
    CEIL_TORCHAO,
    DIALECTS,
    EVEN,
    EVEN_AITER,
    EVEN_AITER_MX,
    EVEN_TORCHAO,
    FLOOR,
    FLOOR_AITER_MX,
    FLOOR_TORCHAO,
    RCEIL,
    RCEIL_AITER_MX,
    RCEIL_TORCHAO,
    Dialect,
    dialect_named,
)
from mxassay.reference.exactness import Expectation, Interval, certificate, error_bound, expectation
from mxassay.reference.formats import (
    E2M1,
    E8M0,
    ElementFormat,
    ScaleFormat,
    decode,
    decode_scales,
    encode,
    pack,
    unpack,
)
from mxassay.reference.gemm import matmul, partials
from mxassay.reference.instruction import CvtPolicy, cvt_scalef32_pk_fp4_bf16
from mxassay.reference.quantizer import Quantized, dequantize, quantize
from mxassay.reference.rounding import round_to_bfloat16

__all__ = [
    "CEIL",
    "CEIL_AITER_MX",
    "CEIL_TORCHAO",
    "DIALECTS",
    "E2M1",
    "E8M0",
    "EVEN",
    "EVEN_AITER",
    "EVEN_AITER_MX",
    "EVEN_TORCHAO",
    "FLOOR",
    "FLOOR_AITER_MX",
    "FLOOR_TORCHAO",
    "RCEIL",
    "RCEIL_AITER_MX",
    "RCEIL_TORCHAO",
    "CvtPolicy",
    "Dialect",
    "ElementFormat",
    "Expectation",
    "Interval",
    "Quantized",
    "ScaleFormat",
    "certificate",
    "cvt_scalef32_pk_fp4_bf16",
    "decode",
    "decode_scales",
    "dequantize",
    "dialect_named",
    "encode",
    "error_bound",
    "expectation",
    "matmul",
    "pack",
    "partials",
    "quantize",
    "round_to_bfloat16",
    "unpack",
]
