"""Conversions to and from FP8, BF8, FP6, BF6 and FP4, with a scale or without: V_CVT_SCALEF32_*, V_CVT_*_FP8, *_BF8.

Source: AMD CDNA4 ISA for operands, byte selection and the order of random numbers; AMD's HIP header
(amd_hip_ocp_host.hpp) for rounding, stochastic rounding, overflow, NaN and scale byte 255, which the ISA leaves open.
Formats are OCP's on gfx950. FP8 and BF8 overflow to NaN and infinity, or to the largest value while MODE.FP16_OVFL is
set; FP6, BF6 and FP4 always saturate. Scale byte 0 is 2^-127.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mxassay.gfx950.floating import bf16_to_f32, f32_to_bf16
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.moderegister import half_saturates
from mxassay.gfx950.narrow import BF6, BF8, FP4, FP6, FP8, NarrowFloat, decoded, encoded, encoded_stochastically
from mxassay.gfx950.operands import raw, source
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

FORMS = {"fp8": FP8, "bf8": BF8, "fp6": FP6, "bf6": BF6, "fp4": FP4}
_SOURCE = "AMD CDNA4 ISA names it; rounding and edges: AMD amd_hip_ocp_host.hpp"
_MANTISSA = {"f32": 23, "f16": 10, "bf16": 7}
_HUGE = np.float32(np.finfo(np.float32).max)
Lanes = Any  # arrays of (waves, 64), (waves, 1), or numpy scalars
Floats = Callable[[Cohort], list[Lanes]]  # float32 values, one array (waves, 64) each


def _file(wv: Cohort, operand: Operand) -> Lanes:
    return wv.v if operand.file == "v" else wv.a


def _plain_only(inst: Instruction, context: Context, selects: int) -> None:
    if inst["neg"] or inst["abs"] or inst["clamp"] or inst["omod"] or inst["op_sel"] & ~selects:
        context.refuse(inst, "a modifier on a scaled conversion")


def _split(word: Lanes, kind: str) -> list[Lanes]:
    """A dword's two halves as float32."""
    halves = ((word & np.uint32(0xFFFF)).astype(np.uint16), (word >> np.uint32(16)).astype(np.uint16))
    if kind == "bf16":
        return [bf16_to_f32(half) for half in halves]
    return [half.view(np.float16).astype(np.float32) for half in halves]


def _wide(inst: Instruction, slot: int, kind: str, count: int, context: Context) -> Floats:
    """`count` values of type `kind` from the registers of source `slot`."""
    operand = inst.src[slot]
    if count == 1 and kind == "f32":
        one = source(inst, slot, "f32", context)
        return lambda wv: [one(wv)]
    words = [raw(operand, inst, context, word) for word in range(count if kind == "f32" else -(-count // 2))]
    if kind == "f32":
        return lambda wv: [word(wv).view(np.float32) for word in words]
    return lambda wv: [half for word in words for half in _split(word(wv), kind)][:count]


def _exponent(inst: Instruction, slot: int, context: Context) -> Callable[[Cohort], Lanes]:
    """The scale's exponent field, int32; sign and mantissa don't count."""
    scale = source(inst, slot, "u32", context)
    return lambda wv: (np.asarray(scale(wv)) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)


def _divided(x: Lanes, exponent: Lanes) -> Lanes:
    """x / 2^(exponent - 127) as float32 that rounds to a narrow format as the exact quotient does; NaN for 255."""
    factor = np.ldexp(np.float32(1), 127 - exponent)
    product = np.asarray(x * factor)
    beyond = np.isinf(product) & np.isfinite(x)
    if beyond.any():
        product = np.where(beyond, np.copysign(_HUGE, x), product)
    if (exponent == 255).any():
        product = np.where(exponent == 255, np.copysign(np.float32(np.nan), x), product)
    return product


Encode = Callable[[Lanes, Lanes, Lanes, bool], Lanes]  # value, scale exponent, random bits, saturate -> codes


def _nearest(form: NarrowFloat) -> Encode:
    return lambda x, exponent, random, saturate: encoded(form, _divided(x, exponent), saturate)


def _stochastic(form: NarrowFloat, kept: int) -> Encode:
    def encode(x: Lanes, exponent: Lanes, random: Lanes, saturate: bool) -> Lanes:
        scaled = np.ldexp(np.asarray(x, np.float64), 127 - exponent)
        scaled = np.where(exponent == 255, np.copysign(np.nan, x), scaled)
        return encoded_stochastically(form, scaled, np.asarray(random), kept, saturate)

    return encode


def _limited(encode: Encode, value: Lanes, scale: Lanes, random: Lanes, limited: Any) -> Lanes:
    """Codes, saturated in the waves that `limited` names: True, None for none, or bool (waves, 1)."""
    if limited is None or limited is True or limited.all():
        return encode(value, scale, random, limited is not None)
    return np.where(limited, encode(value, scale, random, True), encode(value, scale, random, False))


def _next_random(random: Lanes) -> Lanes:
    """V_PRNG_B32."""
    return random << np.uint32(1) ^ (random >> np.uint32(31)) * np.uint32(197)


def _joined(codes: list[Lanes], bits: int) -> list[Lanes]:
    """Codes end to end, the first in the lowest bits, as dwords."""
    words = [np.zeros_like(codes[0], np.uint32) for _ in range(-(-len(codes) * bits // 32))]
    for index, code in enumerate(codes):
        at, shift = divmod(index * bits, 32)
        wide = code.astype(np.uint32)
        words[at] |= wide << np.uint32(shift)
        if shift + bits > 32:
            words[at + 1] |= wide >> np.uint32(32 - shift)
    return words


def _narrowing(
    form: NarrowFloat, kind: str, counts: tuple[int, ...], *,
    scaled: bool, stochastic: bool = False, interleaved: bool = False,
) -> Build:  # fmt: skip
    """Values from `counts` sources (that many values each) to one packed result; then the random number, if any; then
    the scale, if any. Results narrower than a register go where OP_SEL says and leave the rest alone."""
    encode = _stochastic(form, _MANTISSA[kind]) if stochastic else _nearest(form)
    total = sum(counts)
    width = total * form.bits
    always = form.bits < 8

    def build(inst: Instruction, context: Context) -> Step:
        shift = 0
        if width == 8:
            shift = 8 * (inst["op_sel"] >> 2 & 3)
        elif width == 16:
            shift = 16 * (inst["op_sel"] >> 3 & 1)
        if scaled:
            _plain_only(inst, context, {8: 12, 16: 8}.get(width, 0))
        elif inst["clamp"] or inst["omod"]:
            context.refuse(inst, "CLAMP or OMOD of a conversion to 8 bits")
        reads = [_wide(inst, slot, kind, count, context) for slot, count in enumerate(counts)]
        after = len(counts)
        seed = source(inst, after, "u32", context) if stochastic else None
        exponent = _exponent(inst, after + stochastic, context) if scaled else None
        target = inst.dst[0]
        unit = np.int32(127)

        def step(wv: Cohort) -> None:
            values = [read(wv) for read in reads]
            rows = zip(*values, strict=True) if interleaved else values
            flat = [value for row in rows for value in row]
            random = np.uint32(0) if seed is None else np.broadcast_to(seed(wv), (wv.count, 64))
            scale = unit if exponent is None else exponent(wv)
            limited = True if always else half_saturates(wv)
            codes = []
            for value in flat:
                code = _limited(encode, value, scale, random, limited)
                codes.append(np.broadcast_to(code, (wv.count, 64)))
                if seed is not None:
                    random = _next_random(random)
            words = _joined(codes, form.bits)
            registers = _file(wv, target)
            for word, bits in enumerate(words):
                register = registers[target.index + word]
                if width < 32:
                    others = np.uint32(~((1 << width) - 1 << shift) & 0xFFFFFFFF)
                    bits = register & others | bits << np.uint32(shift)
                np.copyto(register, bits, where=True if wv.full else wv.mask)

        return step

    return build


def _multiplied(value: Lanes, exponent: Lanes, kind: str) -> Lanes:
    """Value times 2^(exponent - 127), rounded once to `kind`; overflow to infinity, NaN for 255. As uint32 or uint16
    bits."""
    scaled = np.ldexp(value.astype(np.float64), exponent - 127)
    scaled = np.where(exponent == 255, np.copysign(np.nan, value), scaled)
    if kind == "f16":
        return scaled.astype(np.float16).view(np.uint16)
    single = scaled.astype(np.float32)  # exact unless denormal: narrow formats have at most 4 significant bits
    return f32_to_bf16(_towards_odd(scaled, single)) if kind == "bf16" else single.view(np.uint32)


def _towards_odd(exact: Lanes, single: Lanes) -> Lanes:
    """`single`, where it is an inexact denormal, moved to its odd neighbour, so that bfloat16 rounds it only once."""
    inexact = (single != exact) & np.isfinite(single)
    if not inexact.any():
        return single
    bits = single.view(np.int32)
    away = np.where(np.abs(single) < np.abs(exact), 1, -1)
    return np.where(inexact & (bits & 1 == 0), bits + away, bits).astype(np.int32).view(np.float32)


def _widening(form: NarrowFloat, kind: str, count: int, *, scaled: bool) -> Build:
    """`count` codes of a source to as many values; OP_SEL or SDWA picks the byte or half they come from."""
    width = count * form.bits
    table = decoded(form)
    mask = np.uint32((1 << form.bits) - 1)

    def build(inst: Instruction, context: Context) -> Step:
        shift = 0
        if width <= 16:
            select = inst["op_sel"] if scaled else inst["src0_sel"] & 3 if inst.encoding.endswith("SDWA") else 0
            shift = 8 * (select & 3) if width == 8 else 16 * (select & 1)
        upper = inst["op_sel"] >> 3 & 1 if (kind, count) == ("f16", 1) else 0
        if scaled:
            _plain_only(inst, context, {8: 3, 16: 1}.get(width, 0) | (8 if (kind, count) == ("f16", 1) else 0))
        elif inst["clamp"] or inst["omod"] or inst["neg"] or inst["abs"] or inst["src0_neg"] or inst["src0_abs"]:
            context.refuse(inst, "CLAMP or another modifier on a conversion from 8 bits")
        if inst.encoding.endswith("_DPP"):
            context.refuse(inst, "DPP of a conversion from 8 bits")
        operand, target = inst.src[0], inst.dst[0]
        words = [raw(operand, inst, context, word) for word in range(-(-width // 32))]
        exponent = _exponent(inst, 1, context) if scaled else None

        def step(wv: Cohort) -> None:
            packed = [np.broadcast_to(word(wv), (wv.count, 64)) for word in words]
            scale = np.int32(127) if exponent is None else exponent(wv)
            results = []
            for index in range(count):
                at, low = divmod(index * form.bits + shift, 32)
                bits = packed[at] >> np.uint32(low)
                if low + form.bits > 32:
                    bits = bits | packed[at + 1] << np.uint32(32 - low)
                results.append(_multiplied(table.take(bits & mask), scale, kind))
            _put(wv, target, results, kind, upper)

        return step

    return build


def _put(wv: Cohort, target: Operand, results: list[Lanes], kind: str, upper: int) -> None:
    registers = _file(wv, target)
    where = True if wv.full else wv.mask
    if kind == "f32":
        for word, bits in enumerate(results):
            np.copyto(registers[target.index + word], bits, where=where)
    elif len(results) == 1:
        half = registers[target.index].view(np.uint16)[:, upper::2]
        np.copyto(half, results[0], where=where)
    else:
        for word in range(len(results) // 2):
            low, high = (half.astype(np.uint32) for half in results[2 * word : 2 * word + 2])
            np.copyto(registers[target.index + word], low | high << np.uint32(16), where=where)


def _teach(name: str, build: Build, *, keeps: bool = False) -> None:
    define(f"v_cvt_{name}", build, INFERRED, _SOURCE, reads_dst=keeps)


for _name in ("fp8", "bf8"):
    _form = FORMS[_name]
    _teach(f"f32_{_name}", _widening(_form, "f32", 1, scaled=False))
    _teach(f"pk_f32_{_name}", _widening(_form, "f32", 2, scaled=False))
    _teach(f"pk_{_name}_f32", _narrowing(_form, "f32", (1, 1), scaled=False), keeps=True)
    _teach(f"sr_{_name}_f32", _narrowing(_form, "f32", (1,), scaled=False, stochastic=True), keeps=True)
    _teach(f"scalef32_pk_{_name}_f32", _narrowing(_form, "f32", (1, 1), scaled=True), keeps=True)
    for _kind in ("f16", "bf16"):
        _teach(f"scalef32_pk_{_name}_{_kind}", _narrowing(_form, _kind, (2,), scaled=True), keeps=True)
    for _kind in ("f32", "f16", "bf16"):
        _single = _narrowing(_form, _kind, (1,), scaled=True, stochastic=True)
        _teach(f"scalef32_sr_{_name}_{_kind}", _single, keeps=True)
        _teach(f"scalef32_pk_{_kind}_{_name}", _widening(_form, _kind, 2, scaled=True))
    _teach(f"scalef32_f32_{_name}", _widening(_form, "f32", 1, scaled=True))
    _teach(f"scalef32_f16_{_name}", _widening(_form, "f16", 1, scaled=True), keeps=True)
for _name in ("fp6", "bf6"):
    _form = FORMS[_name]
    _teach(f"scalef32_2xpk16_{_name}_f32", _narrowing(_form, "f32", (16, 16), scaled=True, interleaved=True))
    for _kind in ("f32", "f16", "bf16"):
        if _kind != "f32":
            _teach(f"scalef32_pk32_{_name}_{_kind}", _narrowing(_form, _kind, (32,), scaled=True))
        _teach(f"scalef32_sr_pk32_{_name}_{_kind}", _narrowing(_form, _kind, (32,), scaled=True, stochastic=True))
        _teach(f"scalef32_pk32_{_kind}_{_name}", _widening(_form, _kind, 32, scaled=True))
for _kind in ("f32", "f16", "bf16"):
    _teach(f"scalef32_sr_pk_fp4_{_kind}", _narrowing(FP4, _kind, (2,), scaled=True, stochastic=True), keeps=True)
    _teach(f"scalef32_pk_{_kind}_fp4", _widening(FP4, _kind, 2, scaled=True))
