"""A few waves with memory around them, on which single instructions run, from assembly text by the LLVM in Triton."""

import functools
import io

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from triton._C.libtriton import amd
from triton.backends.amd import compiler

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.decode import decode_one
from mxassay.gfx950.floating import ignore_float_errors
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.registry import Context, lookup
from mxassay.gfx950.wave import Cohort


@functools.cache
def _assembled(text: str) -> bytes:
    source = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n' + text + "\n"
    if hasattr(compiler, "assemble_amdgcn"):
        relocatable = compiler.assemble_amdgcn(source, "gfx950", "")
    else:  # Triton 3.6
        relocatable = amd.assemble_amdgcn(source, "gfx950", "")
    return ELFFile(io.BytesIO(relocatable)).get_section_by_name(".text").data()


class Bench:
    """`groups` workgroups of `waves` waves. `cohort` is their state; memory, LDS and scratch are the batch's."""

    def __init__(self, *, waves: int = 1, groups: int = 1, lds: int = 0, scratch: int = 0) -> None:
        self.memory = AddressSpace()
        self.batch = Batch(self.memory, 0, groups, waves, lds_bytes=lds, scratch_bytes=scratch)
        self.cohort = Cohort(self.batch, np.arange(groups * waves), 0, 128, 32, fill=0xA5A5A5A5)
        self.v, self.a, self.s = self.cohort.v, self.cohort.a, self.cohort.s
        self.cohort.set_exec(np.full(groups * waves, (1 << 64) - 1, np.uint64))

    def map(self, name: str, data: np.ndarray, register: int | None = None, *, writable: bool = True) -> int:
        """Make memory of an array; put its address into an SGPR pair."""
        base = self.memory.add(name, data.view(np.uint8).ravel(), writable=writable).base
        if register is not None:
            self.s[register], self.s[register + 1] = base & 0xFFFFFFFF, base >> 32
        return base

    def resource(self, register: int, base: int, records: int, stride: int = 0, word3: int = 0, swizzle: int = 0):
        """A buffer resource in four SGPRs."""
        words = (base & 0xFFFFFFFF, base >> 32 | stride << 16 | swizzle << 31, records, word3)
        for place, word in enumerate(words):
            self.s[register + place] = word

    def lds(self, group: int = 0) -> np.ndarray:
        """A workgroup's LDS, uint8, not copied."""
        start = group * self.batch.lds_stride
        return self.batch.lds.data[start : start + self.batch.lds_bytes]

    def run(self, *texts: str) -> None:
        with ignore_float_errors():
            for text in texts:
                inst = decode_one(_assembled(text))
                step = lookup(inst.op).build(inst, Context("bench"))
                if step is not None:
                    step(self.cohort)


@pytest.fixture
def bench():
    return Bench
