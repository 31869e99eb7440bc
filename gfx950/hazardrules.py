"""The software hazards of gfx950 as data: what must not follow what within how many wait states.

Sources: AMD CDNA3 ISA, 4.5 and 7.6 (the hazard tables) and LLVM's GCNHazardRecognizer.cpp, whose numbers for gfx950
differ from gfx942's where AMD's notes for the chip do. What the hardware interlocks (waitcnt counters, VALU to VALU
through VGPRs, SALU) has no rule here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mxassay.gfx950.footprint import NOTHING, SGPRS, Footprint, Registers
from mxassay.gfx950.instruction import EXEC, M0, VCC

_EXEC = frozenset({SGPRS + EXEC, SGPRS + EXEC + 1})
_VCC = frozenset({SGPRS + VCC, SGPRS + VCC + 1})
_M0 = frozenset({SGPRS + M0})


@dataclass(frozen=True, slots=True)
class Rule:
    """After `producer` touched a register, `consumer` may touch it only `wait_states` wait states later.

    `producer` and `consumer` name entries of ROLES. `pair` names a further condition on the two, an entry of PAIRS.
    `after_read` marks write-after-read rules: they outlive the register's next write. `disputed` says why a rule may be
    stricter than the hardware; "" for the others.
    """

    producer: str
    consumer: str
    wait_states: int
    source: str
    pair: str = "any"
    after_read: bool = False
    disputed: str = ""

    @property
    def only_reads(self) -> bool:
        """Whether the consumer does nothing to the register but read it: what it reads too early is wrong, no more."""
        return " reads " in f" {self.consumer} " and "writes" not in self.consumer


def _matrix_role(kind: str, passes: int) -> Callable[[Footprint], Registers]:
    return lambda f: f.vector_writes if f.matrix and (f.matrix.kind, f.matrix.passes) == (kind, passes) else NOTHING


def _matrix_c_role(passes: int) -> Callable[[Footprint], Registers]:
    return lambda f: f.matrix.c_reads if f.matrix and (f.matrix.kind, f.matrix.passes) == ("xdl", passes) else NOTHING


_KINDS = {"xdl": (2, 4, 8, 16), "sgemm": (2, 8, 16), "dgemm": (4, 16)}
_LABEL = {"xdl": "an XDL MFMA", "sgemm": "a float32 MFMA", "dgemm": "a float64 MFMA"}


def _writer(kind: str, passes: int) -> str:
    return f"{_LABEL[kind]} of {passes} passes writes a VGPR"


# What an instruction does, in words, and the registers that it does it to (none: it does not).
ROLES: dict[str, Callable[[Footprint], Registers]] = {
    "VALU writes a VGPR": lambda f: f.vector_writes if f.valu else NOTHING,
    "VALU other than MFMA and DOT writes a VGPR": lambda f: (
        f.vector_writes if f.valu and not f.matrix and not f.dot else NOTHING
    ),
    "VALU writes into a byte or half of a VGPR": lambda f: f.partial_writes,
    "a scaled conversion to F4 or F8 writes the low byte or half of a VGPR": lambda f: f.narrow_writes,
    "a transcendental writes a VGPR": lambda f: f.vector_writes if f.trans else NOTHING,
    "DOT writes a VGPR": lambda f: f.vector_writes if f.dot else NOTHING,
    "VALU writes an SGPR": lambda f: f.scalar_writes - _EXEC if f.valu else NOTHING,
    "VALU writes VCC": lambda f: f.scalar_writes & _VCC if f.valu else NOTHING,
    "VALU writes EXEC": lambda f: f.scalar_writes & _EXEC if f.valu else NOTHING,
    "V_CMPX writes EXEC": lambda f: f.scalar_writes & _EXEC if f.cmpx else NOTHING,
    "SALU writes M0": lambda f: f.scalar_writes & _M0 if f.salu else NOTHING,
    "S_SETREG writes a hardware register": lambda f: f.mode_write,
    "a store of more than 64 bits reads its data": lambda f: NOTHING if f.store_offset_register else f.wide_store,
    "a buffer store of more than 64 bits with an SGPR offset reads its data": lambda f: (
        f.wide_store if f.store_offset_register else NOTHING
    ),
    "VALU reads or writes it": lambda f: f.vector_reads | f.vector_writes if f.valu else NOTHING,
    "VALU that is no transcendental reads it": lambda f: (
        f.vector_reads | f.partial_writes if f.valu and not f.trans else NOTHING
    ),
    "VALU reads it as an operand": lambda f: f.vector_reads if f.valu else NOTHING,
    "VALU writes it": lambda f: f.vector_writes if f.valu else NOTHING,
    "MFMA reads it": lambda f: f.vector_reads if f.matrix else NOTHING,
    "MFMA reads it as SrcA or SrcB": lambda f: f.matrix.ab_reads if f.matrix else NOTHING,
    "XDL MFMA reads it as SrcC": lambda f: f.matrix.c_reads if f.matrix and f.matrix.kind == "xdl" else NOTHING,
    "float32 or float64 MFMA reads it as SrcC": lambda f: (
        f.matrix.c_reads if f.matrix and f.matrix.kind != "xdl" else NOTHING
    ),
    "MFMA reads it as SrcC": lambda f: f.matrix.c_reads if f.matrix else NOTHING,
    "MFMA runs": lambda f: _EXEC if f.matrix else NOTHING,
    "VALU other than MFMA reads it": lambda f: f.vector_reads if f.valu and not f.matrix else NOTHING,
    "a memory instruction reads it": lambda f: f.vector_reads if f.vmem or f.lds else NOTHING,
    "VALU other than MFMA or a memory instruction reads it": lambda f: (
        f.vector_reads if not f.matrix and (f.valu or f.vmem or f.lds) else NOTHING
    ),
    "VALU other than MFMA or a memory instruction writes it": lambda f: (
        f.vector_writes if not f.matrix and (f.valu or f.vmem or f.lds) else NOTHING
    ),
    "VMEM reads it": lambda f: f.scalar_reads if f.vmem else NOTHING,
    "VALU reads it": lambda f: f.scalar_reads if f.valu else NOTHING,
    "V_DIV_FMAS reads it": lambda f: _VCC if f.op.startswith("v_div_fmas") else NOTHING,
    "VALU reads EXECZ": lambda f: _EXEC if f.valu and "execz" in f.special_reads else NOTHING,
    "VALU reads VCCZ": lambda f: _VCC if f.valu and "vccz" in f.special_reads else NOTHING,
    "V_READLANE or V_WRITELANE selects the lane by it": lambda f: f.lane_select,
    "V_READLANE or V_READFIRSTLANE reads it": lambda f: f.vector_reads if f.lane_read else NOTHING,
    "V_READLANE, V_READFIRSTLANE or V_WRITELANE runs": lambda f: _EXEC if f.lane_access else NOTHING,
    "DPP reads it": lambda f: f.dpp_reads,
    "DPP runs": lambda f: _EXEC if f.dpp else NOTHING,
    "V_PERMLANE reads it": lambda f: f.vector_reads if f.permlane else NOTHING,
    "V_PERMLANE runs": lambda f: _EXEC if f.permlane else NOTHING,
    "an add-TID, GWS, message or MOVREL instruction reads it": lambda f: _M0 if f.reads_m0_early else NOTHING,
    "a load into LDS reads it": lambda f: _M0 if f.lds_dma else NOTHING,
    "S_GETREG reads it": lambda f: f.mode_read,
    "S_SETREG writes it": lambda f: f.mode_write,
} | {_writer(kind, passes): _matrix_role(kind, passes) for kind, counts in _KINDS.items() for passes in counts}
ROLES |= {f"an XDL MFMA of {passes} passes reads SrcC": _matrix_c_role(passes) for passes in _KINDS["xdl"]}

# A further condition on (producer, consumer).
PAIRS: dict[str, Callable[[Footprint, Footprint], bool]] = {
    "any": lambda producer, consumer: True,
    "SrcC is the whole result": lambda p, c: p.matrix is not None and c.matrix is not None and p.matrix.d == c.matrix.c,
    "SrcC overlaps the result in part": lambda p, c: (
        p.matrix is not None and c.matrix is not None and p.matrix.d != c.matrix.c
    ),
    "both 4x4x4 float64": lambda p, c: (
        p.matrix is not None
        and c.matrix is not None
        and p.matrix.d == c.matrix.c
        and (p.matrix.kind, p.matrix.passes) == (c.matrix.kind, c.matrix.passes) == ("dgemm", 4)
    ),
    "of another opcode": lambda p, c: p.op != c.op,
}

_ISA = "AMD CDNA3 ISA, 4.5"
_CO_EXEC = "AMD CDNA3 ISA, 4.5; LLVM hasVDecCoExecHazard"
_MATRIX = "LLVM checkMAIHazards90A, checkMAIVALUHazards"
_950 = "LLVM PR #117285, #126132 (gfx950)"
_READ, _WRITE = (
    "VALU other than MFMA or a memory instruction reads it",
    "VALU other than MFMA or a memory instruction writes it",
)
_PARTIAL, _WHOLE = "SrcC overlaps the result in part", "SrcC is the whole result"

_GENERAL = (
    Rule("VALU writes into a byte or half of a VGPR", "VALU reads or writes it", 1, "LLVM PR #117844, #118589"),
    # AMD's notes ask for it whatever the OPSEL; LLVM 24 leaves it out at OPSEL 0. A conversion that merges its own byte
    # into the register is no reader here: LLVM emits that chain in every cast to FP8.
    Rule(
        "a scaled conversion to F4 or F8 writes the low byte or half of a VGPR",
        "VALU reads it as an operand",
        1,
        "AMD's gfx950 notes in LLVM PR #117844, #140218",
    ),
    Rule(
        "a transcendental writes a VGPR", "VALU that is no transcendental reads it", 1, "LLVM hasTransForwardingHazard"
    ),
    Rule("VALU other than MFMA and DOT writes a VGPR", "MFMA reads it", 2, _MATRIX),
    Rule("VALU writes EXEC", "MFMA runs", 4, _MATRIX),
    Rule("VALU writes an SGPR", "VMEM reads it", 5, _ISA),
    Rule(
        "VALU writes an SGPR",
        "VALU reads it",
        2,
        "LLVM hasVDecCoExecHazard",
        disputed="AMD's own gfx950 kernels (aiter pa, fmoe) don't keep it",
    ),
    Rule("VALU writes VCC", "V_DIV_FMAS reads it", 4, _ISA),
    Rule("VALU writes EXEC", "VALU reads EXECZ", 5, _ISA),
    Rule("VALU writes VCC", "VALU reads VCCZ", 5, _ISA),
    Rule("VALU writes an SGPR", "V_READLANE or V_WRITELANE selects the lane by it", 4, _ISA),
    Rule("VALU writes a VGPR", "V_READLANE or V_READFIRSTLANE reads it", 1, _CO_EXEC),
    Rule("VALU writes EXEC", "V_READLANE, V_READFIRSTLANE or V_WRITELANE runs", 4, _CO_EXEC),
    Rule("VALU writes a VGPR", "DPP reads it", 2, _ISA),
    Rule("VALU writes EXEC", "DPP runs", 5, _ISA),
    Rule("VALU writes a VGPR", "V_PERMLANE reads it", 2, "LLVM PR #117287"),
    Rule("V_CMPX writes EXEC", "V_PERMLANE runs", 4, "LLVM PR #117286"),
    Rule("SALU writes M0", "an add-TID, GWS, message or MOVREL instruction reads it", 1, _ISA),
    Rule(
        "SALU writes M0",
        "a load into LDS reads it",
        1,
        "AMD CDNA3 ISA, 4.5; LLVM hasReadM0LdsDmaHazard",
        disputed="AMD's own gfx950 kernels (aiter f4gemm) don't keep it",
    ),
    Rule("S_SETREG writes a hardware register", "S_GETREG reads it", 2, _ISA),
    Rule("S_SETREG writes a hardware register", "S_SETREG writes it", 2, _ISA),
    Rule("a store of more than 64 bits reads its data", "VALU writes it", 2, _ISA, after_read=True),
    Rule(
        "a buffer store of more than 64 bits with an SGPR offset reads its data",
        "VALU writes it",
        1,
        "LLVM PR #197267 (measured on gfx950)",
        after_read=True,
    ),
    Rule("DOT writes a VGPR", _READ, 3, _MATRIX, "of another opcode"),
    Rule("DOT writes a VGPR", _WRITE, 3, _MATRIX, "of another opcode"),
)


def _xdl(passes: int) -> tuple[Rule, ...]:
    writes = _writer("xdl", passes)
    long = passes + 3 + (passes != 2)
    return (
        Rule(writes, _READ, long, _950),
        Rule(writes, _WRITE, long, _950),
        Rule(writes, "MFMA reads it as SrcA or SrcB", long, _950),
        Rule(writes, "XDL MFMA reads it as SrcC", passes + 2, _950, _PARTIAL),
        Rule(writes, "float32 or float64 MFMA reads it as SrcC", passes + 1 + (passes != 2), _950, _PARTIAL),
        Rule(f"an XDL MFMA of {passes} passes reads SrcC", _WRITE, passes - 1, _MATRIX, after_read=True),
    )


def _sgemm(passes: int) -> tuple[Rule, ...]:
    writes = _writer("sgemm", passes)
    return (
        Rule(writes, _READ, passes + 2, _MATRIX),
        Rule(writes, _WRITE, passes + 2, _MATRIX),
        Rule(writes, "MFMA reads it as SrcA or SrcB", passes + 2, _MATRIX),
        Rule(writes, "float32 or float64 MFMA reads it as SrcC", passes, _MATRIX, _PARTIAL),
    )


def _dgemm(passes: int, vector: int, memory: int, write: int, ab: int, c: int) -> tuple[Rule, ...]:
    writes = _writer("dgemm", passes)
    source = "LLVM PR #117262 (gfx950)" if passes == 16 else _MATRIX
    return (
        Rule(writes, "VALU other than MFMA reads it", vector, source),
        Rule(writes, "a memory instruction reads it", memory, source),
        Rule(writes, _WRITE, write, source),
        Rule(writes, "MFMA reads it as SrcA or SrcB", ab, source),
        Rule(writes, "float32 or float64 MFMA reads it as SrcC", c, source, _PARTIAL),
    )


RULES: tuple[Rule, ...] = (
    *_GENERAL,
    *(rule for passes in _KINDS["xdl"] for rule in _xdl(passes)),
    *(rule for passes in _KINDS["sgemm"] for rule in _sgemm(passes)),
    *_dgemm(4, vector=6, memory=9, write=6, ab=6, c=4),
    *_dgemm(16, vector=19, memory=18, write=11, ab=19, c=17),
    Rule(_writer("xdl", 2), "MFMA reads it as SrcC", 2, _MATRIX, _WHOLE),
    Rule(_writer("sgemm", 2), "MFMA reads it as SrcC", 2, _MATRIX, _WHOLE),
    Rule(_writer("dgemm", 4), "MFMA reads it as SrcC", 4, _MATRIX, "both 4x4x4 float64"),
)
