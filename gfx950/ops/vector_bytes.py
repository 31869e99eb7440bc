"""Vector ALU on bytes: permutations, alignment, sums of absolute differences. Source: AMD CDNA4 ISA, "VOP3"."""

from typing import Any

import numpy as np

from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.lanewise import lanewise, saturating
from mxassay.gfx950.operands import raw, source
from mxassay.gfx950.registry import CERTAIN, Context, Step, semantics
from mxassay.gfx950.wave import Cohort

_ISA = "AMD CDNA4 ISA, VOP3"
U32, U64 = np.uint32, np.uint64


def _perm(high: Any, low: Any, select: Any) -> Any:
    """V_PERM_B32: byte i of the result is the byte of {S0, S1} that byte i of S2 names; 8..11 signs, 12 zero, above
    0xff."""
    if isinstance(select, np.ndarray) and (select == select.flat[0]).all():
        select = select.flat[0]
    if not isinstance(select, np.ndarray):
        return _perm_fixed(high, low, int(select))
    shape = np.broadcast_shapes(np.shape(high), np.shape(low), select.shape)
    table = np.empty((*shape, 14), np.uint8)
    table[..., 0:4] = np.broadcast_to(low, shape)[..., None].view(np.uint8)
    table[..., 4:8] = np.broadcast_to(high, shape)[..., None].view(np.uint8)
    for place, byte in enumerate((1, 3, 5, 7)):
        table[..., 8 + place] = (table[..., byte] >> 7) * np.uint8(255)
    table[..., 12], table[..., 13] = 0, 255
    chosen = np.minimum(np.broadcast_to(select, shape)[..., None].view(np.uint8), 13)
    return np.take_along_axis(table, chosen.astype(np.intp), axis=-1).view(np.uint32)[..., 0]


def _perm_fixed(high: Any, low: Any, select: int) -> Any:
    """The same with one selector for all lanes: two shifts and masks a byte at most."""
    result = U32(0)
    for place in range(4):
        code = select >> 8 * place & 0xFF
        if code > 12:
            result = result | U32(0xFF << 8 * place)
        elif code != 12:
            byte = code if code < 8 else (1, 3, 5, 7)[code - 8]
            value = (low if byte < 4 else high) >> U32(8 * (byte & 3)) & U32(0xFF)
            if code >= 8:
                value = (value >> U32(7)) * U32(0xFF)
            result = result | (value << U32(8 * place))
    return result


def _align(high: Any, low: Any, amount: Any) -> Any:
    """The 64 bits {S0, S1} shifted right by 0..31 bits, low half."""
    wide = high.astype(np.uint64) << np.uint64(32) | low
    return (wide >> amount.astype(np.uint64)).astype(np.uint32)


lanewise(
    "u32 u32 u32 -> u32",
    {
        "v_perm_b32": _perm,
        "v_alignbit_b32": lambda a, b, c: _align(a, b, c & U32(31)),
        "v_alignbyte_b32": lambda a, b, c: _align(a, b, (c & U32(3)) * U32(8)),
    },
    CERTAIN,
    _ISA,
)


def _byte(x: Any, place: int) -> Any:
    return (x >> U32(8 * place) & U32(0xFF)).astype(np.int64)


def _lerp(a: Any, b: Any, c: Any) -> Any:
    """Averages of bytes, rounded up where bit 0 of the byte of S2 is set."""
    total = sum((_byte(a, i) + _byte(b, i) + (_byte(c, i) & 1)) >> 1 << 8 * i for i in range(4))
    return np.asarray(total).astype(U32)


def _differences(a: Any, b: Any) -> Any:
    return sum(np.abs(_byte(a, i) - _byte(b, i)) for i in range(4))


def _masked_differences(a: Any, b: Any) -> Any:
    """Bytes of S1 that are zero don't count."""
    return sum(np.where(_byte(b, i) == 0, 0, np.abs(_byte(a, i) - _byte(b, i))) for i in range(4))


def _sad_u16(a: Any, b: Any, c: Any) -> Any:
    halves = [
        ((a >> s & U32(0xFFFF)).astype(np.int64), (b >> s & U32(0xFFFF)).astype(np.int64)) for s in (U32(0), U32(16))
    ]
    return sum(np.abs(x - y) for x, y in halves) + c


lanewise("u32 u32 u32 -> u32", {"v_lerp_u8": _lerp}, CERTAIN, _ISA)
lanewise(
    "u32 u32 u32 -> u32",
    {
        op: saturating(function, np.uint32)
        for op, function in {
            "v_sad_u8": lambda a, b, c: _differences(a, b) + c,
            "v_sad_hi_u8": lambda a, b, c: (_differences(a, b) << 16) + c,
            "v_msad_u8": lambda a, b, c: _masked_differences(a, b) + c,
            "v_sad_u16": _sad_u16,
            "v_sad_u32": lambda a, b, c: np.abs(a.astype(np.int64) - b) + c,
        }.items()
    },
    CERTAIN,
    _ISA,
    clamps=True,
)


def _windows(x: Any) -> list[Any]:
    """The four 32-bit words that start at bytes 0 to 3 of a 64-bit value."""
    return [(x >> U64(8 * i)).astype(U32) for i in range(4)]


def _quad(difference: Any) -> Any:
    """Four sums over sliding windows, each added to its 16 bits of S2 and kept modulo 2^16."""

    def function(a: Any, b: Any, c: Any) -> Any:
        parts = [
            (difference(window, b).astype(U64) + (c >> U64(16 * i)) & U64(0xFFFF)) << U64(16 * i)
            for i, window in enumerate(_windows(a))
        ]
        return parts[0] | parts[1] | parts[2] | parts[3]

    return function


lanewise(
    "u64 u32 u64 -> u64",
    {"v_qsad_pk_u16_u8": _quad(_differences), "v_mqsad_pk_u16_u8": _quad(_masked_differences)},
    CERTAIN,
    _ISA,
)


@semantics("v_mqsad_u32_u8", fidelity=CERTAIN, source="AMD CDNA4 ISA, V_MQSAD_U32_U8")
def _mqsad_u32(inst: Instruction, context: Context) -> Step:
    """Four masked sums over sliding windows, each added to its register of S2, into four registers."""
    if inst["clamp"]:
        context.refuse(inst, "CLAMP of four sums")
    first, second = source(inst, 0, "u64", context), source(inst, 1, "u32", context)
    addends = [raw(inst.src[2], inst, context, word) for word in range(4)]
    index = inst.dst[0].index

    def step(wv: Cohort) -> None:
        windows, pattern = _windows(first(wv)), second(wv)
        sums = [
            _masked_differences(window, pattern).astype(U32) + c(wv) for window, c in zip(windows, addends, strict=True)
        ]
        for word, value in enumerate(sums):
            np.copyto(wv.v[index + word], value, where=wv.mask)

    return step
