"""What an instruction touches: registers read and written and the class of unit it runs on, for the wait-state rules.

Registers of every file get one number: VGPRs 0-255, AGPRs 256-511, SGPRs from 512 (VCC, M0 and EXEC included), hardware
registers from 1024.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from mxassay.gfx950.instruction import Instruction, Operand

AGPRS, SGPRS, HARDWARE = 256, 512, 1024
NOTHING: frozenset[int] = frozenset()
Registers = frozenset[int]

# Quarter-rate operations of the transcendental unit (LLVM VOP1Instructions.td, TRANS).
_TRANS = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos|exp_legacy|log_legacy)_f(16|32|64)")
# Conversions whose OPSEL picks the byte or half of the result that they write.
_NARROW_CONVERSION = re.compile(r"v_cvt_(scalef32_)?(sr_)?(pk_)?(fp4|fp8|bf8)_")
# The scaled ones of gfx950, and those among them that LLVM keeps apart from their readers at OPSEL 0 too.
_SCALED_CONVERSION = re.compile(r"v_cvt_scalef32_(sr_)?(pk_)?(fp4|fp8|bf8)_")
_STOCHASTIC_FP4 = re.compile(r"v_cvt_scalef32_sr_pk_fp4_")
# Operations that read their destination too.
_ACCUMULATES = re.compile(r"v_(pk_)?(fmac|mac|dot\d+c)_|v_writelane")
_SWAPS = re.compile(r"v_swap_|v_permlane(16|32)_swap")
_LANE_READ = frozenset({"v_readlane_b32", "v_readfirstlane_b32"})
_LANE_SELECT = frozenset({"v_readlane_b32", "v_writelane_b32"})
_READS_M0 = re.compile(r"ds_(read|write)_addtid_b32|s_sendmsg(halt)?|s_ttracedata|ds_gws_.*|s_movrel[sd]_.*")
_MFMA_SHAPE = re.compile(r"v_s?mfmac?_(?:scale_)?([fi]\d+)_(\d+)x(\d+)x(\d+)_?(.*)")
_VECTOR_MEMORY = ("MUBUF", "MTBUF", "FLAT", "GLOBAL", "SCRATCH")
_DWORD = 6


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix instruction. `kind` is "xdl", "sgemm" (float32 inputs) or "dgemm"; a pass takes four cycles.

    `d` and `c` are (first register, count) of the result and of SrcC, None where SrcC is a constant.
    """

    kind: str
    passes: int
    d: tuple[int, int]
    c: tuple[int, int] | None
    ab_reads: Registers
    c_reads: Registers


@dataclass(frozen=True, slots=True)
class Footprint:
    op: str
    wait_states: int
    valu: bool
    salu: bool
    vmem: bool
    lds: bool
    trans: bool
    dot: bool
    dpp: bool
    cmpx: bool
    permlane: bool
    vector_reads: Registers
    dpp_reads: Registers
    vector_writes: Registers
    partial_writes: Registers
    narrow_writes: Registers
    scalar_reads: Registers
    scalar_writes: Registers
    wide_store: Registers
    store_offset_register: bool
    lane_select: Registers
    special_reads: frozenset[str]
    lds_dma: bool
    reads_m0_early: bool
    mode_read: Registers
    mode_write: Registers
    matrix: Matrix | None

    @property
    def lane_read(self) -> bool:
        return self.op in _LANE_READ

    @property
    def lane_access(self) -> bool:
        return self.op in _LANE_READ or self.op == "v_writelane_b32"


def register_name(register: int) -> str:
    """
    >>> [register_name(number) for number in (3, 259, 517, 618, 1025)]
    ['v3', 'a3', 's5', 'vcc_lo', 'hwreg(1)']
    """
    if register >= HARDWARE:
        return f"hwreg({register - HARDWARE})"
    file = "s" if register >= SGPRS else "a" if register >= AGPRS else "v"
    return str(Operand(file, register % 256 if file != "s" else register - SGPRS))


def footprint_of(inst: Instruction) -> Footprint:
    """What `inst` touches; its pc does not matter."""
    return _footprint(inst.op, inst.encoding, inst.dst, inst.src, tuple(sorted(inst.mods.items())))


@lru_cache(maxsize=1 << 14)
def _footprint(
    op: str, encoding: str, dst: tuple[Operand, ...], src: tuple[Operand, ...], fields: tuple[tuple[str, int], ...]
) -> Footprint:
    mods = dict(fields)
    valu, vmem = encoding.startswith("VOP"), encoding.startswith(_VECTOR_MEMORY)
    if op.startswith(("buffer_inv", "buffer_wb", "s_nop")):
        dst, src = (), ()
    reads, writes = _vector(src), _vector(dst)
    if _SWAPS.match(op):
        reads = writes = reads | writes
    partial = writes if valu and _writes_part(op, encoding, mods) else NOTHING
    if _ACCUMULATES.match(op):
        reads |= writes
    data = [operand for operand in src if operand.role in ("data", "vdata")] if vmem else []
    wide = _vector(tuple(operand for operand in data if operand.count > 2))
    soffset = next((operand for operand in src if operand.role == "soffset"), None)
    lds_dma = vmem and any(operand.role == "m0" for operand in src)
    hardware = frozenset({HARDWARE + (mods.get("simm16", 0) & 63)})
    return Footprint(
        op=op,
        wait_states=mods.get("simm16", 0) % 16 + 1 if op == "s_nop" else 1,
        valu=valu,
        salu=encoding.startswith("SOP"),
        vmem=vmem,
        lds=encoding == "DS",
        trans=valu and _TRANS.fullmatch(op) is not None,
        dot=op.startswith("v_dot"),
        dpp="DPP" in encoding,
        cmpx=op.startswith("v_cmpx"),
        permlane=op.startswith("v_permlane"),
        vector_reads=reads,
        dpp_reads=_vector(tuple(o for o in src if o.role == "src0")) if "DPP" in encoding else NOTHING,
        vector_writes=writes,
        partial_writes=partial,
        narrow_writes=writes - partial if _SCALED_CONVERSION.match(op) else NOTHING,
        scalar_reads=_scalar(src),
        scalar_writes=_scalar(dst),
        wide_store=wide,
        store_offset_register=soffset is not None and soffset.file == "s",
        lane_select=_scalar(tuple(o for o in src if o.role == "src1")) if op in _LANE_SELECT else NOTHING,
        special_reads=frozenset(str(operand.value) for operand in src if operand.file == "special"),
        lds_dma=lds_dma,
        reads_m0_early=_READS_M0.fullmatch(op) is not None,
        mode_read=hardware if op == "s_getreg_b32" else NOTHING,
        mode_write=hardware if op.startswith("s_setreg") else NOTHING,
        matrix=_matrix(op, dst, src, mods),
    )


def _writes_part(op: str, encoding: str, mods: dict[str, int]) -> bool:
    """Whether the result is shifted into a byte or half of the register (LLVM getDstSelForwardingOperand)."""
    if "SDWA" in encoding:
        return mods.get("dst_sel", _DWORD) != _DWORD
    if not encoding.startswith("VOP3") or encoding.startswith("VOP3P"):
        return False
    op_sel = mods.get("op_sel", 0)
    if _NARROW_CONVERSION.match(op):
        return bool(op_sel & 12) or _STOCHASTIC_FP4.match(op) is not None
    return bool(op_sel & 8)


def _registers(operand: Operand) -> range:
    base = {"v": 0, "a": AGPRS, "s": SGPRS}[operand.file]
    return range(base + operand.index, base + operand.index + operand.count)


def _vector(operands: tuple[Operand, ...]) -> Registers:
    return frozenset(chain.from_iterable(_registers(operand) for operand in operands if operand.file in "va"))


def _scalar(operands: tuple[Operand, ...]) -> Registers:
    return frozenset(chain.from_iterable(_registers(operand) for operand in operands if operand.file == "s"))


def _matrix(op: str, dst: tuple[Operand, ...], src: tuple[Operand, ...], mods: dict[str, int]) -> Matrix | None:
    shape = _MFMA_SHAPE.fullmatch(op)
    if shape is None:
        return None
    result, rows, k, inputs = shape[1], int(shape[2]), int(shape[4]), shape[5]
    kind = "dgemm" if result == "f64" else "sgemm" if inputs.endswith("f32") and "xf32" not in inputs else "xdl"
    ab = tuple(o for o in src if o.role != "src2")
    c = next((o for o in src if o.role == "src2" and o.is_register), None)
    if op.startswith("v_smfmac"):
        # The sparse forms add into their destination; SRC2 is the index register.
        ab, c = src, dst[0]
    d = _registers(dst[0])
    return Matrix(
        kind=kind,
        passes=_passes(op.startswith("v_smfmac"), kind, rows, k, mods),
        d=(d.start, len(d)),
        c=(_registers(c).start, c.count) if c else None,
        ab_reads=_vector(ab),
        c_reads=_vector((c,)) if c else NOTHING,
    )


def _passes(sparse: bool, kind: str, rows: int, k: int, mods: dict[str, int]) -> int:
    """Passes of a matrix instruction on gfx950 (LLVM SISchedule.td, SIDPGFX950FullSpeedModel)."""
    if kind == "dgemm":
        return 4 if rows == 4 else 16
    if rows == 4:
        return 2
    if sparse:
        return 4 if rows == 16 else 8
    if k in (64, 128) and k * rows == 2048:
        # Either matrix in an 8-bit format (CBSZ or BLGP 0 or 1) doubles the time.
        eight_bit = min(mods.get("cbsz", 0), mods.get("blgp", 0)) <= 1
        return (8 if eight_bit else 4) * (rows // 16)
    if rows == 16:
        return 8 if k <= 4 else 4
    return 16 if k <= 4 else 8
