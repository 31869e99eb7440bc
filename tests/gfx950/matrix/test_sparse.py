"""V_SMFMAC_*: the held half of A spread to the k that the index register names, then as in the dense instruction."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from mxassay.gfx950.faults import UnsupportedInstruction

KINDS = {
    "f16": (16, np.uint16, np.float16), "bf16": (16, np.uint16, ml_dtypes.bfloat16), "i8": (8, np.uint8, np.int8),
    "fp8": (8, np.uint8, ml_dtypes.float8_e4m3fn), "bf8": (8, np.uint8, ml_dtypes.float8_e5m2),
}  # fmt: skip
NAMES = [
    *(f"f32_{s}_{k}_{k}" for k in ("f16", "bf16") for s in ("16x16x32", "32x32x16", "16x16x64", "32x32x32")),
    *(f"i32_{s}_i8_i8" for s in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")),
    *(f"f32_{s}_{a}_{b}" for s in ("16x16x64", "32x32x64") for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_products_are_exact_and_use_the_named_k(execute, to_f32, name, seed):
    out, shape, kind_a, kind_b = name.split("_")
    rows, k = int(shape.split("x")[0]), int(shape.split("x")[2])
    rng = np.random.default_rng(seed)
    bits, unsigned, _ = KINDS[kind_a]
    dense, held = k * rows // 64, k * rows // 128
    sets = 16 // held
    chosen = seed % sets

    def draw(kind, items):
        values = rng.integers(-4, 5, (64, items)) * (1 if kind == "i8" else 0.5)
        return values.astype(KINDS[kind][2])

    a, b = draw(kind_a, held), draw(kind_b, dense)
    # Two different k of each four, in ascending order, as compilers store them.
    pairs = np.array([(x, y) for x in range(4) for y in range(x + 1, 4)])
    which = pairs[rng.integers(0, 6, (64, held // 2))].reshape(64, held)
    index = np.full(64, 0, np.uint64)
    for item in range(held):
        index |= which[:, item].astype(np.uint64) << np.uint64(2 * (item + held * chosen))
    index |= rng.integers(0, 1 << 32, 64).astype(np.uint64) & np.uint64(
        0xFFFFFFFF ^ ((1 << 2 * held) - 1 << 2 * held * chosen)
    )
    count = rows * rows // 64
    c = rng.integers(-8, 9, (count, 64)).astype(np.int32 if out == "i32" else np.float32)
    operation = f"v_smfmac_{out}_{shape}_" + (kind_a if bits == 16 or kind_a == "i8" else f"{kind_a}_{kind_b}")
    text = f"{operation} v[100:{99 + count}], v[0:{held * bits // 32 - 1}], v[32:{31 + dense * bits // 32}], v64"
    inputs = {
        0: np.ascontiguousarray(a.view(unsigned)).view(np.uint32).T,
        32: np.ascontiguousarray(b.view(unsigned)).view(np.uint32).T,
        64: index.astype(np.uint32)[None],
        100: c.view(np.uint32),
    }
    d = execute(f"{text} abid:{chosen}" if chosen else text, inputs).v[100 : 100 + count, 0].view(c.dtype)
    for i, j in [(0, 0), (rows - 1, 3), *rng.integers(0, rows, (12, 2)).tolist()]:
        register = i // (256 // rows) * 4 + i % 4
        lane = j + rows * (i // 4 % (64 // rows))
        total = Fraction(float(c[register, lane]))
        for item in range(held):
            for group in range(k // dense):
                at = which[i + rows * group, item] + 4 * (item // 2)
                total += Fraction(float(a[i + rows * group, item])) * Fraction(float(b[j + rows * group, at]))
        assert float(d[register, lane]) == to_f32(total), (i, j)


def test_an_index_set_that_does_not_exist_is_refused(execute):
    with pytest.raises(UnsupportedInstruction, match="ABID 2 with 2 sets of indices"):
        execute("v_smfmac_f32_16x16x64_f16 v[100:103], v[0:3], v[32:39], v64 abid:2", {0: np.zeros((1, 64))})
