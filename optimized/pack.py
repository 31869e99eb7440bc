# mypy: allow-untyped-decorators
"""bfloat16 to MXFP4 inside a kernel: the scale rule, and the element conversion in two bit-equal forms.

`USE_ASM=True` converts with gfx950's `v_cvt_scalef32_pk_fp4_bf16`; `USE_ASM=False` does the same arithmetic on
integers and runs on every Triton target and in the interpreter.
"""

import triton
import triton.language as tl

BLOCK: tl.constexpr = tl.constexpr(32)  # OCP MX spec 1.0, table 1: k, the elements that share a scale

# A conversion to FP4 must not be followed at once by a reader of its result, and an MFMA must not read what a VALU
# instruction wrote less than two wait states ago (LLVM PRs #117844, #118589, #140218; GCNHazardRecognizer.cpp,
# checkMAIHazards90A). LLVM keeps both rules for instructions that it emits, and cannot see into this text: so four
# conversions write four registers, each reading none of the others, and `s_nop 1` closes the run.
_CONVERT: tl.constexpr = tl.constexpr(
    """v_cvt_scalef32_pk_fp4_bf16 $0, $4, $8
v_cvt_scalef32_pk_fp4_bf16 $1, $5, $9
v_cvt_scalef32_pk_fp4_bf16 $2, $6, $10
v_cvt_scalef32_pk_fp4_bf16 $3, $7, $11
s_nop 1"""
)
# Early clobber: a result is written while later inputs are still unread.
_CONVERT_CONSTRAINTS: tl.constexpr = tl.constexpr("=&v,=&v,=&v,=&v,v,v,v,v,v,v,v,v")
_CONVERT_WIDTH: tl.constexpr = tl.constexpr(4)


@triton.jit
def block_scale(peak: tl.tensor) -> tl.tensor:
    """The EVEN scale byte (0..253) of a block from its largest bfloat16 magnitude (int32 bits, NaN counts as Inf).

    On float32 bits the rule is ((bits + 0x200000) & 0xFF800000), exponent field - 129, clamped to [-127, 127], + 127.
    bfloat16 bits are the upper half of float32 bits, so 0x200000 becomes 0x20 and the clamp leaves max(field, 2) - 2.
    """
    field = (tl.minimum(peak, 0x7F80) + 0x20) >> 7
    return tl.maximum(field, 2) - 2


@triton.jit
def encode_e2m1(bits: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """E2M1 codes (int32, 0..15) of bfloat16 `bits` over 2^(scale-127); `scale` is an E8M0 byte 0..254, broadcastable.

    Nearest, ties to the even code, saturating at 6; the sign is kept, on zero and NaN too; NaN becomes sign | 7.
    """
    bits = bits.to(tl.int32)
    magnitude = bits & 0x7FFF
    # A subnormal is an integer times 2^-133: normalised through an exact integer conversion, because a float32
    # subnormal could be flushed on the way.
    subnormal = (magnitude.to(tl.float32).to(tl.int32, bitcast=True) >> 16) - (133 << 7)
    # Dividing by the scale moves the exponent field; it may leave 0..255, so `scaled` is an ordered integer, not
    # bits.
    scaled = tl.where(magnitude < 0x80, subnormal, magnitude) + ((127 - scale) << 7)
    # From 1.0 up E2M1 keeps one mantissa bit of seven; below, 0.25 < x is 0.5 and 0.75 <= x is 1.
    large = ((scaled + 0x1F + ((scaled >> 6) & 1)) >> 6) - (126 << 1)
    small = (scaled > (125 << 7)).to(tl.int32) + (scaled >= (126 << 7) + 0x40).to(tl.int32)
    code = tl.where(scaled >= (127 << 7), tl.minimum(large, 7), small)
    code = tl.where(magnitude >= 0x7F80, 7, code)
    return code | ((bits >> 12) & 8)


@triton.jit
def convert_pairs(pairs: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """Both codes of uint32 `pairs` of bfloat16 over 2^(scale-127), by the instruction; bits 31:8 are undefined.

    `scale` is an E8M0 byte 0..254 (int32), broadcastable to `pairs`. gfx950 only.
    """
    # The instruction reads the exponent field alone; 2^-127 keeps the operand equal to the scale for byte 0 as well.
    operand = tl.broadcast_to(tl.maximum(scale << 23, 0x00400000), pairs.shape)
    return tl.inline_asm_elementwise(
        asm=_CONVERT,
        constraints=_CONVERT_CONSTRAINTS,
        args=[pairs, operand],
        dtype=tl.uint32,
        is_pure=True,
        pack=_CONVERT_WIDTH,
    )


@triton.jit
def quantize_tile(
    x: tl.tensor, TILE_M: tl.constexpr, TILE_K: tl.constexpr, USE_ASM: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Quantize a bfloat16 tile (TILE_M, TILE_K), TILE_K a multiple of 32, along K.

    Returns packed codes (TILE_M, TILE_K // 2) uint8, the even k in the low nibble, and scale bytes
    (TILE_M, TILE_K // 32) uint8.
    """
    BLOCKS: tl.constexpr = TILE_K // BLOCK
    even, odd = tl.split(x.to(tl.uint16, bitcast=True).reshape(TILE_M, BLOCKS, BLOCK // 2, 2))
    peak = tl.maximum(even & 0x7FFF, odd & 0x7FFF).to(tl.int32)
    scale = block_scale(tl.max(peak, axis=2, keep_dims=True))
    if USE_ASM:
        packed = convert_pairs(even.to(tl.uint32) | (odd.to(tl.uint32) << 16), scale)
    else:
        packed = encode_e2m1(even, scale) | (encode_e2m1(odd, scale) << 4)
    return packed.to(tl.uint8).reshape(TILE_M, TILE_K // 2), scale.to(tl.uint8).reshape(TILE_M, BLOCKS)
