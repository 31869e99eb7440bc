"""Vector ALU, float32. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3"; approximations are ours and marked."""

from typing import Any

import numpy as np

from mxassay.gfx950 import approximate
from mxassay.gfx950.extremes import (
    maximum,
    maximum3,
    median,
    minimum,
    minimum3,
    propagating_maximum3,
    propagating_minimum3,
)
from mxassay.gfx950.floating import fma_f32
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.parts import exponent, fraction, mantissa
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"

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
lanewise("f32 f32 -> f32", {"v_max_f32": maximum, "v_min_f32": minimum}, CERTAIN, _ISA, modal=True, moves=True)
lanewise(
    "f32 f32 f32 -> f32",
    {"v_max3_f32": maximum3, "v_min3_f32": minimum3, "v_med3_f32": median},
    CERTAIN,
    _ISA,
    modal=True,
    moves=True,
)
lanewise("f32 f32 f32 -> f32", {"v_fma_f32": fma_f32, "v_fmamk_f32": fma_f32, "v_fmaak_f32": fma_f32}, CERTAIN, _ISA)
lanewise("f32 f32 dst:f32 -> f32", {"v_fmac_f32": fma_f32}, CERTAIN, _ISA)


_APPROXIMATIONS: dict[str, Any] = {
    "rcp": approximate.reciprocal,
    "rcp_iflag": approximate.reciprocal,
    "rsq": approximate.rsqrt,
    "sqrt": approximate.square_root,
    "exp": approximate.exp2,
    "log": approximate.log2,
    "exp_legacy": approximate.exp2,
    "log_legacy": approximate.log2,
    "sin": approximate.sine,
    "cos": approximate.cosine,
}
lanewise(
    "f32 -> f32",
    {f"v_{name}_f32": approximate.rounded(function, np.float32) for name, function in _APPROXIMATIONS.items()},
    INFERRED,
    "AMD CDNA4 ISA names them, results to 1 ulp; rounded to nearest here",
)
lanewise(
    "f32 -> f32",
    {
        "v_trunc_f32": np.trunc,
        "v_ceil_f32": np.ceil,
        "v_floor_f32": np.floor,
        "v_rndne_f32": np.rint,
        "v_fract_f32": fraction,
    },
    CERTAIN,
    _ISA,
)
lanewise("f32 -> f32", {"v_frexp_mant_f32": mantissa}, CERTAIN, _ISA, moves=True)
lanewise("f32 -> i32", {"v_frexp_exp_i32_f32": exponent}, CERTAIN, _ISA)
lanewise("f32 i32 -> f32", {"v_ldexp_f32": np.ldexp}, CERTAIN, _ISA)
lanewise(
    "f32 f32 -> f32",
    {"v_mul_legacy_f32": lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b)},
    CERTAIN,
    _ISA,
)
lanewise(
    "f32 f32 f32 -> f32",
    {"v_minimum3_f32": propagating_minimum3, "v_maximum3_f32": propagating_maximum3},
    CERTAIN,
    _ISA,
)
