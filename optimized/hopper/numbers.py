# mypy: allow-untyped-decorators
"""To the grid of MXFP4 and from its codes, as bfloat16, two numbers in a register.

Exact for scale bytes up to 250. Above, a code times its scale can leave bfloat16; NaN stays NaN.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# PTX ISA, "max": with NaN, the result is NaN; the sign is that of x * y, and nobody looks at it.
_LARGER: gl.constexpr = gl.constexpr("max.NaN.xorsign.abs.bf16x2 $0, $1, $2;")

# (x + c) - c with c = 1.5 * 2^6 * 2^j, where 2^j is the larger of the binade of x and the scale. In c's binade bfloat16
# numbers are 2^j / 2 apart, the steps of E2M1 there, so the addition rounds to nearest even as E2M1 does. For scales
# from 2^65 on all is done 2^-64 lower, lest c overflow: $1 x, $2 scale as exponent, $4 what makes c of an exponent, $6
# 1 or 2^-64, $8 its inverse (two numbers share a register, each operand has two).
_ROUND: gl.constexpr = gl.constexpr("""{
.reg .b32 c, y;
and.b32 c, $1, 0x7F807F80;
max.u16x2 c, c, $2;
add.u32 c, c, $4;
fma.rn.bf16x2 y, $1, $6, c;
sub.rn.bf16x2 y, y, c;
mul.rn.bf16x2 $0, y, $8;
}""")

# Eight codes v of a word. A byte selector of `prmt` is a magnitude, or with its highest bit asks for the sign of a
# byte: p has 8v of the positive codes and 0 for the others, q 176 - 8|v|. So 2p + q = 176 + 8v, the low byte of 22 + v
# in bfloat16, whose high byte is 0x41; (22 + v) * scale - 22 * scale is exact. $5 scale, $6 -22 * scale, $7 to $9 the
# halves of tables that `tables` keeps.
_WIDEN: gl.constexpr = gl.constexpr("""{
.reg .b32 m, h, n, p, q, d;
and.b32 m, $4, 0x77777777;
shr.u32 h, $4, 16;
shr.u32 n, m, 16;
prmt.b32 p, $7, 0x30201810, $4;
prmt.b32 q, $8, 0x809098A0, m;
mad.lo.u32 d, p, 2, q;
prmt.b32 $0, d, $9, 0x4140;
prmt.b32 $1, d, $9, 0x4342;
prmt.b32 p, $7, 0x30201810, h;
prmt.b32 q, $8, 0x809098A0, n;
mad.lo.u32 d, p, 2, q;
prmt.b32 $2, d, $9, 0x4140;
prmt.b32 $3, d, $9, 0x4342;
fma.rn.bf16x2 $0, $0, $5, $6;
fma.rn.bf16x2 $1, $1, $5, $6;
fma.rn.bf16x2 $2, $2, $5, $6;
fma.rn.bf16x2 $3, $3, $5, $6;
}""")
_P_TABLE: gl.constexpr = gl.constexpr(0x0C080400)
_Q_TABLE: gl.constexpr = gl.constexpr(0xA4A8ACB0)
_HIGH_BYTES: gl.constexpr = gl.constexpr(0x41414141)

# One instruction takes one constant. ptxas would move a second one into a register anew each time, so a lane hands them
# to all others, which no compiler sees through.
_KEEP: gl.constexpr = gl.constexpr("""{
.reg .pred first;
.reg .b32 x;
mov.u32 x, %laneid;
setp.eq.u32 first, x, 0;
selp.b32 x, $1, 0, first;
shfl.sync.idx.b32 $0, x, 0, 31, -1;
}""")

# Two scale bytes to bfloat16, twice in a register each ($0, $2), and -22 times it ($1, $3). Byte 0 is 2^-127, which is
# subnormal; byte 255 becomes Inf, and NaN when -22 * Inf is added.
_FACTORS: gl.constexpr = gl.constexpr("""{
.reg .b32 x, least, minus22;
mov.b32 least, 0x00400040;
mov.b32 minus22, 0xC1B0C1B0;
prmt.b32 x, $4, 0, 0x4140;
shl.b32 x, x, 7;
max.u16x2 x, x, least;
prmt.b32 $0, x, 0, 0x1010;
prmt.b32 $2, x, 0, 0x3232;
mul.rn.bf16x2 $1, $0, minus22;
mul.rn.bf16x2 $3, $2, minus22;
}""")

_LARGER_OF_PAIR: gl.constexpr = gl.constexpr("""{
.reg .b32 x;
shfl.sync.bfly.b32 x, $1, 1, 31, -1;
max.s32 $0, $1, x;
}""")


@gluon.jit
def halved(x: gl.tensor, W: gl.constexpr, T: gl.constexpr, LENGTH: gl.constexpr) -> gl.tensor:
    """(W, T, 4, LENGTH) to (W, T, 4, LENGTH // 2): the larger magnitude of each number and the one half a block on."""
    x, y = gl.split(x.reshape(W, T, 4, 2, LENGTH // 2).permute(0, 1, 2, 4, 3))
    return gl.inline_asm_elementwise(_LARGER, "=r,r,r", [x, y], dtype=gl.bfloat16, is_pure=True, pack=2)


@gluon.jit
def for_all(x: gl.tensor, like: gl.tensor) -> gl.tensor:
    """A value of each block, for each item of the block."""
    AXIS: gl.constexpr = len(like.shape) - 1
    x = gl.convert_layout(x, gl.SliceLayout(AXIS, like.type.layout), assert_trivial=True)
    x, _ = gl.broadcast(gl.expand_dims(x, AXIS), like)
    return x


@gluon.jit
def round_blocks(x: gl.tensor, W: gl.constexpr, T: gl.constexpr, LENGTH: gl.constexpr) -> gl.tensor:
    """bfloat16 (W, T, 4, LENGTH) in the layout `numbers_of_tokens`: quantized with the rule EVEN and dequantized again.
    A lane has a block, or with LENGTH 16 half a one, and the next lane the other half."""
    gl.static_assert(LENGTH == 16 or LENGTH == 32)
    y = halved(halved(halved(x, W, T, LENGTH), W, T, LENGTH // 2), W, T, LENGTH // 4)
    if LENGTH == 32:
        y = halved(y, W, T, 4)
    y, z = gl.split(y)
    y = y.to(gl.int16, bitcast=True).to(gl.int32) & 0x7FFF
    z = z.to(gl.int16, bitcast=True).to(gl.int32) & 0x7FFF
    peak = gl.maximum(y, z)
    if LENGTH == 16:
        peak = gl.inline_asm_elementwise(_LARGER_OF_PAIR, "=r,r", [peak], dtype=gl.int32, is_pure=True, pack=1)
    # See `pack.block_scale`.
    scale = gl.maximum((gl.minimum(peak, 0x7F80) + 0x20) >> 7, 2) - 2
    large = scale >= 192
    exponent = for_all((scale << 7) * 0x10001, x)
    to_c = for_all(gl.where(large, (0x0340 - (64 << 7)) * 0x10001, 0x03400340), x)
    down = for_all(gl.where(large, 0x1F801F80, 0x3F803F80), x)
    back = for_all(gl.where(large, 0x5F805F80, 0x3F803F80), x)
    return gl.inline_asm_elementwise(
        _ROUND, "=r,r,r,r,r,r,r,r,r,r", [x, exponent, to_c, down, back], dtype=gl.bfloat16, is_pure=True, pack=2
    )


@gluon.jit
def pair(x: gl.tensor) -> gl.tensor:
    """The two bfloat16 numbers of each int32, along a new last axis."""
    low, high = x.to(gl.int16), (x >> 16).to(gl.int16)
    return gl.join(low.to(gl.bfloat16, bitcast=True), high.to(gl.bfloat16, bitcast=True))


@gluon.jit
def kept(VALUE: gl.constexpr) -> gl.tensor:
    """A constant in a register."""
    return gl.inline_asm_elementwise(_KEEP, "=r,r", [gl.to_tensor(VALUE)], dtype=gl.uint32, is_pure=True, pack=1)


@gluon.jit
def tables() -> tuple[gl.tensor, gl.tensor, gl.tensor]:
    """What `widen_words` looks up, to be made once."""
    return kept(_P_TABLE), kept(_Q_TABLE), kept(_HIGH_BYTES)


@gluon.jit
def factors(scales: gl.tensor) -> tuple[gl.tensor, gl.tensor, gl.tensor, gl.tensor]:
    """Of the scale bytes in bits 7:0 and 15:8 of int32: factor and -22 * factor of the first, and of the second."""
    factor, minus22, other, other22 = gl.inline_asm_elementwise(
        _FACTORS,
        "=&r,=&r,=&r,=&r,r",
        [scales],
        dtype=(gl.int32, gl.int32, gl.int32, gl.int32),
        is_pure=True,
        pack=1,
    )
    return factor, minus22, other, other22


@gluon.jit
def widen_words(
    words: gl.tensor, factor: gl.tensor, minus22: gl.tensor, p: gl.tensor, q: gl.tensor, high: gl.tensor
) -> gl.tensor:
    """Codes times scales: int32 words (..., n) of a block's codes, what `factors` made of its scale (...) and `tables`
    to bfloat16 (..., n words, 2 e, 2 p, 2 i), the last three as in K'."""
    a, b, c, d = gl.inline_asm_elementwise(
        _WIDEN,
        "=&r,=&r,=&r,=&r,r,r,r,r,r,r",
        [words, for_all(factor, words), for_all(minus22, words), p, q, high],
        dtype=(gl.int32, gl.int32, gl.int32, gl.int32),
        is_pure=True,
        pack=1,
    )
    return gl.join(gl.join(pair(a), pair(b)), gl.join(pair(c), pair(d)))
