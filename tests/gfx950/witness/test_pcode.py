"""The interpreter of AMD's pseudocode against values worked out by hand: its faults would be every witness's faults."""

import re

import pytest
from pcode import run
from pcode_errata import DEFECTIVE, ERRATA
from pcode_state import PCODE, NoWitnessError, State, plain_name, program_of, texts
from pcode_syntax import PcodeSyntaxError, parse
from pcode_values import FORMATS, UndeterminedError, Value, convert_float, made_nan, make_float, number_of, unsigned

# instruction, sources (bits, width), other registers, register, expected bits
BY_HAND = [
    ("V_ADD_CO_U32", [(0xFFFFFFFF, 32), (1, 32)], {}, "D0", 0),
    ("V_ADD_CO_U32", [(0xFFFFFFFF, 32), (1, 32)], {}, "VCC", 1 << 5),
    ("V_ADD_CO_U32", [(0xFFFFFFFE, 32), (1, 32)], {"VCC": (0xFF, 64)}, "VCC", 0xDF),
    ("V_ADDC_CO_U32", [(0xFFFFFFFF, 32), (0, 32)], {"VCC": (1 << 5, 64)}, "D0", 0),
    ("V_ADDC_CO_U32", [(0xFFFFFFFF, 32), (0, 32)], {"VCC": (1 << 5, 64)}, "VCC", 1 << 5),
    ("V_SUB_CO_U32", [(0, 32), (1, 32)], {}, "D0", 0xFFFFFFFF),
    ("V_SUBB_CO_U32", [(5, 32), (5, 32)], {"VCC": (1 << 5, 64)}, "VCC", 1 << 5),
    ("V_BFE_U32", [(0xDEADBEEF, 32), (8, 32), (12, 32)], {}, "D0", 0xDBE),
    ("V_BFE_U32", [(0xDEADBEEF, 32), (8, 32), (32, 32)], {}, "D0", 0),
    ("V_BFE_I32", [(0xDEADBEEF, 32), (12, 32), (4, 32)], {}, "D0", 0xFFFFFFFB),
    ("V_BFE_I32", [(0xDEADBEEF, 32), (12, 32), (0, 32)], {}, "D0", 0),
    ("V_PERM_B32", [(0x33221100, 32), (0x77665544, 32), (0x0C070400, 32)], {}, "D0", 0x00330044),
    ("V_PERM_B32", [(0x80000000, 32), (0x80000000, 32), (0x0D0B0908, 32)], {}, "D0", 0xFFFFFF00),
    ("V_ALIGNBIT_B32", [(0x12345678, 32), (0x9ABCDEF0, 32), (8, 32)], {}, "D0", 0x789ABCDE),
    ("V_ALIGNBYTE_B32", [(0x12345678, 32), (0x9ABCDEF0, 32), (3, 32)], {}, "D0", 0x3456789A),
    ("V_MAD_U64_U32", [(0xFFFFFFFF, 32), (0xFFFFFFFF, 32), (0xFFFFFFFFFFFFFFFF, 64)], {}, "D0", 0xFFFFFFFE00000000),
    ("V_MAD_U64_U32", [(0xFFFFFFFF, 32), (0xFFFFFFFF, 32), (0xFFFFFFFFFFFFFFFF, 64)], {}, "D1", 1),
    ("V_MAD_I64_I32", [(0xFFFFFFFF, 32), (7, 32), (3, 64)], {}, "D0", 0xFFFFFFFFFFFFFFFC),
    ("S_BFE_U32", [(0xDEADBEEF, 32), (0x000C0008, 32)], {}, "D0", 0xDBE),
    ("S_BFE_U32", [(0xDEADBEEF, 32), (0x00200000, 32)], {}, "D0", 0xDEADBEEF),
    ("S_BFE_I32", [(0xDEADBEEF, 32), (0x0004000C, 32)], {}, "D0", 0xFFFFFFFB),
    ("S_BFE_I64", [(0x8000000000000000, 64), (0x0001003F, 32)], {}, "D0", 0xFFFFFFFFFFFFFFFF),
    ("S_LSHL2_ADD_U32", [(0x40000000, 32), (5, 32)], {}, "D0", 5),
    ("S_LSHL2_ADD_U32", [(0x40000000, 32), (5, 32)], {}, "SCC", 1),
    ("S_ADD_I32", [(0x7FFFFFFF, 32), (1, 32)], {}, "SCC", 1),
    ("S_SUB_U32", [(1, 32), (2, 32)], {}, "SCC", 1),
    ("S_ABSDIFF_I32", [(0xFFFFFFFF, 32), (2, 32)], {}, "D0", 3),
    ("S_BREV_B32", [(1, 32)], {}, "D0", 0x80000000),
    ("S_FF1_I32_B32", [(0x80, 32)], {}, "D0", 7),
    ("S_FLBIT_I32_B32", [(0, 32)], {}, "D0", 0xFFFFFFFF),
    ("S_BITREPLICATE_B64_B32", [(0x80000001, 32)], {}, "D0", 0xC000000000000003),
    ("S_WQM_B64", [(0x0000000000000100, 64)], {}, "D0", 0xF00),
    ("S_PACK_LH_B32_B16", [(0x1111AAAA, 32), (0xBBBB2222, 32)], {}, "D0", 0xBBBBAAAA),
    ("S_MUL_HI_I32", [(0xFFFFFFFF, 32), (1, 32)], {}, "D0", 0xFFFFFFFF),
    # 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: minus 1 leaves 2^-11 + 2^-24 only if nothing was rounded before.
    ("V_FMA_F32", [(0x3F800800, 32), (0x3F800800, 32), (0xBF800000, 32)], {}, "D0", 0x3A000400),
    ("V_ADD_F32", [(0x3F800000, 32), (0x33800000, 32)], {}, "D0", 0x3F800000),  # 1 + 2^-24: tie to even
    ("V_ADD_F32", [(0x3F800001, 32), (0x33800000, 32)], {}, "D0", 0x3F800002),
    ("V_MUL_F32", [(0x7F7FFFFF, 32), (0x40000000, 32)], {}, "D0", 0x7F800000),
    ("V_MUL_F32", [(0x00800000, 32), (0x3F000000, 32)], {}, "D0", 0x00400000),
    ("V_MED3_F32", [(0x40400000, 32), (0x3F800000, 32), (0x40000000, 32)], {}, "D0", 0x40000000),
    ("V_MED3_I32", [(0xFFFFFFFF, 32), (5, 32), (0x80000000, 32)], {}, "D0", 0xFFFFFFFF),
    ("V_MAX_F32", [(0x80000000, 32), (0, 32)], {}, "D0", 0),
    ("V_MIN_F32", [(0, 32), (0x80000000, 32)], {}, "D0", 0x80000000),
    ("V_MAX_F32", [(0x7F800001, 32), (0x3F800000, 32)], {}, "D0", 0x7FC00001),
    ("V_MAX_F32", [(0x7FC00001, 32), (0x3F800000, 32)], {}, "D0", 0x3F800000),
    ("V_CNDMASK_B32", [(7, 32), (9, 32)], {"VCC": (1 << 5, 64)}, "D0", 9),
    ("V_CNDMASK_B32", [(7, 32), (9, 32)], {"VCC": (1 << 6, 64)}, "D0", 7),
    ("V_LSHL_ADD_U64", [(0x8000000000000001, 64), (1, 32), (10, 64)], {}, "D0", 12),
    ("V_BITOP3_B32", [(0xF0F0F0F0, 32), (0xCCCCCCCC, 32), (0xAAAAAAAA, 32)],
     {"INST.OMOD": (3, 2), "INST.ABS": (4, 3), "INST.NEG": (4, 3)}, "D0", 0xE4E4E4E4),
    ("V_CVT_PK_U16_U32", [(0x12345, 32), (7, 32)], {}, "D0", 0x0007FFFF),
    ("V_CVT_PK_I16_I32", [(0xFFFF0000, 32), (0x8000, 32)], {}, "D0", 0x7FFF8000),
    ("V_CVT_PK_BF16_F32", [(0x3F808000, 32), (0x3F818000, 32)], {}, "D0", 0x3F823F80),  # both ties
    ("V_CVT_PKRTZ_F16_F32", [(0x3F801FFF, 32), (0x477FFFFF, 32)], {}, "D0", 0x7BFF3C00),
    ("V_CVT_F16_F32", [(0x33000001, 32)], {}, "D0", 1),  # just above 2^-25, half of the least f16
    ("V_CVT_F16_F32", [(0x33000000, 32)], {}, "D0", 0),
    ("V_CVT_I32_F32", [(0xC0600000, 32)], {}, "D0", 0xFFFFFFFD),
    ("V_CVT_U32_F32", [(0xBF800000, 32)], {}, "D0", 0),
    ("V_CVT_I32_F32", [(0x4F000000, 32)], {}, "D0", 0x7FFFFFFF),
    ("V_CVT_I32_F32", [(0x7FC00000, 32)], {}, "D0", 0),
    ("V_CVT_F32_U32", [(0xFFFFFFFF, 32)], {}, "D0", 0x4F800000),
    ("V_CVT_F32_UBYTE2", [(0x00FE0000, 32)], {}, "D0", 0x437E0000),
    ("V_CVT_F32_BF16", [(0x12343FC0, 32)], {}, "D0", 0x3FC00000),
    ("V_RNDNE_F32", [(0x40200000, 32)], {}, "D0", 0x40000000),
    ("V_RNDNE_F32", [(0xBE800000, 32)], {}, "D0", 0x80000000),
    ("V_FLOOR_F32", [(0xBF000000, 32)], {}, "D0", 0xBF800000),
    ("V_FRACT_F32", [(0xB3000000, 32)], {}, "D0", 0x3F7FFFFF),
    ("V_LDEXP_F32", [(0x3F800000, 32), (0xFFFFFF6B, 32)], {}, "D0", 1),
    ("V_FREXP_EXP_I32_F32", [(1, 32)], {}, "D0", 0xFFFFFF6C),  # 2^-149 = 0.5 * 2^-148
    ("V_FREXP_MANT_F32", [(0xC0A00000, 32)], {}, "D0", 0xBF200000),
    ("V_RCP_F32", [(0x40400000, 32)], {}, "D0", 0x3EAAAAAB),
    ("V_RSQ_F32", [(0x40800000, 32)], {}, "D0", 0x3F000000),
    ("V_SQRT_F32", [(0x40000000, 32)], {}, "D0", 0x3FB504F3),
    ("V_EXP_F32", [(0xC0400000, 32)], {}, "D0", 0x3E000000),
    ("V_MUL_I32_I24", [(0x00FFFFFF, 32), (3, 32)], {}, "D0", 0xFFFFFFFD),
    ("V_MUL_HI_U32", [(0xFFFFFFFF, 32), (0xFFFFFFFF, 32)], {}, "D0", 0xFFFFFFFE),
    ("V_SAD_U8", [(0x01020304, 32), (0x04030201, 32), (100, 32)], {}, "D0", 108),
    ("V_LERP_U8", [(0xFF00FF00, 32), (0xFF01FF01, 32), (0x01010000, 32)], {}, "D0", 0xFF01FF00),
    ("V_BCNT_U32_B32", [(0xF0F0, 32), (10, 32)], {}, "D0", 18),
    ("V_MBCNT_LO_U32_B32", [(0xFFFFFFFF, 32), (0, 32)], {}, "D0", 5),
    ("V_PK_ADD_U16", [(0xFFFF0001, 32), (0x00010002, 32)], {}, "D0", 0x00000003),
    ("V_PK_MUL_F32", [(0x40000000_3F800000, 64), (0x40400000_40800000, 64)], {}, "D0", 0x40C00000_40800000),
    ("V_DOT4_I32_I8", [(0xFF010203, 32), (0x01010101, 32), (0, 32)], {}, "D0", 5),
    ("V_CMP_CLASS_F32", [(0x80000000, 32), (1 << 5, 32)], {}, "D0", 1 << 5),
    ("V_CMP_LG_F32", [(0x7FC00000, 32), (0, 32)], {}, "D0", 0),
    ("V_CMP_NEQ_F32", [(0x7FC00000, 32), (0, 32)], {}, "D0", 1 << 5),
    ("V_PRNG_B32", [(0x80000001, 32)], {}, "D0", 0x2 ^ 197),
    ("V_CVT_SCALEF32_PK_F32_FP4", [(0x7100, 32), (0x40800000, 32)], {"OPSEL": (1, 4)}, "D0", 0x41C00000_40000000),
]  # fmt: skip


def evaluate(name: str, sources=(), **registers) -> State:
    found = {f"S{i}": Value("B", width, bits) for i, (bits, width) in enumerate(sources)}
    found |= {
        "D0": unsigned(0, 64), "D1": unsigned(0, 1), "VCC": unsigned(0, 64), "SCC": unsigned(0, 1),
        "EXEC": unsigned(0, 64), "laneId": unsigned(5), "OPSEL": unsigned(0, 4), "WAVE_MODE.IEEE": unsigned(1, 1),
        "VDST": unsigned(1), "SRC0": unsigned(0),
    }  # fmt: skip
    found |= {k: unsigned(bits, width) for k, (bits, width) in registers.items()}
    return run(program_of(name), State(found, {(5, 0): found["S0"], (5, 1): found["D0"]}))


@pytest.mark.parametrize(
    ("name", "sources", "registers", "root", "bits"), BY_HAND, ids=lambda v: v if isinstance(v, str) else ""
)
def test_an_instruction_gives_the_value_worked_out_by_hand(name, sources, registers, root, bits):
    value = evaluate(name, sources, **registers)[root]
    width = 32 if value.bits < 1 << 32 and bits < 1 << 32 else 64
    assert f"{value.bits & ((1 << width) - 1):#x}" == f"{bits:#x}"


def test_the_bits_the_text_writes_are_known():
    state = evaluate("V_CVT_F16_F32", [(0x3F800000, 32)])
    assert state.written["D0"] == 0xFFFF
    state = evaluate("V_CVT_SCALEF32_PK_BF16_FP4", [(0x71, 32), (0x3F800000, 32)])
    assert (state["D0"].bits, state.written["D0"]) == (0x40C03F00, 0xFFFFFFFF)


def test_a_computed_nan_is_quiet_with_open_sign_and_payload():
    state = evaluate("V_ADD_F32", [(0x7F800000, 32), (0xFF800000, 32)])
    assert (state["D0"].bits, state["D0"].loose) == (0x7FC00000, 0x803FFFFF)
    packed = evaluate("V_PK_ADD_F16", [(0x7C003C00, 32), (0xFC003C00, 32)])
    assert (packed["D0"].bits, packed["D0"].loose) == (0x7E004000, 0x81FF0000)


def test_a_selected_nan_keeps_its_bits():
    state = evaluate("V_MIN_F32", [(0x7FC01234, 32), (0xFFC04321, 32)])
    assert (state["D0"].bits, state["D0"].loose) == (0xFFC04321, 0)


@pytest.mark.parametrize("kind", ["fp4", "fp6", "bf6", "fp8", "bf8"])
def test_narrow_formats_decode_like_ml_dtypes(kind):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    import numpy as np

    names = {
        "fp4": "float4_e2m1fn", "fp6": "float6_e2m3fn", "bf6": "float6_e3m2fn", "fp8": "float8_e4m3fn",
        "bf8": "float8_e5m2",
    }  # fmt: skip
    f = FORMATS[kind]
    codes = np.arange(1 << f.width, dtype=np.uint8)
    peers = codes.view(getattr(ml_dtypes, names[kind])).astype(np.float64)
    for code, peer in zip(codes.tolist(), peers.tolist(), strict=True):
        if np.isfinite(peer):
            assert float(number_of(Value(kind, f.width, code))) == peer
            assert make_float(kind, number_of(Value(kind, f.width, code)), code >> (f.width - 1)).bits == code


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_rounding_agrees_with_the_cpu(kind):
    import random

    import numpy as np

    rng = random.Random(kind)
    dtype, bits = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32)}[kind]
    least = {"f16": 1023 - 26, "f32": 1023 - 151}[kind]
    for _ in range(3000):
        raw = rng.getrandbits(1) << 63 | rng.randint(least, 1023 + 130) << 52 | rng.getrandbits(52)
        raw &= ~0 << rng.choice((0, 20, 28, 29, 41, 42))
        wide = np.array([raw], np.uint64).view(np.float64)
        with np.errstate(over="ignore"):
            want = int(wide.astype(dtype).view(bits)[0])
        assert convert_float(Value("f64", 64, raw), kind).bits == want


def test_an_overflow_without_infinity_is_undetermined():
    with pytest.raises(UndeterminedError, match="overflow of fp8"):
        evaluate("V_CVT_PK_FP8_F32", [(0x47000000, 32), (0, 32)])


def test_a_nan_made_by_arithmetic_has_its_format():
    assert made_nan("bf16").bits == 0x7FC0


def test_prose_is_refused():
    with pytest.raises(PcodeSyntaxError):
        parse("D = A (16x4) * B (4x16) + C (16x16)\nnothing")
    with pytest.raises(NoWitnessError, match="prose"):
        program_of("S_WAITCNT")


def test_every_encoding_of_a_name_has_one_text():
    for op, text in PCODE.items():
        if type(op).__name__[:3] in ("SOP", "VOP"):
            assert texts()[plain_name(op.name)] == text, op


def test_errata_and_defects_name_instructions_that_exist():
    assert set(ERRATA) | set(DEFECTIVE) <= set(texts())
    for name in ERRATA:
        assert re.search(r"\bD0\b|\bVDST\b", ERRATA[name][0])
        program_of(name)
