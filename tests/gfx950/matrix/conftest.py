"""One instruction on chosen registers, from assembly text by the LLVM inside Triton."""

import io
from fractions import Fraction

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


def _assembled(text: str) -> bytes:
    source = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n' + text + "\n"
    if hasattr(compiler, "assemble_amdgcn"):
        relocatable = compiler.assemble_amdgcn(source, "gfx950", "")
    else:  # Triton 3.6
        relocatable = amd.assemble_amdgcn(source, "gfx950", "")
    return ELFFile(io.BytesIO(relocatable)).get_section_by_name(".text").data()


@pytest.fixture
def execute():
    """The cohort after one instruction; `v` and `a` are {first register: uint32 (registers, 64)}, all others hold a
    pattern."""

    def execute(text: str, v: dict, a: dict | None = None, *, exec_mask: int = (1 << 64) - 1, context=None) -> Cohort:
        inst = decode_one(_assembled(text))
        cohort = Cohort(Batch(AddressSpace(), 0, 1, 1), np.arange(1), 0, 256, 256, fill=0xA5A5A5A5)
        for file, registers in ((cohort.v, v), (cohort.a, a or {})):
            for first, words in registers.items():
                file[first : first + len(words), 0] = words
        cohort.set_exec(np.array([exec_mask], np.uint64))
        with ignore_float_errors():
            lookup(inst.op).build(inst, context or Context())(cohort)
        return cohort

    return execute


def _rounded(exact: Fraction, fraction_bits: int, least: int, top: int) -> float:
    """RNE to a binary format with nothing but rational numbers; infinity from 2^top on."""
    if exact == 0:
        return 0.0
    size, unit = abs(exact), Fraction(2) ** (least - fraction_bits)
    while size / unit >= 1 << fraction_bits + 1:
        unit *= 2
    whole, rest = divmod(size, unit)
    if rest * 2 > unit or (rest * 2 == unit and whole % 2):
        whole += 1
    value = whole * unit
    sign = 1 if exact > 0 else -1
    return sign * (float("inf") if value >= Fraction(2) ** top else float(value))


@pytest.fixture
def to_f32():
    return lambda exact: _rounded(exact, 23, -126, 128)


@pytest.fixture
def to_f64():
    return lambda exact: _rounded(exact, 52, -1022, 1024)
