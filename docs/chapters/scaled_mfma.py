"""The chapter of the scaled matrix instructions."""

from chapters.layout import slug
from chapters.statement import TAGS, Statement, statements, table
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
        "```",
        "",
        "## Usual mistakes",
        "",
        "- Expecting the FP8 operand layout: FP4 is not interleaved.",
        "- Passing the scale of the wrong row group: the byte select is part of the instruction, not of the register.",
        (
            "- Relying on the last bits of a sum outside the region of the [certificate](certificate.md): the order "
            "of adding "
            "is not public."
        ),
        "- Masking lanes with EXEC to skip part of a tile.",
    ]
    return "\n".join(lines) + "\n"
