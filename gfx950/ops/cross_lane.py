"""Data between lanes, and between lanes and scalars. Source: AMD CDNA4 ISA, "VOP1", "VOP3", "DS"."""

import numpy as np

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.operands import destination, raw, source
from mxassay.gfx950.registry import CERTAIN, Build, Context, Step, define, semantics
from mxassay.gfx950.scalarwise import scalar_destination, scalar_source
from mxassay.gfx950.wave import Cohort


@semantics("v_readfirstlane_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_READFIRSTLANE_B32")
def _read_first(inst: Instruction, context: Context) -> Step:
    """The lowest lane that is on, lane 0 when none is."""
    read, write = raw(inst.src[0], inst, context), scalar_destination(inst.dst[0], "u32", inst, context)

    def step(wv: Cohort) -> None:
        lanes = np.broadcast_to(read(wv), wv.mask.shape)
        write(wv, lanes[:, 0] if wv.full else lanes[np.arange(wv.count), wv.mask.argmax(axis=1)])

    return step


@semantics("v_readlane_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_READLANE_B32")
def _read_lane(inst: Instruction, context: Context) -> Step:
    read, write = raw(inst.src[0], inst, context), scalar_destination(inst.dst[0], "u32", inst, context)
    select = scalar_source(inst.src[1], "u32", inst, context)
    return lambda wv: write(wv, read(wv)[np.arange(wv.count), select(wv) & np.uint32(63)])


@semantics("v_writelane_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_WRITELANE_B32", reads_dst=True)
def _write_lane(inst: Instruction, context: Context) -> Step:
    read, select = (scalar_source(operand, "u32", inst, context) for operand in inst.src[:2])
    index = inst.dst[0].index

    def step(wv: Cohort) -> None:
        wv.v[index][np.arange(wv.count), select(wv) & np.uint32(63)] = read(wv)

    return step


def _swap(rows: int) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        """Lanes of the odd groups of `rows` lanes of VDST change places with the even groups of SRC0."""
        first, second = inst.dst[0].index, inst.src[0].index

        def step(wv: Cohort) -> None:
            if not wv.full:
                context.refuse(inst, "a swap with lanes off (the pseudocode doesn't mention EXEC)")
            shape = (wv.count, 64 // (2 * rows), 2, rows)
            a, b = wv.v[first].reshape(shape), wv.v[second].reshape(shape)
            a[:, :, 1], b[:, :, 0] = b[:, :, 0].copy(), a[:, :, 1].copy()

        return step

    return build


for _rows in (16, 32):
    define(
        f"v_permlane{_rows}_swap_b32",
        _swap(_rows),
        CERTAIN,
        f"AMD CDNA4 ISA, V_PERMLANE{_rows}_SWAP_B32",
        reads_dst=True,
    )


def _count_below(high: bool) -> Build:
    below = np.array([(1 << min(max(lane - 32 * high, 0), 32)) - 1 for lane in range(64)], np.uint32)

    def build(inst: Instruction, context: Context) -> Step:
        """Set bits of S0 that stand for lanes below this one, in the low or high half of a wave, plus S1."""
        bits, start = source(inst, 0, "u32", context), source(inst, 1, "u32", context)
        write = destination(inst, "u32", context)
        return lambda wv: write(wv, np.bitwise_count(bits(wv) & below).astype(np.uint32) + start(wv))

    return build


for _name, _high in (("lo", False), ("hi", True)):
    define(f"v_mbcnt_{_name}_u32_b32", _count_below(_high), CERTAIN, "AMD CDNA4 ISA, V_MBCNT_LO_U32_B32")
