"""Source or compiler: who is blamed, and where two compilations part."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mxassay.errors import UnsupportedError
from mxassay.optimized import Plan
from mxassay.properties.faults import planted
from mxassay.properties.faults.tree import snapshot
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import quantize
from mxassay.triage import blame as module
from mxassay.triage.blame import blame
from mxassay.triage.budget import TimeUp
from mxassay.triage.compilations import Compiled, first_difference, normalised
from mxassay.triage.diagnosis import Checkpoint, XRay
from mxassay.triage.failure import Failure, Subject


@pytest.fixture
def failure():
    """One output is off by one bit."""
    a = torch.ones(2, 64, dtype=torch.bfloat16)
    operands = Operands(a, *quantize(torch.ones(16, 64, dtype=torch.bfloat16)))
    out = operands.expectation.exact.clone()
    out.view(torch.int16)[0, 0] += 1
    return Failure(Subject(), operands, Launch(), Placement(), out)


def right(failure):
    return failure.operands.expectation.exact


def again_wrong(failure):
    return lambda case: failure.out


def compiled(**texts):
    return [Compiled("kernel", texts, b"")]


def refuses(failure):
    raise UnsupportedError("Triton's interpreter must know dot_scaled, not be that of 3.6; install 3.9\nmore")


def test_wrong_in_the_same_bits_on_the_interpreter_is_the_source(failure):
    found = blame(failure, right, lambda case: case)
    assert (found.culprit, found.compiler_stage) == ("source", None)
    assert "in the same bits" in found.statement


def test_wrong_in_other_bits_is_the_source_unless_the_interpreter_cannot_represent_the_scales(failure):
    def otherwise(case):
        out = case.out.clone()
        out.view(torch.int16)[1, 3] += 5
        return replace(case, out=out)

    assert blame(failure, right, otherwise).culprit == "source"
    scales = failure.operands.scales.clone()
    scales[3, 1] = 254
    wide = replace(failure, operands=replace(failure.operands, scales=scales))
    wide = replace(wide, out=torch.zeros_like(wide.out))
    assert blame(wide, right, otherwise).culprit == "unknown"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda failure: replace(failure, out=None), "the kernel raised, so there are no outputs to compare"),
        (lambda failure: replace(failure, out=right(failure)), "the case does not fail here"),
    ],
)
def test_without_a_wrong_output_nobody_is_blamed(failure, change, words):
    assert blame(change(failure), right, refuses) == module.Blame("unknown", words)


def test_an_interpreter_that_refuses_is_quoted(failure):
    found = blame(failure, right, refuses)
    assert found.culprit == "unknown"
    assert found.statement == (
        "Triton's interpreter cannot run the case: "
        "Triton's interpreter must know dot_scaled, not be that of 3.6; install 3.9"
    )


@pytest.fixture
def compilations(failure, monkeypatch):
    """Says what each change compiles to, and whether it passes."""

    def pretend(xray=None, **outcomes):
        names = {change.replace("_is_", "=") for change in outcomes}
        texts = {change.replace("_is_", "="): outcome for change, outcome in outcomes.items()}
        passing = [module._Passing(name, texts[name], "a difference") for name in names if texts[name]]
        monkeypatch.setattr(module, "_compilations", lambda *_: module._Tried(compiled(ttir="x"), passing, len(names)))
        return blame(failure, right, lambda case: replace(case, out=right(case)), xray)

    return pretend


def test_of_compilations_that_pass_the_one_that_parts_latest_is_named(compilations):
    found = compilations(num_stages_is_1="ttgir", waves_per_eu_is_1="amdgcn", num_warps_is_2="ttgir")
    assert (found.culprit, found.compiler_stage, found.passing) == ("compiler", "amdgcn", "waves_per_eu=1")
    assert "waves_per_eu=1 (and 2 more)" in found.statement
    assert found.difference == "a difference"


def test_where_no_compilation_passes_the_stage_stays_open(compilations):
    found = compilations(num_stages_is_1="", num_warps_is_2="")
    assert (found.culprit, found.compiler_stage) == ("compiler", None)
    assert "in each of 2 other compilations" in found.statement


def test_a_branch_of_the_source_for_this_device_is_source(compilations):
    found = compilations(ROUND_IN_INTEGERS_is_True="ttir")
    assert (found.culprit, found.passing) == ("source", "ROUND_IN_INTEGERS=True")


@pytest.mark.parametrize(
    ("inputs", "stage", "culprit"), [(0, "quantizer.element", "compiler"), (3, "pack", "source"), (0, "pack", "source")]
)
def test_inline_assembly_is_blamed_where_its_operands_are_right(compilations, inputs, stage, culprit):
    points = (
        Checkpoint("quantizer.element", "operands of the conversions to FP4", 8, inputs),
        Checkpoint(stage, "codes of A as the MFMA reads them", 8, 8),
    )
    assert compilations(XRay(points), USE_ASM_is_False="ttir").culprit == culprit


@pytest.fixture
def launched(failure, monkeypatch):
    """Runs that launch a kernel compiled as told: `text(changes, call)`, and whether that passes."""

    def tell(text, passes, case=failure, **more):
        now = {}

        @contextmanager
        def compiled_by(changes=None):
            now.update(changes=changes or {}, kernels=[])
            yield now["kernels"]

        def run(call):
            now["kernels"] += compiled(amdgcn=text(now["changes"], call))
            return right(call) if passes(now["changes"], call) else failure.out

        monkeypatch.setattr(module, "compiled_by", compiled_by)
        return blame(case, run, lambda case: replace(case, out=right(case)), **more)

    return tell


def test_another_triton_that_passes_blames_the_compiler(failure, launched):
    def other(case):
        return "3.8.0", replace(case, out=right(case)), compiled(amdgcn="v_other")

    found = launched(lambda changes, call: "v_one", lambda changes, call: False, changes=(), others=[other])
    assert (found.culprit, found.compiler_stage, found.passing) == ("compiler", "amdgcn", "Triton 3.8.0")
    assert "-v_one" in found.difference
    assert "+v_other" in found.difference


def test_another_triton_that_fails_as_well_is_said(failure, launched):
    def other(case):
        return "3.8.0", case, compiled(amdgcn="v_other")

    found = launched(lambda changes, call: "v_one", lambda changes, call: False, changes=(), others=[other, refuses])
    assert found.culprit == "compiler"
    assert "wrong as compiled, and in each of 1 other compilations as well" in found.statement
    assert "; wrong with Triton 3.8.0 too; not tried: another Triton (" in found.statement


def test_another_triton_that_parts_earlier_is_said_too(failure, launched):
    def other(case):
        return "3.8.0", replace(case, out=right(case)), compiled(ttgir="other", amdgcn="v_other")

    found = launched(
        lambda changes, call: f"v_{changes}",
        lambda changes, call: bool(changes),
        changes=(("num_warps=8", {"num_warps": 8}),),
        others=[other],
    )
    assert (found.compiler_stage, found.passing) == ("amdgcn", "num_warps=8")
    assert found.statement.endswith("; right with Triton 3.8.0, which parts at ttgir")


def test_how_a_version_spells_a_policy_or_a_type_is_no_difference():
    policy = "{cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_normal>"
    later = [f"%1 = tt.load %0 {policy}}} : tensor<4x!tt.ptr<i8>>",
             f"%2 = amdg.buffer_load %1[%0] {policy}, contiguity = 16 : i32}} : !tt.ptr<i8> -> tensor<4xi8>",
             "amdg.buffer_store %2, %1[%0] {contiguity = 4 : i32} : !tt.ptr<i8> -> tensor<4xi8>"]  # fmt: skip
    before = ["%1 = tt.load %0 cacheModifier = cg : tensor<4x!tt.ptr<i8>>",
              "%2 = amdg.buffer_load %1[%0] cacheModifier = cg {contiguity = 16 : i32} : tensor<4xi8>",
              "amdg.buffer_store %2, %1[%0] {contiguity = 4 : i32} : tensor<4xi8>"]  # fmt: skip
    assert normalised("ttgir", "\n".join(later)) == normalised("ttgir", "\n".join(before))
    streamed = "tt.load %0 {cachePolicy = #tt.cache_policy<eviction_policy = evict_first>}"
    assert normalised("ttir", streamed) == ["tt.load %v0 evictionPolicy = evict_first"]


def test_another_plan_is_tried_where_no_option_passes(failure, launched):
    planned = replace(failure, launch=Launch(Plan(tile_m=16, tile_n=32, tile_k=256)))
    found = launched(
        lambda changes, call: f"tile {call.launch.plan.tile_k} {changes}",
        lambda changes, call: call.launch.plan.tile_k == 128,
        changes=(("num_warps=8", {"num_warps": 8}),),
        case=planned,
    )
    assert (found.culprit, found.passing) == ("compiler", "tile_k=128")


def test_a_fault_of_the_direct_kernel_is_no_compiler_s(failure, launched):
    """On the interpreter, which Gluon has not, the usual kernel stands in for it."""
    direct = replace(failure, launch=Launch(Plan(tile_m=16, tile_n=128, tile_k=256, direct=True)))
    found = launched(lambda *_: "same", lambda changes, call: not call.launch.plan.direct, changes=(), case=direct)
    assert (found.culprit, found.passing) == ("source", "direct=False")


def test_what_was_not_compiled_for_lack_of_time_is_said(failure, launched):
    def passes(changes, call):
        if changes:
            raise TimeUp
        return False

    found = launched(lambda *_: "same", passes, changes=(("num_warps=8", {"num_warps": 8}), ("num_stages=1", {})))
    assert found.statement.endswith("; not tried: num_warps=8, num_stages=1 (the time was up)")


def test_a_hazard_that_the_xray_sees_is_added(compilations):
    points = (Checkpoint("quantizer.element", "wait states behind the conversions", 16, 4),)
    found = compilations(XRay(points), num_stages_is_1="ttgir")
    assert found.statement.endswith("; 4 conversions are read sooner than the hardware allows, a hazard")


def test_texts_are_compared_without_locations_and_numbers():
    one = '%7 = arith.addi %a, %a : i32 loc(#loc3)\n#loc3 = loc("x.py":1:2)'
    two = '%12 = arith.addi %b, %b : i32 loc(#loc9)\n#loc9 = loc("y.py":3:4)'
    assert normalised("ttir", one) == normalised("ttir", two)
    assert normalised("ttir", one) != normalised("ttir", one.replace("%a, %a", "%a, %b"))
    llir = "define void @f(i32 %0) !dbg !5 {\n  %2 = add i32 %0, 1, !dbg !7 ; x\n}\n!7 = !DILocation(line: 3)\n"
    assert normalised("llir", llir) == ["define void @f(i32 %v0) {", "  %v1 = add i32 %v0, 1", "}"]
    code = "\tv_add_u32 v1, v2, v3 ; comment\n\t.loc\t1 3 4\n.Ltmp4:\n.LBB0_2:\n\ts_branch .LBB0_2\n"
    assert normalised("amdgcn", code) == ["\tv_add_u32 v1, v2, v3", ".v0:", "\ts_branch .v0"]


def test_the_first_stage_that_differs_is_named_with_its_lines():
    same = {"ttir": "%0 = x.y %1", "ttgir": "%0 = x.y %1"}
    found = first_difference(compiled(**same, llir="add i32 %1, 2"), compiled(**same, llir="add i32 %1, 3"))
    assert found is not None
    stage, difference = found
    assert stage == "llir"
    assert "-add i32 %, 2" in difference
    assert "+add i32 %, 3" in difference
    assert first_difference(compiled(**same), compiled(**same)) is None
    assert first_difference(compiled(ttir="a"), [*compiled(ttir="a"), *compiled(ttir="b")]) is None


@pytest.mark.parametrize(
    ("fault", "culprit", "passing"),
    [("conversion-reads-a-neighbour", "compiler", "USE_ASM=False"), ("scale-rule-floor", "source", "")],
)
def test_a_fault_in_assembly_and_one_in_the_source_are_told_apart(tmp_path, fault, culprit, passing):
    chosen = next(entry for entry in planted() if entry.id == fault)
    tree = snapshot(tmp_path / "original").planted(chosen, tmp_path / "planted")
    environment = os.environ | {"PYTHONPATH": str(tree.root / "src"), "TRITON_CACHE_DIR": str(tmp_path / "compiled")}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("blamed_kernel.py"))],
        capture_output=True, text=True, env=environment, check=True, cwd=tree.root,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["fails"]
    assert (found["culprit"], found["passing"]) == (culprit, passing), found
    assert (found["compiler_stage"] == "ttir") == bool(passing)
