"""Every vector ALU instruction the emulator supports, in every form LLVM assembles, judged by AMD's own text.

Bits are compared one by one. Left open, because the text or IEEE 754 leaves them open: sign and payload of a NaN
made by arithmetic; operands for which the text is silent. V_RCP, V_RSQ, V_SQRT, V_EXP and V_LOG are compared within
1 ulp.
"""

import pytest
from emulate import refusal
from forms import Form
from judge import forms_to_judge, judge
from variants import variants_of

from mxassay.gfx950.registry import Mode

# What the emulator may refuse by name: modifiers whose meaning no source fixes, or that no compiler writes.
MAY_REFUSE = (
    "CLAMP",
    "a lane mask from",
    "OP_SEL of a destination",
    "a float modifier on",
    "a scale that is not in a VGPR",
    "a modifier on a scaled conversion",
)


@pytest.mark.parametrize("form", forms_to_judge(scalar=False), ids=str)
def test_the_emulator_agrees_with_the_text(form: Form):
    judged = 0
    for variant in variants_of(form):
        if not form.assembles(variant.sources(form), variant.mods(form)):
            continue
        refused = refusal(variant.text(form), Mode(ieee=variant.ieee))
        if refused is not None:
            assert variant.label != "plain", f"{form}: {refused}"
            assert refused.startswith(MAY_REFUSE), f"{form} ({variant}): {refused}"
            continue
        verdict = judge(form, variant)
        assert not verdict.differences, "\n".join([f"`{verdict.text}` ({variant})", *verdict.differences[:5]])
        judged += verdict.judged
    assert judged >= 64, f"only {judged} lanes of {form} were determined by the text"
