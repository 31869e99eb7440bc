"""From a program counter to a source line, through the DWARF line tables that Triton and clang leave behind."""

import warnings
from bisect import bisect_right
from functools import cached_property
from io import BytesIO

from mxassay.gfx950.elf import Elf


class DebugLines:
    """Line tables, read on first use. A damaged or missing table answers None: lines inform, they decide nothing."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf

    def line_of(self, pc: int) -> tuple[str, int] | None:
        rows = self._rows
        at = bisect_right(rows, pc, key=lambda row: row[0]) - 1
        return rows[at][1] if at >= 0 else None

    @cached_property
    def _rows(self) -> list[tuple[int, tuple[str, int] | None]]:
        # Decompression has no bound that a small file could not exceed.
        if self._elf.section(".debug_line") is None or any(section.compressed for section in self._elf.sections):
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _read_rows(self._elf.data)
        # pyelftools raises whatever its parsers meet on damaged input (ValueError, KeyError, ConstructError, ...)
        except Exception:
            return []


def _read_rows(data: bytes) -> list[tuple[int, tuple[str, int] | None]]:
    from elftools.elf.elffile import ELFFile

    rows: list[tuple[int, tuple[str, int] | None]] = []
    info = ELFFile(BytesIO(data)).get_dwarf_info(relocate_dwarf_sections=False)
    for unit in info.iter_CUs():
        program = info.line_program_for_CU(unit)
        if program is None:
            continue
        header = program.header
        first = 0 if header["version"] >= 5 else 1
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if state.end_sequence:
                rows.append((state.address, None))
                continue
            index = state.file - first
            files = header["file_entry"]
            name = files[index].name.decode("utf-8", "replace") if 0 <= index < len(files) else ""
            rows.append((state.address, (name, state.line) if state.line else None))
    rows.sort(key=lambda row: row[0])
    return rows
