"""Packed operations on two 16-bit values. Source: AMD CDNA4 ISA, "VOP3P", "V_PK_FMAC_F16"."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.extremes import maximum, minimum, propagating_maximum3, propagating_minimum3
from mxassay.gfx950.fused import fma_f16
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.moderegister import limited
from mxassay.gfx950.operands import TYPES, Read, Write
from mxassay.gfx950.pairs import pair_destination, pair_old, pair_source
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_ISA = "AMD CDNA4 ISA, VOP3P"


def _saturating(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """The function on wider integers, its result brought to the ends of the type."""
    limits = np.iinfo(TYPES[kind])

    def clamped(*operands: Any) -> Any:
        wide = function(*(operand.astype(np.int64) for operand in operands))
        return np.clip(wide, limits.min, limits.max).astype(TYPES[kind])

    return clamped


def _builder(function: Callable[..., Any], kinds: list[str], out: str, modal: bool, saturates: bool) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        reads = [
            pair_old(inst, kind.removeprefix("dst:"))
            if kind.startswith("dst:")
            else pair_source(inst, i, kind, context)
            for i, kind in enumerate(kinds)
        ]
        write = pair_destination(inst, out, context, moves=modal)
        applied = partial(function, mode=context.mode) if modal else function
        if inst["clamp"] and out[0] != "f":
            if not saturates:
                context.refuse(inst, "CLAMP of a packed shift")
            applied = _saturating(function, out)
        elif isinstance(function, np.ufunc) and out[0] != "f" and "_" not in inst.encoding:
            return _direct(function, reads, write, inst.dst[0].index, out)
        elif out == "f16":
            return _half(applied, reads, write)
        return lambda wv: write(wv, applied(*(read(wv) for read in reads)))

    return build


def _half(function: Callable[..., Any], reads: list[Read], write: Write) -> Step:
    """float16 results, which MODE.FP16_OVFL may keep finite."""

    def step(wv: Cohort) -> None:
        operands = [read(wv) for read in reads]
        write(wv, limited(wv, function(*operands), operands))

    return step


def _direct(function: np.ufunc, reads: list[Read], write: Write, index: int, out: str) -> Step:
    """The fast path: the ufunc writes straight into the register when every lane is on."""
    first, second = reads
    dtype = TYPES[out]

    def step(wv: Cohort) -> None:
        if wv.full:
            function(first(wv), second(wv), out=wv.v[index].view(dtype).reshape(wv.count, 64, 2))
        else:
            write(wv, function(first(wv), second(wv)))

    return step


def _packed(
    signature: str, table: Mapping[str, Callable[..., Any]], *, modal: bool = False, saturates: bool = False
) -> None:
    """Teach `{op: function}` of arrays whose last axis holds the two halves; the words are those of `lanewise`."""
    words, out = (side.split() for side in signature.split("->"))
    for op, function in table.items():
        reads_dst = words[-1].startswith("dst:")
        define(op, _builder(function, words, out[0], modal, saturates), CERTAIN, _ISA, reads_dst=reads_dst)


for _kind in ("u16", "i16"):
    _packed(
        f"{_kind} {_kind} -> {_kind}",
        {
            f"v_pk_add_{_kind}": np.add,
            f"v_pk_sub_{_kind}": np.subtract,
            f"v_pk_max_{_kind}": np.maximum,
            f"v_pk_min_{_kind}": np.minimum,
        },
        saturates=True,
    )
    _packed(f"{_kind} {_kind} {_kind} -> {_kind}", {f"v_pk_mad_{_kind}": lambda a, b, c: a * b + c}, saturates=True)
_packed("u16 u16 -> u16", {"v_pk_mul_lo_u16": np.multiply}, saturates=True)
_packed(
    "u16 u16 -> u16",
    {
        "v_pk_lshlrev_b16": lambda a, b: b << (a & np.uint16(15)),
        "v_pk_lshrrev_b16": lambda a, b: b >> (a & np.uint16(15)),
    },
)
_packed("u16 i16 -> i16", {"v_pk_ashrrev_i16": lambda a, b: b >> (a & np.uint16(15)).view(np.int16)})
_packed("f16 f16 -> f16", {"v_pk_add_f16": np.add, "v_pk_mul_f16": np.multiply})
_packed("f16 f16 -> f16", {"v_pk_max_f16": maximum, "v_pk_min_f16": minimum}, modal=True)
_packed(
    "f16 f16 f16 -> f16",
    {
        "v_pk_fma_f16": fma_f16,
        "v_pk_minimum3_f16": propagating_minimum3,
        "v_pk_maximum3_f16": propagating_maximum3,
    },
)
_packed("f16 f16 dst:f16 -> f16", {"v_pk_fmac_f16": fma_f16})
