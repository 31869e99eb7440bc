"""Vector ALU, integers and bits. Source throughout: AMD CDNA4 ISA, "VOP1", "VOP2", "VOP3" instruction descriptions."""

from typing import Any

import numpy as np

from mxassay.gfx950.bits import leading_zeros, reversed_bits, sign_bits, trailing_zeros
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.lanewise import lanewise, reads_of, saturating
from mxassay.gfx950.operands import destination, mask_destination
from mxassay.gfx950.registry import CERTAIN, INFERRED, Build, Context, Step, define, semantics
from mxassay.gfx950.wave import Cohort

U32 = np.uint32
_ISA = "AMD CDNA4 ISA, VOP1/VOP2/VOP3"


def _shift_left(amount: Any, value: Any) -> Any:
    return np.left_shift(value, amount & U32(31))


def _shift_right(amount: Any, value: Any) -> Any:
    return np.right_shift(value, amount & U32(31))


def _arithmetic_right(amount: Any, value: Any) -> Any:
    return np.right_shift(value, (amount & U32(31)).view(np.int32))


def _add(a: Any, b: Any, clamp: bool = False) -> Any:
    total = a + b
    return np.where(total < a, U32(0xFFFFFFFF), total) if clamp else total


def _sub(a: Any, b: Any, clamp: bool = False) -> Any:
    return np.where(a < b, U32(0), a - b) if clamp else a - b


def _add_i32(a: Any, b: Any, clamp: bool = False) -> Any:
    return _saturated(a.astype(np.int64) + b) if clamp else np.add(a, b)


def _sub_i32(a: Any, b: Any, clamp: bool = False) -> Any:
    return _saturated(a.astype(np.int64) - b) if clamp else np.subtract(a, b)


def _saturated(wide: Any) -> Any:
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _mul_hi(a: Any, b: Any) -> Any:
    return (np.multiply(a, b, dtype=np.uint64) >> np.uint64(32)).astype(np.uint32)


def _mul_hi_i32(a: Any, b: Any) -> Any:
    return (np.multiply(a, b, dtype=np.int64) >> np.int64(32)).astype(np.int32)


def _low24(x: Any) -> Any:
    return x & U32(0xFFFFFF)


def _signed24(x: Any) -> Any:
    return x << np.int32(8) >> np.int32(8)


def _bfe_u32(value: Any, offset: Any, width: Any) -> Any:
    return value >> (offset & U32(31)) & ((U32(1) << (width & U32(31))) - U32(1))


def _bfe_i32(value: Any, offset: Any, width: Any) -> Any:
    width = (width & U32(31)).view(np.int32)
    field = value >> (offset & U32(31)).view(np.int32)
    up = np.where(width == 0, np.int32(31), np.int32(32) - width)
    return np.where(width == 0, np.int32(0), field << up >> up)


lanewise(
    "u32 u32 -> u32",
    {
        "v_and_b32": np.bitwise_and,
        "v_or_b32": np.bitwise_or,
        "v_xor_b32": np.bitwise_xor,
        "v_xnor_b32": lambda a, b: ~(a ^ b),
        "v_lshlrev_b32": _shift_left,
        "v_lshrrev_b32": _shift_right,
        "v_max_u32": np.maximum,
        "v_min_u32": np.minimum,
        "v_mul_lo_u32": np.multiply,
        "v_mul_hi_u32": _mul_hi,
        "v_mul_u32_u24": lambda a, b: _low24(a) * _low24(b),
        "v_mul_hi_u32_u24": lambda a, b: _mul_hi(_low24(a), _low24(b)),
        "v_bcnt_u32_b32": lambda a, b: np.bitwise_count(a).astype(np.uint32) + b,
        "v_bfm_b32": lambda width, low: ((U32(1) << (width & U32(31))) - U32(1)) << (low & U32(31)),
    },
    CERTAIN,
    _ISA,
)
lanewise(
    "u32 u32 -> u32",
    {"v_add_u32": _add, "v_sub_u32": _sub, "v_subrev_u32": lambda a, b, **kw: _sub(b, a, **kw)},
    CERTAIN,
    _ISA,
    clamps=True,
)
lanewise("i32 i32 -> i32", {"v_add_i32": _add_i32, "v_sub_i32": _sub_i32}, CERTAIN, _ISA, clamps=True)
lanewise(
    "i32 i32 -> i32",
    {
        "v_max_i32": np.maximum,
        "v_min_i32": np.minimum,
        "v_mul_hi_i32": _mul_hi_i32,
        "v_mul_i32_i24": lambda a, b: _signed24(a) * _signed24(b),
        "v_mul_hi_i32_i24": lambda a, b: _mul_hi_i32(_signed24(a), _signed24(b)),
    },
    CERTAIN,
    _ISA,
)
lanewise("u32 i32 -> i32", {"v_ashrrev_i32": _arithmetic_right}, CERTAIN, _ISA)
lanewise(
    "u32 u32 u32 -> u32",
    {
        "v_add3_u32": lambda a, b, c: a + b + c,
        "v_add_lshl_u32": lambda a, b, c: _shift_left(c, a + b),
        "v_lshl_add_u32": lambda a, b, c: _shift_left(b, a) + c,
        "v_lshl_or_b32": lambda a, b, c: _shift_left(b, a) | c,
        "v_and_or_b32": lambda a, b, c: a & b | c,
        "v_or3_b32": lambda a, b, c: a | b | c,
        "v_xad_u32": lambda a, b, c: (a ^ b) + c,
        "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
        "v_bfe_u32": _bfe_u32,
        "v_max3_u32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
        "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
        "v_med3_u32": lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
    },
    CERTAIN,
    _ISA,
)
lanewise("i32 u32 u32 -> i32", {"v_bfe_i32": _bfe_i32}, CERTAIN, _ISA)


def _mad24(low24: Any) -> Any:
    return lambda a, b, c: low24(a).astype(np.int64) * low24(b) + c


lanewise("u32 u32 u32 -> u32", {"v_mad_u32_u24": saturating(_mad24(_low24), U32)}, CERTAIN, _ISA, clamps=True)
lanewise("i32 i32 i32 -> i32", {"v_mad_i32_i24": saturating(_mad24(_signed24), np.int32)}, CERTAIN, _ISA, clamps=True)
lanewise(
    "i32 i32 i32 -> i32",
    {
        "v_max3_i32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
        "v_min3_i32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
        "v_med3_i32": lambda a, b, c: np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)),
    },
    CERTAIN,
    _ISA,
)
lanewise(
    "b32 -> b32",
    {f"v_{name}": np.positive for name in ("mov_b32", "accvgpr_read", "accvgpr_write", "accvgpr_mov_b32")},
    CERTAIN,
    _ISA,
)
lanewise("u32 -> u32", {"v_not_b32": np.invert, "v_bfrev_b32": reversed_bits}, CERTAIN, _ISA)
lanewise(
    "u32 -> i32",
    {
        "v_ffbh_u32": leading_zeros,
        "v_ffbl_b32": trailing_zeros,
        "v_ffbh_i32": sign_bits,
    },
    CERTAIN,
    _ISA,
)
lanewise(
    "u32 -> u32",
    {"v_prng_b32": lambda x: x << U32(1) ^ (x >> U32(31)) * U32(197)},
    CERTAIN,
    "AMD CDNA4 ISA, V_PRNG_B32",
)
lanewise("b32 b32 mask -> b32", {"v_cndmask_b32": lambda a, b, pick: np.where(pick, b, a)}, CERTAIN, _ISA)

lanewise("u32 u64 -> u64", {"v_lshlrev_b64": lambda a, b: b << (a & U32(63)).astype(np.uint64)}, CERTAIN, _ISA)
lanewise("u32 u64 -> u64", {"v_lshrrev_b64": lambda a, b: b >> (a & U32(63)).astype(np.uint64)}, CERTAIN, _ISA)
lanewise("u32 i64 -> i64", {"v_ashrrev_i64": lambda a, b: b >> (a & U32(63)).astype(np.int64)}, CERTAIN, _ISA)
lanewise(
    "u64 u32 u64 -> u64", {"v_lshl_add_u64": lambda a, b, c: (a << (b & U32(7)).astype(np.uint64)) + c}, CERTAIN, _ISA
)
lanewise("u64 -> u64", {"v_mov_b64": np.positive}, CERTAIN, _ISA)


def _bitop3(kind: str) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        """V_BITOP3: the truth table stands in OMOD (bits 7:6), ABS (5:3) and NEG (2:0)."""
        table = inst["omod"] << 6 | inst["abs"] << 3 | inst["neg"]
        bare = Instruction(inst.pc, inst.size, inst.op, inst.encoding, inst.dst, inst.src, {"op_sel": inst["op_sel"]})
        reads = reads_of(bare, [kind] * 3, context)
        write = destination(bare, kind, context, keep=kind == "b16")

        def step(wv: Cohort) -> None:
            write(wv, _by_table(table, *(read(wv) for read in reads)))

        return step

    return build


def _by_table(table: int, a: Any, b: Any, c: Any) -> Any:
    """Bit n of the table is the result where the bits of (S0, S1, S2) spell n."""
    flip = table & 0x80
    if flip:
        table ^= 0xFF
    result = a & ~a
    for n in range(8):
        if table >> n & 1:
            result = result | ((a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c))
    return ~result if flip else result


define("v_bitop3_b32", _bitop3("b32"), CERTAIN, "AMD CDNA4 ISA, V_BITOP3_B32")
# Whether the other half is kept is not written down; OP_SEL as a destination half suggests it.
define("v_bitop3_b16", _bitop3("b16"), INFERRED, "AMD CDNA4 ISA, V_BITOP3_B16", reads_dst=True)


def _carry(subtract: bool, swap: bool, carry_in: bool) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        reads = reads_of(inst, ["u32", "u32", "mask"] if carry_in else ["u32", "u32"], context)
        write, write_mask = destination(inst, "u32", context), mask_destination(inst.dst[1], inst, context)
        if inst["clamp"]:
            context.refuse(inst, "CLAMP of a carry operation")

        def step(wv: Cohort) -> None:
            a, b, *rest = (read(wv) for read in reads)
            if swap:
                a, b = b, a
            extra = rest[0].astype(np.int64) if rest else np.int64(0)
            total = a.astype(np.int64) - b - extra if subtract else a.astype(np.int64) + b + extra
            write(wv, (total & 0xFFFFFFFF).astype(np.uint32))
            write_mask(wv, total < 0 if subtract else total > 0xFFFFFFFF)

        return step

    return build


for _name, _form in {
    "v_add_co_u32": (False, False, False), "v_sub_co_u32": (True, False, False), "v_subrev_co_u32": (True, True, False),
    "v_addc_co_u32": (False, False, True), "v_subb_co_u32": (True, False, True), "v_subbrev_co_u32": (True, True, True),
}.items():  # fmt: skip
    define(_name, _carry(*_form), CERTAIN, "AMD CDNA4 ISA, V_ADD_CO_U32 and its kin")


def _mad64(signed: bool) -> Build:
    wide = np.int64 if signed else np.uint64
    kinds = ["i32", "i32", "i64"] if signed else ["u32", "u32", "u64"]

    def build(inst: Instruction, context: Context) -> Step:
        reads = reads_of(inst, kinds, context)
        write, write_mask = destination(inst, kinds[2], context), mask_destination(inst.dst[1], inst, context)

        def step(wv: Cohort) -> None:
            a, b, c = (read(wv) for read in reads)
            product = np.multiply(a, b, dtype=wide)
            total = product + c
            # The carry is bit 64 of the 65-bit sum: for signed numbers its sign, unless the low 64 bits overflowed.
            wrapped = ((product ^ total) & (c ^ total)) < 0
            overflow = (total < 0) ^ wrapped if signed else total < product
            write(wv, total)
            write_mask(wv, overflow)

        return step

    return build


define("v_mad_u64_u32", _mad64(signed=False), CERTAIN, "AMD CDNA4 ISA, V_MAD_U64_U32")
define("v_mad_i64_i32", _mad64(signed=True), CERTAIN, "AMD CDNA4 ISA, V_MAD_I64_I32")


@semantics("v_swap_b32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_SWAP_B32", reads_dst=True)
def _swap(inst: Instruction, context: Context) -> Step:
    if inst.encoding != "VOP1":
        context.refuse(inst, f"a swap in {inst.encoding}")
    first, second = inst.dst[0].index, inst.src[0].index

    def step(wv: Cohort) -> None:
        old = wv.v[first].copy()
        np.copyto(wv.v[first], wv.v[second], where=wv.mask)
        np.copyto(wv.v[second], old, where=wv.mask)

    return step
