"""How undefined bits go through an operation: exact where compilers lean on it, else "any bit in, all bits out".

A rule gets the undefined bits of each source word and answers with those of the result's words, for all lanes (or, for
scalars, all waves) at once. Exact ones: moves, bitwise operations, shifts by known amounts, byte permutes, selects,
packs, and halves of packed operations; sums are undefined from the lowest undefined bit on (Seward and Nethercote,
"Using Valgrind to detect undefined value errors with bit-precision", 2005, has these formulas for processors).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxassay.gfx950.checks.shadow import ALL
from mxassay.gfx950.instruction import Instruction

__all__ = ["Operands", "rule_of", "spread"]

ZERO = np.uint32(0)
HALF = np.uint32(0xFFFF)


@dataclass(slots=True)
class Operands:
    """`bits[n]`: the words of source n. `value(n)`: its first word as it is now, or None where some of its bits are
    undefined. `old`: bits of the destination's first word before."""

    inst: Instruction
    bits: list[list[Any]]
    value: Callable[[int], Any]
    raw: Callable[[int, int], Any]
    old: Any = ZERO

    def one(self, n: int) -> Any:
        return self.bits[n][0]


Rule = Callable[[Operands], list[Any]]


def spread(*bits: Any) -> Any:
    """All bits where any bit is undefined."""
    together = ZERO
    for word in bits:
        together = together | word
    return np.where(together != 0, ALL, ZERO)


def _everything(words: int) -> Rule:
    def rule(o: Operands) -> list[Any]:
        return [spread(*(word for source in o.bits for word in source))] * words

    return rule


def _copy(o: Operands) -> list[Any]:
    return o.bits[0]


def _union(o: Operands) -> list[Any]:
    """Bit by bit, whatever the other sources are."""
    words = max(len(source) for source in o.bits)
    result = []
    for word in range(words):
        total = ZERO
        for source in o.bits:
            total = total | source[word]
        result.append(total)
    return result


def _and_bits(a: Any, va: Any, b: Any, vb: Any) -> Any:
    return (a & b) | (a & vb) | (b & va)


def _or_bits(a: Any, va: Any, b: Any, vb: Any) -> Any:
    return (a & b) | (a & ~vb) | (b & ~va)


def _bitwise(negate: bool, conjunction: bool) -> Rule:
    """AND and OR, NAND and NOR (the result's complement is as undefined), ANDN2 and ORN2 (`negate`: of the second)."""

    def rule(o: Operands) -> list[Any]:
        result = []
        for word, (a, b) in enumerate(zip(o.bits[0], o.bits[1], strict=True)):
            va, vb = o.raw(0, word), o.raw(1, word)
            result.append((_and_bits if conjunction else _or_bits)(a, va, b, ~vb if negate else vb))
        return result

    return rule


def _three(first: str, second: str) -> Rule:
    """Two bitwise operations after each other: (S0 first S1) second S2."""
    forms = {"and": (_and_bits, np.bitwise_and), "or": (_or_bits, np.bitwise_or)}

    def rule(o: Operands) -> list[Any]:
        step, apply = forms[first]
        va, vb, vc = (o.raw(n, 0) for n in range(3))
        between = step(o.one(0), va, o.one(1), vb)
        return [forms[second][0](between, apply(va, vb), o.one(2), vc)]

    return rule


def _insert(o: Operands) -> list[Any]:
    """V_BFI: S0 picks between S1 and S2."""
    pick = o.raw(0, 0)
    return [o.one(0) | (pick & o.one(1)) | (~pick & o.one(2))]


def _rise(bits: Any) -> Any:
    """A sum or product: undefined from the lowest undefined bit on."""
    return bits | (ZERO - bits)


def _sum(o: Operands) -> list[Any]:
    return [_rise(_union(o)[0])]


def _shift(amount: int, value: int, how: str) -> Rule:
    def rule(o: Operands) -> list[Any]:
        by = o.value(amount)
        if by is None:
            return [spread(o.one(0), o.one(1))]
        return [_shifted(o.one(value), by & np.uint32(31), how)]

    return rule


def _shifted(bits: Any, by: Any, how: str) -> Any:
    if how == "left":
        return bits << by
    if how == "right":
        return bits >> by
    return (np.asarray(bits).view(np.int32) >> np.asarray(by).view(np.int32)).view(np.uint32)


def _wide(words: list[Any]) -> Any:
    """One 64-bit value of one or two words."""
    low = np.asarray(words[0]).astype(np.uint64)
    return low if len(words) == 1 else low | np.asarray(words[1]).astype(np.uint64) << np.uint64(32)


def _halves(wide: Any) -> list[Any]:
    return [(wide & np.uint64(0xFFFFFFFF)).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)]


def _sum64(o: Operands) -> list[Any]:
    """64-bit sums, of a product or a shifted value too: compilers leave the upper half of a 32-bit addend undefined."""
    values = [_wide(words) for words in o.bits]
    if o.inst.op == "v_lshl_add_u64":
        by = o.value(1)
        if by is None:
            return _everything(2)(o)
        values = [values[0] << (by & np.uint32(7)).astype(np.uint64), values[2]]
    total = np.uint64(0)
    for value in values:
        total = total | value
    return _halves(total | (np.uint64(0) - total))


def _shift64(o: Operands) -> list[Any]:
    """64-bit shifts; the amount comes first in the vector forms, last in the scalar ones."""
    amount, value = (0, 1) if o.inst.op.startswith("v_") else (1, 0)
    by = o.value(amount)
    if by is None:
        return _everything(2)(o)
    steps, bits = (by & np.uint32(63)).astype(np.uint64), _wide(o.bits[value])
    if "lshl" in o.inst.op:
        return _halves(bits << steps)
    if "ashr" in o.inst.op:
        return _halves((np.asarray(bits).view(np.int64) >> np.asarray(steps).view(np.int64)).view(np.uint64))
    return _halves(bits >> steps)


def _shift_then(second: str) -> Rule:
    """V_LSHL_OR and V_LSHL_ADD."""

    def rule(o: Operands) -> list[Any]:
        by = o.value(1)
        if by is None:
            return [spread(o.one(0), o.one(1), o.one(2))]
        left = _shifted(o.one(0), by & np.uint32(31), "left")
        if second == "add":
            return [_rise(left | o.one(2))]
        return [_or_bits(left, o.raw(0, 0) << (by & np.uint32(31)), o.one(2), o.raw(2, 0))]

    return rule


def _add_then_shift(o: Operands) -> list[Any]:
    by = o.value(2)
    if by is None:
        return [spread(o.one(0), o.one(1), o.one(2))]
    return [_shifted(_rise(o.one(0) | o.one(1)), by & np.uint32(31), "left")]


def _field(o: Operands) -> list[Any]:
    """V_BFE: undefined where the field is."""
    offset, width = o.value(1), o.value(2)
    if offset is None or width is None:
        return _everything(1)(o)
    bits = o.one(0) >> (offset & np.uint32(31)) & ((np.uint32(1) << (width & np.uint32(31))) - np.uint32(1))
    return [spread(bits)] if o.inst.op.endswith("i32") else [bits]


def _perm(o: Operands) -> list[Any]:
    """V_PERM: bytes of {S0, S1} by the codes in S2; codes above 11 are constants."""
    select = o.value(2)
    if select is None:
        return _everything(1)(o)
    result: Any = ZERO
    for place in range(4):
        code = select >> np.uint32(8 * place) & np.uint32(0xFF)
        low = o.one(1) >> (np.minimum(code, 3) * np.uint32(8)) & np.uint32(0xFF)
        high = o.one(0) >> ((np.clip(code, 4, 7) - np.uint32(4)) * np.uint32(8)) & np.uint32(0xFF)
        sign = np.where(spread(o.one(0), o.one(1)) != 0, np.uint32(0xFF), ZERO)
        byte = np.where(code < 4, low, np.where(code < 8, high, np.where(code < 12, sign, ZERO)))
        result = result | byte.astype(np.uint32) << np.uint32(8 * place)
    return [result]


def _align(step: int) -> Rule:
    """V_ALIGNBIT and V_ALIGNBYTE: {S0, S1} shifted right."""

    def rule(o: Operands) -> list[Any]:
        by = o.value(2)
        if by is None:
            return _everything(1)(o)
        amount = (by & np.uint32(31 if step == 1 else 3)).astype(np.uint64) * np.uint64(step)
        wide = np.asarray(o.one(0)).astype(np.uint64) << np.uint64(32) | np.asarray(o.one(1)).astype(np.uint64)
        return [(wide >> amount).astype(np.uint32)]

    return rule


def _pack(o: Operands) -> list[Any]:
    """Two converted values side by side: each half as its own source."""
    return [(spread(o.one(0)) & HALF) | (spread(o.one(1)) & (HALF << np.uint32(16)))]


def _select_scalar(o: Operands) -> list[Any]:
    """S_CSELECT: SCC is the last source."""
    flag, undefined = o.raw(2, 0), o.one(2)
    return [np.where(undefined != 0, ALL, np.where(flag, a, b)) for a, b in zip(o.bits[0], o.bits[1], strict=True)]


def _picked(inst: Instruction, n: int, high: bool) -> int:
    """Which word or half of source n one half of a packed result takes."""
    if inst.encoding != "VOP3P":
        return int(high)
    if not high:
        return inst["op_sel"] >> n & 1
    return inst["op_sel_hi2"] if n == 2 else inst["op_sel_hi"] >> n & 1


def _packed_words(o: Operands) -> list[Any]:
    """V_PK_*_F32: each result word from the words that OP_SEL and OP_SEL_HI name."""
    inst, result = o.inst, []
    for high in (False, True):
        words = []
        for n, source in enumerate(o.bits):
            pick = _picked(inst, n, high)
            words.append(source[pick if len(source) == 2 else 0])
        result.append(spread(*words))
    return result


def _packed_move(o: Operands) -> list[Any]:
    return [source[o.inst["op_sel"] >> n & 1 if len(source) == 2 else 0] for n, source in enumerate(o.bits)]


def _packed_halves(o: Operands) -> list[Any]:
    inst, halves = o.inst, []
    for high in (False, True):
        bits = []
        for n, (word, *_) in enumerate(o.bits):
            bits.append(word >> np.uint32(16 * _picked(inst, n, high)) & HALF)
        halves.append(spread(*bits) & HALF)
    return [halves[0] | halves[1] << np.uint32(16)]


def _narrow(width: int) -> Rule:
    """Conversions that fill one byte or half of their destination, named by OP_SEL[3:2]."""

    def rule(o: Operands) -> list[Any]:
        sel = o.inst["op_sel"] >> 2 & 3
        place = 8 * sel if width == 8 else 16 * (sel >> 1)
        part = np.uint32(((1 << width) - 1) << place)
        return [(o.old & ~part) | (spread(*(word for source in o.bits for word in source)) & part)]

    return rule


def _half_result(o: Operands) -> list[Any]:
    """A 16-bit result: in the half that OP_SEL[3] names, the other kept or zero."""
    inst = o.inst
    high = "mixhi" in inst.op or (inst.encoding == "VOP3" and bool(inst["op_sel"] & 8))
    part = np.uint32(0xFFFF0000 if high else 0xFFFF)
    return [(o.old & ~part) | (spread(*(word for source in o.bits for word in source)) & part)]


_RULES: tuple[tuple[str, Rule], ...] = (
    (r"v_mov_b(32|64)|v_accvgpr_\w+|s_mov_b(32|64)|v_not_b32|s_not_b(32|64)|s_movk_i32", _copy),
    (r"[vs]_(xor|xnor)_b(32|64)|v_bitop3_b32|v_xor3_b32", _union),
    (r"[vs]_n?and_b(32|64)", _bitwise(False, True)),
    (r"[vs]_n?or_b(32|64)", _bitwise(False, False)),
    (r"s_andn2_b(32|64)", _bitwise(True, True)),
    (r"s_orn2_b(32|64)", _bitwise(True, False)),
    (r"v_and_or_b32", _three("and", "or")),
    (r"v_or3_b32", _three("or", "or")),
    (r"v_bfi_b32", _insert),
    (r"[vs]_(add|sub|subrev)_[ui]32|v_add3_u32|s_add_i32|[vs]_mul_(lo_u32|i32)|v_mad_[ui]32_[ui]24|v_mul_[ui]32_[ui]24",
     _sum),
    (r"v_mad_[ui]64_[ui]32|v_lshl_add_u64", _sum64),
    (r"v_(lshlrev|lshrrev)_b64|v_ashrrev_i64|s_(lshl|lshr)_b64|s_ashr_i64", _shift64),
    (r"v_lshlrev_b32", _shift(0, 1, "left")),
    (r"v_lshrrev_b32", _shift(0, 1, "right")),
    (r"v_ashrrev_i32", _shift(0, 1, "signed")),
    (r"s_lshl_b32", _shift(1, 0, "left")),
    (r"s_lshr_b32", _shift(1, 0, "right")),
    (r"s_ashr_i32", _shift(1, 0, "signed")),
    (r"v_lshl_or_b32", _shift_then("or")),
    (r"v_lshl_add_u32", _shift_then("add")),
    (r"v_add_lshl_u32", _add_then_shift),
    (r"v_bfe_[ui]32", _field),
    (r"v_perm_b32", _perm),
    (r"v_alignbit_b32", _align(1)),
    (r"v_alignbyte_b32", _align(8)),
    (r"v_cvt_pk_(bf16|f16)_f32|v_cvt_pkrtz_f16_f32|v_cvt_pk_[iu]16_[iu]32|v_cvt_pknorm_\w+|v_pack_b32_f16", _pack),
    (r"s_cselect_b(32|64)", _select_scalar),
    (r"v_pk_mov_b32", _packed_move),
    (r"v_pk_\w+_f32", _packed_words),
    (r"v_pk_\w+(16|b16)", _packed_halves),
    (r"v_ashr_pk_[iu]8_i32", _half_result),
    (r"v_cvt_(scalef32_)?(sr_)?pk_fp4_\w+|v_cvt_(scalef32_)?sr_(fp8|bf8)_\w+", _narrow(8)),
    (r"v_cvt_(scalef32_)?pk_(fp8|bf8)_\w+|v_cvt_scalef32_(f16|bf16)_\w+", _narrow(16)),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), rule) for pattern, rule in _RULES)
_EXACT_WHEN_PLAIN = re.compile(
    r"[vs]_n?(and|or)_b(32|64)|s_(andn2|orn2)_\w+|v_and_or_b32|v_or3_b32|v_lshl_or_b32|v_bfi_b32"
)


def rule_of(inst: Instruction, words: int) -> Rule:
    """The rule of an operation with `words` result words. SDWA and DPP change values on their way in, so there bitwise
    operations count bit by bit."""
    plain = "_" not in inst.encoding
    for pattern, rule in _COMPILED:
        if pattern.fullmatch(inst.op):
            if rule is _packed_halves and inst.encoding not in ("VOP3P", "VOP2"):
                break
            return _union if not plain and _EXACT_WHEN_PLAIN.fullmatch(inst.op) else rule
    if inst.dst and inst.dst[0].file in "va" and re.fullmatch(r"[uifb]16|bf16", inst.dst[0].format):
        return _half_result
    return _everything(words)
