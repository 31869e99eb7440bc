"""Every ALU instruction in every encoding, as assembly text with the operands in fixed registers.

Operand types and widths come from AMD's machine-readable ISA (tinygrad's OPERANDS); whether gfx950 has a form, LLVM
says.
"""

import functools
from dataclasses import dataclass

from assemble import AssemblyError, machine_code
from pcode_state import plain_name
from tinygrad.runtime.autogen.amd.cdna import enum as amd
from tinygrad.runtime.autogen.amd.cdna.operands import OPERANDS

ENCODINGS = {
    "SOP1": amd.SOP1Op,
    "SOP2": amd.SOP2Op,
    "SOPC": amd.SOPCOp,
    "SOPK": amd.SOPKOp,
    "VOP1": amd.VOP1Op,
    "VOP2": amd.VOP2Op,
    "VOPC": amd.VOPCOp,
    "VOP3": amd.VOP3Op,
    "VOP3SD": amd.VOP3SDOp,
    "VOP3P": amd.VOP3POp,
}
# First registers. The widest operands (V_CVT_SCALEF32_PK32_*) span 32.
VECTOR = {"S0": 16, "S1": 48, "S2": 80, "D": 96}
SCALAR = {"S0": 32, "S1": 34, "S2": 36, "D": 38}
LITERAL = 0x4048F5C3
SIMM16 = 0x8765
# LLVM's names where they are not AMD's. gfx950 has the fused V_FMA_MIX at V_MAD_MIX's opcodes.
RENAMED = {
    "V_MAD_MIX_F32": "v_fma_mix_f32",
    "V_MAD_MIXLO_F16": "v_fma_mixlo_f16",
    "V_MAD_MIXHI_F16": "v_fma_mixhi_f16",
}
# Not ALU instructions: they move the pc, or registers by a number in M0, or hardware registers.
CONTROL = {
    "S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64", "S_RFE_B64", "S_CALL_B64", "S_CBRANCH_JOIN", "S_CBRANCH_G_FORK",
    "S_CBRANCH_I_FORK", "S_MOVRELS_B32", "S_MOVRELS_B64", "S_MOVRELD_B32", "S_MOVRELD_B64", "S_SETVSKIP",
    "S_SET_GPR_IDX_IDX", "S_SET_GPR_IDX_ON", "S_GETREG_B32", "S_SETREG_B32", "S_SETREG_IMM32_B32", "S_RFE_RESTORE_B64",
    "V_NOP", "V_CLREXCP", "V_SCREEN_PARTITION_4SE_B32",
}  # fmt: skip
MATRIX = ("MFMA", "SMFMAC", "ACCVGPR")


@dataclass(frozen=True)
class Operand:
    """`slot` is the pseudocode's name (S0, S1, S2, D); `format` AMD's type ("f32", "pk2_f16"); `bits` its size."""

    slot: str
    format: str
    bits: int
    scalar: bool = False

    @property
    def words(self) -> int:
        return max(1, -(-self.bits // 32))


@dataclass(frozen=True)
class Form:
    """One instruction in one encoding."""

    name: str
    encoding: str
    destination: Operand | None
    sources: tuple[Operand, ...]

    @property
    def scalar(self) -> bool:
        return self.encoding.startswith("SOP")

    @property
    def carry_out(self) -> bool:
        return self.encoding == "VOP3SD" or (self.encoding == "VOP2" and "_CO_U32" in self.name)

    @property
    def carry_in(self) -> bool:
        """VCC is read as a lane mask, in VOP3 the third source in its place."""
        return self.name.startswith(("V_ADDC_CO", "V_SUBB_CO", "V_SUBBREV_CO", "V_CNDMASK"))

    @property
    def compares(self) -> bool:
        return self.name.startswith("V_CMP")

    def __str__(self) -> str:
        return f"{self.name}/{self.encoding}"

    def text(self, replace: dict[str, str] | None = None, mods: str = "") -> str:
        """Assembly, with the text of some sources replaced (`{"S0": "s[32:33]"}`) and modifiers appended."""
        replace = replace or {}
        mnemonic = RENAMED.get(self.name, self.name.lower()) + self._suffix()
        operands = []
        if self.destination is not None:
            operands.append(register(self.destination))
        if self.carry_out:
            operands.append("vcc" if self.encoding == "VOP2" else "s[38:39]")
        if self.encoding == "VOPC":
            operands.append("vcc")
        for source in self.sources:
            operands.append(replace.get(source.slot, register(source)))
        if self.encoding == "SOPK":
            operands.append(hex(SIMM16))
        if "MK_F" in self.name:
            operands.insert(2, self._literal())
        if "AK_F" in self.name:
            operands.append(self._literal())
        if self.carry_in and self.encoding == "VOP2":
            operands.append("vcc")
        return f"{mnemonic} {', '.join(operands)} {mods}".strip()

    def _literal(self) -> str:
        return hex(LITERAL & 0xFFFF if self.name.endswith("F16") else LITERAL)

    def _suffix(self) -> str:
        if self.encoding in ("VOP1", "VOP2", "VOPC"):
            return "_e32"
        return "_e64" if self.encoding in ("VOP3", "VOP3SD") and self.name in short_names() else ""

    def assembles(self, replace: dict[str, str] | None = None, mods: str = "") -> bool:
        try:
            machine_code(self.text(replace, mods))
        except AssemblyError:
            return False
        return True


@functools.cache
def short_names() -> frozenset[str]:
    return frozenset(plain_name(op.name) for e in ("VOP1", "VOP2", "VOPC") for op in ENCODINGS[e])


def register(operand: Operand) -> str:
    file, first = ("s", SCALAR[operand.slot]) if operand.scalar else ("v", VECTOR[operand.slot])
    return f"{file}{first}" if operand.words == 1 else f"{file}[{first}:{first + operand.words - 1}]"


def form_of(op: object, encoding: str) -> Form:
    fields = OPERANDS[op]

    def operand(field: str, slot: str) -> Operand:
        fmt, bits, kind = fields[field]
        scalar = encoding.startswith("SOP") or "SREG" in kind.name or "SDST" in kind.name or "SSRC" in kind.name
        return Operand(slot, fmt.name.lower().removeprefix("fmt_").removeprefix("num_"), bits, scalar)

    destination = next((operand(f, "D") for f in ("vdst", "sdst") if f in fields), None)
    if encoding == "SOP1" and destination is not None and "sdst" not in fields:
        destination = None
    names = {"S0": ("src0", "ssrc0"), "S1": ("src1", "vsrc1", "ssrc1"), "S2": ("src2",)}
    sources = tuple(operand(f, slot) for slot, candidates in names.items() for f in candidates if f in fields)
    return Form(plain_name(op.name), encoding, destination, sources)


@functools.cache
def every_form() -> tuple[Form, ...]:
    """All forms in AMD's tables, matrix and control instructions left out."""
    found = []
    for encoding, enum in ENCODINGS.items():
        for op in enum:
            name = plain_name(op.name)
            if op in OPERANDS and name not in CONTROL and not any(word in name for word in MATRIX):
                found.append(form_of(op, encoding))
    return tuple(found)


@functools.cache
def gfx950_forms() -> tuple[Form, ...]:
    """Those that LLVM assembles for gfx950 into the encoding asked for."""
    return tuple(form for form in every_form() if form.assembles())
