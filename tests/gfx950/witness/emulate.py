"""One instruction on the emulator, from assembly text: LLVM assembles it, the emulator decodes and executes it."""

import contextlib
from dataclasses import dataclass, field

import numpy as np
from assemble import machine_code

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.decode import decode_one
from mxassay.gfx950.faults import UnsupportedInstruction
from mxassay.gfx950.floating import ignore_float_errors
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.registry import Context, Mode, lookup
from mxassay.gfx950.wave import Cohort

ADDRESS = 0x1000
VCC, M0 = 106, 124
MASK = 0xFFFFFFFF


@dataclass
class Machine:
    """What the instruction finds: `vgprs`, `agprs` by number, uint32 (waves, 64); the rest one number a wave."""

    waves: int
    vgprs: dict[int, np.ndarray] = field(default_factory=dict)
    agprs: dict[int, np.ndarray] = field(default_factory=dict)
    sgprs: dict[int, np.ndarray] = field(default_factory=dict)
    scc: np.ndarray | None = None
    vcc: np.ndarray | None = None
    exec: np.ndarray | None = None
    m0: np.ndarray | None = None


def decoded(text: str) -> Instruction:
    code = machine_code(text)
    inst = decode_one(code, ADDRESS)
    assert inst.size == len(code), f"`{text}` is {len(code)} bytes, the decoder sees {inst.size}"
    return inst


def build(text: str, mode: Mode | None = None):
    """The step. Raises `UnsupportedInstruction` for a form the emulator refuses, KeyError for an unknown operation."""
    inst = decoded(text)
    found = lookup(inst.op)
    if found is None:
        raise KeyError(inst.op)
    return found.build(inst, Context("witness", mode or Mode()))


def refusal(text: str, mode: Mode | None = None) -> str | None:
    """Why the emulator refuses this form of an operation it knows, or None."""
    try:
        build(text, mode)
    except UnsupportedInstruction as error:
        return error.why
    return None


def execute(text: str, machine: Machine, mode: Mode | None = None) -> Cohort:
    """The state after the instruction."""
    step = build(text, mode)
    batch = Batch(AddressSpace(), 0, machine.waves, 1)
    # Only the registers named are given; the others hold a pattern, so that a stray write shows.
    vgprs, agprs = (max(file, default=-1) + 1 for file in (machine.vgprs, machine.agprs))
    cohort = Cohort(batch, np.arange(machine.waves), ADDRESS, vgprs, agprs, 0xA5A5A5A5)
    for number, value in machine.vgprs.items():
        cohort.v[number] = value
    for number, value in machine.agprs.items():
        cohort.a[number] = value
    for number, value in machine.sgprs.items():
        cohort.s[number] = value
    if machine.scc is not None:
        cohort.scc[:] = machine.scc
    if machine.vcc is not None:
        cohort.set_pair(VCC, machine.vcc)
    if machine.m0 is not None:
        cohort.s[M0] = machine.m0
    if machine.exec is not None:
        cohort.set_exec(machine.exec)
    with ignore_float_errors() if step is not None else contextlib.nullcontext():
        if step is not None:
            step(cohort)
    return cohort
