"""The gfx950 code of every plan, compiled without a GPU: the right instructions, no spills, no missing wait state."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).with_name("compile_for_gfx950.py")
CONVERT = "v_cvt_scalef32_pk_fp4_bf16"


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """Every compiled kernel: its record, with `text` (assembly) and `path` (code object)."""
    folder = tmp_path_factory.mktemp("gfx950")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    record = json.loads(done.stdout.splitlines()[-1])
    for kernel in record["kernels"]:
        kernel["path"] = folder / f"{kernel['name']}.hsaco"
        kernel["text"] = (folder / f"{kernel['name']}.s").read_text()
    return record["kernels"]


def code(text):
    """(mnemonic, operands) of each instruction line."""
    body = text[: text.index(".rodata")] if ".rodata" in text else text
    lines = (line.split(";")[0].strip() for line in body.splitlines())
    instructions = (line for line in lines if re.match(r"(v|s|ds|buffer|global|flat|scratch)_", line))
    return [[*line.split(None, 1), ""][:2] for line in instructions]


def registers(operand):
    """VGPR numbers named by an operand text such as `v[4:7]` or `v3`."""
    found = set()
    for first, last, single in re.findall(r"\bv\[(\d+):(\d+)\]|\bv(\d+)\b", operand):
        found |= set(range(int(first), int(last) + 1)) if first else {int(single)}
    return found


def early_readers(instructions):
    """Conversions whose result is read too early.

    One wait state must lie between a conversion and any reader of its result, another conversion into the same register
    included; two between it and an MFMA. `s_nop n` counts n + 1.
    """
    wrong = []
    for at, (mnemonic, operands) in enumerate(instructions):
        if not mnemonic.startswith(CONVERT):
            continue
        (result,) = registers(operands.split(",")[0])
        waited = 0
        for reader, text in instructions[at + 1 :]:
            destination, _, sources = text.partition(",")
            touched = registers(text if reader.startswith(("ds_", "buffer_", "global_", CONVERT)) else sources)
            if result in touched and waited < (2 if reader.startswith("v_mfma") else 1):
                wrong.append((operands, reader, text))
            waited += int(text, 0) + 1 if reader == "s_nop" else 1
            if waited >= 2 or result in registers(destination):
                break
    return wrong


def test_the_check_itself_sees_early_readers():
    convert = [CONVERT, "v5, v1, v2"]
    assert early_readers([convert, ["v_and_b32_e32", "v6, 0xff, v5"]])
    assert early_readers([convert, [CONVERT, "v5, v3, v2 op_sel:[0,0,1,0]"]])
    assert early_readers([convert, ["ds_write_b8", "v5, v9"]])
    assert early_readers(
        [convert, ["s_nop", "0"], ["v_mfma_scale_f32_16x16x128_f8f6f4", "v[0:3], v[4:7], v[8:11], v[0:3]"]]
    )
    assert not early_readers([convert, ["s_nop", "0"], ["v_and_b32_e32", "v6, 0xff, v5"]])
    assert not early_readers([convert, [CONVERT, "v7, v3, v2"], ["v_and_b32_e32", "v6, 0xff, v5"]])
    assert not early_readers(
        [convert, ["s_nop", "1"], ["v_mfma_scale_f32_16x16x128_f8f6f4", "v[0:3], v[4:7], v[8:11], v[0:3]"]]
    )


def test_every_named_shape_was_compiled(kernels):
    from mxassay.optimized import LEADERBOARD, TEST_SHAPES

    shapes = {tuple(kernel["shape"]) for kernel in kernels if kernel["kind"] == "gemm"}
    assert shapes >= {*LEADERBOARD, *TEST_SHAPES}
    linear = {tuple(kernel["shape"]) for kernel in kernels if kernel["kind"] == "gemm" and kernel["plan"]["linear"]}
    assert linear == {*LEADERBOARD, *TEST_SHAPES}


def test_the_matrix_and_conversion_instructions_are_used(kernels):
    for kernel in kernels:
        used = [mnemonic for mnemonic, _ in code(kernel["text"])]
        if kernel["kind"] != "reduce":
            assert any(mnemonic.startswith(CONVERT) for mnemonic in used), kernel["name"]
        if kernel["kind"] == "gemm":
            side = {16: "16x16x128", 32: "32x32x64"}[kernel["plan"]["matrix_instr_nonkdim"]]
            assert f"v_mfma_scale_f32_{side}_f8f6f4" in used, (kernel["shape"], kernel["plan"])
            assert not [mnemonic for mnemonic in used if mnemonic.startswith("v_mfma_f32")], kernel["shape"]


def test_nothing_spills(kernels):
    for kernel in kernels:
        for field in (".vgpr_spill_count", ".sgpr_spill_count", ".private_segment_fixed_size"):
            found = re.search(rf"{re.escape(field)}:\s*(\d+)", kernel["text"])
            assert found[1] == "0", (kernel["shape"], kernel["plan"], field, found[1])


def test_no_result_of_a_conversion_is_read_too_early(kernels):
    conversions = 0
    for kernel in kernels:
        instructions = code(kernel["text"])
        assert not early_readers(instructions), (kernel["shape"], kernel["plan"])
        conversions += sum(mnemonic.startswith(CONVERT) for mnemonic, _ in instructions)
    assert conversions > 100


def test_the_lint_finds_no_missing_wait_state(kernels):
    from mxassay.gfx950.codeobject import load_code_object
    from mxassay.gfx950.hazards import hazards_of

    for kernel in kernels:
        for function in load_code_object(kernel["path"]).kernels.values():
            assert not hazards_of(function), (kernel["shape"], kernel["plan"])


def test_partials_that_another_workgroup_sums_are_written_past_every_cache_before_they_are_counted(kernels):
    """Scope bits and waits, which memory without caches cannot tell apart. LLVM, SIMemoryLegalizer,
    SIGfx940CacheControl: SC0 and SC1 are system scope; an atomic with SC0 alone is one of agent scope that returns."""
    joined = [kernel for kernel in kernels if kernel["kind"] == "gemm" and kernel["plan"]["joined"]]
    joined = [kernel for kernel in joined if kernel["plan"]["direct"]]
    assert joined
    for kernel in joined:
        instructions = code(kernel["text"])
        (count,) = [at for at, (name, _) in enumerate(instructions) if name == "global_atomic_add"]
        assert instructions[count][1].endswith(" sc0")
        stores = [at for at, (name, _) in enumerate(instructions) if name.startswith("buffer_store")]
        partials, outputs = [at for at in stores if at < count], [at for at in stores if at > count]
        assert partials
        assert outputs
        assert all(instructions[at][1].endswith(" sc0 sc1") for at in partials)
        between = [" ".join(pair).strip() for pair in instructions[partials[-1] + 1 : count]]
        assert "s_barrier" in between[between.index("s_waitcnt vmcnt(0)") :]
        loads = [pair for pair in instructions[count:] if pair[0].startswith("buffer_load")]
        assert len(loads) == kernel["plan"]["splits"] * len(partials)
        assert all(operands.endswith(" sc0 sc1") for _, operands in loads)
        assert [name for name, _ in instructions if name.startswith("global_atomic")][1:] == ["global_atomic_swap"]
