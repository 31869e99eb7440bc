"""Which registers an instruction really reads and writes, and which counter tells when its data are there.

Registers of all files have one number: VGPRs 0-255, AGPRs 256-511, SGPRs from 512 (VCC, M0 and EXEC included), SCC 640.
Source: AMD CDNA4 ISA, "Kernel state", "Data dependency resolution"; LLVM SIInsertWaitcnts.
"""

import re
from dataclasses import dataclass

from mxassay.gfx950.instruction import EXEC, VCC, Instruction, Operand
from mxassay.gfx950.registry import lookup

__all__ = ["AGPRS", "REGISTERS", "SCC", "SGPRS", "Effects", "effects_of", "register_name"]

AGPRS, SGPRS, SCC, REGISTERS = 256, 512, 640, 641
_BASE = {"v": 0, "a": AGPRS, "s": SGPRS}
_MEMORY = ("MUBUF", "FLAT", "GLOBAL", "SCRATCH")
_LOADS = (*_MEMORY, "DS")
# VGPRs that a lane's block of 32 takes by CBSZ and BLGP: FP8, BF8, FP6, BF6, FP4 (AMD CDNA4 ISA, "Dense matrix
# F8F6F4").
_BLOCK_REGISTERS = {0: 8, 1: 8, 2: 6, 3: 6, 4: 4}
_SWAPS = re.compile(r"v_swap_|v_permlane(16|32)_swap")
# Operations that read lanes which EXEC has off.
_EVERY_LANE = re.compile(r"v_s?mfma|v_readlane|v_permlane|ds_\w*permute|ds_swizzle|ds_read_\w+_tr_")
_READS_SCC = re.compile(r"s_(addc|subb)_u32|s_c(select|mov)_|s_cmovk_|s_cbranch_scc")
_WRITES_SCC = re.compile(
    r"s_(add|sub|addc|subb)_[ui]32|s_(min|max|absdiff|abs)_|s_lshl\d_add_u32|s_(lshl|lshr|ashr|bfe)_|s_cmpk?_|s_bitcmp"
    r"|s_(and|or|xor|andn1|andn2|orn1|orn2|nand|nor|xnor|not|wqm|quadmask|bcnt[01])_|s_addk_"
)
_ACCUMULATES = re.compile(r"s_(addk|mulk|cmovk)_i32|s_cmov_b|s_bitset\d_b")
_NO_DATA = re.compile(r"buffer_(wbl2|inv)|s_(dcache|icache|sendmsg|memtime|memrealtime)|s_nop|s_waitcnt")


@dataclass(frozen=True, slots=True)
class Effects:
    """`reads` and `writes`: register numbers. The old value of a register that is written in part counts as read,
    but not for loads, which merge when their data come. `counter`: "vm", "lds", "smem", "flat" (vm and lds both) or ""
    where the results are there at once. `every_lane`: reads lanes that EXEC has off too."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    counter: str = ""
    every_lane: bool = False


def register_name(number: int) -> str:
    """
    >>> [register_name(number) for number in (3, 259, 517, 618, 640)]
    ['v3', 'a3', 's5', 'vcc_lo', 'scc']
    """
    if number == SCC:
        return "scc"
    file = "s" if number >= SGPRS else "a" if number >= AGPRS else "v"
    return str(Operand(file, number - _BASE[file]))


def effects_of(inst: Instruction) -> Effects:
    """What `inst` reads and writes, the parts that its fields switch off left out."""
    if _NO_DATA.match(inst.op):
        return Effects((), (), "smem" if inst.op.startswith(("s_sendmsg", "s_memtime", "s_memrealtime")) else "")
    known = lookup(inst.op)
    reads = [number for operand in inst.src for number in _read(operand, inst)]
    writes = [number for operand in inst.dst for number in _numbers(operand, operand.count)]
    if "_atomic_" in inst.op and inst.encoding in _MEMORY:
        data = inst.operand("vdata") if inst.encoding == "MUBUF" else inst.dst[0]
        assert data is not None
        width = 2 if inst.op.endswith(("_x2", "_f64")) else 1
        writes = _numbers(data, width) if inst["sc0"] else []
    if _SWAPS.match(inst.op):
        reads += writes
        writes = list(reads)
    elif (
        (known is not None and known.reads_dst and inst.encoding not in _LOADS)
        or inst.op.startswith("v_smfmac")
        or inst["dst_unused"] == 2
    ):
        reads += [number for operand in inst.dst[:1] for number in _numbers(operand, operand.count)]
    if inst.encoding.startswith("SOP"):
        if _ACCUMULATES.match(inst.op):
            reads += writes
        reads += [SCC] if _READS_SCC.match(inst.op) else []
        writes += [SCC] if _WRITES_SCC.match(inst.op) else []
        if "_saveexec_" in inst.op:
            reads += [SGPRS + EXEC, SGPRS + EXEC + 1]
            writes += [SGPRS + EXEC, SGPRS + EXEC + 1]
        if inst.op.startswith("s_cbranch_vcc"):
            reads += [SGPRS + VCC, SGPRS + VCC + 1]
    counter = _counter(inst)
    return Effects(
        tuple(dict.fromkeys(reads)),
        tuple(dict.fromkeys(writes)),
        counter,
        _EVERY_LANE.match(inst.op) is not None or "DPP" in inst.encoding,
    )


def _counter(inst: Instruction) -> str:
    if inst.encoding == "DS":
        return "lds"
    if inst.encoding == "FLAT":
        return "flat"
    if inst.encoding in _MEMORY:
        return "vm"
    return "smem" if inst.encoding == "SMEM" else ""


def _numbers(operand: Operand, count: int) -> list[int]:
    base = _BASE.get(operand.file)
    return [] if base is None else list(range(base + operand.index, base + operand.index + count))


def _read(operand: Operand, inst: Instruction) -> list[int]:
    """The registers that a source operand stands for under the instruction's other fields."""
    if operand.file == "special":
        return {"scc": [SCC], "vccz": [SGPRS + VCC, SGPRS + VCC + 1]}.get(str(operand.value), [])
    count = operand.count
    if operand.role == "vaddr" and inst.encoding == "MUBUF":
        count = inst["offen"] + inst["idxen"]
    elif operand.role == "addr" and inst.encoding == "SCRATCH":
        count = 1 if inst["sve"] else 0
    elif operand.role == "addr" and inst.encoding == "FLAT":
        count = 2
    elif inst.op.endswith("_f8f6f4") and operand.role in ("src0", "src1"):
        count = _BLOCK_REGISTERS.get(inst["cbsz" if operand.role == "src0" else "blgp"], count)
    return _numbers(operand, count)
