"""From a program counter to a source line, through the DWARF line tables that Triton and clang leave behind.

Read by hand: a general DWARF reader may loop or allocate without bound on damaged input. Form: DWARF 5, 6.2 "Line
Number Information", and its versions 2 to 4.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from mxassay.gfx950.elf import Elf

Line = tuple[str, int]

MAX_FILES = 1 << 16
_STRING_SECTIONS = {0x0E: ".debug_str", 0x1F: ".debug_line_str"}
# Sizes of the forms that a file entry may use beside strings, LEB128 numbers and blocks.
_FIXED_FORMS = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
_STRING, _UDATA, _BLOCK, _PATH = 0x08, 0x0F, 0x09, 1


class DebugLines:
    """Line tables, read on first use. A damaged or missing table answers None: lines inform, they decide nothing."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf

    def line_of(self, pc: int) -> Line | None:
        rows = self._rows
        at = bisect_right(rows, pc, key=lambda row: row[0]) - 1
        return rows[at][1] if at >= 0 else None

    @cached_property
    def _rows(self) -> list[tuple[int, Line | None]]:
        # Decompression has no bound that a small file could not exceed.
        if any(section.compressed for section in self._elf.sections):
            return []
        data = self._elf.section(".debug_line") or b""
        strings = {form: self._elf.section(name) or b"" for form, name in _STRING_SECTIONS.items()}
        rows: list[tuple[int, Line | None]] = []
        units = _Cursor(data, 0, len(data))
        try:
            while units.at < units.end:
                size = units.number(4)
                unit = _Cursor(data, units.at, units.at + size)
                rows += _unit_rows(unit, strings)
                units.at += size
        except _DamagedError:
            pass
        # An end of one sequence and the start of the next may share an address; the start counts.
        rows.sort(key=lambda row: (row[0], row[1] is not None))
        return rows


class _DamagedError(Exception):
    pass


@dataclass(slots=True)
class _Cursor:
    data: bytes
    at: int
    end: int

    def __post_init__(self) -> None:
        if self.end > len(self.data):
            raise _DamagedError

    def take(self, size: int) -> bytes:
        if self.at + size > self.end:
            raise _DamagedError
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value
        raise _DamagedError

    def string(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise _DamagedError
        text = self.data[self.at : end]
        self.at = end + 1
        return text.decode("utf-8", "replace")


def _unit_rows(unit: _Cursor, strings: dict[int, bytes]) -> list[tuple[int, Line | None]]:
    version = unit.number(2)
    if not 2 <= version <= 5:
        raise _DamagedError
    if version == 5:
        unit.take(2)  # address and segment selector size
    header = unit.number(4)
    program = _Cursor(unit.data, unit.at + header, unit.end)
    step = unit.number(1)
    if version >= 4:
        unit.take(1)  # operations per VLIW instruction
    unit.take(1)
    line_base, line_range, opcode_base = (
        int.from_bytes(unit.take(1), "little", signed=True),
        unit.number(1),
        unit.number(1),
    )
    if not line_range or not opcode_base:
        raise _DamagedError
    lengths = unit.take(opcode_base - 1)
    files = _files_of_version_5(unit, strings) if version == 5 else ["", *_files(unit)]
    return _run(program, files, step, line_base, line_range, lengths)


def _files(unit: _Cursor) -> list[str]:
    while unit.string():  # include directories
        pass
    names: list[str] = []
    while name := unit.string():
        unit.leb(), unit.leb(), unit.leb()
        names.append(name)
    return names


def _files_of_version_5(unit: _Cursor, strings: dict[int, bytes]) -> list[str]:
    _entries(unit, strings)  # directories
    return _entries(unit, strings)


def _entries(unit: _Cursor, strings: dict[int, bytes]) -> list[str]:
    forms = [(unit.leb(), unit.leb()) for _ in range(unit.number(1))]
    count = unit.leb()
    if count > MAX_FILES or (count and not forms):
        raise _DamagedError
    names = []
    for _ in range(count):
        name = ""
        for content, form in forms:
            text = _form(unit, form, strings)
            if content == _PATH:
                name = text
        names.append(name)
    return names


def _form(unit: _Cursor, form: int, strings: dict[int, bytes]) -> str:
    if form == _STRING:
        return unit.string()
    if form in _STRING_SECTIONS:
        table = strings[form]
        return _Cursor(table, unit.number(4), len(table)).string()
    if form == _UDATA:
        unit.leb()
    elif form == _BLOCK:
        unit.take(unit.leb())
    elif form in _FIXED_FORMS:
        unit.take(_FIXED_FORMS[form])
    else:
        raise _DamagedError
    return ""


def _run(
    program: _Cursor, files: list[str], step: int, line_base: int, line_range: int, lengths: bytes
) -> list[tuple[int, Line | None]]:
    """Execute the line number program (DWARF 5, 6.2.5); column, statement and block marks are read past."""
    rows: list[tuple[int, Line | None]] = []
    address, file, line = 0, 1, 1

    def row() -> tuple[int, Line | None]:
        return address, (files[file], line) if line > 0 and 0 <= file < len(files) else None

    while program.at < program.end:
        opcode = program.number(1)
        if opcode > len(lengths):
            special = opcode - len(lengths) - 1
            address += special // line_range * step
            line += line_base + special % line_range
            rows.append(row())
        elif opcode == 0:
            body = program.take(program.leb())
            if body[:1] == b"\x01":
                rows.append((address, None))
                address, file, line = 0, 1, 1
            elif body[:1] == b"\x02":
                address = int.from_bytes(body[1:9], "little")
        elif opcode == 1:
            rows.append(row())
        elif opcode == 2:
            address += program.leb() * step
        elif opcode == 3:
            line += program.leb(signed=True)
        elif opcode == 4:
            file = program.leb()
        elif opcode == 8:
            address += (255 - len(lengths) - 1) // line_range * step
        elif opcode == 9:
            address += program.number(2)
        else:
            for _ in range(lengths[opcode - 1]):
                program.leb()
    return rows
