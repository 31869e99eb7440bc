"""Source lines: against pyelftools on compiled code, and against line programs encoded by hand (DWARF 5, 6.2)."""

import io
import struct
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import pytest
from elftools.elf.elffile import ELFFile

from mxassay.gfx950.codeobject import load_code_object
from mxassay.gfx950.debuglines import DebugLines


def test_compiled_code_agrees_with_pyelftools(compiled):
    looked_up = 0
    for built in compiled.values():
        found = load_code_object(built.binary)
        info = ELFFile(io.BytesIO(built.binary)).get_dwarf_info()
        for unit in info.iter_CUs():
            program = info.line_program_for_CU(unit)
            names, first = program.header["file_entry"], int(program.header["version"] < 5)
            states = [entry.state for entry in program.get_entries() if entry.state]
            for state, following in pairwise(states):
                if state.end_sequence or following.address == state.address:
                    continue
                line = (names[state.file - first].name.decode(), state.line) if state.line else None
                for pc in (state.address, following.address - 1):
                    looked_up += 1
                    assert found.line_of(pc) == line
    assert looked_up > 1000


@dataclass
class _Sections:
    """What DebugLines asks of an ELF file."""

    named: dict[str, bytes]
    compressed: bool = False

    @property
    def sections(self):
        return [SimpleNamespace(compressed=self.compressed)]

    def section(self, name):
        return self.named.get(name)


LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
PROGRAM = (
    b"\0\x09\2" + struct.pack("<Q", 0x1000)  # set address
    + b"\4\1\3\x09\1"  # file 1, line + 9, row
    + b"\2\4\3\x7f\1"  # pc + 16, line - 1, row
    + bytes([13 + 5 + 14 * 2])  # special: pc + 8, line + 0
    + b"\x08\5\3\1"  # pc + (255 - 13) // 14 * 4, column 3, row
    + b"\x09\2\1\0\1\1"  # pc + 258, end of sequence
)  # fmt: skip
LINES = {0xFFF: None, 0x1000: 10, 0x100F: 10, 0x1010: 9, 0x1018: 9, 0x105C: 9, 0x115D: 9, 0x115E: None, 0x2000: None}


def _unit(version, tables):
    per_instruction = b"\1" if version >= 4 else b""
    middle = b"\4" + per_instruction + struct.pack("<BbBB", 1, -5, 14, 13) + LENGTHS + tables
    width = b"\x08\0" if version == 5 else b""
    body = struct.pack("<H", version) + width + struct.pack("<I", len(middle)) + middle + PROGRAM
    return struct.pack("<I", len(body)) + body


OLD = b"dir\0\0" + b"a.py\0\0\0\0" + b"\0"
# Format: (path, string); one directory; then (path, line_strp), (directory, udata), (MD5, data16); two files.
FILES = b"".join(struct.pack("<I", at) + b"\0" + bytes(16) for at in (0, 5))
NEW = b"\1\1\x08\1d\0" + b"\3\1\x1f\2\x0f\5\x1e\2" + FILES
STRINGS = b"x.py\0a.py\0"


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_every_version(version):
    lines = DebugLines(
        _Sections({".debug_line": _unit(version, NEW if version == 5 else OLD), ".debug_line_str": STRINGS})
    )
    assert {pc: lines.line_of(pc) for pc in LINES} == {pc: line and ("a.py", line) for pc, line in LINES.items()}


def test_a_damaged_unit_leaves_the_others_readable():
    whole = _unit(4, OLD)
    lines = DebugLines(_Sections({".debug_line": whole + whole[:60]}))
    assert lines.line_of(0x1000) == ("a.py", 10)


@pytest.mark.parametrize("version", [4, 5])
def test_no_cut_or_flip_raises_or_lingers(version):
    whole = _unit(version, NEW if version == 5 else OLD)
    for size in range(len(whole)):
        DebugLines(_Sections({".debug_line": whole[:size], ".debug_line_str": STRINGS})).line_of(0x1000)
    for at in range(len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            data = whole[:at] + bytes([value]) + whole[at + 1 :]
            DebugLines(_Sections({".debug_line": data, ".debug_line_str": STRINGS})).line_of(0x1000)


def test_compressed_tables_are_left_alone():
    assert DebugLines(_Sections({".debug_line": _unit(4, OLD)}, compressed=True)).line_of(0x1000) is None
