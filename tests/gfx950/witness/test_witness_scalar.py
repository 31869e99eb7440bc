"""Every scalar ALU instruction the emulator supports, on 256 operand tuples each: result, SCC and EXEC."""

import pytest
from forms import Form
from judge import forms_to_judge, judge_scalar


@pytest.mark.parametrize("form", forms_to_judge(scalar=True), ids=str)
def test_the_emulator_agrees_with_the_text(form: Form):
    verdict = judge_scalar(form)
    assert not verdict.differences, "\n".join([f"`{verdict.text}`", *verdict.differences[:5]])
