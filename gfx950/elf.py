"""The few ELF tables a code object needs, read with struct from a bounded view.

Every offset and length in the file is checked before it is used, so a damaged file ends in `CodeObjectError`, never in
an over-read, a huge allocation or a long loop. Field positions: System V gABI 4.1, "ELF64".
"""

import struct
from dataclasses import dataclass
from itertools import pairwise

from mxassay.errors import MxassayError

PT_LOAD, PT_NOTE = 1, 4
PF_X = 1
SHT_SYMTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 2, 4, 7, 8, 9, 11
SHN_UNDEF = 0
SHF_COMPRESSED = 0x800
EM_X86_64, EM_CUDA, EM_AARCH64, EM_AMDGPU = 62, 190, 183, 224
_MACHINES = {EM_X86_64: "x86-64", EM_CUDA: "an NVIDIA GPU (cubin)", EM_AARCH64: "AArch64", 247: "BPF"}

# Declared policy: the largest real gfx950 code objects hold some MiB; a table beyond these counts is damage.
MAX_FILE_BYTES = 1 << 30
MAX_TABLE_ENTRIES = 1 << 16
MAX_NAME_BYTES = 1 << 14
MAX_NOTES = 64
MAX_IMAGE_BYTES = 1 << 28

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_NOTE = struct.Struct("<III")


class CodeObjectError(MxassayError):
    """The file is no gfx950 code object, or a damaged one. The message names the field that is wrong."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One PT_LOAD: `data` is what the file holds, `memory_size` bytes are mapped at `vaddr`, the rest is zero."""

    vaddr: int
    data: bytes
    memory_size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    kind: int
    vaddr: int
    offset: int
    size: int
    link: int
    entry_size: int
    compressed: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    value: int
    size: int
    section: int
    kind: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """One RELA entry: what is stored at `vaddr` is `kind` of symbol `symbol` (an index of `.dynsym`) plus `addend`."""

    vaddr: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Elf:
    machine: int
    flags: int
    os_abi: int
    abi_version: int
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    dynamic_symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]
    notes: tuple[tuple[str, int, bytes], ...]
    data: bytes

    def section(self, name: str) -> bytes | None:
        """The bytes of the first section called `name`, None without one."""
        for section in self.sections:
            if section.name == name and section.kind != SHT_NOBITS:
                return self.data[section.offset : section.offset + section.size]
        return None


def read_elf(data: bytes) -> Elf:
    """Read the tables of a 64-bit little-endian ELF file.

    data: the whole file. Not checked: the meaning of anything (machine, flags, symbols): that is `codeobject`'s part.

    Raises:
        CodeObjectError: a table or a piece of one lies outside the file, or the file is of another class or byte order.

    >>> read_elf(b"MZ")
    Traceback (most recent call last):
    mxassay.gfx950.elf.CodeObjectError: the file must begin with the ELF magic 7f454c46, not 4d5a; is it a code object?
    """
    if data[:4] != b"\x7fELF":
        found = data[:4].hex() or "nothing"
        raise CodeObjectError(f"the file must begin with the ELF magic 7f454c46, not {found}; is it a code object?")
    if len(data) > MAX_FILE_BYTES:
        raise CodeObjectError(f"the file must hold at most {MAX_FILE_BYTES} bytes, not {len(data)}")
    if len(data) < _HEADER.size:
        raise CodeObjectError(f"the ELF header must hold {_HEADER.size} bytes, not {len(data)}; the file is truncated")
    (ident, _, machine, _, _, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, shstrndx) = (
        _HEADER.unpack_from(data)
    )
    if ident[4] != 2:
        raise CodeObjectError(f"the ELF class must be 2 (64-bit), not {ident[4]}; code objects for gfx950 are ELF64")
    if ident[5] != 1:
        raise CodeObjectError(f"the ELF byte order must be 1 (little-endian), not {ident[5]}")
    segments, note_spans = _segments(data, phoff, phentsize, phnum)
    sections = _sections(data, shoff, shentsize, shnum, shstrndx)
    note_spans += [(s.offset, s.size) for s in sections if s.kind == SHT_NOTE]
    return Elf(
        machine=machine,
        flags=flags,
        os_abi=ident[7],
        abi_version=ident[8],
        segments=tuple(segments),
        sections=tuple(sections),
        symbols=tuple(dict.fromkeys(_symbols(data, sections, SHT_DYNSYM) + _symbols(data, sections, SHT_SYMTAB))),
        dynamic_symbols=tuple(_symbols(data, sections, SHT_DYNSYM)),
        relocations=tuple(_relocations(data, sections)),
        notes=tuple(_notes(data, note_spans)),
        data=data,
    )


def machine_name(machine: int) -> str:
    return _MACHINES.get(machine, f"machine {machine}")


def _span(data: bytes, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        raise CodeObjectError(
            f"{what} must end inside the file of {len(data)} bytes, not at {offset + size}; the file is damaged"
        )


def _table(data: bytes, offset: int, entry: int, count: int, form: struct.Struct, what: str) -> list[tuple[int, ...]]:
    if not count:
        return []
    if entry != form.size:
        raise CodeObjectError(f"an entry of {what} must be {form.size} bytes, not {entry}; the file is damaged")
    if count > MAX_TABLE_ENTRIES:
        raise CodeObjectError(f"{what} must have at most {MAX_TABLE_ENTRIES} entries, not {count}; the file is damaged")
    _span(data, offset, entry * count, what)
    return list(form.iter_unpack(memoryview(data)[offset : offset + entry * count]))


def _segments(data: bytes, offset: int, entry: int, count: int) -> tuple[list[Segment], list[tuple[int, int]]]:
    rows = _table(data, offset, entry, count, _SEGMENT, "the program header table")
    notes = [(start, size) for kind, _, start, _, _, size, _, _ in rows if kind == PT_NOTE]
    loads = sorted(
        (vaddr, memory, start, size, flags) for kind, flags, start, vaddr, _, size, memory, _ in rows if kind == PT_LOAD
    )
    for start, size in notes:
        _span(data, start, size, "a note segment")
    for vaddr, memory, start, size, _ in loads:
        _span(data, start, size, f"the segment at address {vaddr:#x}")
        if memory < size:
            raise CodeObjectError(f"the segment at address {vaddr:#x} must take its {size} file bytes, not {memory}")
    for low, high in pairwise(loads):
        if low[0] + low[1] > high[0]:
            raise CodeObjectError(
                f"segments must not overlap, but {low[0]:#x} and {high[0]:#x} do; the file is damaged"
            )
    extent = loads[-1][0] + loads[-1][1] - loads[0][0] if loads else 0
    if extent > MAX_IMAGE_BYTES:
        raise CodeObjectError(f"the loaded image must take at most {MAX_IMAGE_BYTES} bytes, not {extent}")
    segments = [
        Segment(vaddr, data[start : start + size], memory, bool(flags & PF_X))
        for vaddr, memory, start, size, flags in loads
    ]
    return segments, notes


def _sections(data: bytes, offset: int, entry: int, count: int, names_at: int) -> list[Section]:
    rows = _table(data, offset, entry, count, _SECTION, "the section header table")
    for index, (_, kind, _, _, start, size, *_rest) in enumerate(rows):
        if kind not in (0, SHT_NOBITS):
            _span(data, start, size, f"section {index}")
    if rows and names_at >= len(rows):
        raise CodeObjectError(f"the section of names must be below {len(rows)}, not {names_at}; the file is damaged")
    names = _bytes_of(data, rows[names_at]) if rows else b""
    return [
        Section(_name(names, name, "a section"), kind, vaddr, start, size, link, step, bool(flags & SHF_COMPRESSED))
        for name, kind, flags, vaddr, start, size, link, _, _, step in rows
    ]


def _bytes_of(data: bytes, row: tuple[int, ...]) -> bytes:
    return b"" if row[1] in (0, SHT_NOBITS) else data[row[4] : row[4] + row[5]]


def _name(table: bytes, offset: int, what: str) -> str:
    if not offset:
        return ""
    end = table.find(b"\0", offset, offset + MAX_NAME_BYTES)
    if end < 0:
        raise CodeObjectError(
            f"the name of {what} must end inside its table of {len(table)} bytes, within {MAX_NAME_BYTES} from {offset}"
        )
    return table[offset:end].decode("utf-8", "replace")


def _symbols(data: bytes, sections: list[Section], kind: int) -> list[Symbol]:
    found: list[Symbol] = []
    _budget(sections, kind, _SYMBOL.size, "symbols")
    for section in sections:
        if section.kind != kind:
            continue
        if section.link >= len(sections) or sections[section.link].kind == SHT_NOBITS:
            raise CodeObjectError(
                f"the string table of {section.name or 'a symbol table'} must be a section, not {section.link}"
            )
        strings = sections[section.link]
        text = data[strings.offset : strings.offset + strings.size]
        count = section.size // _SYMBOL.size
        for name, info, _, index, value, size in _table(
            data, section.offset, section.entry_size, count, _SYMBOL, section.name or "a symbol table"
        ):
            found.append(Symbol(_name(text, name, "a symbol"), value, size, index, info & 15))
    return found


def _budget(sections: list[Section], kind: int, entry: int, what: str) -> None:
    """Sections may share bytes, so the file's size doesn't bound their number of entries."""
    total = sum(section.size // entry for section in sections if section.kind == kind)
    if total > MAX_TABLE_ENTRIES:
        raise CodeObjectError(f"a file must hold at most {MAX_TABLE_ENTRIES} {what}, not {total}; it is damaged")


def _relocations(data: bytes, sections: list[Section]) -> list[Relocation]:
    found: list[Relocation] = []
    _budget(sections, SHT_RELA, _RELA.size, "relocations")
    for section in sections:
        if section.kind == SHT_REL and section.size:
            raise CodeObjectError(
                f"relocations must be of the RELA form, not REL ({section.name}); AMDGPU code objects use RELA"
            )
        if section.kind != SHT_RELA:
            continue
        count = section.size // _RELA.size
        for vaddr, info, addend in _table(
            data, section.offset, section.entry_size, count, _RELA, section.name or "relocations"
        ):
            found.append(Relocation(vaddr, info & 0xFFFFFFFF, info >> 32, addend))
    return found


def _notes(data: bytes, spans: list[tuple[int, int]]) -> list[tuple[str, int, bytes]]:
    notes: list[tuple[str, int, bytes]] = []
    if len(spans) > MAX_NOTES:
        raise CodeObjectError(f"a file must hold at most {MAX_NOTES} note sections, not {len(spans)}; it is damaged")
    for start, size in dict.fromkeys(spans):
        at, end = start, start + size
        while at + _NOTE.size <= end:
            name_size, body_size, kind = _NOTE.unpack_from(data, at)
            body_at = at + _NOTE.size + (name_size + 3) // 4 * 4
            if body_at + body_size > end:
                raise CodeObjectError(
                    f"a note must end inside its {size} bytes, not at {body_at + body_size - start}; it is damaged"
                )
            name = data[at + _NOTE.size : at + _NOTE.size + name_size].rstrip(b"\0").decode("utf-8", "replace")
            notes.append((name, kind, data[body_at : body_at + body_size]))
            at = body_at + (body_size + 3) // 4 * 4
    return notes
