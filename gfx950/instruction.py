"""One decoded instruction, in words that the semantics read. Nothing here knows who decoded it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["EXEC", "M0", "VCC", "Instruction", "Operand"]

# SGPR numbers of the special registers (AMD CDNA4 ISA, "Scalar ALU operands").
VCC, M0, EXEC = 106, 124, 126
_SGPR_NAMES = {
    102: "flat_scratch_lo", 103: "flat_scratch_hi", 104: "xnack_mask_lo", 105: "xnack_mask_hi",
    106: "vcc_lo", 107: "vcc_hi", 124: "m0", 126: "exec_lo", 127: "exec_hi",
}  # fmt: skip
_SGPR_PAIRS = {102: "flat_scratch", 104: "xnack_mask", 106: "vcc", 126: "exec"}


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as the encoding names it.

    `file` is "v" (VGPR), "a" (AGPR), "s" (SGPR by its encoding number, with VCC 106, M0 124, EXEC 126), "int" and
    "float" (inline constants), "literal" (the 32-bit word after the instruction), "special" (a named read-only value)
    or "off" (an address part that is absent). `index` is the first register and `count` how many 32-bit registers;
    `value` is the constant, or the special's name; `role` is the encoding's field ("src0", "saddr", "data1", ...);
    `format` is the type in AMD's machine-readable ISA ("u32", "f16", "pk2_bf16", "b64", "m64", ..., "any").
    """

    file: str
    index: int = 0
    count: int = 1
    value: int | float | str = 0
    role: str = ""
    format: str = "any"

    @property
    def is_register(self) -> bool:
        return self.file in ("v", "a", "s")

    def __str__(self) -> str:
        if self.file == "s":
            return self._sgpr()
        if self.file in ("v", "a"):
            last = self.index + self.count - 1
            return f"{self.file}{self.index}" if self.count == 1 else f"{self.file}[{self.index}:{last}]"
        if self.file == "literal":
            return f"{self.value:#x}"
        return "off" if self.file == "off" else str(self.value)

    def _sgpr(self) -> str:
        if self.count == 2 and self.index in _SGPR_PAIRS:
            return _SGPR_PAIRS[self.index]
        if self.index in _SGPR_NAMES:
            return _SGPR_NAMES[self.index]
        file, index = ("ttmp", self.index - 108) if 108 <= self.index < 124 else ("s", self.index)
        return f"{file}{index}" if self.count == 1 else f"{file}[{index}:{index + self.count - 1}]"


@dataclass(frozen=True)
class Instruction:
    """One instruction at virtual address `pc`, `size` bytes long.

    `op` is AMD's mnemonic in lower case without an encoding suffix ("v_add_u32"); `encoding` is the form: "SOP1",
    "SOP2", "SOPC", "SOPK", "SOPP", "SMEM", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VOP3P_MFMA",
    "VOP3PX2", "DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF", with "_SDWA" or "_DPP" where it applies (literals are
    operands, not encodings). `dst` and `src` hold the operands in the order of AMD's syntax, implicit VCC included,
    so that a short and a long encoding of one operation look alike; a memory instruction has its data in `dst`
    (loads) or `src` (stores) and each operand's `role` says which is which. `mods` holds every other field by name;
    `inst["clamp"]` is 0 where absent.
    """

    pc: int
    size: int
    op: str
    encoding: str
    dst: tuple[Operand, ...]
    src: tuple[Operand, ...]
    mods: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.mods.get(name, 0)

    def operand(self, role: str) -> Operand | None:
        """The operand of that role, destinations first, or None."""
        return next((o for o in (*self.dst, *self.src) if o.role == role), None)

    @property
    def next_pc(self) -> int:
        return self.pc + self.size

    @property
    def target(self) -> int:
        """Where a direct branch goes: SIMM16 dwords past the next instruction (AMD CDNA4 ISA, "S_BRANCH")."""
        offset = self["simm16"]
        return self.pc + 4 + 4 * (offset - 0x10000 if offset & 0x8000 else offset)

    @cached_property
    def text(self) -> str:
        """Readable assembly, for messages; close to LLVM's syntax and not meant to be assembled."""
        operands = ", ".join(str(operand) for operand in (*self.dst, *self.src))
        mods = " ".join(
            f"{name}:{value:#x}" if value > 9 else f"{name}:{value}" for name, value in self.mods.items() if value
        )
        return " ".join(part for part in (self.op, operands, mods) if part)

    def __str__(self) -> str:
        return self.text
