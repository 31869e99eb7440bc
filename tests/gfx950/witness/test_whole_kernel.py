"""The same instructions inside a real code object: loaded, launched, fed from memory and stored to it.

The single-instruction witnesses inject state; here nothing is injected, and the results must be the same bits. So
loader, kernel descriptor, dispatch, scalar and vector memory and EXEC handling agree with what the witnesses judged.
"""

import contextlib

import emulate
import numpy as np
import pytest
from forms import SCALAR, VECTOR, Form
from judge import forms_to_judge, inputs_of, machine_of, seeded
from probe_kernel import LIMIT, probe_kernel
from variants import Variant

from mxassay.gfx950 import launch

WAVES = 2
PLAIN = Variant("whole kernel", partial=True)


def builds(form: Form) -> bool:
    """What doesn't build fails its own test; here it is left out."""
    with contextlib.suppress(Exception):
        emulate.build(form.text())
        return True
    return False


NARROW = [
    form
    for scalar in (False, True)
    for form in forms_to_judge(scalar)
    if all(o.words <= 2 for o in (*form.sources, *([form.destination] if form.destination else []))) and builds(form)
]
# Compares fill hundreds of forms of one mould: every 8th is enough here, all are judged elsewhere.
CHOSEN = [f for f in NARROW if not f.compares] + [f for f in NARROW if f.compares][::8]
CHUNKS = [CHOSEN[i : i + LIMIT] for i in range(0, len(CHOSEN), LIMIT)]


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda c: f"{c[0]}..{c[-1]}")
def test_a_launched_kernel_gives_the_bits_of_single_instructions(chunk: list[Form]):
    kernel = probe_kernel([form.text() for form in chunk])
    inputs, outputs, uniforms = (make(WAVES) for make in (kernel.inputs, kernel.outputs, kernel.uniforms))
    waves = [inputs_of(form, PLAIN, seeded(form, PLAIN), WAVES) for form in chunk]
    machines = [machine_of(form, wave) for form, wave in zip(chunk, waves, strict=True)]
    for i, machine in enumerate(machines):
        fill(machine, inputs[:, :, i], uniforms[:, i])
    launch(kernel.code, (WAVES,), (64,), [inputs, outputs, uniforms])
    for i, (form, machine) in enumerate(zip(chunk, machines, strict=True)):
        want = emulate.execute(form.text(), machine)
        got = outputs[:, :, i]
        if form.destination is not None and not form.destination.scalar:
            for word in range(form.destination.words):
                assert (got[:, :, word] == want.v[VECTOR["D"] + word]).all(), form
        uniform = [want.s[106], want.s[107], want.exec & 0xFFFFFFFF, want.exec >> 32, want.scc, want.s[38], want.s[39]]
        for word, value in enumerate(uniform):
            assert (got[:, :, 4 + word] == np.asarray(value, np.uint32)[:, None]).all(), (form, word)


def fill(machine: emulate.Machine, inputs: np.ndarray, uniforms: np.ndarray) -> None:
    """The state of `machine` as records, and what the kernel can't leave unset set in `machine`."""
    for position, slot in enumerate(("S0", "S1", "S2", "D")):
        for word in range(2):
            if VECTOR[slot] + word in machine.vgprs:
                inputs[:, :, 2 * position + word] = machine.vgprs[VECTOR[slot] + word]
            number = SCALAR[slot] + word
            uniforms[:, number - 32] = machine.sgprs.setdefault(number, np.zeros(machine.waves, np.uint32))
    for first, value in ((8, machine.vcc), (10, machine.exec)):
        uniforms[:, first], uniforms[:, first + 1] = value & 0xFFFFFFFF, value >> 32
    uniforms[:, 12], uniforms[:, 13] = machine.m0, machine.scc
