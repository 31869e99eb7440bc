"""Vector ALU, float32. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3"; approximations are ours and marked."""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import fma_f32, quiet_f32
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.registry import CERTAIN, INFERRED, Mode

_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"
F32 = np.float32
_MAGNITUDE, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)


def _max(a: Any, b: Any, mode: Mode) -> Any:
    return _chosen(np.fmax(a, b), a, b, mode, np.bitwise_and)


def _min(a: Any, b: Any, mode: Mode) -> Any:
    return _chosen(np.fmin(a, b), a, b, mode, np.bitwise_or)


def _chosen(result: Any, a: Any, b: Any, mode: Mode, merge: np.ufunc) -> Any:
    """fmin and fmax with what IEEE 754 leaves open settled as AMD's pseudocode does: +0 beats -0 in a maximum, -0
    beats +0 in a minimum; in IEEE mode a signalling NaN comes out quiet, the first one first; of two quiet NaNs the
    second comes out."""
    bits = np.asarray(result).view(np.uint32)
    zero = (bits & _MAGNITUDE) == 0
    if zero.any():
        both = merge(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))
        bits = np.where((a == 0) & (b == 0), both & _SIGN, bits)
        result = bits.view(np.float32)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if nan_a.any() or nan_b.any():
        result = np.where(nan_a, b, np.where(nan_b, a, result))
        if mode.ieee:
            for x in (b, a):
                result = np.where(_signalling(x), quiet_f32(x), result)
    return result


def _signalling(x: Any) -> Any:
    bits = np.asarray(x).view(np.uint32)
    return ((bits & _MAGNITUDE) > np.uint32(0x7F800000)) & ((bits & np.uint32(0x00400000)) == 0)


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
lanewise("f32 f32 -> f32", {"v_max_f32": _max, "v_min_f32": _min}, CERTAIN, _ISA, modal=True)
lanewise(
    "f32 f32 f32 -> f32",
    {
        "v_max3_f32": lambda a, b, c, mode: _max(_max(a, b, mode), c, mode),
        "v_min3_f32": lambda a, b, c, mode: _min(_min(a, b, mode), c, mode),
    },
    CERTAIN,
    _ISA,
    modal=True,
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
