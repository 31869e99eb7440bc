"""Every opcode of gfx950: those in AMD's machine-readable ISA (tinygrad's tables) that LLVM knows on gfx950."""

import functools
import os
import re
import tempfile

from tinygrad.runtime.autogen.amd.cdna import enum as amd
from triton._C.libtriton import amd as llvm
from triton.backends.amd import compiler

ENCODINGS = {
    name.removesuffix("Op"): table
    for name, table in vars(amd).items()
    if name.endswith("Op") and hasattr(table, "__members__")
}
# LLVM's names where they are not AMD's: gfx950 has the fused V_FMA_MIX at V_MAD_MIX's opcodes.
_RENAMED = {
    "v_mad_mix_f32": "v_fma_mix_f32",
    "v_mad_mixlo_f16": "v_fma_mixlo_f16",
    "v_mad_mixhi_f16": "v_fma_mixhi_f16",
}


def _complaints(mnemonics: list[str]) -> dict[int, str]:
    """What LLVM's assembler says of each bare mnemonic, by its index; nothing of those that take no operand."""
    source = "\n".join(mnemonics) + "\n"
    with tempfile.TemporaryFile() as said:
        saved = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            if hasattr(compiler, "assemble_amdgcn"):
                compiler.assemble_amdgcn(source, "gfx950", "")
            else:  # Triton 3.6
                llvm.assemble_amdgcn(source, "gfx950", "")
        except RuntimeError:
            pass
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        said.seek(0)
        text = said.read().decode()
    return {int(line) - 1: why for line, why in re.findall(r":(\d+):\d+: error: (.*)", text)}


@functools.cache
def known_to_llvm() -> dict[str, bool]:
    """Each name in AMD's tables, encoding suffix included, and whether LLVM has it for gfx950."""
    names = sorted({op.name.lower() for table in ENCODINGS.values() for op in table})
    complaints = _complaints([_RENAMED.get(name, name) for name in names])
    return {
        name: complaints.get(i, "too few operands for instruction") == "too few operands for instruction"
        for i, name in enumerate(names)
    }


def plain(name: str) -> str:
    """The emulator's name: lower case, without an encoding suffix."""
    return re.sub(r"_e(32|64)$", "", name.lower())


@functools.cache
def opcodes() -> dict[str, frozenset[str]]:
    """Operations by encoding."""
    known = known_to_llvm()
    return {
        encoding: frozenset(plain(op.name) for op in table if known[op.name.lower()])
        for encoding, table in ENCODINGS.items()
    }
