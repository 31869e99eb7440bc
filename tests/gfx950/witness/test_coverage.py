"""What has a witness and what has none, by name and with the reason. The list must be exact: nothing slips away."""

import re

import emulate
import pytest
from expected import CROSS_LANE
from forms import CONTROL, MATRIX, every_form, gfx950_forms
from pcode_functions import BORROWED
from pcode_state import NoWitnessError, program_of, texts

from mxassay.gfx950 import registry

NOT_ON_GFX950 = {"V_CUBEID_F32", "V_CUBESC_F32", "V_CUBETC_F32", "V_CUBEMA_F32"}
SCALED = "rounding, saturation and NaN of a scaled narrowing conversion are not in AMD's text"
STOCHASTIC = "the stochastic rounding function is not in AMD's text"
NORMALISED = "rounding of the normalised conversion is not in AMD's text"
TRIGONOMETRIC = "range and reduction are not in AMD's text"
BYTE = "rounding and saturation of the 8-bit conversion are not in AMD's text"
# instruction -> how its reason ends. The scaled narrowing conversions to FP8, BF8, FP6, BF6 and the stochastic ones to
# FP4 are named by pattern below, all with the reason SCALED.
WITHOUT = {
    "V_CVT_NORM_I16_F16": NORMALISED,
    "V_CVT_NORM_U16_F16": NORMALISED,
    "V_CVT_PKNORM_I16_F16": NORMALISED,
    "V_CVT_PKNORM_U16_F16": NORMALISED,
    "V_CVT_PKNORM_I16_F32": NORMALISED,
    "V_CVT_PKNORM_U16_F32": NORMALISED,
    "V_SIN_F16": TRIGONOMETRIC,
    "V_SIN_F32": TRIGONOMETRIC,
    "V_COS_F16": TRIGONOMETRIC,
    "V_COS_F32": TRIGONOMETRIC,
    "V_CVT_PK_U8_F32": BYTE,
    "V_CVT_PKACCUM_U8_F32": BYTE,
    "V_CVT_SR_F16_F32": STOCHASTIC,
    "V_CVT_SR_BF16_F32": STOCHASTIC,
    "V_CVT_SR_FP8_F32": "`mantissa` is used as raw bits here and as a float elsewhere",
    "V_CVT_SR_BF8_F32": "`mantissa` is used as raw bits here and as a float elsewhere",
    "V_CVT_OFF_F32_I4": "the table CVT_OFF_TABLE is declared and never filled",
    "V_TRIG_PREOP_F64": "needs 2/PI to 1,201 bits, written as a cast of a double",
    "V_DIV_SCALE_F32": "tests 1/S1 for a denormal in f64, where it can't be one, and leaves D0 unset on three paths",
    "V_DIV_SCALE_F64": "leaves D0 unset on three paths",
    "V_DIV_FIXUP_LEGACY_F16": "puts 64-bit infinities into an untyped variable and reads them as f16",
    "V_EXP_LEGACY_F32": "AMD publishes no pseudocode",
    "V_LOG_LEGACY_F32": "AMD publishes no pseudocode",
}
SCALED_NARROWING = re.compile(
    r"V_CVT_SCALEF32_(SR_)?(2XPK16_|PK32_|PK_)?(FP8|BF8|FP6|BF6)_(F32|F16|BF16)|V_CVT_SCALEF32_SR_PK_FP4_(F32|F16|BF16)"
)


def why_not(name: str) -> str | None:
    try:
        program_of(name)
    except NoWitnessError as error:
        return str(error)
    return None


def reason_of(name: str) -> str | None:
    return SCALED if SCALED_NARROWING.fullmatch(name) else WITHOUT.get(name)


@pytest.mark.parametrize("name", sorted({form.name for form in every_form()}))
def test_every_alu_instruction_has_a_witness_or_a_listed_reason(name):
    reason, listed = why_not(name), reason_of(name)
    assert (reason is None) == (listed is None), f"{name}: {reason}"
    assert reason is None or reason.endswith(listed)


def test_more_than_nine_in_ten_instructions_have_a_witness():
    names = {form.name for form in every_form()}
    without = {name for name in names if why_not(name)}
    assert (len(names), len(without)) == (675, 50)


def test_llvm_knows_every_form_but_those_named():
    missing = {str(form) for form in every_form()} - {str(form) for form in gfx950_forms()}
    other_encoding = {"V_READFIRSTLANE_B32/VOP3", "V_SWAP_B32/VOP3"}
    two_scalars = {"V_WRITELANE_B32/VOP3"}  # its two SGPR sources must be one, or M0: test_cross_lane writes it so
    assert missing == {f"{name}/VOP3" for name in NOT_ON_GFX950} | other_encoding | two_scalars


def test_every_vector_and_scalar_operation_of_the_emulator_is_judged_or_listed():
    """By the registry: an operation taught to the emulator can't escape the witnesses by its name."""
    emulate.lookup("v_mov_b32")
    aliases = {emulate.decoded(form.text()).op for form in gfx950_forms()}
    unjudged = {
        op
        for op in registry._TABLE
        if op.startswith(("v_", "s_"))
        and op not in aliases
        and not re.match(r"s_(load|buffer_load|store|dcache|memtime|memrealtime|atc|scratch|icache)", op)
        and op.upper() not in CONTROL | control_flow()
        and not op.upper().startswith(CROSS_LANE)
        and not any(word in op.upper() for word in MATRIX)
    }
    assert unjudged == set()


def control_flow() -> set[str]:
    from tinygrad.runtime.autogen.amd.cdna.enum import SOPPOp

    return {op.name for op in SOPPOp}


def test_borrowed_functions_are_those_that_the_text_calls_and_leaves_open():
    for function in BORROWED:
        assert any(f"{function}(" in text for text in texts().values())
        assert not any(f"{function} = lambda" in text for text in texts().values())
