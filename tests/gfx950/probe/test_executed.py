"""What ran: counted by operation, summed over launches, with what is not certain of it."""

import numpy as np
import pytest

from mxassay.gfx950 import Fidelity, Kernel, Options, launch, load_code_object
from mxassay.gfx950.assembler import KernelText, assemble, module
from mxassay.gfx950.fidelity import Executed, Operation
from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, code_object

# Wave w of 4 goes w + 1 times through the loop.
LOOP = """
s_add_u32 s3, s2, 1
.Lagain:
v_exp_f32_e32 v1, v0
v_add_f32_e32 v1, v1, v1
s_nop 3
s_sub_u32 s3, s3, 1
s_cmp_lg_u32 s3, 0
s_cbranch_scc1 .Lagain
"""


@pytest.fixture(scope="module")
def loop():
    return Kernel(load_code_object(assemble(module(KernelText("loop", LOOP)))))


def run(kernel, groups, **options):
    buffers = [np.zeros(4, np.uint32), np.zeros(4, np.uint32)]
    return launch(kernel, (groups,), (64,), buffers, options=Options(**options))


@pytest.mark.parametrize("options", [{}, {"waves_per_batch": 1}])
def test_every_instruction_of_every_wave_is_counted_once(loop, options):
    counts = run(loop, 4, **options)
    found = Executed.of(loop, counts)
    waves = {entry.op: entry.waves for entry in found.operations}
    assert waves == {
        "s_add_u32": 4, "v_exp_f32": 10, "v_add_f32": 10, "s_nop": 10, "s_sub_u32": 10, "s_cmp_lg_u32": 10,
        "s_cbranch_scc1": 10, "s_endpgm": 4,
    }  # fmt: skip
    assert found.wave_instructions == counts.wave_instructions == sum(waves.values())
    assert found.kernels == ("loop",)


def test_a_launch_counts_for_itself(loop):
    first, second = Executed.of(loop, run(loop, 4)), Executed.of(loop, run(loop, 1))
    assert {entry.op: entry.waves for entry in second.operations}["v_exp_f32"] == 1
    total = Executed.total([first, second, first])
    assert {entry.op: entry.waves for entry in total.operations}["v_exp_f32"] == 21
    assert total.wave_instructions == 2 * first.wave_instructions + second.wave_instructions
    assert total.kernels == ("loop",)


def test_text_names_what_is_not_certain():
    found = Executed(
        ("k",),
        (
            Operation("v_add_f32", 900, Fidelity.CERTAIN, "ISA"),
            Operation("v_exp_f32", 80, Fidelity.INFERRED, "1 ulp"),
            Operation("s_getreg_b32", 20, Fidelity.UNKNOWN, "declared"),
        ),
        4096,
        12,
    )
    assert found.text().splitlines() == [
        "1,000 wave instructions of 3 operations",
        "  certain   90.00%  1 operations",
        "  inferred   8.00%  1 operations",
        "    v_exp_f32                                     80  1 ulp",
        "  unknown    2.00%  1 operations",
        "    s_getreg_b32                                  20  declared",
        "  12 of 4,096 matrix results depend on the order of adding: another card may give other bits",
    ]
    assert "    v_add_f32                                    900  ISA" in found.text(every=True)


@pytest.mark.parametrize(("identity", "differ"), [("mfma.bf16.order", True), ("mfma.bf16.layout", False)])
def test_results_that_depend_on_the_order_of_adding_are_told(identity, differ):
    question = QUESTIONS[identity]
    kernel = Kernel(load_code_object(code_object()), question.kernel_name)

    def counts(**options):
        inputs = question.program.data.copy()
        outputs = np.zeros((*inputs.shape[:2], 4), np.uint32)
        return launch(kernel, (len(inputs),), (64,), [inputs, outputs], options=Options(**options))

    found = Executed.of(kernel, counts(compare_accumulation=True))
    assert found.matrix_results == 256 * len(question.program.data)
    assert (found.differing > 0) == differ
    assert ("another card may give other bits" in found.text()) == differ
    # A later launch does not change the record of an earlier one.
    before = found.differing
    counts(compare_accumulation=True)
    assert found.differing == before
    assert Executed.of(kernel, counts()).matrix_results is None


def test_an_empty_total_says_so():
    assert Executed.total([]).text() == "0 wave instructions of 0 operations"


def test_the_probe_itself_is_counted_alike():
    card = EmulatedCard()
    question = QUESTIONS["cvt.fp4.finite"]
    inputs = question.program.data.copy()
    outputs = np.zeros((*inputs.shape[:2], 1), np.uint32)
    card.run(code_object(), question.kernel_name, (len(inputs),), (64,), [inputs, outputs])
    kernel = Kernel(load_code_object(code_object()), question.kernel_name)
    counts = launch(kernel, (len(inputs),), (64,), [inputs, outputs])
    conversions = [e for e in Executed.of(kernel, counts).operations if e.op == "v_cvt_scalef32_pk_fp4_bf16"]
    assert [entry.waves for entry in conversions] == [len(inputs)]


def test_a_hosted_programs_launches_are_summed_by_operation(loop):
    from mxassay.hosting.launch_log import LaunchLog, recorded

    with recorded(LaunchLog()) as log:
        run(loop, 4)
        run(loop, 1)
    assert log.executed == Executed.total([Executed.of(loop, run(loop, 4)), Executed.of(loop, run(loop, 1))])
    (line,) = log.as_json()
    assert line["executed"]["v_exp_f32"] == 11
    assert line["launches"] == 2
    assert "  bits inferred: s_nop, v_exp_f32" in log.summary().splitlines()
    other = Kernel(load_code_object(assemble(module(KernelText("loop", LOOP.replace("v_exp_f32", "v_log_f32"))))))
    with recorded(LaunchLog()) as log:
        run(loop, 1)
        run(other, 1)
    assert "  bits inferred: s_nop, v_exp_f32, v_log_f32" in log.summary().splitlines()
    with recorded(LaunchLog()) as log:
        run(loop, 4, compare_accumulation=True)
    assert "  0 matrix results depend on the order of adding" in log.summary().splitlines()
