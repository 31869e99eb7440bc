"""Relocations of a loaded code object: addresses stored in data that depend on where it is loaded.

Kinds: LLVM AMDGPUUsage, "AMDGPU ELF Relocation Records". Compiled kernels are position-independent and mostly have
none.
"""

from mxassay.gfx950.elf import SHN_UNDEF, CodeObjectError, Elf

_NONE, _ABS64, _RELATIVE64 = 0, 3, 13


def relocated(elf: Elf, base: int) -> tuple[tuple[int, bytes], ...]:
    """(address, bytes) of each segment loaded at `base`: zero-filled to its size in memory, relocations applied."""
    images = [
        (segment.vaddr, bytearray(segment.data + bytes(segment.memory_size - len(segment.data))))
        for segment in elf.segments
    ]
    for relocation in elf.relocations:
        value = _value(elf, relocation.kind, relocation.symbol, relocation.addend, base)
        if value is None:
            continue
        for vaddr, image in images:
            at = relocation.vaddr - vaddr
            if 0 <= at <= len(image) - 8:
                image[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
                break
        else:
            raise CodeObjectError(
                f"a relocation must lie in a loaded segment, not at {relocation.vaddr:#x}; the file is damaged"
            )
    return tuple((base + vaddr, bytes(image)) for vaddr, image in images)


def _value(elf: Elf, kind: int, symbol: int, addend: int, base: int) -> int | None:
    if kind == _NONE:
        return None
    if kind == _RELATIVE64:
        return base + addend
    if kind != _ABS64:
        raise CodeObjectError(
            f"a relocation must be ABS64 ({_ABS64}) or RELATIVE64 ({_RELATIVE64}), not kind {kind}; link the object"
        )
    if symbol >= len(elf.dynamic_symbols) or elf.dynamic_symbols[symbol].section == SHN_UNDEF:
        raise CodeObjectError(f"a relocated symbol must be defined in the file, not symbol {symbol}; link the object")
    return base + elf.dynamic_symbols[symbol].value + addend
