"""The MODE register: flushed float32 denormals and output modifiers, on arithmetic whose text is otherwise plain IEEE.

With FP_DENORM 0 denormal inputs and results are zeros of their sign (AMD CDNA4 ISA, "MODE register"); OMOD multiplies
the rounded result by 2, 4 or 1/2 and makes -0 +0. It counts only then, and only with IEEE off (AMD CDNA4 ISA, "Output
modifiers"; LLVM SIFoldOperands: "omod is ignored by hardware if IEEE bit is enabled"). Whether a denormal result is
flushed before or after OMOD, no source says: such lanes are left out.
"""

from fractions import Fraction

import emulate
import expected
import pytest
from forms import gfx950_forms
from judge import inputs_of, machine_of, seeded, vgpr
from pcode_values import FORMATS, Value, is_nan, make_float, multiply
from variants import Variant

from mxassay.gfx950.registry import Mode

F32 = FORMATS["f32"]
ARITHMETIC = [
    form
    for form in gfx950_forms()
    if form.encoding == "VOP3" and form.name in ("V_ADD_F32", "V_SUB_F32", "V_SUBREV_F32", "V_MUL_F32", "V_FMA_F32")
]
OUTPUT = {"": None, "mul:2": 2, "mul:4": 4, "div:2": 0.5}


def flushed(bits: int) -> int:
    return bits if bits & F32.inf else bits & F32.sign_bit


def modified(bits: int, factor: float | None) -> int:
    v = Value("f32", 32, flushed(bits))
    if factor is None or is_nan(v):
        return v.bits
    bits = flushed(multiply(v, make_float("f32", Fraction(factor))).bits)
    return 0 if bits == F32.sign_bit else bits


@pytest.mark.parametrize("omod", list(OUTPUT), ids=lambda m: m or "no OMOD")
@pytest.mark.parametrize("form", ARITHMETIC, ids=str)
def test_flushed_denormals_and_output_modifiers(form, omod):
    variant = Variant(f"flush {omod}", waves=2)
    waves = inputs_of(form, variant, seeded(form, variant), 2)
    cohort = emulate.execute(form.text(mods=omod), machine_of(form, waves), Mode(ieee=False, denorm_32=0))
    tiny = 0
    for number, wave in enumerate(waves):
        tiny += sum(0 < bits & ~F32.sign_bit < 1 << 23 for slot in ("S0", "S1") for bits in wave.vgprs[slot])
        for slot in wave.vgprs:
            wave.vgprs[slot] = [flushed(bits) for bits in wave.vgprs[slot]]
        want = expected.vector(form, variant, wave)
        for lane, result in want.lanes.items():
            got = vgpr(cohort, 96, 1, number, lane)
            if omod and flushed(result.value) != result.value:
                continue
            bits = modified(result.value, OUTPUT[omod])
            operands = [hex(values[lane]) for values in wave.vgprs.values()]
            assert not (got ^ bits) & result.care, f"lane {lane} {operands}: got {got:#x}, not {bits:#x}"
    assert tiny > 4


@pytest.mark.parametrize("mode", [Mode(ieee=False), Mode(denorm_32=0), Mode()], ids=["denormals", "IEEE", "both"])
def test_output_modifiers_are_ignored_with_denormals_or_ieee_on(mode):
    (form,) = (form for form in ARITHMETIC if form.name == "V_ADD_F32")
    variant = Variant("ignored", waves=1)
    waves = inputs_of(form, variant, seeded(form, variant), 1)
    plain, modified_ = (
        emulate.execute(form.text(mods=mods), machine_of(form, waves), mode).v[96] for mods in ("", "mul:2")
    )
    assert (plain == modified_).all()
