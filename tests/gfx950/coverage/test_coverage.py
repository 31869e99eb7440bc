"""How much of gfx950 the emulator runs, by encoding: an exact table, so that nothing slips away unseen."""

import pytest
from opcodes import known_to_llvm, opcodes, plain
from unsupported import UNSUPPORTED

from mxassay.gfx950.registry import lookup

# Opcodes that gfx950 has, by encoding. A smaller number means that this test has lost sight of some.
TOTAL = {
    "DS": 129, "FLAT": 54, "GLOBAL": 61, "MTBUF": 16, "MUBUF": 74, "SCRATCH": 27, "SMEM": 84, "SOP1": 54, "SOP2": 53,
    "SOPC": 20, "SOPK": 21, "SOPP": 31, "VOP1": 88, "VOP2": 62, "VOP3": 493, "VOP3P": 105, "VOP3PX2": 2, "VOP3SD": 10,
    "VOPC": 198,
}  # fmt: skip
NOT_ON_GFX950 = {
    "s_set_valu_coexec_mode", "v_accvgpr_mov_b32_e64", "v_cubeid_f32_e64", "v_cubema_f32_e64", "v_cubesc_f32_e64",
    "v_cubetc_f32_e64", "v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32", "v_readfirstlane_b32_e64",
    "v_swap_b32_e64",
}  # fmt: skip


def without() -> dict[str, set[str]]:
    return {encoding: {op for op in ops if lookup(op) is None} for encoding, ops in opcodes().items()}


def test_every_opcode_is_run_or_listed_with_a_reason():
    missing = set().union(*without().values())
    listed = [op for ops in UNSUPPORTED.values() for op in ops]
    assert len(listed) == len(set(listed)), "an operation must be listed once"
    assert missing - set(listed) == set(), "neither run nor listed"
    assert set(listed) - missing == set(), "listed, but run"


def test_the_table_counts_every_opcode(capsys: pytest.CaptureFixture[str]):
    missing = without()
    rows = [f"{'encoding':10} {'opcodes':>8} {'run':>5}"]
    rows += [f"{name:10} {len(ops):8} {len(ops) - len(missing[name]):5}" for name, ops in opcodes().items()]
    total, lacking = sum(map(len, opcodes().values())), sum(map(len, missing.values()))
    rows.append(f"{'all':10} {total:8} {total - lacking:5}  ({(total - lacking) / total:.1%})")
    with capsys.disabled():
        print("", *rows, sep="\n")
    assert {name: len(ops) for name, ops in opcodes().items()} == TOTAL


def test_llvm_knows_every_name_of_amds_tables_but_those_named():
    assert {name for name, known in known_to_llvm().items() if not known} == NOT_ON_GFX950


def test_names_lose_their_encoding_suffix_alone():
    assert [plain(name) for name in ("V_ADD_F32_E32", "v_dot2c_f32_f16_e64", "s_mov_b32")] == [
        "v_add_f32", "v_dot2c_f32_f16", "s_mov_b32",
    ]  # fmt: skip
