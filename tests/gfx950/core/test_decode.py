"""Decoding: operands, implicit registers and modifiers of each encoding, against LLVM's assembler."""

import random

import pytest

from mxassay.gfx950 import decode
from mxassay.gfx950.decode import UndecodableError, _forms, _recognized, decode_one, decode_program
from mxassay.gfx950.instruction import EXEC, M0, VCC


def files(operands) -> list[tuple[str, int, int]]:
    return [(operand.file, operand.index, operand.count) for operand in operands]


@pytest.mark.parametrize(
    ("text", "op", "encoding", "dst", "src"),
    [
        ("v_add_u32_e32 v1, s2, v3", "v_add_u32", "VOP2", [("v", 1, 1)], [("s", 2, 1), ("v", 3, 1)]),
        ("v_add_u32_e64 v1, s2, s2", "v_add_u32", "VOP3", [("v", 1, 1)], [("s", 2, 1), ("s", 2, 1)]),
        ("v_cmp_lt_u32_e32 vcc, v1, v2", "v_cmp_lt_u32", "VOPC", [("s", VCC, 2)], [("v", 1, 1), ("v", 2, 1)]),
        ("v_cmp_lt_u32_e64 s[4:5], v1, v2", "v_cmp_lt_u32", "VOP3", [("s", 4, 2)], [("v", 1, 1), ("v", 2, 1)]),
        (
            "v_cmpx_lt_u32_e64 s[4:5], v1, v2",
            "v_cmpx_lt_u32",
            "VOP3",
            [("s", 4, 2), ("s", EXEC, 2)],
            [("v", 1, 1), ("v", 2, 1)],
        ),
        (
            "v_cndmask_b32_e32 v1, v2, v3, vcc",
            "v_cndmask_b32",
            "VOP2",
            [("v", 1, 1)],
            [("v", 2, 1), ("v", 3, 1), ("s", VCC, 2)],
        ),
        (
            "v_addc_co_u32_e32 v1, vcc, v2, v3, vcc",
            "v_addc_co_u32",
            "VOP2",
            [("v", 1, 1), ("s", VCC, 2)],
            [("v", 2, 1), ("v", 3, 1), ("s", VCC, 2)],
        ),
        ("v_readfirstlane_b32 s7, v9", "v_readfirstlane_b32", "VOP1", [("s", 7, 1)], [("v", 9, 1)]),
        ("v_accvgpr_write_b32 a3, v2", "v_accvgpr_write", "VOP3P", [("a", 3, 1)], [("v", 2, 1)]),
        ("v_accvgpr_read_b32 v3, a2", "v_accvgpr_read", "VOP3P", [("v", 3, 1)], [("a", 2, 1)]),
        ("s_and_b64 exec, s[2:3], vcc", "s_and_b64", "SOP2", [("s", EXEC, 2)], [("s", 2, 2), ("s", VCC, 2)]),
        ("s_mov_b32 m0, s1", "s_mov_b32", "SOP1", [("s", M0, 1)], [("s", 1, 1)]),
        ("s_cmpk_lt_i32 s4, 0x10", "s_cmpk_lt_i32", "SOPK", [], [("s", 4, 1)]),
        ("s_addk_i32 s4, 0x10", "s_addk_i32", "SOPK", [("s", 4, 1)], []),
        (
            "global_load_dwordx4 v[4:7], v[2:3], off offset:-16",
            "global_load_dwordx4",
            "GLOBAL",
            [("v", 4, 4)],
            [("v", 2, 2), ("off", 0, 1)],
        ),
        ("global_load_dword a4, v2, s[6:7]", "global_load_dword", "GLOBAL", [("a", 4, 1)], [("v", 2, 1), ("s", 6, 2)]),
        (
            "buffer_store_dwordx2 v[4:5], v1, s[8:11], s3 offen",
            "buffer_store_dwordx2",
            "MUBUF",
            [],
            [("v", 1, 1), ("v", 4, 2), ("s", 8, 4), ("s", 3, 1)],
        ),
        (
            "buffer_load_dword v1, s[8:11], 0 offen lds",
            "buffer_load_dword",
            "MUBUF",
            [],
            [("v", 1, 1), ("s", 8, 4), ("int", 0, 1), ("s", M0, 1)],
        ),
        ("ds_read_b128 a[4:7], v1 offset:256", "ds_read_b128", "DS", [("a", 4, 4)], [("v", 1, 1)]),
        (
            "ds_write2_b64 v1, v[2:3], v[4:5] offset1:3",
            "ds_write2_b64",
            "DS",
            [],
            [("v", 1, 1), ("v", 2, 2), ("v", 4, 2)],
        ),
        ("s_load_dwordx8 s[8:15], s[4:5], 0x20", "s_load_dwordx8", "SMEM", [("s", 8, 8)], [("s", 4, 2), ("off", 0, 1)]),
        (
            "v_mov_b32_sdwa v1, s2 dst_sel:BYTE_1 src0_sel:WORD_1",
            "v_mov_b32",
            "VOP1_SDWA",
            [("v", 1, 1)],
            [("s", 2, 1)],
        ),
        (
            "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
            "v_mov_b32",
            "VOP1_DPP",
            [("v", 1, 1)],
            [("v", 2, 1)],
        ),
        (
            "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[4:7], a[8:11], v[12:15], v1, v2 cbsz:4 blgp:4",
            "v_mfma_scale_f32_16x16x128_f8f6f4",
            "VOP3PX2",
            None,
            None,
        ),
    ],
)
def test_operands_are_those_of_the_assembly(assemble, text, op, encoding, dst, src):
    if dst is None:
        # C and D share one file bit, so LLVM wants both in AGPRs or both in VGPRs.
        text, dst = text.replace("v[12:15]", "a[12:15]"), [("a", 0, 4)]
        src = [("v", 4, 4), ("a", 8, 4), ("a", 12, 4), ("v", 1, 1), ("v", 2, 1)]
    inst = decode_one(assemble(text), 0x40)
    assert (inst.op, inst.encoding, inst.pc) == (op, encoding, 0x40)
    assert files(inst.dst) == dst
    assert files(inst.src) == src


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("v_mov_b32 v0, 64", 64, "int"), ("v_mov_b32 v0, -16", -16, "int"), ("v_mov_b32 v0, 65", 65, "literal"),
        ("v_mov_b32 v0, -17", 0xFFFFFFEF, "literal"), ("v_mov_b32 v0, -4.0", -4.0, "float"),
        ("s_mov_b32 s0, 0xdeadbeef", 0xDEADBEEF, "literal"),
    ],
)  # fmt: skip
def test_constants_keep_their_kind(assemble, text, value, kind):
    (operand,) = decode_one(assemble(text)).src
    assert (operand.file, operand.value) == (kind, value)


def test_the_literal_of_fmamk_stands_in_the_middle_and_of_fmaak_at_the_end(assemble):
    middle = decode_one(assemble("v_fmamk_f32 v0, v1, 0x41200000, v2"))
    last = decode_one(assemble("v_fmaak_f32 v0, v1, v2, 0x41200000"))
    assert [operand.file for operand in middle.src] == ["v", "literal", "v"]
    assert [operand.file for operand in last.src] == ["v", "v", "literal"]
    assert middle.src[1].value == last.src[2].value == 0x41200000


def test_branch_targets_count_from_the_next_instruction(assemble):
    code = assemble("top:\ns_nop 0\ns_cbranch_scc1 top\ns_branch bottom\ns_nop 0\nbottom:\ns_endpgm")
    back, forward = decode_program(code, 0x100)[1:3]
    assert (back.target, forward.target) == (0x100, 0x110)


def test_modifiers_have_the_isas_names_and_absent_ones_are_zero(assemble):
    inst = decode_one(assemble("v_fma_f32 v0, -v1, |v2|, v3 clamp mul:2"))
    assert (inst["neg"], inst["abs"], inst["clamp"], inst["omod"], inst["dpp_ctrl"]) == (1, 2, 1, 1, 0)


def test_text_names_registers_as_amd_does(assemble):
    assert decode_one(assemble("s_and_b64 exec, s[2:3], vcc")).text == "s_and_b64 exec, s[2:3], vcc"
    assert decode_one(assemble("s_mov_b32 m0, 0x12345")).text == "s_mov_b32 m0, 0x12345"


def test_bytes_that_are_no_instruction_are_named():
    with pytest.raises(UndecodableError, match=r"must hold gfx950 instructions, not the word 0xffffffff"):
        decode_one(b"\xff" * 16)


def test_a_literal_where_the_encoding_has_none_is_named(assemble):
    code = assemble("v_fma_f32 v1, v1, v2, v3")
    word = int.from_bytes(code[4:8], "little") & ~0x1FF | 255
    with pytest.raises(UndecodableError, match=r"^a source operand must have a known code, not 255$"):
        decode_one(code[:4] + word.to_bytes(4, "little"))


def test_scales_are_one_instruction_with_what_follows_whatever_was_met_before(assemble, monkeypatch):
    monkeypatch.setattr(decode, "_sizes", {})
    pair = assemble("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:11], v[12:15], v1, v2 cbsz:4 blgp:4")
    alone = decode_one(pair[:8] + assemble("s_nop 0"))
    assert (alone.op, alone.size) == ("v_mfma_ld_scale_b32", 8)
    assert (decode_one(pair).op, decode_one(pair).size) == ("v_mfma_scale_f32_16x16x128_f8f6f4", 16)
    assert decode_one(pair[:8]).size == 8


def test_a_pc_outside_the_code_is_named(assemble):
    from mxassay.gfx950.decode import Program

    with pytest.raises(UndecodableError, match=r"the pc must lie in the code, 0x100 to 0x104, not at 0x104"):
        Program(assemble("s_endpgm"), 0x100).at(0x104)


def recognized(recognize, data):
    try:
        found = recognize(data)
    except (ValueError, AssertionError):
        return None
    return type(found), found._raw


@pytest.mark.parametrize("form", range(27))
def test_formats_are_told_as_tinygrad_tells_them(form):
    from tinygrad.renderer.amd import decode_inst

    known, generator = _forms(), random.Random(form)
    assert len(known) == 27
    for number in range(80):
        word = generator.getrandbits(128) & ~known[form].mask | known[form].value
        if number % 3 == 0 and known[form].allowed:
            low, mask = known[form].op
            word = word & ~(mask << low) | generator.choice(sorted(known[form].allowed)) << low
        if number % 4 == 0:
            word = word & ~0x1FF | generator.choice((249, 250, 255))
        data = word.to_bytes(16, "little")[: generator.choice((4, 8, 8, 16))]
        assert recognized(_recognized, data) == recognized(lambda one: decode_inst(one, "cdna"), data), data.hex()
