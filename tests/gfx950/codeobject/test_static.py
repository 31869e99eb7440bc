"""Static figures: against what LLVM prints after each kernel, and against hand-counted code."""

import re

import pytest

from mxassay.gfx950.codeobject import load_code_object
from mxassay.gfx950.static import MemoryUse, OpcodeUse, report_of

BODY = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v0, s[4:5]
buffer_load_ubyte v8, v0, s[8:11], 0 offen
ds_read2_b64 v[12:15], v0 offset1:1
ds_read_b64_tr_b16 v[16:17], v0
ds_write_b16 v0, v8
global_load_lds_dwordx4 v0, s[4:5]
s_cbranch_scc0 .Lskip
v_cvt_scalef32_pk_fp4_bf16 v8, v4, v5
v_mfma_f32_16x16x32_bf16 v[20:23], v[4:7], v[12:15], v[20:23]
v_mfma_f32_32x32x16_bf16 a[0:15], v[4:7], v[12:15], a[0:15]
.Lskip:
buffer_atomic_add_x2 v[4:5], v0, s[8:11], 0 offen
global_atomic_pk_add_bf16 v0, v8, s[4:5]
s_branch .Lout
v_nop
.Lout:
v_add_u32 v1, v2, v3
s_endpgm
"""


def test_hand_counted_code(assemble):
    report = report_of(load_code_object(assemble(BODY)).kernel())
    # The v_nop behind the branch can't be reached.
    assert report.instructions == 17
    assert report.classes == {
        "matrix": 2, "conversion": 1, "vector": 1, "LDS": 3, "vector memory": 5, "scalar memory": 1, "branch": 2,
        "wait": 1, "scalar": 1,
    }  # fmt: skip
    assert report.memory == (
        MemoryUse("LDS", "load", 64, False, 1),
        MemoryUse("LDS", "load", 128, False, 1),
        MemoryUse("LDS", "store", 16, False, 1),
        MemoryUse("buffer", "atomic", 64, False, 1),
        MemoryUse("buffer", "load", 8, False, 1),
        MemoryUse("global", "atomic", 32, False, 1),
        MemoryUse("global", "load", 128, False, 1),
        MemoryUse("global", "load", 128, True, 1),
        MemoryUse("scalar", "load", 64, False, 1),
    )
    assert report.matrix_passes == 4 + 8
    assert report.unseen == 0
    assert OpcodeUse("v_add_u32", "VOP2", 1, None) in report.opcodes
    assert report.supported


def test_refused_opcodes_are_named(assemble):
    kernel = load_code_object(assemble(BODY)).kernel()
    report = report_of(kernel, lambda inst: "no semantics" if inst.op.startswith("v_mfma") else None)
    assert not report.supported
    assert [use.op for use in report.unsupported] == ["v_mfma_f32_16x16x32_bf16", "v_mfma_f32_32x32x16_bf16"]
    assert "v_mfma_f32_16x16x32_bf16 (no semantics)" in report.text()


def test_jumps_that_cannot_be_followed(assemble):
    report = report_of(load_code_object(assemble("s_getpc_b64 s[4:5]\ns_setpc_b64 s[4:5]")).kernel())
    assert (report.instructions, report.unseen, report.supported) == (2, 1, False)
    assert "not followed" in report.text()


def test_bytes_that_are_no_instruction(assemble):
    report = report_of(load_code_object(assemble("s_nop 0\n.long 0xffffffff\ns_endpgm")).kernel())
    assert (report.instructions, report.unseen) == (1, 1)


def _printed(text, name):
    return int(re.search(rf"; {name}: (\d+)", text)[1])


def test_registers_and_occupancy_are_what_llvm_prints(compiled):
    for built in compiled.values():
        # LLVM doesn't ask how many whole workgroups fit, so ask for workgroups of one wave. Triton's LDS is dynamic.
        report = report_of(load_code_object(built.binary).kernel(), workgroup_size=64)
        assert report.vgprs == _printed(built.text, "NumVgprs")
        assert report.agprs == _printed(built.text, "NumAgprs")
        assert report.sgprs == _printed(built.text, "TotalNumSgprs")
        assert report.scratch_bytes == _printed(built.text, "ScratchSize")
        assert report.occupancy.waves == _printed(built.text, "Occupancy")


@pytest.mark.parametrize(
    ("vgprs", "lds", "size", "waves", "groups", "limited_by"),
    [
        (64, 0, 64, 8, 32, "waves"),
        (72, 0, 64, 7, 28, "VGPRs"),
        (128, 0, 256, 4, 4, "VGPRs"),
        (129, 0, 256, 3, 3, "VGPRs"),
        (512, 163840, 256, 1, 1, "VGPRs"),
        (64, 163840, 256, 1, 1, "LDS"),
        (64, 81920, 256, 2, 2, "LDS"),
        (64, 81921, 256, 1, 1, "LDS"),
        (64, 54613, 256, 2, 2, "LDS"),  # rounded up to 55,040: 1,280 bytes a unit
        (64, 0, 128, 8, 16, "waves"),
        (168, 0, 512, 2, 1, "workgroup size"),
        (512, 0, 1024, 0, 0, "workgroup size"),
    ],
)
def test_occupancy(assemble, vgprs, lds, size, waves, groups, limited_by):
    directives = f".amdhsa_group_segment_fixed_size {lds}"
    kernel = load_code_object(assemble(directives=directives, vgprs=vgprs)).kernel()
    found = report_of(kernel, workgroup_size=size).occupancy
    assert (found.waves, found.groups, found.limited_by) == (waves, groups, limited_by)
