"""Vector ALU, float32. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3"; approximations are ours and marked."""

from typing import Any

import numpy as np
from mxassay.gfx950.floating import fma_f32, quiet_f32
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"
F32 = np.float32


def _max(a: Any, b: Any) -> Any:
    """IEEE maxNum: a NaN loses against a number; +0 beats -0. Both NaN: the first, quiet."""
    result = np.fmax(a, b)
    return _zeros_and_nans(result, a, b, np.bitwise_and)


def _min(a: Any, b: Any) -> Any:
    return _zeros_and_nans(np.fmin(a, b), a, b, np.bitwise_or)


def _zeros_and_nans(result: Any, a: Any, b: Any, merge: np.ufunc) -> Any:
    bits = np.asarray(result).view(np.uint32)
    zero = (bits & np.uint32(0x7FFFFFFF)) == 0
    if zero.any():
        both = merge(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))
        sign = np.where((a == 0) & (b == 0), both & np.uint32(0x80000000), bits)
        result = np.where(zero, sign, bits).view(np.float32)
    return quiet_f32(result) if np.isnan(result).any() else result


lanewise(
    "f32 f32 -> f32",
    {
        "v_add_f32": np.add,
        "v_sub_f32": np.subtract,
        "v_subrev_f32": lambda a, b: b - a,
        "v_mul_f32": np.multiply,
    },
    CERTAIN,
    _ISA,
)
# NaN payloads and the sign of mixed zeros are inferred from IEEE 754-2008 maxNum; numbers are certain.
lanewise("f32 f32 -> f32", {"v_max_f32": _max, "v_min_f32": _min}, INFERRED, _ISA)
lanewise(
    "f32 f32 f32 -> f32",
    {
        "v_max3_f32": lambda a, b, c: _max(_max(a, b), c),
        "v_min3_f32": lambda a, b, c: _min(_min(a, b), c),
    },
    INFERRED,
    _ISA,
)
lanewise("f32 f32 f32 -> f32", {"v_fma_f32": fma_f32, "v_fmamk_f32": fma_f32, "v_fmaak_f32": fma_f32}, CERTAIN, _ISA)
lanewise("f32 f32 dst:f32 -> f32", {"v_fmac_f32": fma_f32}, CERTAIN, _ISA)


def _rounded(function: Any) -> Any:
    """A float64 function rounded once to float32: the nearest value for all but some 2^-29 of the inputs."""
    return lambda x: function(np.asarray(x, np.float64)).astype(F32)


# The card's approximations differ from these by up to 1 ulp in places nobody published: inferred.
lanewise(
    "f32 -> f32",
    {
        "v_rcp_f32": _rounded(np.reciprocal),
        "v_rcp_iflag_f32": _rounded(np.reciprocal),
        "v_rsq_f32": _rounded(lambda x: 1 / np.sqrt(x)),
        "v_sqrt_f32": _rounded(np.sqrt),
        "v_exp_f32": _rounded(np.exp2),
        "v_log_f32": _rounded(np.log2),
    },
    INFERRED,
    "AMD CDNA4 ISA names them; results to 1 ulp",
)
lanewise(
    "f32 -> f32",
    {
        "v_trunc_f32": np.trunc,
        "v_ceil_f32": np.ceil,
        "v_floor_f32": np.floor,
        "v_rndne_f32": np.rint,
    },
    CERTAIN,
    _ISA,
)
