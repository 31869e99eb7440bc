"""From a numpy function and a signature to a step: operations that treat every lane alone.

>>> lanewise("u32 u32 -> u32", {"v_example_u32": np.add}, CERTAIN, "nowhere")  # doctest: +SKIP
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.floating import canonical
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.moderegister import limited
from mxassay.gfx950.operands import TYPES, Read, destination, mask_destination, mask_source, source
from mxassay.gfx950.registry import Build, Context, Fidelity, Step, define
from mxassay.gfx950.wave import Cohort

__all__ = ["compare", "lanewise", "reads_of", "saturating"]

_DIRECT = ("u32", "i32", "f32", "b32")


def reads_of(inst: Instruction, kinds: list[str], context: Context) -> list[Read]:
    """Readers of the first sources, by type; "mask" reads a lane mask as bool, "dst" as the last word the old
    result."""
    reads: list[Read] = []
    for slot, kind in enumerate(kinds):
        if kind == "mask":
            reads.append(mask_source(inst.src[slot], inst, context))
        elif kind.startswith("dst:"):
            reads.append(_old(inst, kind.removeprefix("dst:")))
        else:
            reads.append(source(inst, slot, kind, context))
    return reads


def _old(inst: Instruction, kind: str) -> Read:
    """The destination's old value: accumulators have no modifiers on it (AMD CDNA4 ISA, "V_FMAC_F32")."""
    operand, dtype = inst.dst[0], np.dtype(TYPES[kind])
    index, file = operand.index, operand.file
    if dtype.itemsize == 8:
        from mxassay.gfx950.wave import join

        return lambda wv: join(*(wv.v if file == "v" else wv.a)[index : index + 2]).view(dtype)
    if dtype.itemsize == 2:
        return lambda wv: (wv.v if file == "v" else wv.a)[index].view(dtype)[..., ::2]
    return lambda wv: (wv.v if file == "v" else wv.a)[index].view(dtype)


def lanewise(
    signature: str,
    table: Mapping[str, Callable[..., Any]],
    fidelity: Fidelity,
    source: str,
    *,
    keep: bool = False,
    clamps: bool = False,
    modal: bool = False,
    moves: bool = False,
) -> None:
    """Teach `{op: function}`: the function takes arrays of the signature's types and returns one of the result's type.

    A signature reads "f32 f32 mask -> f32". "mask" is a lane mask, "dst:f32" the destination's old value. `keep`: a
    16-bit result keeps the other half of its register. `clamps`: the function takes a keyword `clamp` and does
    integer saturation itself. `modal`: it takes a keyword `mode`. `moves`: it only moves bits, those of NaNs too.
    """
    words, out = (side.split() for side in signature.split("->"))
    for op, function in table.items():
        reads_dst = keep or any(word.startswith("dst:") for word in words)
        define(op, _builder(function, words, out[0], keep, clamps, modal, moves), fidelity, source, reads_dst=reads_dst)


def saturating(function: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """A function for `clamps`: `function`'s exact int64 result wrapped into `dtype`, or with `clamp` brought to its
    ends.
    """
    limits = np.iinfo(dtype)

    def applied(*operands: Any, clamp: bool = False) -> Any:
        wide = np.asarray(function(*operands), np.int64)
        return (np.clip(wide, limits.min, limits.max) if clamp else wide).astype(dtype)

    return applied


def _builder(
    function: Callable[..., Any], words: list[str], out: str, keep: bool, clamps: bool, modal: bool, moves: bool
) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        reads = reads_of(inst, words, context)
        applied = partial(function, mode=context.mode) if modal else function
        if inst["clamp"] and out[0] != "f":
            if not clamps:
                context.refuse(inst, "CLAMP of an integer result")
            applied = partial(function, clamp=True)

        if isinstance(applied, np.ufunc) and out in _DIRECT and _plain(inst, context):
            return _direct(applied, reads, inst, out)
        write = destination(inst, out, context, keep=keep, moves=moves)
        if out == "f16":
            return _half(applied, reads, write)
        return _general(applied, reads, write)

    return build


def _plain(inst: Instruction, context: Context) -> bool:
    """Whether the result goes into its VGPR as it is."""
    mode = context.mode
    changed = inst["omod"] or inst["clamp"] or mode.denorm_32 in (0, 1) or mode.round_32
    return inst.dst[0].file == "v" and "_" not in inst.encoding and not changed


def _direct(function: np.ufunc, reads: list[Read], inst: Instruction, out: str) -> Step:
    """The fast path: the ufunc writes straight into the register when every lane is on."""
    index = inst.dst[0].index
    name = {"f32": "vf", "i32": "vi"}.get(out, "v")
    floats = out == "f32"
    if len(reads) == 1:
        (only,) = reads

        def step1(wv: Cohort) -> None:
            register = getattr(wv, name)[index]
            if wv.full:
                function(only(wv), out=register)
                if floats:
                    canonical(register)
            else:
                value = function(only(wv))
                np.copyto(register, canonical(value) if floats else value, where=wv.mask)

        return step1
    first, second = reads

    def step2(wv: Cohort) -> None:
        register = getattr(wv, name)[index]
        if wv.full:
            function(first(wv), second(wv), out=register)
            if floats:
                canonical(register)
        else:
            value = function(first(wv), second(wv))
            np.copyto(register, canonical(value) if floats else value, where=wv.mask)

    return step2


def _half(function: Callable[..., Any], reads: list[Read], write: Callable[[Cohort, Any], None]) -> Step:
    """float16 results, which MODE.FP16_OVFL may keep finite."""

    def step(wv: Cohort) -> None:
        operands = [read(wv) for read in reads]
        write(wv, limited(wv, function(*operands), operands))

    return step


def _general(function: Callable[..., Any], reads: list[Read], write: Callable[[Cohort, Any], None]) -> Step:
    if len(reads) == 1:
        (a,) = reads
        return lambda wv: write(wv, function(a(wv)))
    if len(reads) == 2:
        a, b = reads
        return lambda wv: write(wv, function(a(wv), b(wv)))
    if len(reads) == 3:
        a, b, c = reads
        return lambda wv: write(wv, function(a(wv), b(wv), c(wv)))
    return lambda wv: write(wv, function(*(read(wv) for read in reads)))


def compare(signature: str, table: Mapping[str, Callable[..., Any]], fidelity: Fidelity, source: str) -> None:
    """Teach `{"lt_u32": predicate}` as v_cmp_lt_u32 and v_cmpx_lt_u32: the predicate's bool lanes go to a lane mask."""
    words = signature.split()
    for name, predicate in table.items():
        define(f"v_cmp_{name}", _compare_builder(predicate, words), fidelity, source)
        define(f"v_cmpx_{name}", _compare_builder(predicate, words), fidelity, source)


def _compare_builder(predicate: Callable[..., Any], words: list[str]) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        reads = reads_of(inst, words, context)
        write = mask_destination(inst.dst[0], inst, context)
        if inst["clamp"]:
            context.refuse(inst, "CLAMP of a compare (signalling)")
        sets_exec = inst.op.startswith("v_cmpx")

        def step(wv: Cohort) -> None:
            hits = np.asarray(predicate(*(read(wv) for read in reads)))
            if hits.shape != wv.mask.shape:
                hits = np.broadcast_to(hits, wv.mask.shape)
            write(wv, hits)
            if sets_exec:
                wv.set_exec(wv.pair(inst.dst[0].index))

        return step

    return build
