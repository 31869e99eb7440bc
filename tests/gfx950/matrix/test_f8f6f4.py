"""V_MFMA_(SCALE_)F32_*_F8F6F4: every pair of formats, scaled and not, against rational arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from mxassay.gfx950.registry import Context

FORMS = {
    0: (8, ml_dtypes.float8_e4m3fn), 1: (8, ml_dtypes.float8_e5m2), 2: (6, ml_dtypes.float6_e2m3fn),
    3: (6, ml_dtypes.float6_e3m2fn), 4: (4, ml_dtypes.float4_e2m1fn),
}  # fmt: skip


def codes_of(rng, form, rows, k):
    bits, _ = FORMS[form]
    codes = rng.integers(0, 1 << bits, (rows, k))
    if form == 0:
        codes[(codes & 0x7F) == 0x7F] = 0
    if form == 1:
        codes[(codes & 0x7C) == 0x7C] = 0
    return codes


def place(form, row, k, rows):
    """Lane and bit offset of an operand's element (AMD CDNA4 ISA): 32 consecutive k a lane, but two runs of 16 for
    8-bit formats."""
    lanes = 64 // rows
    bits, _ = FORMS[form]
    if bits == 8:
        half, within = divmod(k, 16 * lanes)
        return row + rows * (within // 16), bits * (16 * half + within % 16)
    return row + rows * (k // 32), bits * (k % 32)


def registers_of(form, codes, rows):
    bits, _ = FORMS[form]
    lanes = [0] * 64
    for row in range(rows):
        for k in range(codes.shape[1]):
            lane, bit = place(form, row, k, rows)
            lanes[lane] |= int(codes[row, k]) << bit
    return np.array([[lane >> 32 * word & 0xFFFFFFFF for lane in lanes] for word in range(bits)], np.uint32)


def values_of(form, codes):
    return codes.astype(np.uint8).view(FORMS[form][1]).astype(np.float64)


def multiply(execute, rows, form_a, form_b, a, b, c, sa=None, sb=None, context=None):
    words_a, words_b = registers_of(form_a, a, rows), registers_of(form_b, b, rows)
    count = rows * rows // 64
    accumulators = np.zeros((count, 64), np.float32)
    where = {}
    for i in range(rows):
        for j in range(rows):
            bands = 64 // rows
            where[i, j] = i // (4 * bands) * 4 + i % 4, j + rows * (i // 4 % bands)
            accumulators[where[i, j]] = c[i, j]
    name = "16x16x128" if rows == 16 else "32x32x64"
    operands = f"v[100:{99 + count}], v[0:{len(words_a) - 1}], v[32:{31 + len(words_b)}], v[100:{99 + count}]"
    inputs = {0: words_a, 32: words_b, 100: accumulators.view(np.uint32)}
    if sa is None:
        text = f"v_mfma_f32_{name}_f8f6f4 {operands}"
    else:
        text = f"v_mfma_scale_f32_{name}_f8f6f4 {operands}, v64, v65 op_sel:[1,0,0] op_sel_hi:[0,1,0]"
        lane = np.arange(64)
        inputs[64] = ((sa[lane % rows, lane // rows].astype(np.uint32) << 8) | 0x5A00005A)[None]
        inputs[65] = ((sb[lane % rows, lane // rows].astype(np.uint32) << 16) | 0x5A00005A)[None]
    cohort = execute(f"{text} cbsz:{form_a} blgp:{form_b}", inputs, context=context)
    d = cohort.vf[100 : 100 + count, 0]
    return np.array([[d[where[i, j]] for j in range(rows)] for i in range(rows)])


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("form_b", FORMS)
@pytest.mark.parametrize("form_a", FORMS)
def test_every_pair_of_formats(execute, to_f32, form_a, form_b, rows, scaled):
    rng = np.random.default_rng(form_a * 5 + form_b)
    k = 2048 // rows
    a, b = codes_of(rng, form_a, rows, k), codes_of(rng, form_b, rows, k)
    c = (rng.standard_normal((rows, rows)) * 8).astype(np.float32)
    low, high = (118, 136) if form_a % 2 else (60, 190)
    sa, sb = (rng.integers(low, high, (rows, k // 32)) if scaled else None for _ in range(2))
    d = multiply(execute, rows, form_a, form_b, a, b, c, sa, sb)
    left, right = values_of(form_a, a), values_of(form_b, b)
    for i, j in [(0, 0), (rows - 1, rows - 1), *rng.integers(0, rows, (10, 2)).tolist()]:
        total = Fraction(float(c[i, j]))
        for block in range(k // 32):
            part = slice(32 * block, 32 * block + 32)
            dot = sum(Fraction(x) * Fraction(y) for x, y in zip(left[i, part], right[j, part], strict=True))
            shift = int(sa[i, block]) + int(sb[j, block]) - 254 if scaled else 0
            total += dot * Fraction(2) ** shift
        assert d[i, j] == np.float32(to_f32(total)), (i, j)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["sequential-f32", "truncating"])
def test_small_integers_come_out_alike_in_every_model(execute, form, model):
    rng = np.random.default_rng(3)
    one = {0: 0x38, 1: 0x3C, 2: 0x08, 3: 0x0C, 4: 0x02}[form]
    signs = 1 << FORMS[form][0] - 1
    a, b = (np.where(rng.random((16, 128)) < 0.5, one, one | signs) for _ in range(2))
    c = rng.integers(-9, 9, (16, 16)).astype(np.float32)
    want = values_of(form, a) @ values_of(form, b).T + c
    assert (multiply(execute, 16, form, form, a, b, c, context=Context(accumulation=model)) == want).all()


def test_scale_255_and_nan_codes_reach_their_rows_and_columns_only(execute):
    rng = np.random.default_rng(4)
    a, b = codes_of(rng, 0, 16, 128), codes_of(rng, 4, 16, 128)
    a[9, 40] = 0x7F
    sa, sb = np.full((16, 4), 127), np.full((16, 4), 127)
    sb[3, 2] = 255
    d = multiply(execute, 16, 0, 4, a, b, np.zeros((16, 16), np.float32), sa, sb)
    want = np.zeros((16, 16), bool)
    want[9], want[:, 3] = True, True
    assert (np.isnan(d) == want).all()
    assert set(d[want].view(np.uint32).tolist()) == {0x7FC00000}
