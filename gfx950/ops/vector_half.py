"""Vector ALU, float16. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3".

What becomes of the register's other half: LLVM GCNSubtarget::zeroesHigh16BitsOfDest. The forms that came with gfx9
(V_MAD_F16, V_FMA_F16, ...) keep it, the older ones clear it. For V_MAC, V_MADMK and V_MADAK AMD's pseudocode clears it
and LLVM's table keeps it; we follow AMD.
"""

from typing import Any

import numpy as np

from mxassay.gfx950 import approximate
from mxassay.gfx950.extremes import maximum, maximum3, median, minimum, minimum3
from mxassay.gfx950.fused import fma_f16
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.parts import exponent, fraction, mantissa
from mxassay.gfx950.registry import CERTAIN, INFERRED

_ISA = "AMD CDNA4 ISA; other half: LLVM GCNSubtarget::zeroesHigh16BitsOfDest"
_DISPUTED = "AMD CDNA4 ISA, V_MAC_F16; LLVM GCNSubtarget::zeroesHigh16BitsOfDest has it keep the other half"
_KEPT = (
    "AMD CDNA4 ISA; that the other half is kept: LLVM GCNSubtarget::zeroesHigh16BitsOfDest doesn't list it as cleared"
)
F16 = np.float16


def _mad(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


lanewise(
    "f16 f16 -> f16",
    {
        "v_add_f16": np.add,
        "v_sub_f16": np.subtract,
        "v_subrev_f16": lambda a, b: b - a,
        "v_mul_f16": np.multiply,
    },
    CERTAIN,
    _ISA,
)
lanewise("f16 f16 -> f16", {"v_max_f16": maximum, "v_min_f16": minimum}, CERTAIN, _ISA, modal=True, moves=True)
lanewise("f16 i16 -> f16", {"v_ldexp_f16": np.ldexp}, CERTAIN, _ISA)
lanewise("f16 f16 dst:f16 -> f16", {"v_mac_f16": _mad}, INFERRED, _DISPUTED)
lanewise("f16 f16 f16 -> f16", {"v_madmk_f16": _mad, "v_madak_f16": _mad}, INFERRED, _DISPUTED)
lanewise("f16 f16 f16 -> f16", {"v_mad_legacy_f16": _mad, "v_fma_legacy_f16": fma_f16}, CERTAIN, _ISA)
lanewise("f16 f16 f16 -> f16", {"v_mad_f16": _mad, "v_fma_f16": fma_f16}, CERTAIN, _ISA, keep=True)
lanewise(
    "f16 f16 f16 -> f16",
    {"v_max3_f16": maximum3, "v_min3_f16": minimum3, "v_med3_f16": median},
    INFERRED,
    _KEPT,
    keep=True,
    modal=True,
    moves=True,
)
lanewise(
    "f16 -> f16",
    {
        "v_trunc_f16": np.trunc,
        "v_ceil_f16": np.ceil,
        "v_floor_f16": np.floor,
        "v_rndne_f16": np.rint,
        "v_fract_f16": fraction,
    },
    CERTAIN,
    _ISA,
)
lanewise("f16 -> f16", {"v_frexp_mant_f16": mantissa}, CERTAIN, _ISA, moves=True)
lanewise("f16 -> i16", {"v_frexp_exp_i16_f16": lambda x: exponent(x).astype(np.int16)}, CERTAIN, _ISA)
lanewise(
    "f16 -> f16",
    {
        "v_rcp_f16": approximate.rounded(approximate.reciprocal, F16),
        "v_rsq_f16": approximate.rounded(approximate.rsqrt, F16),
        "v_sqrt_f16": approximate.rounded(approximate.square_root, F16),
        "v_exp_f16": approximate.rounded(approximate.exp2, F16),
        "v_log_f16": approximate.rounded(approximate.log2, F16),
        "v_sin_f16": approximate.rounded(approximate.sine, F16),
        "v_cos_f16": approximate.rounded(approximate.cosine, F16),
    },
    INFERRED,
    "AMD CDNA4 ISA names them; rounded to nearest here",
)
