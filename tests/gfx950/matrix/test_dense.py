"""Every dense matrix instruction against AMD's published register layout and exact arithmetic, element by element."""

import re
from fractions import Fraction

import numpy as np
import pytest

from mxassay.gfx950.faults import UnsupportedInstruction
from mxassay.gfx950.registry import Context, lookup

F32 = ("32x32x1_2b_f32", "16x16x1_4b_f32", "4x4x1_16b_f32", "32x32x2_f32", "16x16x4_f32")
SHORT = ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16", "16x16x32", "32x32x16")
I8 = ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x16", "16x16x32", "16x16x64", "32x32x32")
FP8 = ("fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8")
EVERY = (
    *(f"v_mfma_f32_{name}" for name in F32),
    *(f"v_mfma_f32_{shape}_{kind}" for kind in ("f16", "bf16") for shape in SHORT),
    *(f"v_mfma_i32_{shape}_i8" for shape in I8),
    *(f"v_mfma_f32_{shape}_{kinds}" for shape in ("16x16x32", "32x32x16") for kinds in FP8),
    "v_mfma_f64_16x16x4_f64",
    "v_mfma_f64_4x4x4_4b_f64",
)
BITS = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


class Case:
    """Random operands of one instruction, and where its elements lie: the formulas of the AMD matrix instruction
    calculator ("Matrix element to register mapping")."""

    def __init__(self, name: str, seed: int = 0) -> None:
        rows, k, blocks, kinds = re.fullmatch(r"v_mfma_\w\d\d_(\d+)x\d+x(\d+)_(?:(\d+)b_)?(\w+)", name).groups()
        self.name, self.rows, self.k, self.blocks = name, int(rows), int(k), int(blocks or 1)
        self.kind_a, _, kind_b = kinds.partition("_")
        self.kind_b = kind_b or self.kind_a
        self.bits = BITS[self.kind_a]
        self.items = self.k * self.rows * self.blocks // 64
        self.wide = self.kind_a == "f64"
        self.results = max(self.rows * self.rows * self.blocks // 64, 1)
        self.rng = np.random.default_rng(seed)
        self.a, self.b = self._values(self.kind_a), self._values(self.kind_b)
        self.c = self._accumulators()

    def _values(self, kind: str) -> np.ndarray:
        """Codes, unsigned (64 lanes, items); finite, over a wide range of exponents."""
        shape = (64, self.items)
        if kind == "f32":
            value = self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-30, 30, shape)
            return value.astype(np.float32).view(np.uint32)
        if kind == "f64":
            return (self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-99, 99, shape)).view(np.uint64)
        codes = self.rng.integers(0, 1 << BITS[kind], shape)
        if kind in ("f16", "bf16"):
            exponent = {"f16": 0x7C00, "bf16": 0x7F80}[kind]
            codes[(codes & exponent) == exponent] &= 0x83FF  # no infinities, no NaN
            if kind == "bf16":
                codes = codes & 0x807F | self.rng.integers(90, 160, shape) << 7
        if kind == "fp8":
            codes[(codes & 0x7F) == 0x7F] = 0x7E
        if kind == "bf8":
            codes[(codes & 0x7C) == 0x7C] &= 0x83
        return codes

    def _accumulators(self) -> np.ndarray:
        shape = (self.results, 64)
        if self.kind_a == "i8":
            return self.rng.integers(0, 1 << 32, shape).astype(np.uint32)
        if self.wide:
            return self.rng.standard_normal(shape)
        return (self.rng.standard_normal(shape) * 2.0 ** self.rng.integers(-20, 20, shape)).astype(np.float32)

    def registers(self, codes: np.ndarray) -> np.ndarray:
        """uint32 (registers, 64): the first item in the lowest bits of the first register."""
        words = np.zeros((self.items * self.bits // 32, 64), object)
        for lane in range(64):
            whole = sum(int(code) << self.bits * item for item, code in enumerate(codes[lane]))
            for register in range(len(words)):
                words[register, lane] = whole >> 32 * register & 0xFFFFFFFF
        return words.astype(np.uint32)

    def c_registers(self) -> np.ndarray:
        if not self.wide:
            return self.c.view(np.uint32)
        low_high = self.c.view(np.uint64)
        return np.stack([low_high & 0xFFFFFFFF, low_high >> 32], axis=1).reshape(-1, 64).astype(np.uint32)

    def element(self, which: str, i: int, k: int, block: int) -> Fraction:
        """A[i][k] or B[k][i] of a block."""
        codes, kind = (self.a, self.kind_a) if which == "a" else (self.b, self.kind_b)
        lane = block * self.rows + k // self.items * self.rows * self.blocks + i
        return value_of(int(codes[lane, k % self.items]), kind)

    def place(self, i: int, j: int, block: int) -> tuple[int, int]:
        """Register (or pair) and lane of D[i][j]."""
        high = 1 if self.wide else 4
        per_register = 64 // self.rows
        together = -(-64 // (self.rows * self.rows // high)) if self.rows * self.rows // high < 64 else 1
        register = block * (self.rows * self.rows // 64) + i // (high * per_register) * high + i % high
        lane = block % together * self.rows + i // high % per_register * together * self.rows + j
        return register, lane

    def text(self, file: str = "v") -> str:
        count = self.items * self.bits // 32
        d = self.results * (2 if self.wide else 1)

        def span(first: int, size: int) -> str:
            return f"{file}[{first}:{first + size - 1}]" if size > 1 else f"{file}{first}"

        return f"{self.name} {span(100, d)}, {span(0, count)}, {span(32, count)}, {span(100, d)}"

    def inputs(self) -> dict:
        return {0: self.registers(self.a), 32: self.registers(self.b), 100: self.c_registers()}

    def result(self, registers: np.ndarray) -> np.ndarray:
        """D as (registers or pairs, 64)."""
        words = registers[100 : 100 + self.results * (2 if self.wide else 1), 0]
        if self.wide:
            return (words[::2].astype(np.uint64) | words[1::2].astype(np.uint64) << np.uint64(32)).view(np.float64)
        return words.view(np.int32 if self.kind_a == "i8" else np.float32)

    def some(self, count: int) -> list[tuple[int, int, int]]:
        rows, blocks = self.rows, self.blocks
        drawn = self.rng.integers(0, (rows, rows, blocks), (count, 3)).tolist()
        return [(0, 0, 0), (rows - 1, rows - 1, blocks - 1), (1, 0, 0), (0, 1, blocks - 1), *map(tuple, drawn)]


def value_of(code: int, kind: str) -> Fraction:
    if kind == "i8":
        return Fraction(code - 256 if code > 127 else code)
    exponent_bits, mantissa_bits = {
        "f64": (11, 52), "f32": (8, 23), "f16": (5, 10), "bf16": (8, 7), "fp8": (4, 3), "bf8": (5, 2),
    }[kind]  # fmt: skip
    bias = (1 << exponent_bits - 1) - 1
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    whole = mantissa + (1 << mantissa_bits if exponent else 0)
    size = whole * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    return -size if code >> exponent_bits + mantissa_bits else size


def expected(case: Case, i: int, j: int, block: int, to_f32, to_f64):
    register, lane = case.place(i, j, block)
    c = case.c[register, lane]
    products = [case.element("a", i, k, block) * case.element("b", j, k, block) for k in range(case.k)]
    if case.kind_a == "i8":
        total = int(c.view(np.int32)) + int(sum(products))
        return (total + 2**31) % 2**32 - 2**31
    total = Fraction(float(c))
    if case.kind_a in ("f32", "f64"):  # one fused multiply-add after another
        for product in products:
            total = Fraction((to_f32 if case.kind_a == "f32" else to_f64)(total + product))
        return float(total)
    return to_f32(total + sum(products))


@pytest.mark.parametrize("name", EVERY)
def test_results_are_the_exact_sums_rounded_as_declared(execute, to_f32, to_f64, name):
    case = Case(name)
    d = case.result(execute(case.text(), case.inputs()).v)
    for i, j, block in case.some(24):
        register, lane = case.place(i, j, block)
        want = expected(case, i, j, block, to_f32, to_f64)
        assert d[register, lane] == want, (name, i, j, block, float(d[register, lane]), want)


@pytest.mark.parametrize("name", EVERY)
def test_accumulation_registers_and_disabled_lanes_change_nothing(execute, name):
    case = Case(name, 1)
    plain = execute(case.text(), case.inputs()).v
    agprs = execute(case.text("a"), {}, case.inputs(), exec_mask=0xF0F0).a
    assert (case.result(plain).view(np.uint32) == case.result(agprs).view(np.uint32)).all()


def one_hot(case: Case, i: int, j: int, k: int, block: int) -> dict:
    one = {"f16": 0x3C00, "bf16": 0x3F80, "i8": 1, "fp8": 0x38, "bf8": 0x3C, "f32": 0x3F800000, "f64": 0x3FF << 52}
    case.a[:], case.b[:], case.c[:] = 0, 0, 0
    start = block * case.rows + k // case.items * case.rows * case.blocks
    case.a[start + i, k % case.items] = one[case.kind_a]
    case.b[start + j, k % case.items] = one[case.kind_b]
    return case.inputs()


# Read off the AMD matrix instruction calculator for CDNA3: D[i][j].block -> register (pair) and lane.
@pytest.mark.parametrize(
    ("name", "where", "register", "lane"),
    [
        ("v_mfma_f32_32x32x8_f16", (9, 3, 6, 0), 5, 3),
        ("v_mfma_f32_32x32x8_f16", (31, 31, 7, 0), 15, 63),
        ("v_mfma_f32_32x32x4_2b_bf16", (6, 30, 3, 1), 18, 62),
        ("v_mfma_f32_16x16x16_bf16", (13, 5, 9, 0), 1, 53),
        ("v_mfma_f32_16x16x1_4b_f32", (7, 2, 0, 3), 15, 18),
        ("v_mfma_f32_4x4x4_16b_f16", (2, 3, 1, 11), 2, 47),
        ("v_mfma_i32_16x16x32_i8", (4, 15, 31, 0), 0, 31),
        ("v_mfma_f64_16x16x4_f64", (9, 2, 3, 0), 2, 18),
        ("v_mfma_f64_4x4x4_4b_f64", (3, 1, 2, 2), 0, 57),
    ],
)
def test_golden_places(execute, name, where, register, lane):
    case = Case(name)
    i, j, k, block = where
    d = case.result(execute(case.text(), one_hot(case, i, j, k, block)).v)
    assert list(zip(*(axis.tolist() for axis in np.nonzero(d)), strict=True)) == [(register, lane)]
    assert d[register, lane] == 1


def test_cbsz_and_abid_broadcast_one_block_of_a(execute, to_f32, to_f64):
    case = Case("v_mfma_f32_16x16x4_4b_f16")
    d = case.result(execute(case.text() + " cbsz:1 abid:1", case.inputs()).v)
    for i, j, block in case.some(20):
        register, lane = case.place(i, j, block)
        used = block // 2 * 2 + 1
        total = Fraction(float(case.c[register, lane]))
        for k in range(case.k):
            total += case.element("a", i, k, used) * case.element("b", j, k, block)
        assert d[register, lane] == to_f32(total)


# Which lane's B each quarter of lanes sees: halves broadcast, all rotated by 16, quarters broadcast.
QUARTERS = {1: (0, 1, 0, 1), 2: (2, 3, 2, 3), 3: (1, 2, 3, 0), 4: (0,) * 4, 5: (1,) * 4, 6: (2,) * 4, 7: (3,) * 4}


@pytest.mark.parametrize("blgp", sorted(QUARTERS))
def test_blgp_moves_quarters_of_b(execute, blgp):
    case = Case("v_mfma_f32_32x32x1_2b_f32")
    got = case.result(execute(f"{case.text()} blgp:{blgp}", case.inputs()).v)
    lanes = np.concatenate([np.arange(16) + 16 * quarter for quarter in QUARTERS[blgp]])
    case.b = case.b[lanes]
    want = case.result(execute(case.text(), case.inputs()).v)
    assert (got.view(np.uint32) == want.view(np.uint32)).all()


@pytest.mark.parametrize(("neg", "signs"), [(1, (-1, 1, 1)), (2, (1, -1, 1)), (4, (1, 1, -1)), (7, (-1, -1, -1))])
def test_double_precision_takes_signs(execute, neg, signs):
    case = Case("v_mfma_f64_16x16x4_f64")
    got = case.result(execute(f"{case.text()} neg:[{neg & 1},{neg >> 1 & 1},{neg >> 2}]", case.inputs()).v)
    case.a, case.b = (
        (codes.view(np.float64) * sign).view(np.uint64) for codes, sign in zip((case.a, case.b), signs, strict=False)
    )
    case.c = case.c * signs[2]
    want = case.result(execute(case.text(), case.inputs()).v)
    assert (got.view(np.uint64) == want.view(np.uint64)).all()


@pytest.mark.parametrize("text", ["cbsz:1", "abid:1", "blgp:3"])
def test_modifiers_that_a_form_does_not_take_are_refused(execute, text):
    case = Case("v_mfma_f32_16x16x16_f16")
    with pytest.raises(UnsupportedInstruction):
        execute(f"{case.text()} {text}", case.inputs())


def test_infinities_and_nans_follow_ieee_and_nan_is_the_default_one(execute):
    case = Case("v_mfma_f32_16x16x16_f16")
    case.a[:], case.b[:], case.c[:] = 0x3C00, 0x3C00, 0
    case.a[2, 0] = 0x7C00  # row 2: infinity
    case.a[3, 1] = 0xFE01  # row 3: a NaN with a payload
    case.b[5, 0] = 0x0000  # column 5, k 0: zero
    d = case.result(execute(case.text(), case.inputs()).v)
    at = {(i, j): d[case.place(i, j, 0)] for i in (1, 2, 3) for j in (4, 5)}
    assert at[1, 4] == 16
    assert at[2, 4] == np.inf
    assert at[2, 5].view(np.uint32) == 0x7FC00000
    assert at[3, 4].view(np.uint32) == 0x7FC00000


def test_denormals_are_kept_on_every_side(execute):
    case = Case("v_mfma_f32_16x16x16_bf16")
    case.a[:], case.b[:], case.c[:] = 0, 0, 0
    case.a[0, 0], case.b[0, 0] = 0x0001, 0x3F80  # 2^-133 * 1
    case.c[0, 0] = np.float32(2.0**-149)
    d = case.result(execute(case.text(), case.inputs()).v)
    assert d[0, 0] == np.float32(2.0**-133 + 2.0**-149)


def test_a_result_may_lie_on_its_operands(execute):
    case = Case("v_mfma_f32_16x16x16_f16")
    want = case.result(execute(case.text(), case.inputs()).v)
    inputs = case.inputs()
    got = execute("v_mfma_f32_16x16x16_f16 v[0:3], v[0:1], v[32:33], v[100:103]", inputs).v[0:4, 0].view(np.float32)
    assert (got == want).all()


@pytest.mark.parametrize(("constant", "value"), [("0", 0.0), ("1.0", 1.0), ("-4.0", -4.0)])
def test_the_accumulator_may_be_a_constant(execute, constant, value):
    case = Case("v_mfma_f32_16x16x16_f16")
    case.a[:], case.b[:] = 0x3C00, 0x3C00
    text = f"v_mfma_f32_16x16x16_f16 v[100:103], v[0:1], v[32:33], {constant}"
    assert (case.result(execute(text, case.inputs()).v) == 16 + value).all()


def test_an_integer_accumulator_constant_is_an_integer(execute):
    case = Case("v_mfma_i32_16x16x32_i8")
    case.a[:], case.b[:] = 1, 255
    text = "v_mfma_i32_16x16x32_i8 v[100:103], v[0:1], v[32:33], 7"
    assert (case.result(execute(text, case.inputs()).v) == 7 - 32).all()


def test_every_dense_instruction_of_the_emulator_is_judged_here():
    from mxassay.gfx950 import registry

    lookup("v_mov_b32")
    known = {op for op in registry._TABLE if op.startswith("v_mfma_") and "f8f6f4" not in op}
    assert known == set(EVERY)


def test_a_context_names_its_model():
    assert Context().accumulation == "exact"
