"""V_CVT_SCALEF32_* and V_CVT_*_FP8/BF8: which bits are read and written, the order of packing, scales, saturation."""

import ml_dtypes
import numpy as np
import pytest

from mxassay.gfx950.narrow import BF6, BF8, FP4, FP6, FP8, encoded, encoded_stochastically

FORMS = {"fp8": FP8, "bf8": BF8, "fp6": FP6, "bf6": BF6, "fp4": FP4}
OLD = 0xA5A5A5A5


def words(values, dtype):
    """Lane-major values (64, n) as registers."""
    return np.ascontiguousarray(values.astype(dtype)).view(np.uint32).T.copy()


def scales(exponent, seed=0):
    """A scale register whose sign and mantissa are noise."""
    noise = np.random.default_rng(seed).integers(0, 1 << 32, 64).astype(np.uint32) & np.uint32(0x807FFFFF)
    return (np.broadcast_to(exponent, 64).astype(np.uint32) << np.uint32(23) | noise)[None]


def packed_codes(registers, bits, count):
    """Codes (64, count) out of registers (n, 64)."""
    found = np.zeros((64, count), np.int64)
    for lane in range(64):
        whole = sum(int(word) << 32 * index for index, word in enumerate(registers[:, lane]))
        found[lane] = [whole >> bits * item & (1 << bits) - 1 for item in range(count)]
    return found


def numbers(count, seed=1, spread=4):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((64, count)) * 2.0 ** rng.integers(-spread, spread, (64, count))).astype(np.float32)


@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_thirty_two_values_pack_in_order(execute, name, kind):
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
    x = numbers(32).astype(dtype)
    got = execute(f"v_cvt_scalef32_pk32_{name}_{kind} v[100:105], v[0:15], v40", {0: words(x, dtype), 40: scales(126)})
    want = encoded(FORMS[name], x.astype(np.float32) * np.float32(2), saturate=True)
    assert (packed_codes(got.v[100:106, 0], 6, 32) == want).all()
    assert (got.v[106, 0] == OLD).all()


@pytest.mark.parametrize("name", ["fp6", "bf6"])
def test_two_times_sixteen_values_interleave(execute, name):
    x = numbers(32)
    inputs = {0: words(x[:, :16], np.float32), 16: words(x[:, 16:], np.float32), 40: scales(128)}
    got = execute(f"v_cvt_scalef32_2xpk16_{name}_f32 v[100:105], v[0:15], v[16:31], v40", inputs)
    woven = np.stack([x[:, :16], x[:, 16:]], axis=-1).reshape(64, 32)
    assert (packed_codes(got.v[100:106, 0], 6, 32) == encoded(FORMS[name], woven / np.float32(2), saturate=True)).all()


def prng(x):
    return (x << 1 & 0xFFFFFFFF) ^ (197 if x >> 31 else 0)


@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize(("kind", "kept"), [("f32", 23), ("f16", 10), ("bf16", 7)])
def test_stochastic_packing_draws_a_new_number_for_each_value(execute, name, kind, kept):
    dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
    x = numbers(32, seed=5).astype(dtype)
    seeds = np.random.default_rng(6).integers(0, 1 << 32, 64)
    inputs = {0: words(x, dtype), 40: seeds.astype(np.uint32)[None], 41: scales(127)}
    last = 31 if kind == "f32" else 15
    got = execute(f"v_cvt_scalef32_sr_pk32_{name}_{kind} v[100:105], v[0:{last}], v40, v41", inputs)
    codes = packed_codes(got.v[100:106, 0], 6, 32)
    for lane in (0, 1, 63):
        random = int(seeds[lane])
        for item in range(32):
            want = encoded_stochastically(
                FORMS[name], x[lane, item : item + 1].astype(np.float64), np.array([random], np.uint32), kept, True
            )
            assert codes[lane, item] == int(want[0])
            random = prng(random)


@pytest.mark.parametrize("name", ["fp8", "bf8"])
@pytest.mark.parametrize("high", [0, 1])
def test_a_pair_of_bytes_goes_to_one_half_and_leaves_the_other(execute, name, high):
    x = numbers(2)
    inputs = {0: words(x[:, :1], np.float32), 1: words(x[:, 1:], np.float32), 2: scales(125)}
    got = execute(f"v_cvt_scalef32_pk_{name}_f32 v100, v0, v1, v2 op_sel:[0,0,0,{high}]", inputs).v[100, 0]
    code = encoded(FORMS[name], x * np.float32(4), saturate=False).astype(np.uint32)
    pair = code[:, 0] | code[:, 1] << 8
    want = OLD & 0xFFFF | pair << 16 if high else OLD & 0xFFFF0000 | pair
    assert (got == want).all()


@pytest.mark.parametrize("byte", range(4))
def test_a_stochastic_byte_goes_where_op_sel_says(execute, byte):
    x, seeds = numbers(1), np.random.default_rng(7).integers(0, 1 << 32, 64).astype(np.uint32)
    inputs = {0: words(x, np.float32), 1: seeds[None]}
    text = f"v_cvt_sr_bf8_f32 v100, v0, v1 op_sel:[0,0,{byte & 1},{byte >> 1}]"
    code = encoded_stochastically(BF8, x[:, 0].astype(np.float64), seeds, 23, saturate=False).astype(np.uint32)
    assert (execute(text, inputs).v[100, 0] == (OLD & ~(0xFF << 8 * byte) | code << 8 * byte)).all()


@pytest.mark.parametrize("byte", range(4))
def test_an_unscaled_byte_is_read_where_sdwa_says(execute, byte):
    codes = np.arange(256).reshape(64, 4)
    got = execute(f"v_cvt_f32_fp8_sdwa v100, v0 src0_sel:BYTE_{byte}", {0: words(codes, np.uint8)}).vf[100, 0]
    want = codes[:, byte].astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert ((got == want) | (np.isnan(got) & np.isnan(want))).all()


@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_thirty_two_codes_become_values_times_the_scale(execute, name, kind):
    form, dtype = FORMS[name], {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
    codes = np.random.default_rng(8).integers(0, 64, (64, 32))
    registers = np.zeros((6, 64), np.uint32)
    for lane in range(64):
        whole = sum(int(code) << 6 * item for item, code in enumerate(codes[lane]))
        registers[:, lane] = [whole >> 32 * word & 0xFFFFFFFF for word in range(6)]
    last = 131 if kind == "f32" else 115
    text = f"v_cvt_scalef32_pk32_{kind}_{name} v[100:{last}], v[0:5], v40"
    got = execute(text, {0: registers, 40: scales(130)}).v[100 : last + 1, 0]
    values = np.ascontiguousarray(got.T).view(dtype).astype(np.float64)
    peer = {"fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn}[name]
    assert (values == codes.astype(np.uint8).view(peer).astype(np.float64) * 8).all()
    assert form.bits == 6


@pytest.mark.parametrize(("exponent", "want"), [(0, 1.5 * 2.0**-127), (1, 1.5 * 2.0**-126), (254, np.inf)])
def test_scales_at_the_ends(execute, exponent, want):
    codes = np.full((64, 4), 0x7C if exponent == 254 else 0x3C)  # 384 overflows beside 2^127, 1.5 does not
    text = "v_cvt_scalef32_pk_f32_fp8 v[100:101], v0, v1"
    got = execute(text, {0: words(codes, np.uint8), 1: scales(exponent)}).vf[100:102, 0]
    assert (got == np.float32(want)).all()


def test_scale_255_makes_nan_of_everything_that_has_one(execute):
    x = {0: words(np.full((64, 1), 0.0), np.float32), 1: words(np.full((64, 1), -2.0), np.float32), 2: scales(255)}
    narrowed = execute("v_cvt_scalef32_pk_fp8_f32 v100, v0, v1, v2", x).v[100, 0]
    assert (narrowed & 0xFFFF == 0xFF7F).all()
    wide = execute("v_cvt_scalef32_pk_bf16_fp4 v100, v0, v1", {0: np.full((1, 64), 0x21, np.uint32), 1: scales(255)})
    assert np.isnan(np.ascontiguousarray(wide.v[100]).view(ml_dtypes.bfloat16).astype(np.float32)).all()


def test_a_denormal_bfloat16_is_rounded_once(execute):
    # 1.875 * 2^-6 * 2^-127 lies between one and two steps of 2^-133, the least bfloat16.
    inputs = {0: np.full((1, 64), 0x0F, np.uint32), 1: scales(0)}
    got = execute("v_cvt_scalef32_pk_bf16_fp8 v100, v0, v1", inputs).v[100, 0]
    assert (got & 0xFFFF == 2).all()


def test_lanes_that_are_off_keep_their_register(execute):
    x = {0: words(numbers(1), np.float32), 1: words(numbers(1, 2), np.float32)}
    got = execute("v_cvt_pk_bf8_f32 v100, v0, v1", x, exec_mask=0x1).v[100, 0]
    assert (got[1:] == OLD).all()
    assert got[0] != OLD
