"""Stand-ins for what the card approximates: each function in float64, rounded once to the format asked for.

AMD publishes accuracy, not bits (AMD CDNA4 ISA, "V_RCP_F32" and its kin: 1 ulp), so results can differ from a card's in
the last place.
"""

from typing import Any

import numpy as np

__all__ = ["cosine", "exp2", "log2", "reciprocal", "rounded", "rsqrt", "sine", "square_root"]


def rounded(function: Any, dtype: Any) -> Any:
    """A float64 function rounded once more: the nearest value for all but some 2^-29 of float32 inputs."""
    return lambda x: function(np.asarray(x, np.float64)).astype(dtype)


reciprocal, exp2, log2, square_root = np.reciprocal, np.exp2, np.log2, np.sqrt


def rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def sine(x: Any) -> Any:
    """sin(2 pi x), zeros and ones exact. `x` counts whole turns; how a card reduces large ones isn't published."""
    turn = x - np.rint(x)
    quarter = np.where(np.abs(turn) > 0.25, np.copysign(0.5, turn) - turn, turn)
    return np.copysign(np.sin(2 * np.pi * quarter), np.where(turn == 0, x, quarter))


def cosine(x: Any) -> Any:
    """cos(2 pi x) alike."""
    turn = np.abs(x - np.rint(x))
    return np.where(turn > 0.25, -np.sin(2 * np.pi * (turn - 0.25)), np.sin(2 * np.pi * (0.25 - turn)))
