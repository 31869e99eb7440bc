"""The chapter of the scaled matrix instructions."""

from chapters.layout import slug
from chapters.mistakes import mistake_table
from chapters.statement import TAGS, Statement, statements, table, tag
from mxassay.layouts import LAYOUTS

_STATEMENTS = (
    Statement(
        "certain",
        "D = C + the sum over blocks b of 2^(sa + sb - 254) times the sum over the block's 32 k of a·b.",
        "isa",
        "V_MFMA_SCALE_F32_*_F8F6F4",
    ),
    Statement(
        "certain",
        "CBSZ = 4 makes A FP4, BLGP = 4 makes B FP4.",
        "isa",
        "dense matrix F8F6F4",
    ),
    Statement(
        "certain", "Operands, scales and results lie as the register maps say.", "isa", probe=("mfma.scaled.layout",)
    ),
    Statement(
        "certain",
        "A's scale byte is byte {OP_SEL_HI[0], OP_SEL[0]} of its lane's VGPR, B's is {OP_SEL_HI[1], OP_SEL[1]}.",
        "isa",
        probe=("mfma.scaled.scale_byte_0", "mfma.scaled.scale_byte_1", "mfma.scaled.scale_byte_2",
               "mfma.scaled.scale_byte_3"),
    ),
    Statement("inferred", "EXEC does not count: lanes that are off take part.", "isa", probe=("mfma.scaled.exec",)),
    Statement("inferred", "NEG and ABS apply to C alone; there is no clamp.", "isa"),
    Statement(
        "inferred",
        "MODE does not count; denormals of C and of the sums are kept.",
        "isa",
        probe=("mfma.scaled.denormal", "mfma.scaled.denormal_mode_0"),
    ),
    Statement("inferred", "Scale byte 255 gives NaN, over zeros too.", "isa", probe=("mfma.scaled.scale_nan",)),
    Statement(
        "inferred",
        "The instruction without scales is the one with scale bytes 127. Two literal zeros for the scales assemble to "
        "it; a byte 0 in a VGPR means 2^-127.",
        "isa",
        probe=("mfma.scaled.unscaled",),
    ),
    Statement(
        "unknown",
        "In what order and how wide products and block sums are added. The emulated card adds exactly and rounds once. "
        "MI300X was measured to cut terms at 24 bits in groups; nobody published CDNA4.",
        "mma-sim",
        probe=("mfma.scaled.order", "mfma.scaled.ties", "mfma.scaled.small"),
    ),
    Statement(
        "unknown",
        "What happens where the sum of the exponents leaves float32's range.",
        "gfx950",
        "ops/mfma_scaled.py",
        probe=("mfma.scaled.scale_sum", "mfma.scaled.beyond_range"),
    ),
    Statement(
        "unknown", "The sign of a sum of zeros.", "gfx950", "ops/mfma_scaled.py", probe=("mfma.scaled.zero_sign",)
    ),
    Statement(
        "unknown", "What becomes of NaN and infinities in C.", "gfx950", "ops/mfma_scaled.py",
        probe=("mfma.scaled.c_special",),
    ),
)  # fmt: skip


_USERS = (
    Statement(
        "certain",
        "Triton: `tl.dot_scaled` on gfx950, whose layouts are named in the chapters of the maps.",
        "triton",
        "compiled by the tests of docs/",
    ),
    Statement("certain", "AMD's f4gemm code objects in aiter.", "aiter-f4gemm", "run by the tests of hosting/"),
    Statement(
        "certain",
        "LLVM: `llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4` and `….32x32x64.f8f6f4`.",
        "llvm-intrinsics",
    ),
    Statement("certain", "HIP and Composable Kernel: `__builtin_amdgcn_mfma_scale_f32_*_f8f6f4`.", "ck"),
)

_CODE = [
    "```python",
    "MAGNITUDES = (0, 0.5, 1, 1.5, 2, 3, 4, 6)",
    "",
    "",
    "def value(code):",
    "    return -MAGNITUDES[code & 7] if code & 8 else MAGNITUDES[code]",
    "",
    "",
    "def output(a, b, scales_a, scales_b, c=0.0):",
    "    # codes along K of one row of A and one of B; a scale byte for each 32 of them",
    "    total = c",
    "    for k in range(len(a)):",
    "        scale = 2.0 ** (scales_a[k // 32] + scales_b[k // 32] - 254)",
    "        total += value(a[k]) * value(b[k]) * scale",
    "    return total",
    "```",
    "",
]

_MISTAKES = (
    Statement("certain", "Expecting the FP8 operand layout: FP4 is not interleaved.", "isa"),
    Statement(
        "certain",
        "Passing the scale of the wrong row group: the byte select is part of the instruction, not of the register.",
        "isa",
    ),
    Statement(
        "unknown",
        "Relying on the last bits of a sum outside the region of the [certificate](certificate.md): the order of "
        "adding is not public.",
        "mma-sim",
    ),
    Statement("inferred", "Masking lanes with EXEC to skip part of a tile.", "isa"),
)


def page() -> str:
    """spec/scaled-mfma.md."""
    lines = [
        "# The scaled MFMA",
        "",
        (
            "`v_mfma_scale_f32_16x16x128_f8f6f4` and `v_mfma_scale_f32_32x32x64_f8f6f4` multiply two FP4 tiles, each "
            "block of "
            "32 with its own scale, and add to float32."
        ),
        "",
        *TAGS,
        "",
        *statements(_STATEMENTS),
        "",
        "## Register maps",
        "",
    ]
    rows = []
    for shape in ("16X16X128", "32X32X64"):
        for letter, what in (("A", "operand A"), ("B", "operand B"), ("SCALE", "scales of A or B"), ("D", "C and D")):
            name = f"MFMA_{shape}_{letter}"
            layout = LAYOUTS[name]
            rows.append((f"`{shape.lower()}`", what, f"[{name}]({slug(name)}.md)", f"`{layout.formula()}`"))
    lines += table(("shape", "what", "map", "formula"), rows)
    lane = LAYOUTS["MFMA_16X16X128_A"].bind((16, 128)).place((1, 43))
    result = LAYOUTS["MFMA_16X16X128_D"].bind((16, 16)).place((6, 9))
    lines += [
        "",
        *tag("certain", "isa", "matrix operand layout, 4-bit formats"),
        "## One output in code",
        "",
        *_CODE,
        *tag("certain", "isa", "the pseudocode; the order of the sum is unknown"),
        "## Worked example",
        "",
        (
            f"A[1, 43] of the 16×16×128 instruction lies in lane {lane['lane']}, VGPR {lane['vgpr']}, nibble "
            f"{lane['nibble']}; its scale, of row 1 and block 1, in lane 17. D[6, 9] lies in lane "
            f"{result['lane']}, VGPR "
            f"{result['vgpr']}."
        ),
        "",
        (
            "One product: A[1, 43] = 3 under scale byte 128, B[9, 43] = -0.5 under scale byte 126, everything else "
            "zero, C "
            "zero. D[1, 9] = 3 · -0.5 · 2^(128 + 126 - 254) = -1.5."
        ),
        "",
        "```python",
        "import torch",
        "from mxassay.reference import matmul, pack",
        "",
        "a, b = torch.zeros(16, 128, dtype=torch.uint8), torch.zeros(16, 128, dtype=torch.uint8)",
        "a[1, 43], b[9, 43] = 5, 9  # the codes of 3 and -0.5",
        "scales_a = torch.full((16, 4), 128, dtype=torch.uint8)",
        "scales_b = torch.full((16, 4), 126, dtype=torch.uint8)",
        "d = matmul(pack(a), scales_a, pack(b), scales_b)",
        "assert d[1, 9] == -1.5 and d.count_nonzero() == 1",
        "assert output(a[1].tolist(), b[9].tolist(), [128] * 4, [126] * 4) == -1.5",
        "```",
        "",
        *tag("certain", "reference", "run by the tests of docs/"),
        "## Who uses it",
        "",
        *statements(_USERS),
        "",
        "## Usual mistakes",
        "",
        *mistake_table(_MISTAKES),
    ]
    return "\n".join(lines) + "\n"
