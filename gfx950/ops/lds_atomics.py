"""Atomics on LDS. Source: AMD CDNA4 ISA, "Data share operations"; names with RTN return the value from before."""

from dataclasses import replace

import numpy as np

from mxassay.gfx950.atomic_updates import FLOAT, INTEGER, Atomic, apply_atomic
from mxassay.gfx950.instruction import M0, Instruction
from mxassay.gfx950.ops.atomics import operands_of, put_old
from mxassay.gfx950.ops.lds import LdsPort, lds_offset
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_ISA = "AMD CDNA4 ISA, DS"


def _build(atomic: Atomic) -> Build:
    single = replace(atomic, operands=1)

    def build(inst: Instruction, context: Context) -> Step:
        port, offset = LdsPort(inst, context, "atomic", atomic.size), np.int64(lds_offset(inst))
        addr = inst.src[0].index
        data = [inst.operand(role) for role in ("data", "data1")[: atomic.operands]]
        target = inst.dst[0] if inst.dst else None

        def step(wv: Cohort) -> None:
            values = []
            for operand in data:
                assert operand is not None
                values += operands_of(wv, operand.file, operand.index, single)
            for spot in port.spots(wv, wv.v[addr] + offset, None if wv.full else wv.mask):
                before = apply_atomic(spot, atomic, values, target is not None)
                if before is not None:
                    assert target is not None
                    put_old(wv, target.file, target.index, before, spot[2])

        return step

    return build


def _exchange2(size: int, scale: int) -> Build:
    """Two swaps; offsets count items (times 64 in the "st64" form)."""
    atomic = INTEGER[size]["swap"]
    words = size // 4

    def build(inst: Instruction, context: Context) -> Step:
        port = LdsPort(inst, context, "atomic", size)
        data = [inst.operand("data"), inst.operand("data1")]
        offsets = [np.int64(inst[f"offset{part}"] * scale) for part in (0, 1)]
        addr, target = inst.src[0].index, inst.dst[0]

        def step(wv: Cohort) -> None:
            mask, found = None if wv.full else wv.mask, []
            for operand, offset in zip(data, offsets, strict=True):
                assert operand is not None
                values = operands_of(wv, operand.file, operand.index, atomic)
                for spot in port.spots(wv, wv.v[addr] + offset, mask):
                    found.append(apply_atomic(spot, atomic, values, True))
            for part, before in enumerate(found):
                assert before is not None
                put_old(wv, target.file, target.index + part * words, before, mask)

        return step

    return build


# M0 holds the base; 18 bits of it are inferred from 160 KiB of LDS.
_M0_BITS = np.uint32((1 << 18) - 1)


def _count(sign: int) -> Build:
    """DS_APPEND adds how many lanes are on, DS_CONSUME subtracts it; every lane gets the value from before."""
    atomic = INTEGER[4]["add"]

    def build(inst: Instruction, context: Context) -> Step:
        port, offset, target = LdsPort(inst, context, "atomic", 4), np.int64(lds_offset(inst)), inst.dst[0]

        def step(wv: Cohort) -> None:
            lanes = np.bitwise_count(wv.exec).astype(np.int64)[:, None]
            address = (wv.s[M0] & _M0_BITS).astype(np.int64)[:, None] + offset
            some = lanes > 0
            for spot in port.spots(wv, address, None if some.all() else some):
                before = apply_atomic(spot, atomic, [(sign * lanes).astype(np.uint32)], True)
                assert before is not None
                spread = np.broadcast_to(before, (wv.count, 64))
                put_old(wv, target.file, target.index, spread, None if wv.full else wv.mask)

        return step

    return build


# DS name -> our name of the update; most have a 32-bit and a 64-bit form.
_INTEGER = {
    "add_u": "add", "sub_u": "sub", "rsub_u": "rsub", "inc_u": "inc", "dec_u": "dec", "min_i": "smin", "max_i": "smax",
    "min_u": "umin", "max_u": "umax", "and_b": "and", "or_b": "or", "xor_b": "xor", "mskor_b": "mskor",
}  # fmt: skip


def _names(name: str, kind: str) -> tuple[str, str]:
    return f"ds_{name}_{kind}", f"ds_{name}_rtn_{kind}"


def _compared(size: int, item: object) -> Atomic:
    """DATA is the comparand and DATA2 the new value, the other way round than in global memory."""
    return Atomic(size, 2, lambda old, compare, data: np.where(old.view(item) == compare.view(item), data, old))


for _bits, _size in ((32, 4), (64, 8)):
    for _name, _known in _INTEGER.items():
        _operation, _letter = _name.split("_")
        define(_names(_operation, f"{_letter}{_bits}"), _build(INTEGER[_size][_known]), CERTAIN, _ISA)
    define(f"ds_wrxchg_rtn_b{_bits}", _build(INTEGER[_size]["swap"]), CERTAIN, _ISA)
    for _st64, _factor in (("", 1), ("st64", 64)):
        define(f"ds_wrxchg2{_st64}_rtn_b{_bits}", _exchange2(_size, _size * _factor), CERTAIN, _ISA)
    _unsigned = np.uint32 if _bits == 32 else np.uint64
    _float = np.float32 if _bits == 32 else np.float64
    define(_names("cmpst", f"b{_bits}"), _build(_compared(_size, _unsigned)), CERTAIN, _ISA)
    define(_names("cmpst", f"f{_bits}"), _build(_compared(_size, _float)), CERTAIN, _ISA)
    for _name in ("add", "min", "max"):
        _sure = INFERRED if _name == "add" else CERTAIN
        define(_names(_name, f"f{_bits}"), _build(FLOAT[f"{_name}_f{_bits}"]), _sure, f"{_ISA}; rounding: inferred")
for _kind in ("f16", "bf16"):
    define(_names("pk_add", _kind), _build(FLOAT[f"pk_add_{_kind}"]), INFERRED, f"{_ISA}; rounding: inferred")
define(
    "ds_wrap_rtn_b32",
    _build(Atomic(4, 2, lambda old, data, more: np.where(old >= data, old - data, old + more))),
    CERTAIN,
    _ISA,
)
define("ds_append", _count(1), INFERRED, "AMD CDNA4 ISA, DS_APPEND; LLVM's use of M0")
define("ds_consume", _count(-1), INFERRED, "AMD CDNA4 ISA, DS_CONSUME; LLVM's use of M0")
