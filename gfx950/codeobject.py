"""gfx950 code objects: Triton's `.hsaco` and other people's `.co`, read into records and never executed by the host.

The form: LLVM AMDGPUUsage, "ELF Code Object". Everything is checked before use; damage ends in `CodeObjectError`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path

from mxassay.gfx950.bundle import unbundle
from mxassay.gfx950.debuglines import DebugLines
from mxassay.gfx950.descriptor import DESCRIPTOR_BYTES, Descriptor, read_descriptor
from mxassay.gfx950.elf import EM_AMDGPU, MAX_FILE_BYTES, CodeObjectError, Elf, Segment, machine_name, read_elf
from mxassay.gfx950.metadata import NOTE_KIND, NOTE_NAME, Argument, KernelMetadata, read_metadata
from mxassay.gfx950.relocate import relocated

__all__ = ["Argument", "CodeObject", "CodeObjectError", "Descriptor", "KernelCode", "Segment", "load_code_object"]

PROCESSOR = "gfx950"
# LLVM AMDGPUUsage, "AMDGPU Machine Architecture (e_flags)": EF_AMDGPU_MACH_AMDGCN_*.
_MACH = {
    0x4F: PROCESSOR, 0x2C: "gfx900", 0x2F: "gfx906", 0x30: "gfx908", 0x3F: "gfx90a", 0x40: "gfx940", 0x4B: "gfx941",
    0x4C: "gfx942", 0x36: "gfx1030", 0x41: "gfx1100", 0x48: "gfx1200", 0x4E: "gfx1201", 0x49: "gfx1250",
    0x5F: "gfx9-4-generic",
}  # fmt: skip
_ELFOSABI_AMDGPU_HSA = 64
_STT_FUNC = 2


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel of a code object.

    `entry` is the virtual address of the first instruction; `text` holds the executable segment, which begins at
    `text_address` (so the first instruction lies at `text[entry - text_address]`); `code_size` is the kernel's own
    length in bytes: its symbol's size or, for code without one, up to the next function or the segment's end.
    `lds_bytes` is the static part (Triton asks for its LDS at launch, as dynamic LDS); `scratch_bytes` is per lane.
    `vgprs` and `agprs` are what a lane may address of each; `sgprs` is a wave's allocation, VCC included.
    `metadata` is None where the file has none for this kernel; then `args` is empty, `kernarg_size` the descriptor's.
    """

    name: str
    entry: int
    code_size: int
    text_address: int
    text: bytes = field(repr=False)
    descriptor: Descriptor
    metadata: KernelMetadata | None

    @property
    def code(self) -> bytes:
        """The kernel's own bytes, from its entry on."""
        start = self.entry - self.text_address
        return self.text[start : start + self.code_size]

    @property
    def args(self) -> tuple[Argument, ...]:
        return self.metadata.args if self.metadata else ()

    @property
    def kernarg_size(self) -> int:
        return max(self.metadata.kernarg_size if self.metadata else 0, self.descriptor.kernarg_bytes)

    @property
    def max_flat_workgroup_size(self) -> int:
        return self.metadata.max_flat_workgroup_size if self.metadata else 1024

    @property
    def lds_bytes(self) -> int:
        return self.descriptor.lds_bytes

    @property
    def scratch_bytes(self) -> int:
        return self.descriptor.scratch_bytes

    @property
    def vgprs(self) -> int:
        return min(self.descriptor.accum_offset, self.descriptor.total_vgprs)

    @property
    def agprs(self) -> int:
        return self.descriptor.total_vgprs - self.vgprs

    @property
    def sgprs(self) -> int:
        return self.descriptor.sgprs


@dataclass(frozen=True)
class CodeObject:
    """A gfx950 code object. `kernels` by name; `segments` is what a loader maps, by address and without overlap."""

    path: str | None
    kernels: dict[str, KernelCode]
    segments: tuple[Segment, ...]
    abi_version: int
    target: str
    elf: Elf = field(repr=False)

    def kernel(self, name: str | None = None) -> KernelCode:
        """The kernel called `name`, or the only one.

        Raises:
            CodeObjectError: no kernel of that name, or no name given and several kernels to choose from.
        """
        names = ", ".join(self.kernels)
        if name is None and len(self.kernels) != 1:
            raise CodeObjectError(f"a kernel name must be given, since the file holds {len(self.kernels)}: {names}")
        if name is not None and name not in self.kernels:
            raise CodeObjectError(f"the kernel must be one of {names}, not {name}")
        return self.kernels[name] if name is not None else next(iter(self.kernels.values()))

    def image(self, base: int = 0) -> tuple[tuple[int, bytes], ...]:
        """What memory holds after loading at `base`: (address, bytes) per segment, zero-filled and relocated.

        Raises:
            CodeObjectError: a relocation of a kind or target that a loader could not resolve either.
        """
        return relocated(self.elf, base)

    @cached_property
    def _lines(self) -> DebugLines:
        return DebugLines(self.elf)

    def line_of(self, pc: int) -> tuple[str, int] | None:
        """The source file and line of the instruction at virtual address `pc`; None without readable line tables."""
        return self._lines.line_of(pc)


def load_code_object(source: "str | PathLike[str] | bytes | bytearray | memoryview") -> CodeObject:
    """Read a gfx950 code object, or the gfx950 part of an offload bundle.

    source: a path, or the file's bytes.

    Raises:
        CodeObjectError: unreadable, malformed, truncated, for another processor, or without a kernel.

    >>> load_code_object(b"MZ")
    Traceback (most recent call last):
    mxassay.gfx950.elf.CodeObjectError: the file must begin with the ELF magic 7f454c46, not 4d5a; is it a code object?
    """
    path = None
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    else:
        path = fspath(source)
        data = _file(path)
    elf = read_elf(unbundle(data, PROCESSOR))
    _require_gfx950(elf)
    target, described = _metadata(elf)
    kernels = _kernels(elf, described)
    if not kernels:
        raise CodeObjectError(
            "a code object must hold a kernel (a symbol ending in .kd), not none; is it a device library?"
        )
    return CodeObject(path, kernels, elf.segments, elf.abi_version, target, elf)


def _file(path: str) -> bytes:
    try:
        size = Path(path).stat().st_size
        if size > MAX_FILE_BYTES:
            raise CodeObjectError(f"the file must hold at most {MAX_FILE_BYTES} bytes, not {size}")
        return Path(path).read_bytes()
    except OSError as error:
        raise CodeObjectError(f"the code object must be a readable file, not {path!r} ({error.strerror})") from error


def _require_gfx950(elf: Elf) -> None:
    if elf.machine != EM_AMDGPU:
        raise CodeObjectError(f"the code object must be for an AMD GPU, not for {machine_name(elf.machine)}")
    mach = elf.flags & 0xFF
    if _MACH.get(mach) != PROCESSOR:
        found = _MACH.get(mach, f"processor {mach:#x}")
        raise CodeObjectError(f"the code object must be for {PROCESSOR}, not {found}; compile it for {PROCESSOR}")
    if elf.os_abi != _ELFOSABI_AMDGPU_HSA:
        raise CodeObjectError(
            f"the OS ABI must be {_ELFOSABI_AMDGPU_HSA} (amdhsa), not {elf.os_abi}; graphics code is not run"
        )


def _metadata(elf: Elf) -> tuple[str, dict[str, KernelMetadata]]:
    bodies = list(dict.fromkeys(body for name, kind, body in elf.notes if (name, kind) == (NOTE_NAME, NOTE_KIND)))
    if len(bodies) > 1:
        raise CodeObjectError(f"a code object must hold one metadata note, not {len(bodies)}; the file is damaged")
    target, kernels = read_metadata(bodies[0]) if bodies else ("", ())
    return target, {kernel.symbol: kernel for kernel in kernels}


def _kernels(elf: Elf, described: dict[str, KernelMetadata]) -> dict[str, KernelCode]:
    functions = sorted({symbol.value for symbol in elf.symbols if symbol.kind == _STT_FUNC and symbol.section})
    sizes = {symbol.name: symbol.size for symbol in elf.symbols if symbol.kind == _STT_FUNC and symbol.section}
    kernels: dict[str, KernelCode] = {}
    for symbol in elf.symbols:
        if not symbol.name.endswith(".kd") or not symbol.section:
            continue
        metadata = described.pop(symbol.name, None)
        label = symbol.name.removesuffix(".kd")
        name = metadata.name if metadata else label
        if name in kernels:
            raise CodeObjectError(f"a kernel name must stand once, not twice ({name}); the file is damaged")
        descriptor = read_descriptor(_read(elf, symbol.value, DESCRIPTOR_BYTES, f"the descriptor {symbol.name}"))
        entry = symbol.value + descriptor.entry_offset
        text = _text(elf, entry, name)
        end = text.vaddr + len(text.data)
        size = sizes.get(label, 0)
        if not size:
            size = next((start for start in functions if entry < start < end), end) - entry
        if entry + size > end:
            raise CodeObjectError(
                f"the code of {name} must end inside its segment at {end:#x}, not at {entry + size:#x}"
            )
        kernels[name] = KernelCode(name, entry, size, text.vaddr, text.data, descriptor, metadata)
    if described:
        raise CodeObjectError(
            f"each kernel of the metadata must have its symbol, but {next(iter(described))} is missing"
        )
    return kernels


def _read(elf: Elf, vaddr: int, size: int, what: str) -> bytes:
    for segment in elf.segments:
        start = vaddr - segment.vaddr
        if start >= 0 and start + size <= len(segment.data):
            return segment.data[start : start + size]
    raise CodeObjectError(f"{what} must lie in a loaded segment, not at {vaddr:#x}; the file is damaged")


def _text(elf: Elf, entry: int, name: str) -> Segment:
    if entry % 256:
        raise CodeObjectError(
            f"the entry of {name} must be a multiple of 256, not {entry:#x}; the descriptor is damaged"
        )
    for segment in elf.segments:
        if segment.executable and segment.vaddr <= entry < segment.vaddr + len(segment.data):
            return segment
    raise CodeObjectError(
        f"the entry of {name} must lie in an executable segment, not at {entry:#x}; the file is damaged"
    )
