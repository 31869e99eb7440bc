"""From outputs that are made up to the one answer, and the cases that lead there."""

import pytest
import torch

from mxassay.hosting.version_jobs import NoSuchPlanError, plan_from, planned
from mxassay.reference import DIALECTS, quantize
from mxassay.triage.versions.cases import EDGES, INPUTS, OWN_PLANS, SHAPES, Case, cases_for, edge_of
from mxassay.triage.versions.change import Change, Planned, Run
from mxassay.triage.versions.figures import differences
from mxassay.triage.versions.judging import Trial, compared

SHAPE = (9, 48, 320)
CASES = {inputs: Case(SHAPE, inputs) for inputs in INPUTS}
ONE, OTHER = Planned("one", {"splits": 1}), Planned("other", {"splits": 2})


def _right(inputs, dialect="even"):
    return Case(SHAPE, inputs, dialect).operands().expectation.exact.clone()


def _run(out, plan=ONE, **more):
    return Run(out, plan, **more)


def _answer(*trials):
    return compared(trials, "even")


def _nudged(out, i=0, j=0, bits=1):
    """With other bits in one output."""
    out = out.clone()
    out.view(torch.int16)[i, j] ^= bits
    return out


# Answers


def test_identical_even_where_both_are_wrong():
    wrong = _nudged(_right("certified"))
    found = _answer(Trial(CASES["certified"], _run(wrong), _run(wrong.clone())))
    assert (found.change, found.wrong) == (Change.IDENTICAL, False)
    assert found.words == "all 1 cases give the same bits; 1 of them wrong in both, bit for bit alike"


def test_any_nan_is_like_any_other():
    one, other = _right("certified"), _right("certified")
    one.view(torch.int16)[0, 0], other.view(torch.int16)[0, 0] = 0x7FC0, 0x7FC1
    assert _answer(Trial(CASES["certified"], _run(one), _run(other))).change is Change.IDENTICAL


def test_order_only_inside_the_bound():
    right = _right("order")
    found = _answer(Trial(CASES["order"], _run(right), _run(_nudged(right))))
    assert (found.change, found.wrong) == (Change.ORDER_ONLY, False)
    assert found.rows[0].differing == 1
    assert found.rows[0].first.startswith("out[0, 0]: ")


def test_the_same_step_in_a_certified_output_is_a_fault():
    right = _right("certified")
    found = _answer(Trial(CASES["certified"], _run(right), _run(_nudged(right))))
    assert (found.change, found.wrong) == (Change.FAULT, True)
    assert (found.rows[0].base_wrong, found.rows[0].candidate_wrong) == (0, 1)


def test_fixed():
    right = _right("certified")
    assert _answer(Trial(CASES["certified"], _run(_nudged(right)), _run(right))).change is Change.FIXED


def test_fixed_by_the_plan_alone():
    right, wrong = _right("certified"), _nudged(_right("certified"))
    found = _answer(Trial(CASES["certified"], _run(wrong), _run(right, OTHER), _run(wrong)))
    assert found.change is Change.FIXED
    assert found.words.endswith("BASE is wrong and CANDIDATE is right, but only under other")


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "even"])
def test_every_other_dialect_is_a_contract_change_with_its_name(dialect):
    trials = [Trial(case, _run(_right(inputs)), _run(_right(inputs, dialect))) for inputs, case in CASES.items()]
    found = _answer(*trials)
    assert (found.change, found.wrong) == (Change.CONTRACT, True)
    assert (found.base_dialect, found.candidate_dialect) == ("even", dialect)
    assert f"right under dialect {dialect}, not under even" in found.words


def test_two_versions_of_another_dialect_than_said():
    trials = [
        Trial(case, _run(_right(inputs, "rceil")), _run(_right(inputs, "rceil"))) for inputs, case in CASES.items()
    ]
    found = _answer(*trials)
    assert (found.change, found.base_dialect) == (Change.IDENTICAL, "rceil")
    assert not any(row.base_wrong for row in found.rows)


def test_another_policy_for_nan_that_no_dialect_has():
    case, out = CASES["edges"], _right("edges")
    changed = out.clone()
    row = next(row for row in range(SHAPE[0]) if edge_of(row) == "NaN")
    changed[row] = 1.0
    found = _answer(Trial(case, _run(out), _run(changed)))
    assert (found.change, found.candidate_dialect) == (Change.CONTRACT, "even, but for NaN")
    assert "rows with NaN follow another policy, of no known dialect" in found.words


def test_a_finite_edge_is_no_policy():
    case, changed = CASES["edges"], _right("edges")
    changed[next(row for row in range(SHAPE[0]) if edge_of(row) == "zeros")] = 1.0
    assert _answer(Trial(case, _run(_right("edges")), _run(changed))).change is Change.FAULT


def test_a_refusal_is_a_contract_change():
    refused = Run(None, ONE, "K must be a multiple of 256, not 320", True)
    found = _answer(Trial(CASES["certified"], _run(_right("certified")), refused))
    assert (found.change, found.wrong) == (Change.CONTRACT, True)
    assert found.words.endswith("CANDIDATE refuses what BASE took: K must be a multiple of 256, not 320")
    both = _answer(Trial(CASES["certified"], refused, refused), Trial(CASES["order"], *[_run(_right("order"))] * 2))
    assert both.change is Change.IDENTICAL
    assert both.rows[0].change is None


@pytest.mark.parametrize(
    ("candidate", "swapped", "change", "wrong"),
    [
        ("wrong", "right", Change.PLAN, True),
        ("wrong", "base", Change.PLAN, True),
        ("error", "right", Change.PLAN, True),
        ("wrong", "wrong", Change.FAULT, True),
        ("error", "error", Change.FAULT, True),
        ("nudged", "base", Change.PLAN, False),
        ("nudged", "nudged", Change.ORDER_ONLY, False),
    ],
)
def test_a_plan_is_to_blame_where_the_other_plan_is_innocent(candidate, swapped, change, wrong):
    right = _right("order")
    outs = {
        "right": _nudged(right, 1, 1), "base": right, "nudged": _nudged(right), "error": None,
        "wrong": torch.full_like(right, float("nan")),
    }  # fmt: skip
    runs = [
        Run(outs[what], plan, "RuntimeError: no" if what == "error" else "")
        for what, plan in ((candidate, OTHER), (swapped, ONE))
    ]
    found = _answer(Trial(CASES["order"], _run(right), runs[0], runs[1]))
    assert (found.change, found.wrong) == (change, wrong)
    if change is Change.PLAN:
        assert "under plan other, where one was taken" in found.words


def test_the_most_severe_answer_stands():
    right = {inputs: _right(inputs) for inputs in INPUTS}
    order = Trial(CASES["order"], _run(right["order"]), _run(_nudged(right["order"])))
    fixed = Trial(CASES["certified"], _run(_nudged(right["certified"])), _run(right["certified"]))
    fault = Trial(CASES["edges"], _run(right["edges"]), _run(torch.full_like(right["edges"], 3.0)))
    assert _answer(order).change is Change.ORDER_ONLY
    assert _answer(order, fixed).change is Change.FIXED
    assert _answer(order, fixed, fault).change is Change.FAULT


@pytest.mark.parametrize("out", [torch.zeros(2, 2), torch.zeros(9, 48), None])
def test_what_is_no_output_is_a_fault(out):
    found = _answer(
        Trial(CASES["certified"], _run(_right("certified")), Run(out, error="" if out is not None else "no"))
    )
    assert (found.change, found.rows[0].candidate_wrong) == (Change.FAULT, 9 * 48)


# Cases


def test_the_cases_hold_what_they_say():
    certified, order = (CASES[inputs].operands().expectation for inputs in ("certified", "order"))
    assert certified.certified.double().mean() > 0.99
    assert not order.certified.any()
    edges = CASES["edges"].operands()
    assert {edge_of(row) for row in range(SHAPE[0])} == set(EDGES)
    scales = {edge: quantize(edges.a).scales[EDGES.index(edge)] for edge in EDGES}
    assert (scales["zeros"] == 0).all()
    assert (scales["tiny"] == 0).all()
    assert (scales["huge"] >= 252).all()
    assert int((scales["NaN"] == 253).sum()) == 1
    assert edges.a[EDGES.index("subnormal")].abs().max() < 2.0**-126


def test_edges_are_left_out_where_a_device_cannot_hold_them():
    with_edges, without = (cases_for(SHAPES, dialect="even", seed=0, full_range=full) for full in (True, False))
    assert [case.inputs for case in with_edges] == [case.inputs for case in without] + ["edges"]
    planned_cases = cases_for(SHAPES, dialect="even", seed=0, full_range=False, plans=OWN_PLANS)
    assert [case.plan for case in planned_cases[-len(OWN_PLANS) :]] == list(OWN_PLANS)


def test_plans_go_and_come_back():
    from mxassay.optimized import Plan

    plan = Plan(tile_m=16, tile_n=64, tile_k=128, splits=3)
    found = planned(plan)
    assert found["words"] == plan.words
    assert plan_from(Plan(tile_m=16, tile_n=16, tile_k=128), found["plan"]) == plan
    assert plan_from({}, {"splits": 2}) == {"splits": 2}
    with pytest.raises(NoSuchPlanError):
        plan_from(plan, {"depth": 2})


def test_figures_that_differ():
    before = {"gemm": {"VGPRs": 80, "executed: mfma": 4}, "reduce": {"VGPRs": 8}}
    after = {"gemm": {"VGPRs": 80, "executed: mfma": 8}}
    found = [(each.kernel, each.figure, each.before, each.after) for each in differences(before, after)]
    assert found == [("gemm", "executed: mfma", 4, 8), ("reduce", "VGPRs", 8, 0)]
    renamed = differences({"gemm": {"VGPRs": 80}}, {"matmul": {"VGPRs": 84}})
    assert [(each.kernel, each.before, each.after) for each in renamed] == [("", 80, 84)]
    assert differences(None, after) == []
