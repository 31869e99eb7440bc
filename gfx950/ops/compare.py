"""Vector compares: one predicate makes v_cmp and v_cmpx. Source: AMD CDNA4 ISA, "VOPC"."""

from typing import Any

import numpy as np

from mxassay.gfx950.lanewise import compare
from mxassay.gfx950.parts import class_bit
from mxassay.gfx950.registry import CERTAIN

_ISA = "AMD CDNA4 ISA, VOPC"
_ORDERED: dict[str, Any] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _never(a: Any, b: Any) -> Any:
    return np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), np.bool_)


def _always(a: Any, b: Any) -> Any:
    return np.ones(np.broadcast_shapes(np.shape(a), np.shape(b)), np.bool_)


for _type in ("i16", "u16", "i32", "u32", "i64", "u64"):
    _table = {**_ORDERED, "ne": np.not_equal, "f": _never, "t": _always}
    compare(f"{_type} {_type}", {f"{name}_{_type}": function for name, function in _table.items()}, CERTAIN, _ISA)

_FLOAT: dict[str, Any] = {
    **_ORDERED,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "f": _never,
    "tru": _always,
}
for _type in ("f16", "f32", "f64"):
    compare(f"{_type} {_type}", {f"{name}_{_type}": function for name, function in _FLOAT.items()}, CERTAIN, _ISA)
    compare(
        f"{_type} u32",
        {f"class_{_type}": lambda x, classes: classes >> class_bit(x) & np.uint32(1) == 1},
        CERTAIN,
        _ISA,
    )
