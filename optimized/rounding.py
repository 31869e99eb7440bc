# mypy: allow-untyped-decorators
"""float32 to bfloat16 inside a kernel, to nearest even on every device."""

import triton
import triton.language as tl


@triton.jit
def to_bfloat16(x: tl.tensor, IN_INTEGERS: tl.constexpr) -> tl.tensor:
    """bfloat16 of float32 `x`, nearest even, NaN kept quiet.

    The native cast of the GPU targets rounds to nearest even; that of Triton's interpreter (3.6 to 3.9) truncates, so
    it needs IN_INTEGERS.
    """
    if not IN_INTEGERS:
        return x.to(tl.bfloat16)
    bits = x.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return tl.where(is_nan, quiet, rounded).to(tl.uint16).to(tl.bfloat16, bitcast=True)
