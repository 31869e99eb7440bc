"""Bytes to `Instruction` records. The only file that knows tinygrad, whose decoder is generated from AMD's ISA XML.

tinygrad is pinned to one minor version in pyproject.toml; what it gets wrong for gfx950 is mended here and said so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from mxassay.errors import UnsupportedError
from mxassay.gfx950.instruction import EXEC, M0, VCC, Instruction, Operand

__all__ = ["Program", "UndecodableError", "decode_one", "decode_program"]

# operand fields that are written / read, in AMD's syntax order, and their fields' base in the operand space.
_DST = ("vdst", "sdst", "sdata", "vdata")
_SRC = (
    "sdst", "src0", "vsrc0", "ssrc0", "vsrc1", "src1", "ssrc1", "src2", "scale_src0", "scale_src1", "addr", "vaddr",
    "data", "data0", "data1", "vdata", "sdata", "saddr", "sbase", "srsrc", "soffset",
)  # fmt: skip
_RENAME = {
    "clmp": "clamp", "opsel": "op_sel", "opsel_hi": "op_sel_hi", "opsel_hi2": "op_sel_hi2", "dpp": "dpp_ctrl",
    "bc": "bound_ctrl",
}  # fmt: skip
# Fields that only choose a register file or a form; they are folded into the operands.
_FOLDED = {"op", "encoding", "seg", "literal", "acc", "acc_cd", "s0", "s1", "sd", "x2encoding", "gds"}
_ROLE = {"vsrc0": "src0", "vsrc1": "src1", "ssrc0": "src0", "ssrc1": "src1", "data0": "data"}
_INLINE_FLOATS = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
    248: 0.15915494309189535,
}
_SPECIAL = {
    235: "shared_base", 236: "shared_limit", 237: "private_base", 238: "private_limit", 239: "pops_exiting_wave_id",
    251: "vccz", 252: "execz", 253: "scc", 254: "lds_direct",
}  # fmt: skip
_LITERAL = 255
_SCALES = b"\xac\xd3"  # the upper half of the word that V_MFMA_LD_SCALE_B32 begins with
_CARRY_OUT = re.compile(r"v_(add|sub|subrev|addc|subb|subbrev)_co_u32")
_CARRY_IN = re.compile(r"v_(addc|subb|subbrev)_co_u32|v_cndmask_b32")
_STORES = re.compile(r"(global|flat|scratch|buffer)_store|s_(buffer_)?store|buffer_atomic")


class UndecodableError(UnsupportedError):
    """Bytes that are no gfx950 instruction known to the decoder."""


def decode_one(data: bytes, pc: int = 0) -> Instruction:
    """Decode the instruction at the start of `data` (16 bytes are enough) as one at virtual address `pc`.

    Raises:
        UndecodableError: no encoding matches.

    >>> decode_one(bytes.fromhex("0302047e")).text
    'v_mov_b32 v2, s3'
    """
    return _at(_decode(bytes(data[:16])), pc)


class Program:
    """The instructions of one stretch of code by virtual address, decoded when first asked for."""

    def __init__(self, code: bytes, address: int) -> None:
        self.code, self.address = code, address
        self._cache: dict[int, Instruction] = {}

    def at(self, pc: int) -> Instruction:
        """The instruction at `pc`. Raises `UndecodableError`, also outside the code."""
        found = self._cache.get(pc)
        if found is None:
            start = pc - self.address
            if not 0 <= start < len(self.code):
                end = self.address + len(self.code)
                raise UndecodableError(f"the pc must lie in the code, {self.address:#x} to {end:#x}, not at {pc:#x}")
            try:
                found = self._cache[pc] = decode_one(self.code[start : start + 16], pc)
            except UndecodableError as error:
                raise UndecodableError(f"{error} at pc {pc:#x}") from error
        return found

    def walk(self, start: int, size: int) -> Iterator[Instruction]:
        """Every instruction from `start` on, in order, for `size` bytes. Words that are none are stepped over: data
        may lie between functions, and an unknown instruction matters only to who gets there."""
        pc = start
        while pc < start + size:
            try:
                inst = self.at(pc)
            except UndecodableError:
                pc += 4
                continue
            yield inst
            pc = inst.next_pc


def decode_program(code: bytes, address: int) -> tuple[Instruction, ...]:
    """All instructions of `code`, whose first byte lies at virtual address `address`. Raises `UndecodableError`."""
    program, pc, found = Program(code, address), address, []
    while pc < address + len(code):
        found.append(program.at(pc))
        pc = found[-1].next_pc
    return tuple(found)


def _at(inst: Instruction, pc: int) -> Instruction:
    return Instruction(pc, inst.size, inst.op, inst.encoding, inst.dst, inst.src, inst.mods)


_sizes: dict[bytes, int] = {}  # bytes of the instructions that begin with these four, as far as met


def _decode(data: bytes) -> Instruction:
    """The instruction, at no address. The first four bytes fix an instruction's size, so what follows it does not
    count, and kernels share what they have in common. Only V_MFMA_LD_SCALE_B32 is one with the matrix instruction that
    follows, if one does."""
    if data[2:4] == _SCALES:
        return _decoded(data)
    size = _sizes.get(data[:4])
    if size is None:
        found = _decoded(data)
        _sizes[data[:4]] = found.size
        return found
    return _decoded(data[:size])


@lru_cache(maxsize=1 << 16)
def _decoded(data: bytes) -> Instruction:
    # tinygrad takes anything before an unscaled F8F6F4 for its scale half: only V_MFMA_LD_SCALE_B32 is one.
    if data[2:4] != _SCALES:
        data = data[:8]
    try:
        raw = _recognized(data)
    except (ValueError, AssertionError) as error:
        word = int.from_bytes(data[:4], "little")
        raise UndecodableError(f"the code must hold gfx950 instructions, not the word {word:#010x}") from error
    return _translate(raw)


@dataclass(frozen=True, slots=True)
class _Form:
    """What fixes one of tinygrad's formats: bits of the raw number, its operations (None: any), and `src0` where that
    names the variant. `sources`: shift and mask of the fields that may send it on to a variant."""

    of: Any
    size: int
    mask: int
    value: int
    op: tuple[int, int]
    allowed: frozenset[int] | None
    src0: int | None
    sources: tuple[tuple[int, int], ...]

    def fits(self, raw: int, size: int) -> bool:
        if size < self.size or raw & self.mask != self.value:
            return False
        if self.src0 is not None and raw & 0x1FF != self.src0:
            return False
        return self.allowed is None or raw >> self.op[0] & self.op[1] in self.allowed


@cache
def _forms() -> tuple[_Form, ...]:
    """tinygrad's formats for gfx950, in the order in which it tries them; by numbers that takes a tenth of its time."""
    from tinygrad.renderer.amd import _VARIANT_SRC0, _load_formats
    from tinygrad.renderer.amd.dsl import EnumBitField, FixedBitField, SrcField

    found = []
    for of in _load_formats()["cdna"]:
        mask = value = size = 0
        op, allowed = (0, 0), None
        for _, field in of._fields:
            size = max(size, field.lo // 32 * 4 + 4)
            if isinstance(field, FixedBitField):
                mask, value = mask | field.mask << field.lo, value | field.default << field.lo
            if isinstance(field, EnumBitField) and field.allowed is not None:
                op, allowed = (field.lo, field.mask), frozenset(code.value for code in field.allowed)
        src0 = next((code for suffix, code in _VARIANT_SRC0.items() if of.__name__.endswith(suffix)), None)
        sources = tuple((field.lo, field.mask) for _, field in of._fields if isinstance(field, SrcField))
        found.append(_Form(of, size, mask, value, op, allowed, src0, sources))
    return tuple(found)


_VARIANTS = (249, 250, 255)  # sources that stand for SDWA, DPP and a literal


def _recognized(data: bytes) -> Any:
    """tinygrad's `decode_inst(data, "cdna")`. Raises ValueError."""
    whole = int.from_bytes(data, "little")
    form = next((form for form in _forms() if form.fits(whole, len(data))), None)
    if form is None:
        raise ValueError("no format")
    if any(whole >> shift & mask in _VARIANTS for shift, mask in form.sources):
        return form.of.from_bytes(data)
    raw = object.__new__(form.of)
    raw._raw = whole & (1 << 8 * form.of._base_size) - 1
    return raw


@dataclass(frozen=True, slots=True)
class _Syntax:
    """What a format and an operation fix: names of the fields that are written and read, with format and kind of each,
    and of those that are neither. `counts`: registers by field, None where they depend on other fields."""

    op: str
    encoding: str
    fields: tuple[tuple[str, int, int], ...]
    dst: tuple[tuple[str, str, str], ...]
    src: tuple[tuple[str, str, str], ...]
    mods: tuple[tuple[str, str], ...]
    counts: dict[str, int] | None


_syntaxes: dict[tuple[Any, Any], _Syntax] = {}  # by format and operation


def _syntax(raw: Any) -> _Syntax:
    of, operands = type(raw), raw.operands
    op = re.sub(r"_e(32|64)$", "", raw.op.name.lower())
    encoding = of.__name__.removesuffix("_LIT").replace("DPP16", "DPP").removesuffix("_SDST")
    fields = {name: (field.lo, field.mask) for name, field in of._fields}
    if encoding.startswith(("VOP1_", "VOP2_", "VOPC_")) and "vsrc0" in fields:
        fields.pop("src0", None)
    named = {}
    for name in (*_DST, *_SRC):
        info = operands.get(name) or operands.get(_canonical(name))
        if name in fields and info is not None:
            named[name] = (name, info[0].name.lower().removeprefix("fmt_").removeprefix("num_"), info[2].name)
    return _Syntax(
        op,
        encoding,
        tuple((name, *place) for name, place in fields.items()),
        tuple(named[name] for name in _DST if name in named and _writes(name, op)),
        tuple(named[name] for name in _SRC if name in named and (name not in _DST or not _writes(name, op))),
        tuple(
            (_RENAME.get(name, name), name)
            for name in fields
            if name not in _FOLDED and name not in (*_DST, *_SRC) and not name.startswith("encoding")
        ),
        None
        if "addr" in fields or "vaddr" in fields or "f8f6f4" in op
        else {name: _width(name, {}, raw) for name in named},
    )


def _translate(raw: Any) -> Instruction:
    of, code = type(raw), raw.op
    syntax = _syntaxes.get((of, code))
    if syntax is None:
        syntax = _syntaxes[of, code] = _syntax(raw)
    number = raw._raw
    bits = {name: number >> low & mask for name, low, mask in syntax.fields}
    counts = syntax.counts or {name: _width(name, bits, raw) for name, *_ in (*syntax.dst, *syntax.src)}
    dst = [_operand(name, bits, raw, fmt, kind, counts[name]) for name, fmt, kind in syntax.dst]
    src = [_operand(name, bits, raw, fmt, kind, counts[name]) for name, fmt, kind in syntax.src]
    _implicit(syntax.op, syntax.encoding, bits, dst, src)
    mods = {renamed: bits[name] for renamed, name in syntax.mods}
    return Instruction(0, raw.size(), syntax.op, syntax.encoding, tuple(dst), tuple(src), mods)


def _canonical(name: str) -> str:
    return {"vsrc0": "src0"}.get(name, name)


def _writes(name: str, op: str) -> bool:
    """Whether the field holds what the instruction writes. Atomics have their data among the sources, as AMD writes
    them."""
    if name in ("vdata", "sdata"):
        return not _STORES.match(op)
    return not (name == "sdst" and op.startswith(("s_cmpk_", "s_setreg_b32")))


def _operand(name: str, bits: dict[str, int], raw: Any, fmt: str, kind: str, count: int) -> Operand:
    role = _ROLE.get(name, name)
    code = bits[name]
    if name in ("sbase", "srsrc"):
        return Operand("s", code << (1 if name == "sbase" else 2), count, 0, role, fmt)
    if name == "saddr":
        # gfx9 writes "off" as 0x7f; tinygrad assumes the later generations' 0x7c.
        return Operand("off", role=role) if code == 0x7F else Operand("s", code, count, 0, role, fmt)
    if name in ("sdst", "sdata"):
        return Operand("s", code, count, 0, role, fmt)
    if name == "soffset" and "offset" in bits and type(raw).__name__ == "SMEM":
        return Operand("s", code, 1, 0, role, fmt) if bits["soffset_en"] else Operand("off", role=role)
    if name in ("addr", "vaddr", "data", "data0", "data1", "vdata") or (
        name == "vdst" and "SREG" not in kind and "SDST" not in kind
    ):
        return Operand("a" if _is_agpr(name, bits, kind) else "v", code, count, 0, role, fmt)
    if name in ("vsrc0", "vsrc1"):
        scalar = bits.get("s0" if name == "vsrc0" else "s1", 0)
        return _source(code if scalar else code + 256, count, role, fmt, bits)
    if name == "vdst":
        return Operand("s", code, count, 0, role, fmt)
    if _is_agpr(name, bits, kind) and code >= 256:
        return Operand("a", code - 256, count, 0, role, fmt)
    return _source(code, count, role, fmt, bits)


def _width(name: str, bits: dict[str, int], raw: Any) -> int:
    size = int(raw.op_bits.get(name) or raw.op_bits.get(_canonical(name), 32))
    if name == "addr" and "saddr" in bits and type(raw).__name__ in ("GLOBAL", "FLAT"):
        return 2 if bits["saddr"] == 0x7F or type(raw).__name__ == "FLAT" else 1
    return max(1, -(-size // 32))


def _is_agpr(name: str, bits: dict[str, int], kind: str) -> bool:
    """AGPRs share the VGPRs' numbers; one bit beside each operand picks the file (AMD CDNA4 ISA, "VOP3P-MAI", "DS")."""
    if kind in ("OPR_ACCVGPR", "OPR_SRC_ACCVGPR"):
        return True
    if "ACCVGPR" not in kind:
        return False
    if "acc_cd" in bits:
        if name in ("vdst", "src2"):
            return bool(bits["acc_cd"])
        return bool(bits["acc"] >> int(name[-1]) & 1)
    return bool(bits.get("acc", 0))


def _source(code: int, count: int, role: str, fmt: str, bits: dict[str, int]) -> Operand:
    if code >= 256:
        return Operand("v", code - 256, count, 0, role, fmt)
    if code < 128:
        return Operand("s", code, count, 0, role, fmt)
    if code <= 192:
        return Operand("int", 0, count, code - 128, role, fmt)
    if code <= 208:
        return Operand("int", 0, count, 192 - code, role, fmt)
    if code in _INLINE_FLOATS:
        return Operand("float", 0, count, _INLINE_FLOATS[code], role, fmt)
    if code == _LITERAL and "literal" in bits:
        return Operand("literal", 0, count, bits["literal"], role, fmt)
    if code in _SPECIAL:
        return Operand("special", 0, count, _SPECIAL[code], role, fmt)
    raise UndecodableError(f"a source operand must have a known code, not {code}")


def _implicit(op: str, encoding: str, bits: dict[str, int], dst: list[Operand], src: list[Operand]) -> None:
    """Write out what the short encodings leave to convention."""
    vcc = Operand("s", VCC, 2, 0, "sdst", "m64")
    if encoding.startswith("VOPC"):
        # SDWA compares name their destination when SD is set (AMD CDNA4 ISA, "SDWAB").
        dst[:] = [Operand("s", bits["sdst"], 2, 0, "sdst", "b64") if bits.get("sd") else vcc]
    if encoding.startswith("VOP2"):
        if _CARRY_OUT.fullmatch(op):
            dst.append(vcc)
        if _CARRY_IN.fullmatch(op):
            src.append(Operand("s", VCC, 2, 0, "src2", "m64"))
        if op.startswith(("v_fmamk", "v_madmk")):
            src.insert(1, Operand("literal", 0, 1, bits["literal"], "literal", src[0].format))
        if op.startswith(("v_fmaak", "v_madak")):
            src.append(Operand("literal", 0, 1, bits["literal"], "literal", src[0].format))
    if op.startswith("v_div_fmas"):
        src.append(Operand("s", VCC, 2, 0, "vcc", "m64"))
    if op.startswith("v_cmpx"):
        dst.append(Operand("s", EXEC, 2, 0, "exec", "m64"))
    if op == "s_setreg_imm32_b32":
        src.append(Operand("literal", 0, 1, bits["literal"], "literal", "b32"))
    if ("_lds_" in op and "load" in op) or bits.get("lds"):
        dst.clear()
        src.append(Operand("s", M0, 1, 0, "m0", "b32"))
