"""Small gfx950 programs for the tests of the core: LLVM's assembler inside Triton, and a machine around the code."""

import io
from dataclasses import dataclass

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from triton._C.libtriton import amd
from triton.backends.amd import compiler

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.decode import Program
from mxassay.gfx950.machine import Machine
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.program import Threaded
from mxassay.gfx950.registry import Context
from mxassay.gfx950.wave import Cohort


def _assembled(text: str) -> bytes:
    source = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n' + text + "\n"
    if hasattr(compiler, "assemble_amdgcn"):
        relocatable = compiler.assemble_amdgcn(source, "gfx950", "")
    else:  # Triton 3.6
        relocatable = amd.assemble_amdgcn(source, "gfx950", "")
    return ELFFile(io.BytesIO(relocatable)).get_section_by_name(".text").data()


@dataclass
class Finished:
    """What a program left behind: `out` is the buffer whose address was in s[2:3]; s4 held the workgroup, s5 the wave
    in it."""

    out: np.ndarray
    machine: Machine
    memory: AddressSpace


@pytest.fixture
def assemble():
    return _assembled


@pytest.fixture
def run():
    """Run assembly text: s[2:3] output buffer, s4 workgroup, s5 wave in the workgroup, v0 the lane."""

    def run(
        text: str, *, groups: int = 1, waves: int = 1, lds: int = 0, scratch: int = 0, per_batch: int = 64,
        out: int = 1024, budget: int = 10_000_000, observer: object = None, fill: int = 0,
    ) -> Finished:  # fmt: skip
        code = _assembled(text)
        memory = AddressSpace()
        words = np.zeros(out, np.uint32)
        base = memory.add("out", words.view(np.uint8)).base
        threaded = Threaded(Program(code, 0x1000), 0x1000, len(code), Context("test", observer=observer))

        def start(batch: Batch) -> Cohort:
            slots = np.arange(batch.groups * waves)
            cohort = Cohort(batch, slots, 0x1000, 32, 8, fill)
            cohort.s[2], cohort.s[3] = base & 0xFFFFFFFF, base >> 32
            cohort.s[4], cohort.s[5] = batch.first_group + slots // waves, slots % waves
            cohort.v[0] = np.arange(64)
            return cohort

        def batches():
            for first in range(0, groups, per_batch):
                size = min(per_batch, groups - first)
                yield Batch(
                    memory, first, size, waves, lds_bytes=lds, scratch_bytes=scratch, observer=observer, fill=fill
                )

        machine = Machine(threaded, start, budget)
        machine.run(batches())
        return Finished(words, machine, memory)

    return run
