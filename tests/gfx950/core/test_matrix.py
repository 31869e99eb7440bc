"""Scaled products: against exact fractions, over the whole range of scales, and through the instruction with its
layout."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.decode import decode_one
from mxassay.gfx950.floating import ignore_float_errors
from mxassay.gfx950.matrix import E2M1_VALUES, FORMATS, _far_apart, scaled_accumulate
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.registry import Context, lookup
from mxassay.gfx950.wave import Cohort

FP4 = FORMATS[4]
CODES = np.array([*E2M1_VALUES, *(-v for v in E2M1_VALUES)])


def rounded(exact: Fraction) -> float:
    """RNE to float32 with nothing but integers."""
    if exact == 0:
        return 0.0
    size, unit = abs(exact), Fraction(2) ** -149
    while size / unit >= 1 << 24:
        unit *= 2
    whole, rest = divmod(size, unit)
    if rest * 2 > unit or (rest * 2 == unit and whole % 2):
        whole += 1
    value = whole * unit
    return float("inf") * (1 if exact > 0 else -1) if value >= 2**128 else float(value) * (1 if exact > 0 else -1)


def multiply(assemble, rows, a, b, sa, sb, c, mods="", fields=None):
    """D of one wave. a, b: codes (rows, K); sa, sb: scale bytes (rows, blocks); c: float32 (rows, rows)."""
    blocks, registers = 64 // rows, rows * rows // 64
    shape = "16x16x128" if rows == 16 else "32x32x64"
    top = 32 + registers - 1
    text = f"v_mfma_scale_f32_{shape}_f8f6f4 v[32:{top}], v[0:3], v[4:7], v[32:{top}], v8, v9 {mods} cbsz:4 blgp:4"
    inst = decode_one(assemble(text))
    inst = replace(inst, mods={**inst.mods, **(fields or {})})
    cohort = Cohort(Batch(AddressSpace(), 0, 1, 1), np.arange(1), 0, 64, 0, fill=0x5A5A5A5A)
    byte_a, byte_b = ((inst["op_sel_hi"] >> n & 1) * 2 + (inst["op_sel"] >> n & 1) for n in (0, 1))
    for lane in range(64):
        row, block = lane % rows, lane // rows
        for k in range(32):
            for first, codes in ((0, a), (4, b)):
                register = cohort.v[first + k // 8, 0]
                register[lane] = int(register[lane]) & ~(15 << 4 * (k % 8)) | int(codes[row, 32 * block + k]) << 4 * (
                    k % 8
                )
        cohort.v[8, 0, lane] = 0x01010101 * 77 & ~(255 << 8 * byte_a) | int(sa[row, block]) << 8 * byte_a
        cohort.v[9, 0, lane] = 0x01010101 * 99 & ~(255 << 8 * byte_b) | int(sb[row, block]) << 8 * byte_b
    where = {}
    for i in range(rows):
        for j in range(rows):
            where[i, j] = 32 + (i // (4 * blocks)) * 4 + i % 4, j + rows * (i // 4 % blocks)
            register, lane = where[i, j]
            cohort.vf[register, 0, lane] = c[i, j]
    with ignore_float_errors():
        lookup(inst.op).build(inst, Context())(cohort)
    return np.array(
        [[cohort.vf[where[i, j][0], 0, where[i, j][1]] for j in range(rows)] for i in range(rows)], np.float32
    )


def exact(a, b, sa, sb, c, i, j) -> Fraction:
    total = Fraction(float(c[i, j]))
    for block in range(sa.shape[1]):
        k = slice(32 * block, 32 * block + 32)
        dot = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(CODES[a[i, k]], CODES[b[j, k]], strict=True))
        total += dot * Fraction(2) ** (int(sa[i, block]) + int(sb[j, block]) - 254)
    return total


def case(rows, seed, low, high):
    rng, blocks = np.random.default_rng(seed), 64 // rows
    a, b = rng.integers(0, 16, (2, rows, 32 * blocks))
    sa, sb = rng.integers(low, high + 1, (2, rows, blocks))
    c = (rng.standard_normal((rows, rows)) * 2.0 ** rng.integers(-20, 20, (rows, rows))).astype(np.float32)
    return a, b, sa, sb, c


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize(("low", "high"), [(127, 127), (124, 128), (110, 140), (60, 190), (0, 254)])
def test_the_instruction_rounds_the_exact_sum_once(assemble, rows, low, high):
    a, b, sa, sb, c = case(rows, low, low, high)
    d = multiply(assemble, rows, a, b, sa, sb, c)
    for i, j in [
        (0, 0),
        (1, 0),
        (0, 1),
        (rows - 1, rows - 1),
        *np.random.default_rng(1).integers(0, rows, (30, 2)).tolist(),
    ]:
        want = np.float32(rounded(exact(a, b, sa, sb, c, i, j)))
        assert d[i, j].view(np.uint32) == want.view(np.uint32), (i, j, d[i, j], want)


@pytest.mark.parametrize("mods", ["op_sel:[1,0,0]", "op_sel:[0,1,0] op_sel_hi:[1,0,0]", "op_sel_hi:[1,1,0]"])
def test_op_sel_picks_the_scale_byte_of_each_operand(assemble, mods):
    a, b, sa, sb, c = case(16, 5, 120, 130)
    assert (multiply(assemble, 16, a, b, sa, sb, c, mods) == multiply(assemble, 16, a, b, sa, sb, c)).all()


def test_one_hot_operands_land_where_the_layout_says(assemble):
    rng = np.random.default_rng(2)
    sa = sb = np.full((16, 4), 127)
    zero = np.zeros((16, 16), np.float32)
    for i, j, k in rng.integers(0, (16, 16, 128), (12, 3)):
        a, b = np.zeros((2, 16, 128), np.int64)
        a[i, k], b[j, k] = 3, 13
        want = zero.copy()
        want[i, j] = 1.5 * -3.0
        assert (multiply(assemble, 16, a, b, sa, sb, zero) == want).all()


def test_scale_byte_255_makes_its_row_and_column_nan_and_no_other(assemble):
    a, b, sa, sb, c = case(16, 6, 125, 129)
    sa[3, 1] = sb[7, 2] = 255
    d = multiply(assemble, 16, a, b, sa, sb, c)
    want = np.zeros((16, 16), bool)
    want[3], want[:, 7] = True, True
    assert (np.isnan(d) == want).all()


def test_neg_and_abs_apply_to_c_alone(assemble):
    a, b, sa, sb, c = case(16, 7, 127, 127)
    plain = multiply(assemble, 16, a, b, sa, sb, -np.abs(c))
    assert (multiply(assemble, 16, a, b, sa, sb, c, fields={"neg": 4, "neg_hi": 4}) == plain).all()


def test_every_nibble_of_a_register_is_a_code():
    words = np.array([0x76543210, 0xFEDCBA98, 0, 0xFFFFFFFF], np.uint32).reshape(4, 1, 1)
    assert FP4.unpack(words).ravel().tolist() == [*CODES[:16], *[0.0] * 8, *[-6.0] * 8]


@pytest.mark.parametrize("spread", [0, 3, 20, 60, 200])
def test_blocks_of_zeros_add_nothing_under_any_scale_but_nan(spread):
    rng = np.random.default_rng(spread)
    products = rng.integers(-4608, 4609, (1, 4, 16, 16)).astype(np.float32)
    sa, sb = rng.integers(20, 21 + spread, (2, 1, 4, 16)).astype(np.uint8)
    for scales, by_row in ((sa, products), (sb, products.transpose(0, 1, 3, 2))):
        zero = rng.random((1, 4, 16)) < 0.4
        by_row[zero], scales[zero] = 0, rng.choice([0, 254], zero.sum())
    sa[0, 2, 5] = sb[0, 1, 9] = 255
    products[0, 2, 5] = products[0, 1, :, 9] = 0
    c = rng.standard_normal((1, 16, 16)).astype(np.float32)
    with ignore_float_errors():
        found = scaled_accumulate(products, sa.reshape(1, 64), sb.reshape(1, 64), c, 14, lambda terms: terms)
    for i, j in np.ndindex(16, 16):
        if i == 5 or j == 9:
            assert np.isnan(found[0, i, j])
            continue
        total = Fraction(float(c[0, i, j]))
        for block in range(4):
            scale = Fraction(2) ** (int(sa[0, block, i]) + int(sb[0, block, j]) - 254)
            total += Fraction(float(products[0, block, i, j])) * scale
        assert found[0, i, j] == np.float32(rounded(total)), (i, j)


TERMS = st.builds(lambda whole, power: whole * 2.0**power, st.integers(-4608, 4608), st.integers(-254, 254))


@given(st.lists(TERMS, min_size=4, max_size=4), st.floats(width=32, allow_nan=False, allow_infinity=False))
@example([1.0, 2.0**-24, 2.0**-200, 0.0], 0.0)
@example([1.0, 2.0**-24, -(2.0**-200), 0.0], 0.0)
@example([2.0**-200, 3.0, 2.0**-23, -(2.0**-210)], 0.0)
@example([2.0**100, 2.0**-30, -(2.0**100), 2.0**-120], 0.0)
@example([2.0**200, 2.0**-100, -(2.0**200), -(2.0**-100)], -0.0)
@example([2.0**200, 2.0**-150, -(2.0**200), -(2.0**-220)], 0.0)
@example([2.0**128, -(2.0**103), -(2.0**-200), 0.0], 0.0)
def test_sums_too_wide_for_float64_are_rounded_once(terms, c):
    want = np.float32(rounded(sum((Fraction(term) for term in terms), Fraction(c))))
    with ignore_float_errors():
        found = _far_apart([np.array([term]) for term in terms], np.array([c]))
    assert found.view(np.uint32)[0] == want.view(np.uint32)
