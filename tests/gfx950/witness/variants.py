"""The ways to write one instruction: where its sources live, its modifiers, which lanes are on."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from forms import LITERAL, SCALAR, Form, Operand, register

FLOATS = ("f16", "f32", "f64")


@dataclass(frozen=True)
class Variant:
    """`scalars` are slots read from SGPRs, `constants` slots given as a constant: its text and its bits."""

    label: str = "plain"
    waves: int = 1
    partial: bool = False
    ieee: bool = True
    scalars: tuple[str, ...] = ()
    constants: dict[str, tuple[str, int]] = field(default_factory=dict)
    neg: int = 0
    abs: int = 0
    clamp: bool = False
    op_sel: int = 0
    op_sel_hi: int | None = None
    neg_lo: int = 0
    neg_hi: int = 0
    table: int = 0  # v_bitop3's truth table

    def sources(self, form: Form) -> dict[str, str]:
        """The text of each source that is not a plain VGPR."""
        texts = {}
        for i, source in enumerate(form.sources):
            text = register(source)
            if source.slot in self.scalars:
                text = register(Operand(source.slot, source.format, source.bits, True))
            if source.slot in self.constants:
                text = self.constants[source.slot][0]
            if self.abs >> i & 1:
                text = f"|{text}|"
            if self.neg >> i & 1:
                text = f"-{text}"
            texts[source.slot] = text
        return texts

    def mods(self, form: Form) -> str:
        bits = len(form.sources)
        words = []
        if self.op_sel or self.op_sel_hi is not None:
            wide = bits if form.encoding == "VOP3P" else bits + 1
            wide = 4 if form.name.startswith("V_CVT_SCALEF32") else wide
            words.append("op_sel:" + listed(self.op_sel, wide))
        if self.op_sel_hi is not None:
            words.append("op_sel_hi:" + listed(self.op_sel_hi, bits))
        if self.neg_lo:
            words.append("neg_lo:" + listed(self.neg_lo, bits))
        if self.neg_hi:
            words.append("neg_hi:" + listed(self.neg_hi, bits))
        if form.name.startswith("V_BITOP3"):
            words.append(f"bitop3:{self.table:#x}")
        if self.clamp:
            words.append("clamp")
        return " ".join(words)

    def text(self, form: Form) -> str:
        return form.text(self.sources(form), self.mods(form))

    def __str__(self) -> str:
        return self.label


def listed(bits: int, count: int) -> str:
    return "[" + ",".join(str(bits >> i & 1) for i in range(count)) + "]"


def inline_float(fmt: str, value: float) -> int:
    code, integer = {"f16": ("<e", "<H"), "f64": ("<d", "<Q")}.get(fmt, ("<f", "<I"))
    return struct.unpack(integer, struct.pack(code, value))[0]


def constants_of(source: Operand, literal: bool) -> Iterator[tuple[str, int]]:
    """Inline integers and floats and a literal, with the bits they stand for (AMD CDNA4 ISA, "Inline constants")."""
    if source.format.startswith("pk") or source.bits > 64 or source.scalar:
        return
    whole = (1 << (32 * source.words)) - 1
    for number in (-16, 64):
        yield str(number), number & whole
    if source.format in FLOATS or (source.bits == 32 and source.format != "bf16"):
        for value in (0.5, -4.0):
            yield str(value), inline_float(source.format, value)
    if literal and (source.bits <= 32 or source.format == "f64"):
        yield hex(LITERAL), LITERAL << 32 if source.format == "f64" else LITERAL


def variants_of(form: Form) -> Iterator[Variant]:
    """Every variant that means something; LLVM has the last word on which exist."""
    table = {"table": 0xE4} if form.name.startswith("V_BITOP3") else {}
    yield Variant(waves=2, **table)
    yield Variant("partial EXEC", partial=True, **table)
    if form.name.startswith(("V_MIN", "V_MAX", "V_MED", "V_PK_MIN", "V_PK_MAX")):
        yield Variant("IEEE off", ieee=False)
    if form.name.startswith("V_BITOP3"):
        for truth in (0x00, 0xFF, 0xAA, 0x96, 0x1B):
            yield Variant(f"table {truth:#x}", table=truth)
    for source in form.sources:
        if not source.scalar and (source.slot == "S0" or form.encoding.startswith("VOP3")):
            yield Variant(f"{source.slot} scalar", scalars=(source.slot,), **table)
            for text, bits in constants_of(source, form.encoding in ("VOP1", "VOP2", "VOPC")):
                yield Variant(f"{source.slot} = {text}", constants={source.slot: (text, bits)}, **table)
    yield from modified(form)


def modified(form: Form) -> Iterator[Variant]:
    floats = sum(1 << i for i, s in enumerate(form.sources) if s.format in FLOATS)
    if form.encoding in ("VOP3", "VOP3SD"):
        if form.name.startswith("V_CNDMASK"):
            floats = 3
        for neg, absolute in ((1, 0), (0, 1), (7, 2), (2, 7)):
            if floats & (neg | absolute):
                yield Variant(f"neg {neg:#x} abs {absolute:#x}", neg=neg & floats, abs=absolute & floats)
    if form.encoding.startswith("VOP3") and form.destination is not None and not form.compares:
        yield Variant("clamp", clamp=True, waves=2)
    sixteen = any(s.bits == 16 for s in (*form.sources, form.destination) if s is not None)
    if form.encoding == "VOP3" and (sixteen or form.name.startswith("V_CVT_SCALEF32") or "FP8" in form.name):
        for bits in range(1, 1 << (len(form.sources) + 1)):
            yield Variant(f"op_sel {bits:#x}", op_sel=bits)
    if form.name.startswith("V_CVT_SCALEF32"):
        for bits in (4, 8, 12):
            yield Variant(f"op_sel {bits:#x}", op_sel=bits)
    if form.encoding == "VOP3P":
        count = len(form.sources)
        everything = (1 << count) - 1
        for low, high in ((everything, 0), (1, everything), (0, 0), (2 & everything, 1)):
            yield Variant(f"op_sel {low:#x} hi {high:#x}", op_sel=low, op_sel_hi=high)
        for low, high in ((1, 0), (0, 2), (everything, everything)):
            yield Variant(f"neg_lo {low:#x} neg_hi {high:#x}", neg_lo=low, neg_hi=high)


SCALAR_REGISTERS = SCALAR
