"""What an emulated kernel can do wrong, and what we can't run: named errors with kernel, pc and disassembly."""

from mxassay.errors import MxassayError, UnsupportedError
from mxassay.gfx950.instruction import Instruction

__all__ = ["EndlessLoop", "KernelFault", "MemoryFault", "UnsupportedInstruction"]


class UnsupportedInstruction(UnsupportedError):  # noqa: N818  (the name says what it is)
    """An instruction, or a form of it, that nobody taught us. Carries `kernel`, `instruction` and `why`."""

    def __init__(self, instruction: Instruction, kernel: str, why: str) -> None:
        self.instruction, self.kernel, self.why = instruction, kernel, why
        super().__init__(
            f"each instruction of {kernel} must be known to the emulator, not so at pc {instruction.pc:#x}: "
            f"`{instruction.text}` ({instruction.encoding}): {why}"
        )


class KernelFault(MxassayError):  # noqa: N818  (the name says what it is)
    """A running kernel did what a real card would stop for, or what no card defines. Carries `kernel`,
    `instruction`."""

    def __init__(self, message: str, instruction: Instruction | None = None, kernel: str = "") -> None:
        self.instruction, self.kernel = instruction, kernel
        where = f" at pc {instruction.pc:#x} of {kernel}: `{instruction.text}`" if instruction else ""
        super().__init__(message + where)


class MemoryFault(KernelFault):
    """An access outside every buffer, or a store to a read-only one.

    Carries `address`, `size`, `wave`, `lane` (both from 0, the wave counted over the whole grid) and `nearest`, the
    buffer that lies closest, as text.
    """

    def __init__(
        self, message: str, instruction: Instruction, kernel: str, *, address: int, size: int, wave: int, lane: int,
        nearest: str,
    ) -> None:  # fmt: skip
        self.address, self.size, self.wave, self.lane, self.nearest = address, size, wave, lane, nearest
        super().__init__(f"{message} (wave {wave}, lane {lane}; {nearest})", instruction, kernel)


class EndlessLoop(KernelFault):
    """The step budget ran out."""
