"""The wait-state lint: planted hazards at and just below each distance, compiled code, and LLVM's own nops."""

import re

import pytest

from mxassay.gfx950.codeobject import load_code_object
from mxassay.gfx950.flow import flow_of
from mxassay.gfx950.hazardrules import PAIRS, ROLES, RULES
from mxassay.gfx950.hazards import hazards_of

CVT = "v_cvt_scalef32_pk_fp4_bf16 v1, v2, v3"
XDL2 = "v_mfma_f32_4x4x4_16b_f16 v[4:7], v[0:1], v[2:3], v[4:7]"
XDL4 = "v_mfma_f32_16x16x32_bf16 v[4:7], v[20:23], v[24:27], v[4:7]"
XDL8 = "v_mfma_f32_32x32x16_bf16 v[4:19], v[20:23], v[24:27], v[4:19]"
XDL16 = "v_mfma_f32_32x32x4_2b_bf16 v[4:35], v[60:61], v[62:63], v[4:35]"
FP4_16 = "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[20:23], v[24:27], v[4:7], v40, v41 cbsz:4 blgp:4"
FP4_32 = "v_mfma_scale_f32_32x32x64_f8f6f4 v[4:19], v[20:23], v[24:27], v[4:19], v40, v41 cbsz:4 blgp:4"
FP8_16 = "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[20:27], v[28:35], v[4:7], v40, v41"
FP8_32 = "v_mfma_scale_f32_32x32x64_f8f6f4 v[4:19], v[20:27], v[28:35], v[4:19], v40, v41"
MIXED = "v_mfma_f32_16x16x128_f8f6f4 v[4:7], v[20:23], v[28:35], v[4:7] cbsz:4 blgp:1"
SGEMM2 = "v_mfma_f32_4x4x1_16b_f32 v[4:7], v0, v1, v[4:7]"
SGEMM8 = "v_mfma_f32_16x16x4_f32 v[4:7], v20, v21, v[4:7]"
SGEMM16 = "v_mfma_f32_32x32x2_f32 v[4:19], v20, v21, v[4:19]"
DGEMM4 = "v_mfma_f64_4x4x4_4b_f64 v[4:5], v[20:21], v[22:23], v[4:5]"
DGEMM16 = "v_mfma_f64_16x16x4_f64 v[4:11], v[20:21], v[22:23], v[4:11]"
SPARSE16 = "v_smfmac_f32_16x16x64_bf16 v[4:7], v[20:23], v[24:31], v40"
SPARSE32 = "v_smfmac_f32_32x32x32_bf16 v[4:19], v[20:23], v[24:31], v40"
READ = "v_add_f32 v50, v4, v51"
WRITE = "v_mov_b32 v5, 0"
STORE = "global_store_dwordx4 v[52:53], v[4:7], off"
LDS = "ds_write_b32 v52, v6"

# (producer, consumer, wait states). Numbers: AMD CDNA3 ISA 4.5, LLVM GCNHazardRecognizer.cpp (gfx950 columns).
PLANTED = [
    # byte-writing conversions
    (CVT + " op_sel:[0,0,1,0]", "v_add_u32 v4, v1, v5", 1),
    (CVT + " op_sel:[0,0,0,1]", "v_add_u32 v4, v5, v1", 1),
    (CVT + " op_sel:[0,0,1,1]", CVT, 1),
    (CVT, "v_lshlrev_b32 v4, 8, v1", 1),
    ("v_cvt_scalef32_sr_pk_fp4_bf16 v1, v2, v4, v3", CVT, 1),
    ("v_cvt_scalef32_pk_fp8_bf16 v1, v2, v3", "v_lshlrev_b32 v4, 8, v1", 1),
    ("v_cvt_scalef32_pk_bf8_f32 v1, v2, v4, v3 op_sel:[0,0,0,1]", "v_mov_b32 v1, 0", 1),
    ("v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,0,1]", "v_mov_b32 v4, v1", 1),
    ("v_cvt_sr_fp8_f32 v1, v2, v3 op_sel:[0,0,1,0]", "v_mov_b32 v4, v1", 1),
    ("v_mad_u16 v1, v2, v3, v4 op_sel:[0,0,0,1]", "v_mov_b32 v4, v1", 1),
    ("v_mov_b32_sdwa v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", "v_mov_b32 v4, v1", 1),
    # transcendental
    ("v_exp_f32 v1, v2", "v_add_f32 v3, v1, v4", 1),
    ("v_rcp_iflag_f32 v1, v2", "v_fmac_f32 v1, v3, v4", 1),
    # VALU before MFMA
    ("v_mov_b32 v20, 0", XDL4, 2),
    ("v_mov_b32 v7, 0", XDL4, 2),
    ("v_mov_b32 v41, 0", FP4_16, 2),
    ("v_cmpx_gt_u32 exec, v0, v1", XDL4, 4),
    # SGPRs
    ("v_readfirstlane_b32 s8, v0", "buffer_load_dword v1, v2, s[8:11], 0 offen", 5),
    ("v_readfirstlane_b32 s5, v0", "global_load_dword v1, v2, s[4:5]", 5),
    ("v_cmp_gt_u32 s[4:5], v0, v1", "v_cndmask_b32 v2, v3, v4, s[4:5]", 2),
    ("v_cmp_gt_u32 vcc, v0, v1", "v_cndmask_b32 v2, v3, v4, vcc", 2),
    ("v_add_co_u32 v0, vcc, v1, v2", "v_addc_co_u32 v3, vcc, v4, v5, vcc", 2),
    ("v_readfirstlane_b32 s8, v0", "v_add_u32 v1, s8, v2", 2),
    ("v_cmp_gt_u32 vcc, v0, v1", "v_div_fmas_f32 v2, v3, v4, v5", 4),
    ("v_readfirstlane_b32 s8, v0", "v_readlane_b32 s9, v1, s8", 4),
    ("v_readfirstlane_b32 s8, v0", "v_writelane_b32 v1, 1, s8", 4),
    ("v_mov_b32 v1, 0", "v_readfirstlane_b32 s8, v1", 1),
    ("v_mov_b32 v1, 0", "v_readlane_b32 s8, v1, 3", 1),
    ("v_cmpx_gt_u32 exec, v0, v1", "v_readfirstlane_b32 s8, v2", 4),
    ("v_cmpx_gt_u32 exec, v0, v1", "v_writelane_b32 v2, 1, 3", 4),
    ("v_cmpx_gt_u32 exec, v0, v1", "v_add_u32 v2, src_execz, v4", 5),
    ("v_cmp_gt_u32 vcc, v0, v1", "v_add_u32 v2, src_vccz, v4", 5),
    # DPP and permlane
    ("v_mov_b32 v1, 0", "v_mov_b32_dpp v2, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", 2),
    ("v_cmpx_gt_u32 exec, v0, v1", "v_mov_b32_dpp v2, v3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", 5),
    ("v_mov_b32 v1, 0", "v_permlane16_swap_b32 v1, v2", 2),
    ("v_mov_b32 v2, 0", "v_permlane32_swap_b32 v1, v2", 2),
    ("v_permlane32_swap_b32 v1, v2", "v_permlane16_swap_b32 v2, v3", 2),
    ("v_cmpx_gt_u32 exec, v0, v1", "v_permlane32_swap_b32 v2, v3", 4),
    # M0, hardware registers
    ("s_mov_b32 m0, 0", "s_sendmsg sendmsg(MSG_INTERRUPT)", 1),
    ("s_mov_b32 m0, 0", "ds_read_addtid_b32 v1", 1),
    ("s_setreg_b32 hwreg(HW_REG_MODE), s0", "s_getreg_b32 s1, hwreg(HW_REG_MODE)", 2),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "s_setreg_b32 hwreg(HW_REG_MODE), s0", 2),
    ("s_mov_b32 m0, 0", "buffer_load_dword v2, s[8:11], 0 offen lds", 1),
    # store data
    (STORE, "v_mov_b32 v7, 0", 2),
    ("buffer_store_dwordx3 v[4:6], v0, s[8:11], 0 offen", "v_mov_b32 v5, 0", 2),
    ("buffer_store_dwordx4 v[4:7], v0, s[8:11], s3 offen", "v_mov_b32 v5, 0", 1),
    (STORE, "v_mfma_f32_16x16x32_bf16 v[4:7], v[20:23], v[24:27], 0", 2),
    # DOT
    ("v_dot4_i32_i8 v4, v1, v2, v3", READ, 3),
    ("v_dot4_i32_i8 v5, v1, v2, v3", WRITE, 3),
    # MFMA results, by passes
    *((producer, consumer, wait)
      for producer, wait in ((XDL2, 5), (XDL4, 8), (FP4_16, 8), (SPARSE16, 8), (XDL8, 12), (FP4_32, 12), (FP8_16, 12),
                             (MIXED, 12), (SPARSE32, 12), (XDL16, 20), (FP8_32, 20), (SGEMM2, 4), (SGEMM8, 10),
                             (SGEMM16, 18))
      for consumer in (READ, WRITE, STORE, LDS, "global_load_dword v5, v52, s[4:5]")),
    (DGEMM4, READ, 6), (DGEMM4, WRITE, 6), (DGEMM4, "global_store_dwordx2 v[52:53], v[4:5], off", 9),
    (DGEMM16, READ, 19), (DGEMM16, WRITE, 11), (DGEMM16, STORE, 18),
    # MFMA results as SrcA or SrcB
    *((producer, "v_mfma_f32_16x16x32_bf16 v[44:47], v[20:23], v[4:7], v[44:47]", wait)
      for producer, wait in ((XDL2, 5), (XDL4, 8), (XDL8, 12), (XDL16, 20), (SGEMM2, 4), (SGEMM8, 10), (SGEMM16, 18),
                             (DGEMM4, 6), (DGEMM16, 19))),
    (XDL4, "v_mfma_scale_f32_16x16x128_f8f6f4 v[44:47], v[20:23], v[24:27], v[44:47], v4, v41 cbsz:4 blgp:4", 8),
    # MFMA results as SrcC
    (XDL2, XDL2, 2), (SGEMM2, SGEMM2, 2), (DGEMM4, DGEMM4, 4),
    *((producer, "v_mfma_f32_16x16x32_bf16 v[44:47], v[64:67], v[68:71], v[6:9]", wait)
      for producer, wait in ((XDL2, 4), (XDL4, 6), (XDL8, 10), (FP8_16, 10), (XDL16, 18))),
    *((producer, "v_mfma_f32_16x16x4_f32 v[44:47], v60, v61, v[6:9]", wait)
      for producer, wait in ((XDL2, 3), (XDL4, 6), (XDL8, 10), (XDL16, 18), (SGEMM2, 2), (SGEMM8, 8), (SGEMM16, 16))),
    (DGEMM4, "v_mfma_f64_16x16x4_f64 v[44:51], v[20:21], v[22:23], v[4:11]", 4),
    (DGEMM16, "v_mfma_f64_16x16x4_f64 v[44:51], v[20:21], v[22:23], v[6:13]", 17),
    # SrcC read, then overwritten
    ("v_mfma_f32_4x4x4_16b_f16 v[80:83], v[0:1], v[2:3], v[4:7]", WRITE, 1),
    ("v_mfma_f32_16x16x32_bf16 v[80:83], v[60:63], v[64:67], v[4:7]", "ds_read_b32 v5, v52", 3),
    ("v_mfma_f32_32x32x16_bf16 v[80:95], v[60:63], v[64:67], v[4:19]", WRITE, 7),
    ("v_mfma_f32_32x32x4_2b_bf16 v[80:111], v[60:61], v[62:63], v[4:35]", WRITE, 15),
]  # fmt: skip

# Pairs that look alike and need no software wait.
CLEAN = [
    ("v_add_u32 v1, v2, v3", "v_add_u32 v4, v1, v5"),
    (CVT, CVT + " op_sel:[0,0,1,0]"),  # the next byte of the chain merges, it doesn't read
    (CVT + " op_sel:[0,0,1,0]", "v_add_u32 v4, v2, v5"),
    (CVT + " op_sel:[0,0,1,0]", "global_store_dword v[2:3], v1, off"),
    ("v_cvt_pk_fp8_f32 v1, v2, v3", "v_mov_b32 v4, v1"),
    ("v_exp_f32 v1, v2", "v_exp_f32 v3, v1"),
    ("s_mov_b32 s8, 0", "buffer_load_dword v1, v2, s[8:11], 0 offen"),
    ("s_mov_b64 vcc, 0", "v_div_fmas_f32 v2, v3, v4, v5"),
    ("s_mov_b64 exec, -1", "v_mov_b32_dpp v2, v3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf"),
    ("v_readfirstlane_b32 s8, v0", "s_add_u32 s9, s8, 1"),
    ("v_readfirstlane_b32 s8, v0", "s_load_dword s9, s[8:9], 0x0"),
    ("v_dot4_i32_i8 v4, v1, v2, v3", "v_dot4_i32_i8 v5, v1, v2, v4"),
    ("global_store_dwordx2 v[52:53], v[4:5], off", WRITE),
    ("global_store_dwordx4 v[52:53], v[4:7], off", "v_mov_b32 v52, 0"),
    (XDL4, XDL4), (XDL8, XDL8), (XDL16, XDL16), (FP4_16, FP4_16), (SGEMM8, SGEMM8),
    (SGEMM8, "v_mfma_f32_16x16x32_bf16 v[44:47], v[20:23], v[24:27], v[6:9]"),
    (DGEMM16, "v_mfma_f32_16x16x32_bf16 v[44:47], v[20:23], v[24:27], v[6:9]"),
    (XDL4, "v_add_u32 v50, v20, v24"),
    ("s_setreg_b32 hwreg(HW_REG_MODE), s0", "s_getreg_b32 s1, hwreg(HW_REG_STATUS)"),
]  # fmt: skip


def _nops(wait):
    """Exactly `wait` wait states, out of S_NOPs of up to 8 and instructions that touch nothing at hand."""
    lines = []
    while wait > 0:
        lines.append(f"s_nop {min(wait, 8) - 1}")
        wait -= 8
    return lines


def _lint(assemble, *lines, disputed=True):
    found = load_code_object(assemble("\n".join([*lines, "s_endpgm"])))
    return hazards_of(found.kernel(), found, disputed=disputed)


def _words(text):
    return text.split()[0].replace("_sdwa", "").replace("_dpp", "")


@pytest.mark.parametrize(("producer", "consumer", "wait"), PLANTED)
def test_a_planted_hazard_is_found_up_to_its_distance(assemble, producer, consumer, wait):
    for gap in sorted({0, wait // 2, wait - 1}):
        hazards = _lint(assemble, producer, *_nops(gap), consumer)
        (hazard,) = [h for h in hazards if h.required == wait or len(hazards) == 1]
        assert (hazard.required, hazard.found) == (wait, gap)
        assert hazard.producer.startswith(_words(producer))
        assert hazard.consumer.startswith(_words(consumer))
        assert f"must come {wait} wait states after {hazard.producer_pc:#x}: " in str(hazard)
    assert _lint(assemble, producer, *_nops(wait), consumer) == ()


@pytest.mark.parametrize(("producer", "consumer"), CLEAN)
def test_interlocked_pairs_are_not_reported(assemble, producer, consumer):
    assert _lint(assemble, producer, consumer) == ()


def test_every_rule_has_a_planted_hazard(assemble):
    reported = set()
    for producer, consumer, _ in PLANTED:
        reported |= {hazard.rule for hazard in _lint(assemble, producer, consumer)}
    assert [rule for rule in RULES if rule not in reported] == []


def test_the_rules_name_existing_roles_and_pairs():
    assert all(rule.producer in ROLES and rule.consumer in ROLES and rule.pair in PAIRS for rule in RULES)
    assert set(ROLES) == {role for rule in RULES for role in (rule.producer, rule.consumer)}
    assert len(set(RULES)) == len(RULES)


def test_any_instruction_counts_as_one_wait_state(assemble):
    write, load = "v_readfirstlane_b32 s8, v0", "buffer_load_dword v1, v2, s[8:11], 0 offen"
    between = ["s_add_u32 s0, s0, 1", "v_mov_b32 v60, 0", "s_waitcnt vmcnt(0)", "v_nop"]
    assert _lint(assemble, write, *between, "s_nop 0", load) == ()
    (hazard,) = _lint(assemble, write, *between, load)
    assert (hazard.found, hazard.required, hazard.register) == (4, 5, "s8")


def test_an_overwritten_register_is_forgotten(assemble):
    load = "buffer_load_dword v1, v2, s[8:11], 0 offen"
    assert _lint(assemble, "v_readfirstlane_b32 s8, v0", "s_mov_b32 s8, 0", load) == ()


def test_the_shortest_path_counts(assemble):
    body = """v_readfirstlane_b32 s8, v0
        s_cbranch_scc0 .Lshort
        s_nop 7
        .Lshort:
        s_nop 1
        buffer_load_dword v1, v2, s[8:11], 0 offen"""
    (hazard,) = _lint(assemble, body)
    assert (hazard.found, hazard.required) == (3, 5)


def test_a_loop_carries_a_hazard_around(assemble):
    body = """.Lagain:
        v_add_f32 v50, v4, v51
        s_nop 7
        v_mfma_f32_16x16x32_bf16 v[4:7], v[20:23], v[24:27], v[4:7]
        s_cbranch_scc0 .Lagain"""
    (hazard,) = _lint(assemble, body)
    assert (hazard.found, hazard.required) == (1, 8)
    assert hazard.pc < hazard.producer_pc


def test_both_producers_of_a_join_are_reported(assemble):
    body = f"""s_cbranch_scc0 .Lother
        {XDL8}
        s_branch .Ljoin
        .Lother:
        {XDL4}
        s_nop 2
        .Ljoin:
        {READ}"""
    assert {(h.found, h.required) for h in _lint(assemble, body)} == {(1, 12), (3, 8)}


def test_code_behind_the_end_is_not_looked_at(assemble):
    assert _lint(assemble, "s_endpgm", XDL4, READ) == ()


@pytest.mark.parametrize(
    ("code", "required", "register"),
    [
        (("s_mov_b32 m0, s0", "global_load_lds_dword v1, s[4:5]"), 1, "m0"),
        (("v_cmp_gt_u32 vcc, v0, v1", "v_cndmask_b32 v2, v3, v4, vcc"), 2, "vcc_lo"),
    ],
)
def test_disputed_rules_are_asked_for(assemble, code, required, register):
    assert _lint(assemble, *code, disputed=False) == ()
    (hazard,) = _lint(assemble, *code, disputed=True)
    assert (hazard.required, hazard.register) == (required, register)
    assert "aiter" in hazard.rule.disputed


@pytest.mark.parametrize(("first", "passes"), [(XDL4, 4), (XDL8, 8), (FP4_32, 8), (XDL16, 16)])
@pytest.mark.parametrize("nops", [0, 1, 3])
def test_an_mfma_between_waits_for_the_one_before_it(assemble, first, passes, nops):
    other = "v_mfma_f32_16x16x32_bf16 v[84:87], v[92:95], v[96:99], v[84:87]"
    (hazard,) = _lint(assemble, first, *_nops(nops), other, READ)
    assert hazard.found == passes
    assert len(_lint(assemble, other, READ)) == 0


def test_the_matrix_unit_is_free_on_the_quickest_path(assemble):
    body = f"""s_nop 7
        s_cbranch_scc0 .Ljoin
        {XDL16.replace("v[4:35]", "v[100:131]")}
        .Ljoin:
        {XDL4}
        v_mfma_f32_16x16x32_bf16 v[84:87], v[92:95], v[96:99], v[84:87]
        {READ}"""
    (hazard,) = _lint(assemble, body)
    assert (hazard.found, hazard.required) == (4, 8)


def test_source_lines_are_named(compiled, link):
    text = re.sub(r"^\ts_nop .*\n", "", compiled["softmax"].text, flags=re.MULTILINE)
    found = load_code_object(link(text))
    assert {h.line[0] for h in hazards_of(found.kernel(), found)} & {"compiled_kernels.py", "standard.py"}


def test_compiled_kernels_are_clean(compiled):
    for built in compiled.values():
        found = load_code_object(built.binary)
        assert [str(hazard) for hazard in hazards_of(found.kernel(), found, disputed=True)] == [], built.name


def _after_nops(kernel):
    """For every run of S_NOPs: the position of the instruction behind it (S_NOPs not counted) and its wait states."""
    found, position, waiting = {}, 0, 0
    for inst in flow_of(kernel).instructions.values():
        if inst.op == "s_nop":
            waiting += inst["simm16"] + 1
            continue
        if waiting:
            found[position] = (inst, waiting)
        position, waiting = position + 1, 0
    return found


def _llvm_only(inst, before):
    """Nops of LLVM's that keep no rule of ours apart, and why.

    A load into a register that a DPP operand reads: it counts any writer, we count VALU. A clause of loads: LLVM breaks
    it for page-fault replay (XNACK). An SGPR that SALU wrote since: LLVM looks through that write.
    """
    return "DPP" in inst.encoding or "load" in inst.op or any(other.encoding.startswith("SOP") for other in before)


def test_without_llvm_s_nops_the_lint_asks_for_each_of_them(compiled, link):
    """LLVM's hazard recognizer as witness: strip its S_NOPs and the lint must miss just as many wait states there."""
    explained = total = 0
    for built in compiled.values():
        nops = _after_nops(load_code_object(built.binary).kernel())
        stripped = load_code_object(link(re.sub(r"^\ts_nop .*\n", "", built.text, flags=re.MULTILINE))).kernel()
        code = [inst for inst in flow_of(stripped).instructions.values() if inst.op != "s_nop"]
        missing = {}
        for hazard in hazards_of(stripped, disputed=True):
            missing[hazard.pc] = max(missing.get(hazard.pc, 0), hazard.required - hazard.found)
        for position, (inst, waiting) in nops.items():
            total += 1
            assert code[position].op == inst.op
            if missing.get(code[position].pc) == waiting:
                explained += 1
            else:
                assert _llvm_only(inst, code[max(0, position - 2) : position]), (built.name, inst, waiting)
        # A missing wait may be felt by several instructions behind it, none of them far.
        window = max(rule.wait_states for rule in RULES)
        reach = {inst.pc for position in nops for inst in code[position : position + window]}
        assert missing.keys() <= reach, built.name
    assert total > 100
    assert explained / total > 0.9
