"""Where AMD's pseudocode, taken literally, is known not to be what gfx950 does: our text in the same language, and why.

Each entry is a statement about the *text*, not about the emulator. `{f}` and `{i}` stand for a float and an int type.
"""

ROUND_EVEN = "D0.{f} = roundEven(S0.{f})"
FREXP = (
    "if ((64'F(S0.{f}) == +INF) || (64'F(S0.{f}) == -INF) || isNAN(64'F(S0.{f}))) then D0.{i} = 0 "
    "else D0.{i} = frexpExponent(S0.{f}) endif"
)
FRACT = (
    "if isNAN(64'F(S0.{f})) then D0.{f} = S0.{f} + S0.{f} "
    "elsif (64'F(abs(S0.{f})) == +INF) then D0.{f} = S0.{f} - S0.{f} "
    "else D0.{f} = fract(S0.{f}); if D0.{f} == 1.0 then D0.{f} = {below}.{f} endif endif"
)
MIX = (
    "declare in : 32'F[3]; declare S : 32'B[3]; for i in 0 : 2 do if !OPSEL_HI.u3[i] then in[i] = S[i].f32 "
    "elsif OPSEL.u3[i] then in[i] = f16_to_f32(S[i][31 : 16].f16) "
    "else in[i] = f16_to_f32(S[i][15 : 0].f16) endif endfor; "
)
PK_MOV = (
    "tmp0.u32 = S0[OPSEL[0].i32 * 32 + 31 : OPSEL[0].i32 * 32]; "
    "tmp1.u32 = S1[OPSEL[1].i32 * 32 + 31 : OPSEL[1].i32 * 32]; "
    "D0[31 : 0] = tmp0.u32; D0[63 : 32] = tmp1.u32"
)

DIV_FMAS = (
    "if VCC.u64[laneId] then if abs(S2.{f}) >= 1.0 then D0.{f} = fmaScaled(S0.{f}, S1.{f}, S2.{f}, {step}) "
    "else D0.{f} = fmaScaled(S0.{f}, S1.{f}, S2.{f}, -{step}) endif "
    "else D0.{f} = fma(S0.{f}, S1.{f}, S2.{f}) endif"
)
DIV_FIXUP = (
    "sign_out = (sign(S1.{f}) ^ sign(S2.{f})); if isNAN(64'F(S2.{f})) then D0.{f} = {quiet2} "
    "elsif isNAN(64'F(S1.{f})) then D0.{f} = {quiet1} "
    "elsif ((64'F(S1.{f}) == 0.0) && (64'F(S2.{f}) == 0.0)) then D0.{f} = {nan} "
    "elsif ((64'F(abs(S1.{f})) == +INF) && (64'F(abs(S2.{f})) == +INF)) then D0.{f} = {nan} "
    "elsif ((64'F(S1.{f}) == 0.0) || (64'F(abs(S2.{f})) == +INF)) then D0.{f} = sign_out ? -INF.{f} : +INF.{f} "
    "elsif ((64'F(abs(S1.{f})) == +INF) || (64'F(S2.{f}) == 0.0)) then D0.{f} = sign_out ? -{zero} : {zero} "
    "elsif exponent(S2.{f}) - exponent(S1.{f}) < {lowest} then D0.{f} = sign_out ? -UNDERFLOW : UNDERFLOW "
    "elsif exponent(S0.{f}) == {top} then D0.{f} = sign_out ? -INF.{f} : +INF.{f} "
    "else D0.{f} = sign_out ? -abs(S0.{f}) : abs(S0.{f}) endif"
)

SCALED_F16 = (
    "scale = 32'U(exponent(S1.f32)); srcbyte = OPSEL[1 : 0].i32 * 8; "
    "src = VGPR[laneId][SRC0.u32][srcbyte + 7 : srcbyte].{form}; tmp = {form}_to_f16_scale(src, scale.u8); "
    "dstword = OPSEL[3].i32 * 16; VGPR[laneId][VDST.u32][dstword + 15 : dstword].f16 = tmp"
)

# op name without its encoding suffix -> (text, why)
ERRATA = {
    **{
        f"V_RNDNE_{f.upper()}": (
            ROUND_EVEN.format(f=f),
            "floor(x + 0.5) rounds twice and loses -0; LLVM selects the instruction for roundeven",
        )
        for f in ("f16", "f32", "f64")
    },
    **{
        f"V_FREXP_EXP_{i.upper()}_{f.upper()}": (
            FREXP.format(f=f, i=i),
            "the biased field gives -126 for 0 and denormals; LLVM folds llvm.amdgcn.frexp.exp as C's frexp",
        )
        for f, i in (("f16", "i16"), ("f32", "i32"), ("f64", "i32"))
    },
    **{
        f"V_FRACT_{f.upper()}": (
            FRACT.format(f=f, below=below),
            "x - floor(x) can round to 1.0; LLVM selects V_FRACT for min(x - floor(x), the float below 1)",
        )
        for f, below in (("f16", "0x3bff"), ("f32", "0x3f7fffff"), ("f64", "0x3fefffffffffffffULL"))
    },
    **{
        f"V_RSQ_{f.upper()}": (
            f"D0.{f} = rsqrt(S0.{f})",
            "1 / sqrt(x) in the text rounds twice; one instruction has one result",
        )
        for f in ("f16", "f32", "f64")
    },
    **{
        f"V_CVT_SCALEF32_F16_{form.upper()}": (
            SCALED_F16.format(form=form),
            "the text writes 32 bits, but says beside it that OPSEL[3] picks the half; LLVM keeps the other half",
        )
        for form in ("fp8", "bf8")
    },
    **{
        f"V_DIV_FMAS_{f.upper()}": (
            DIV_FMAS.format(f=f, step=step),
            "scales up, by half of what V_DIV_SCALE scaled either way; LLVM's division needs that undone, rounded once",
        )
        for f, step in (("f32", 64), ("f64", 128))
    },
    "V_DIV_FIXUP_F32": (
        DIV_FIXUP.format(
            f="f32",
            quiet1="32'F(cvtToQuietNAN(64'F(S1.f32)))",
            quiet2="32'F(cvtToQuietNAN(64'F(S2.f32)))",
            nan="32'F(0xffc00000)",
            zero="0.0F",
            lowest=-150,
            top=255,
        ),
        "overflow is told by the exponent of S1, which is ruled out before; LLVM's division needs that of S0",
    ),
    "V_DIV_FIXUP_F64": (
        DIV_FIXUP.format(
            f="f64",
            quiet1="cvtToQuietNAN(S1.f64)",
            quiet2="cvtToQuietNAN(S2.f64)",
            nan="64'F(0xfff8000000000000LL)",
            zero="0.0",
            lowest=-1075,
            top=2047,
        ),
        "overflow is told by the exponent of S1, which is ruled out before; LLVM's division needs that of S0",
    ),
    "V_PK_MOV_B32": (
        PK_MOV,
        "takes bits 63:32 of operands typed u32; LLVM copies register pairs with it",
    ),
    "V_MAD_MIX_F32": (MIX + "D0[31 : 0].f32 = fma(in[0], in[1], in[2])", "gfx950 has V_FMA_MIX at this opcode (LLVM)"),
    "V_MAD_MIXLO_F16": (
        MIX + "D0[15 : 0].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
        "gfx950 has V_FMA_MIXLO at this opcode (LLVM)",
    ),
    "V_MAD_MIXHI_F16": (
        MIX + "D0[31 : 16].f16 = f32_to_f16(fma(in[0], in[1], in[2]))",
        "gfx950 has V_FMA_MIXHI at this opcode (LLVM)",
    ),
}

# op name without its encoding suffix -> why its text can't be executed
DEFECTIVE = {
    "V_DIV_SCALE_F32": "tests 1/S1 for a denormal in f64, where it can't be one, and leaves D0 unset on three paths",
    "V_DIV_SCALE_F64": "leaves D0 unset on three paths",
    "V_TRIG_PREOP_F64": "needs 2/PI to 1,201 bits, written as a cast of a double",
    "V_CVT_OFF_F32_I4": "the table CVT_OFF_TABLE is declared and never filled",
    "V_DIV_FIXUP_LEGACY_F16": "puts 64-bit infinities into an untyped variable and reads them as f16",
}
