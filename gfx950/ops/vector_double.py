"""Vector ALU, float64. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3"; approximations are ours and marked."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950 import approximate
from mxassay.gfx950.extremes import maximum, minimum
from mxassay.gfx950.fused import fma_f64
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.parts import biased_exponent, exponent, fraction, mantissa
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"

lanewise("f64 f64 -> f64", {"v_add_f64": np.add, "v_mul_f64": np.multiply}, CERTAIN, _ISA)
lanewise("f64 f64 -> f64", {"v_max_f64": maximum, "v_min_f64": minimum}, CERTAIN, _ISA, modal=True, moves=True)
lanewise("f64 f64 f64 -> f64", {"v_fma_f64": fma_f64}, CERTAIN, _ISA)
lanewise("f64 f64 dst:f64 -> f64", {"v_fmac_f64": fma_f64}, CERTAIN, _ISA)
lanewise("f64 i32 -> f64", {"v_ldexp_f64": np.ldexp}, CERTAIN, _ISA)
lanewise(
    "f64 -> f64",
    {
        "v_trunc_f64": np.trunc,
        "v_ceil_f64": np.ceil,
        "v_floor_f64": np.floor,
        "v_rndne_f64": np.rint,
        "v_fract_f64": fraction,
    },
    CERTAIN,
    _ISA,
)
lanewise("f64 -> f64", {"v_frexp_mant_f64": mantissa}, CERTAIN, _ISA, moves=True)
lanewise("f64 -> i32", {"v_frexp_exp_i32_f64": exponent}, CERTAIN, _ISA)
lanewise(
    "f64 -> f64",
    {"v_rcp_f64": approximate.reciprocal, "v_rsq_f64": approximate.rsqrt, "v_sqrt_f64": approximate.square_root},
    INFERRED,
    "AMD CDNA4 ISA names them; a card gives some 29 bits, which compilers refine; rounded to nearest here",
)

_BITS, _SEGMENT = 1201, 53


def _arctangent_of_inverse(n: int, scale: int) -> int:
    """atan(1 / n) times `scale`, a few units short at most."""
    term, total, k = scale // n, 0, 0
    while term:
        total += -term // (2 * k + 1) if k & 1 else term // (2 * k + 1)
        term //= n * n
        k += 1
    return total


@cache
def _segments() -> NDArray[np.float64]:
    """53 bits of 2 / pi from each bit position on, as whole numbers; zeros behind the last of its 1,201 bits."""
    scale = 1 << _BITS + 128
    pi = 4 * (4 * _arctangent_of_inverse(5, scale) - _arctangent_of_inverse(239, scale))  # Machin, 1706
    bits = (2 * scale << _BITS) // pi
    most = 31 * _SEGMENT + (2047 - 1077)
    wide = bits << most + _SEGMENT
    top = _BITS + most
    return np.array([float(wide >> top - shift & (1 << _SEGMENT) - 1) for shift in range(most + 1)])


def _segment_of_two_over_pi(x: Any, select: Any) -> Any:
    """V_TRIG_PREOP_F64: the 53 bits of 2 / pi that matter for range reduction of `x`, segment `select`."""
    place = biased_exponent(x)
    shift = (select & np.uint32(31)).astype(np.int32) * _SEGMENT + np.maximum(place - 1077, 0)
    scale = -_SEGMENT - shift + np.where(place >= 1968, 128, 0)
    return np.ldexp(_segments()[shift], scale)


lanewise(
    "f64 u32 -> f64",
    {"v_trig_preop_f64": _segment_of_two_over_pi},
    INFERRED,
    "AMD CDNA4 ISA, V_TRIG_PREOP_F64: its shift read as the bits to skip, which its scale confirms",
)
