"""Triton's floating-point sanitizer: floats become elements of a 2^w integer ring, where sums in any order are equal.

Two plans, splits or entry points can so be compared bit for bit on inputs without a certificate. What comes out is no
number; only equality means something. Measured on Triton 3.9: our GEMM and reduce kernels compile for gfx950 in 2 to 7
seconds, run on the emulated card, and agree over plans, splits and linear weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sanitized() -> Iterator[None]:
    """Kernels launched inside are compiled with the sanitizer; others are not touched, since it is a cache key."""
    from triton import knobs

    before = knobs.compilation.instrumentation_mode
    knobs.compilation.instrumentation_mode = "fpsan"
    try:
        yield
    finally:
        knobs.compilation.instrumentation_mode = before
