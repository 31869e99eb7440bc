"""v_cvt_scalef32_pk_fp4_bf16 on every bfloat16 and every scale exponent: emulator, reference and ml_dtypes.

AMD's text names the element conversion and doesn't define it, so the witnesses are the reference (written from the OCP
format and from AMD's own software) and, where the result is settled (finite x, e in 1..254), ml_dtypes.
"""

import emulate
import numpy as np
import pytest
import torch

from mxassay.reference import cvt_scalef32_pk_fp4_bf16

EVERY = np.arange(1 << 16, dtype=np.uint32)
# Each lane holds x and x ^ 0x5a5a: all 65,536 values pass through both halves.
PAIRS = EVERY | (EVERY ^ 0x5A5A) << 16
OLD = (EVERY * np.uint32(2654435761)).astype(np.uint32)


@pytest.fixture(autouse=True)
def one_torch_thread():
    """The reference's tensors are small here: threads cost more than they bring, most of all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def converted(pairs, scales, old, byte=0, exec_mask=None) -> np.ndarray:
    """The destination register after the instruction; 1-D uint32 arrays of a multiple of 64 lanes."""
    waves = pairs.size // 64
    machine = emulate.Machine(
        waves, {0: pairs.reshape(waves, 64), 1: scales.reshape(waves, 64), 2: old.reshape(waves, 64)}
    )
    machine.exec = exec_mask
    op_sel = f"op_sel:[0,0,{byte & 1},{byte >> 1}]"
    cohort = emulate.execute(f"v_cvt_scalef32_pk_fp4_bf16 v2, v0, v1 {op_sel}", machine)
    assert (cohort.v[0] == machine.vgprs[0]).all()
    assert (cohort.v[1] == machine.vgprs[1]).all()
    return cohort.v[2].ravel()


def said_by_reference(pairs, scales, old, byte=0) -> np.ndarray:
    as_tensor = (torch.from_numpy(a.astype(np.int64)) for a in (pairs, scales, old))
    return cvt_scalef32_pk_fp4_bf16(*as_tensor, byte).numpy().astype(np.uint32)


def first_difference(got, want, pairs, scales) -> str:
    at = int(np.flatnonzero(got != want)[0])
    return f"pair {pairs[at]:#010x} scale {scales[at]:#010x}: emulator {got[at]:#010x}, witness {want[at]:#010x}"


@pytest.mark.parametrize("first", range(0, 256, 32))
def test_all_values_under_all_scales_equal_the_reference(first):
    for e in range(first, first + 32):
        # Sign and mantissa of the scale must not matter: they hold noise.
        scales = (OLD & np.uint32(0x807FFFFF)) | np.uint32(e << 23)
        got, want = converted(PAIRS, scales, OLD), said_by_reference(PAIRS, scales, OLD)
        assert (got == want).all(), first_difference(got, want, PAIRS, scales)


def test_finite_values_under_ordinary_scales_equal_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    halves = (EVERY, EVERY ^ 0x5A5A)
    settled = ((halves[0] & 0x7F80) != 0x7F80) & ((halves[1] & 0x7F80) != 0x7F80)
    numbers = [(np.where(settled, h, 0).astype(np.uint32) << 16).view(np.float32).astype(np.float64) for h in halves]
    for e in range(1, 255):
        scales = np.full(EVERY.size, e << 23, np.uint32)
        codes = []
        for x in numbers:
            scaled = np.clip(np.ldexp(x, 127 - e), -6, 6)
            codes.append(scaled.astype(ml_dtypes.float4_e2m1fn).view(np.uint8).astype(np.uint32) & 0xF)
        want = (OLD & np.uint32(0xFFFFFF00)) | codes[0] | codes[1] << 4
        got = converted(PAIRS, scales, OLD)
        assert (got == want)[settled].all(), first_difference(
            got[settled], want[settled], PAIRS[settled], scales[settled]
        )


@pytest.mark.parametrize("byte", range(4))
def test_each_byte_select_writes_its_byte_alone(byte):
    rng = np.random.default_rng(byte)
    pairs, scales, old = (rng.integers(0, 1 << 32, 1 << 14, dtype=np.uint32) for _ in range(3))
    scales = (scales & np.uint32(0x807FFFFF)) | np.uint32(127 << 23)
    exponents = rng.integers(124, 130, (2, pairs.size)).astype(np.uint32)
    pairs = (pairs & np.uint32(0x807F807F)) | exponents[0] << 7 | exponents[1] << 23
    got = converted(pairs, scales, old, byte)
    assert (got & ~np.uint32(0xFF << 8 * byte) == old & ~np.uint32(0xFF << 8 * byte)).all()
    want = said_by_reference(pairs, scales, old, byte)
    assert (got == want).all(), first_difference(got, want, pairs, scales)
    assert len(np.unique(got >> 8 * byte & 0xFF)) == 256


def test_lanes_that_are_off_keep_their_register():
    rng = np.random.default_rng(7)
    pairs, old = (rng.integers(0, 1 << 32, 64 * 64, dtype=np.uint32) for _ in range(2))
    scales = np.full(pairs.size, 127 << 23, np.uint32)
    mask = rng.integers(0, 1 << 64, 64, dtype=np.uint64)
    got = converted(pairs, scales, old, 2, mask)
    on = np.unpackbits(mask.view(np.uint8), bitorder="little").astype(bool)
    assert (got == np.where(on, said_by_reference(pairs, scales, old, 2), old)).all()


# x at scale 1 -> code (OCP MX spec 1.0, 5.3.3; ties to the even code). A flipped tie or a wrap shows here by name.
SHARP = [
    (0.0, 0), (0.25, 0), (0.251953125, 1), (0.5, 1), (0.75, 2), (1.0, 2), (1.25, 2), (1.2578125, 3), (1.5, 3),
    (1.75, 4), (2.0, 4), (2.5, 4), (2.515625, 5), (3.0, 5), (3.5, 6), (4.0, 6), (5.0, 6), (5.03125, 7), (6.0, 7),
    (7.0, 7), (8.0, 7), (24.0, 7),
]  # fmt: skip


@pytest.mark.parametrize("e", [8, 100, 127, 128, 200, 250])
@pytest.mark.parametrize(("x", "code"), SHARP, ids=[str(x) for x, _ in SHARP])
def test_the_sharp_values_have_their_codes(x, code, e):
    scaled = np.array([np.ldexp(np.float64(x), e - 127)] * 64, np.float64)
    bits = scaled.astype(np.float32).view(np.uint32) >> 16
    assert ((bits << 16).view(np.float32) == scaled).all()
    pairs = (bits | (bits | 0x8000) << 16).astype(np.uint32)
    got = converted(pairs, np.full(64, e << 23, np.uint32), np.zeros(64, np.uint32))
    assert f"{got[0]:#x}" == f"{code | (code | 8) << 4:#x}"
