"""SDWA and DPP of every operation that has them: the same as the plain form on sources cut or fetched beforehand.

`test_sdwa_dpp` fixes what cutting and fetching mean; here each operation must take part in them.
"""

import random

import emulate
import numpy as np
import pytest
from assemble import AssemblyError
from edges import draw
from forms import VECTOR, Form, gfx950_forms
from judge import supported
from test_sdwa_dpp import cut, fetched_from

PARTS = ("BYTE_1", "WORD_1")
CONTROL = "row_newbcast:5"  # the only one that 64-bit operands have too
QUAD = "quad_perm:[2,0,3,3]"
WAVES = 2
NARROW = ("V_CVT_F32_FP8", "V_CVT_F32_BF8", "V_CVT_PK_F32_FP8", "V_CVT_PK_F32_BF8")
REFUSED = {
    ("V_PK_FMAC_F16", "_sdwa"): "SDWA of a packed operand",
    **{(name, "_dpp"): "DPP of a conversion from 8 bits" for name in NARROW},
}


def short_forms() -> list[Form]:
    return [
        form
        for form in gfx950_forms()
        if form.encoding in ("VOP1", "VOP2", "VOPC") and supported(form) and not form.name.startswith("V_READ")
    ]


def machine_of(form: Form) -> emulate.Machine:
    rng = random.Random(str(form))
    machine = emulate.Machine(WAVES)
    for operand in (*form.sources, *([form.destination] if form.destination else [])):
        values = [[draw(operand, rng) for _ in range(64)] for _ in range(WAVES)]
        for word in range(operand.words):
            rows = [[value >> 32 * word & emulate.MASK for value in wave] for wave in values]
            machine.vgprs[VECTOR[operand.slot] + word] = np.array(rows, np.uint32)
    machine.vcc = np.array([rng.getrandbits(64) for _ in range(WAVES)], np.uint64)
    machine.exec = np.full(WAVES, (1 << 64) - 1, np.uint64)
    return machine


def written(form: Form, text: str, machine: emulate.Machine) -> list[np.ndarray]:
    cohort = emulate.execute(text, machine)
    words = 0 if form.destination is None or form.destination.scalar else form.destination.words
    return [
        *(cohort.v[VECTOR["D"] + word].copy() for word in range(words)),
        cohort.pair(emulate.VCC).copy(),
        cohort.exec.copy(),
    ]


def assert_same(form: Form, text: str, machine: emulate.Machine, prepared: emulate.Machine) -> None:
    for got, want in zip(written(form, text, machine), written(form, form.text(), prepared), strict=True):
        at = tuple(int(i[0]) for i in np.nonzero(got != want)) if (got != want).any() else None
        assert at is None, f"`{text}` at {at}: got {int(got[at]):#x}, the plain form gives {int(want[at]):#x}"


def with_source(machine: emulate.Machine, number: int, value: np.ndarray) -> emulate.Machine:
    registers = {**machine.vgprs, number: value}
    return emulate.Machine(WAVES, registers, vcc=machine.vcc, exec=machine.exec)


def assembled(form: Form, suffix: str, mods: str) -> str | None:
    text = form.text().replace("_e32", suffix) + mods
    try:
        emulate.decoded(text)
    except AssemblyError:
        return None
    return text


@pytest.mark.parametrize("form", short_forms(), ids=str)
def test_sdwa_cuts_the_first_source(form: Form):
    machine, tried = machine_of(form), 0
    # Conversions from 8 bits read the select's low two bits, so only selects of their own size mean what they say.
    parts = PARTS
    if form.name in NARROW:
        parts = PARTS[1:] if "PK" in form.name else PARTS[:1]
    for part in parts:
        other = " src1_sel:DWORD" if len(form.sources) > 1 else ""
        text = assembled(form, "_sdwa", f" dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{part}{other}")
        text = text or assembled(form, "_sdwa", f" src0_sel:{part}{other}")  # compares and some conversions
        if text is None:
            continue
        tried += 1
        if (form.name, "_sdwa") in REFUSED:
            assert emulate.refusal(text) == REFUSED[form.name, "_sdwa"]
            continue
        words = machine.vgprs[VECTOR["S0"]]
        prepared = np.vectorize(lambda word, part=part: cut(int(word), part), otypes=[np.uint32])(words)
        assert_same(form, text, machine, with_source(machine, VECTOR["S0"], prepared))
    if not tried:
        assert assembled(form, "_sdwa", "") is None


@pytest.mark.parametrize("form", short_forms(), ids=str)
def test_dpp_fetches_the_first_source(form: Form):
    machine = machine_of(form)
    for control in (QUAD, CONTROL):
        text = assembled(form, "_dpp", f" {control} row_mask:0xf bank_mask:0xf")
        if text is None:
            continue
        if (form.name, "_dpp") in REFUSED:
            assert emulate.refusal(text) == REFUSED[form.name, "_dpp"]
            continue
        prepared, lanes = machine, [fetched_from(control, lane) for lane in range(64)]
        for word in range(form.sources[0].words):
            number = VECTOR["S0"] + word
            prepared = with_source(prepared, number, machine.vgprs[number][:, lanes])
        assert_same(form, text, machine, prepared)


def test_this_many_short_forms_have_sdwa_and_dpp():
    """SDWA; DPP with the control for 64-bit operands too; DPP."""
    found = [
        sum(assembled(form, suffix, mods) is not None for form in short_forms())
        for suffix, mods in (("_sdwa", " src0_sel:WORD_1"), ("_dpp", f" {CONTROL}"), ("_dpp", f" {QUAD}"))
    ]
    assert found == [245, 138, 118]
