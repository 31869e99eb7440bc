"""Conversions between number formats. Source: AMD CDNA4 ISA, V_CVT_*; other sources stand beside their entry."""

from typing import Any

import numpy as np

from mxassay.gfx950.floating import bf16_to_f32, f32_to_bf16, form_of, quiet
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.lanewise import lanewise
from mxassay.gfx950.moderegister import limited
from mxassay.gfx950.operands import source
from mxassay.gfx950.pairs import pair_destination
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN, Context, Step, semantics
from mxassay.gfx950.wave import Cohort

_ISA = "AMD CDNA4 ISA, V_CVT_*"
U16, U32, I32 = np.uint16, np.uint32, np.int32
F16, F32, F64 = np.float16, np.float32, np.float64


def _to_integer(dtype: Any) -> Any:
    """Toward zero, saturating, NaN to 0."""
    limits = np.iinfo(dtype)

    def convert(x: Any) -> Any:
        wide = np.nan_to_num(np.trunc(np.asarray(x, F64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.clip(wide, limits.min, limits.max).astype(dtype)

    return convert


def _to_float(dtype: Any) -> Any:
    """To the nearest, ties to even; a NaN stays one and becomes quiet."""

    def convert(x: Any) -> Any:
        result = x.astype(dtype)
        return quiet(result) if np.isnan(result).any() else result

    return convert


def _byte(place: int) -> Any:
    return lambda x: (x >> U32(8 * place) & U32(0xFF)).astype(F32)


for _integer in ("u32", "i32"):
    lanewise(f"{_integer} -> f32", {f"v_cvt_f32_{_integer}": lambda x: x.astype(F32)}, CERTAIN, _ISA)
    lanewise(f"{_integer} -> f64", {f"v_cvt_f64_{_integer}": lambda x: x.astype(F64)}, CERTAIN, _ISA)
lanewise("u16 -> f16", {"v_cvt_f16_u16": lambda x: x.astype(F16)}, CERTAIN, _ISA)
lanewise("i16 -> f16", {"v_cvt_f16_i16": lambda x: x.astype(F16)}, CERTAIN, _ISA)
lanewise("f32 -> f16", {"v_cvt_f16_f32": _to_float(F16)}, CERTAIN, _ISA, moves=True)
lanewise("f16 -> f32", {"v_cvt_f32_f16": _to_float(F32)}, CERTAIN, _ISA, moves=True)
lanewise("f32 -> f64", {"v_cvt_f64_f32": _to_float(F64)}, CERTAIN, _ISA, moves=True)
lanewise("f64 -> f32", {"v_cvt_f32_f64": _to_float(F32)}, CERTAIN, _ISA, moves=True)
lanewise("b16 -> f32", {"v_cvt_f32_bf16": bf16_to_f32}, CERTAIN, _ISA, moves=True)
lanewise("u32 -> f32", {f"v_cvt_f32_ubyte{place}": _byte(place) for place in range(4)}, CERTAIN, _ISA)

# Saturation and NaN: AMD's pseudocode only names the functions; LLVM folds these intrinsics so.
for _kind in ("f32", "f64"):
    lanewise(f"{_kind} -> u32", {f"v_cvt_u32_{_kind}": _to_integer(U32)}, CERTAIN, _ISA)
    lanewise(f"{_kind} -> i32", {f"v_cvt_i32_{_kind}": _to_integer(I32)}, CERTAIN, _ISA)
lanewise("f16 -> u16", {"v_cvt_u16_f16": _to_integer(U16)}, INFERRED, f"{_ISA}; the other half cleared")
lanewise("f16 -> i16", {"v_cvt_i16_f16": _to_integer(np.int16)}, INFERRED, f"{_ISA}; the other half cleared")
lanewise(
    "f32 -> i32",
    {
        "v_cvt_rpi_i32_f32": lambda x: _to_integer(I32)(np.floor(x + F32(0.5))),
        "v_cvt_flr_i32_f32": lambda x: _to_integer(I32)(np.floor(x)),
    },
    CERTAIN,
    _ISA,
)
lanewise(
    "u32 -> f32",
    {"v_cvt_off_f32_i4": lambda x: ((x << U32(28)).view(I32) >> I32(28)).astype(F32) / F32(16)},
    CERTAIN,
    "AMD Vega ISA, V_CVT_OFF_F32_I4: signed sixteenths",
)


def _pack(low: Any, high: Any) -> Any:
    return low.astype(U32) | high.astype(U32) << U32(16)


def _bits16(convert: Any) -> Any:
    return lambda a, b: _pack(convert(a).view(U16), convert(b).view(U16))


def _toward_zero(x: Any) -> Any:
    nearest = _to_float(F16)(x)
    beyond = np.abs(nearest.astype(F32)) > np.abs(x)
    return (nearest.view(U16) - beyond.astype(U16)).view(F16)


lanewise("f32 f32 -> u32", {"v_cvt_pk_bf16_f32": lambda a, b: _pack(f32_to_bf16(a), f32_to_bf16(b))}, CERTAIN, _ISA)
lanewise("f32 f32 -> u32", {"v_cvt_pkrtz_f16_f32": _bits16(_toward_zero)}, CERTAIN, _ISA)
lanewise(
    "u32 u32 -> u32",
    {"v_cvt_pk_u16_u32": lambda a, b: _pack(np.minimum(a, U32(0xFFFF)), np.minimum(b, U32(0xFFFF)))},
    INFERRED,
    "AMD CDNA4 ISA, V_CVT_PK_U16_U32; saturation: as V_CVT_PK_I16_I32",
)
lanewise(
    "i32 i32 -> u32",
    {"v_cvt_pk_i16_i32": lambda a, b: _pack(*(np.clip(x, -0x8000, 0x7FFF).astype(np.int16).view(U16) for x in (a, b)))},
    CERTAIN,
    "AMD CDNA4 ISA, V_CVT_PK_I16_I32; saturation: LLVM test combine-short-clamp.ll",
)


@semantics("v_cvt_pk_f16_f32", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_CVT_PK_F16_F32")
def _pack_halves(inst: Instruction, context: Context) -> Step:
    first, second = (source(inst, slot, "f32", context) for slot in (0, 1))
    write, convert = pair_destination(inst, "f16", context, moves=True), _to_float(F16)

    def step(wv: Cohort) -> None:
        low, high = first(wv), second(wv)
        halves = [limited(wv, convert(x), [x, x]) for x in (low, high)]
        write(wv, np.stack(np.broadcast_arrays(*halves), axis=-1))

    return step


def _normalised(scale: int, dtype: Any) -> Any:
    """[-1, 1] or [0, 1] to the whole range, NaN to 0."""
    limits = np.iinfo(dtype)

    def convert(x: Any) -> Any:
        wide = np.rint(np.clip(np.nan_to_num(np.asarray(x, F64), nan=0.0), -1, 1) * scale)
        return np.clip(wide, limits.min, limits.max).astype(dtype)

    return convert


_SIGNED, _UNSIGNED = _normalised(0x7FFF, np.int16), _normalised(0xFFFF, U16)
_NEAREST = "AMD CDNA4 ISA; its rounding isn't published: nearest even"
lanewise("f16 -> i16", {"v_cvt_norm_i16_f16": _SIGNED}, UNKNOWN, _NEAREST)
lanewise("f16 -> u16", {"v_cvt_norm_u16_f16": _UNSIGNED}, UNKNOWN, _NEAREST)
for _kind in ("f16", "f32"):
    lanewise(
        f"{_kind} {_kind} -> u32",
        {f"v_cvt_pknorm_i16_{_kind}": _bits16(_SIGNED), f"v_cvt_pknorm_u16_{_kind}": _bits16(_UNSIGNED)},
        UNKNOWN,
        _NEAREST,
    )


def _put_byte(x: Any, place: Any, old: Any) -> Any:
    value = np.clip(np.nan_to_num(np.rint(np.asarray(x, F64)), nan=0.0), 0, 255).astype(U32)
    at = (place & U32(3)) * U32(8)
    return old & ~(U32(0xFF) << at) | value << at


lanewise("f32 u32 u32 -> u32", {"v_cvt_pk_u8_f32": _put_byte}, UNKNOWN, _NEAREST)
lanewise("f32 u32 dst:u32 -> u32", {"v_cvt_pkaccum_u8_f32": _put_byte}, UNKNOWN, _NEAREST)


def _stochastic_bf16(x: Any, noise: Any) -> Any:
    """The 16 bits that go are added to as many random ones, from the top of S1; what carries stays."""
    bits = x.view(U32)
    return np.where(np.isfinite(x), (bits + (noise >> U32(16))) >> U32(16), f32_to_bf16(x)).astype(U16)


def _stochastic_f16(x: Any, noise: Any) -> Any:
    """The same for the bits that float16 has no room for: 13, and more where the result is a denormal."""
    form = form_of(x)
    magnitude = x.view(U32) & form.magnitude
    # The unit of the result is 2^(e - 10), at least 2^-24; random bits fill what is below it.
    place = np.maximum((magnitude >> U32(23)).astype(I32) - 127, -14) - 10
    scaled = np.ldexp(np.abs(x).astype(F64), -place)
    whole = np.floor(scaled + (noise >> U32(7)).astype(F64) * 2.0**-25)
    rounded = np.copysign(np.ldexp(whole, place), x).astype(F16)
    return np.where(np.isfinite(x), rounded, _to_float(F16)(x)).astype(F16)


_NOISE = (
    "AMD CDNA4 ISA, V_CVT_SR_*; how random bits meet the mantissa isn't published: as V_CVT_SR_FP8_F32 adds its own"
)
lanewise("f32 u32 -> b16", {"v_cvt_sr_bf16_f32": _stochastic_bf16}, UNKNOWN, _NOISE, keep=True)
lanewise("f32 u32 -> f16", {"v_cvt_sr_f16_f32": _stochastic_f16}, UNKNOWN, _NOISE, keep=True)
