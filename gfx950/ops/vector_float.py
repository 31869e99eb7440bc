"""Vector ALU, float32. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3"; approximations are ours and marked."""

from typing import Any

import numpy as np

from mxassay.gfx950.extremes import maximum, maximum3, median, minimum, minimum3
from mxassay.gfx950.floating import fma_f32
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"
F32 = np.float32

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
lanewise("f32 f32 -> f32", {"v_max_f32": maximum, "v_min_f32": minimum}, CERTAIN, _ISA, modal=True)
lanewise(
    "f32 f32 f32 -> f32",
    {"v_max3_f32": maximum3, "v_min3_f32": minimum3, "v_med3_f32": median},
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
