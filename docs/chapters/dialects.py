"""The chapter of the quantization dialects, with all edges computed."""

import torch

from chapters.mistakes import mistake_table
from chapters.statement import Statement, statements, table, tag
from mxassay.reference import DIALECTS, EVEN, Dialect

_EDGES: tuple[tuple[str, int], ...] = (
    ("zeros", 0x00000000),
    ("2^-149", 0x00000001),
    ("2^-148", 0x00000002),
    ("3 · 2^-149", 0x00000003),
    ("4 · 2^-149", 0x00000004),
    ("2^-127", 0x00400000),
    ("2^-126", 0x00800000),
    ("1", 0x3F800000),
    ("1.5", 0x3FC00000),
    ("next float32 above 1.5", 0x3FC00001),
    ("last float32 below 1.75", 0x3FDFFFFF),
    ("1.75", 0x3FE00000),
    ("2", 0x40000000),
    ("6", 0x40C00000),
    ("7", 0x40E00000),
    ("1.75 · 2^127", 0x7F600000),
    ("largest float32", 0x7F7FFFFF),
    ("Inf", 0x7F800000),
    ("NaN 0x7FC00000", 0x7FC00000),
)
_RULES = {
    "EVEN": ("even", "from mantissa 1.75 on", "round amax to a power of two, up from 1.75, then divide by 4"),
    "FLOOR": ("floor", "never", "round amax down to a power of two, then divide by 4"),
    "CEIL": ("ceil", "above the power of two itself", "round amax up to a power of two, then divide by 4"),
    "RCEIL": ("rceil", "above mantissa 1.5", "round amax / 6 up to a power of two"),
}

_STATEMENTS = (
    Statement("certain", "FLOOR is the rule of the OCP text.", "ocp", "6.3"),
    Statement(
        "certain", "EVEN is the rule of aiter's Triton quantizer `_mxfp4_quant_op`.", "aiter-quant", "_mxfp4_quant_op"
    ),
    Statement("certain", "RCEIL is aiter's present default, `RoundUp`.", "aiter-mx", "MX_DEFAULT_ROUND_MODE"),
    Statement("inferred", "RCEIL is NVIDIA's rule for block scaling.", "cublas"),
    Statement(
        "certain",
        "torchao names all four: FLOOR, CEIL, RCEIL, EVEN. Our `-torchao` dialects equal its eager `to_mx`, edges "
        "included.",
        "torchao",
        "compared by the tests of reference/",
    ),
    Statement(
        "certain",
        "The contest's published `reference.py` uses EVEN's scales but rounds element ties away from zero "
        "and makes -0 a "
        "+0. On normal bfloat16 data about one code in 150 is such a tie, and most outputs then differ "
        "from those of "
        "ties to even by more than 1e-2.",
        "contest",
        "reference.py, quantize_mxfp4; computed by the tests of docs/",
    ),
    Statement(
        "certain",
        "Under EVEN, RCEIL and CEIL a finite x / scale stays below 7, so a missing saturation does not show in "
        "a product: "
        "it must be tested with forced scales.",
        "reference",
        "dialects.py",
    ),
    Statement(
        "unknown",
        "What EVEN does with a NaN: the submission it is taken from leaves that to its maximum instruction. Ours: the "
        "byte of infinity.",
        "reference",
        "dialects.py",
    ),
    Statement(
        "certain",
        "Adding EVEN's carry to a NaN whose bits are 0x7FE00000 or more runs into the sign bit; implementations that "
        "do so without a check give byte 0 there. Our dialects take the NaN column for every NaN.",
        "reference",
        "dialects.py",
    ),
)


_MISTAKES = (
    Statement(
        "certain",
        "Comparing a kernel with the reference of another dialect. On normal random data RCEIL changes about one of "
        "EVEN's scales in eight and FLOOR one in six.",
        "reference",
        "computed by the tests of docs/",
    ),
    Statement(
        "certain",
        "Computing the exponent with `log2`: rounding near powers of two moves it by one. Read the bits.",
        "reference",
        "computed by the tests of docs/",
    ),
    Statement(
        "certain", "Taking amax over the rounded or the scaled values, or over a block that crosses a row's end.", "ocp"
    ),
    Statement(
        "certain",
        "Flushing subnormals first: a tiny block then has zeros where byte 0 still gives codes.",
        "ocp",
        "5.4.1",
    ),
)

_CODE = [
    "```python",
    "import struct",
    "",
    "from mxassay.reference import DIALECTS",
    "",
    "",
    "def scale_byte(amax, dialect):",
    '    bits = struct.unpack("<I", struct.pack("<f", amax))[0]  # sign bit clear',
    "    if bits > 0x7F800000:",
    "        return dialect.nan",
    "    if bits == 0x7F800000:",
    "        return dialect.infinity",
    "    field = (bits + dialect.carry) >> 23",
    "    byte = dialect.overflow if field == 255 else max(field - 2, 0)",
    "    return max(byte, dialect.least) if bits > dialect.zero_up_to else byte",
    "",
    "",
    'assert scale_byte(7.0, DIALECTS["even"]) == 128 and scale_byte(6.9, DIALECTS["even"]) == 127',
    "```",
    "",
]


def _byte(dialect: Dialect, bits: int) -> int:
    return int(dialect.scale_bytes(torch.tensor([bits], dtype=torch.int32))[0])


def page() -> str:
    """spec/dialects.md."""
    lines = [
        "# Dialects",
        "",
        (
            "A dialect is a named set of choices: how a block's largest magnitude, amax, becomes a scale "
            "byte, where ties "
            "go, and what happens at the edges. A kernel under test names the one it implements (`--dialect`)."
        ),
        "",
        *statements(_STATEMENTS),
        "",
        "## The rule",
        "",
        "All of them read the byte off the exponent of amax, as float32 bits, after adding a carry:",
        "",
        "```text",
        "byte = max(((amax_bits + carry) >> 23) - 2, 0)",
        "```",
        "",
        *table(
            ("rule", "carry", "amax counts as the next power of two", "in words"),
            (
                (f"**{rule}**", f"`0x{DIALECTS[name].carry:06X}`", when, words)
                for rule, (name, when, words) in _RULES.items()
            ),
        ),
        "",
        *tag(
            "certain",
            "reference",
            "dialects.py; held against each rule's definition in exact arithmetic, and against torchao on every "
            "bfloat16 amax",
        ),
        "In code, with one dialect's own edges:",
        "",
        *_CODE,
        "## Edges",
        "",
        "Scale byte by amax of the block:",
        "",
        *tag(
            "certain",
            "reference",
            "computed from the dialects themselves; where a dialect's rule for NaN is a "
            "policy, its source below says so",
        ),
    ]
    for rule, (name, _, _) in _RULES.items():
        family = [d for d in DIALECTS.values() if d.name == name or d.name.startswith(f"{name}-")]
        lines += [f"### {rule}", ""]
        lines += table(
            ("amax", *(f"`{dialect.name}`" for dialect in family)),
            ((words, *(_byte(dialect, bits) for dialect in family)) for words, bits in _EDGES),
        )
        lines += [""]
    lines += ["## Elements", "", *tag("certain", "reference", "dialects.py; each row names what it follows")]
    lines += table(
        ("dialect", "ties", "elements under byte 0 are divided by", "source"),
        ((f"`{d.name}`", d.ties, f"2^{d.byte0_exponent}", d.source) for d in DIALECTS.values()),
    )
    seven = EVEN.scale_bytes(torch.tensor([7.0, 6.9]).view(torch.int32)).tolist()
    lines += [
        "",
        "## Worked example",
        "",
        (
            f"amax = 7.0 is 1.75 · 2²: EVEN takes it for 8, and the byte is {seven[0]}, scale 2. amax = 6.9 "
            f"stays 4: byte "
            f"{seven[1]}, scale 1, and 6.9 saturates to 6."
        ),
        "",
        "```python",
        "import torch",
        "from mxassay.reference import DIALECTS",
        "",
        "amax = torch.tensor([7.0, 6.9]).view(torch.int32)",
        f'assert DIALECTS["even"].scale_bytes(amax).tolist() == {seven}',
        (
            f'assert DIALECTS["rceil"].scale_bytes(amax).tolist() == '
            f"{DIALECTS['rceil'].scale_bytes(torch.tensor([7.0, 6.9]).view(torch.int32)).tolist()}"
        ),
        "```",
        "",
        *tag("certain", "reference", "run by the tests of docs/"),
        "## Usual mistakes",
        "",
        *mistake_table(_MISTAKES),
    ]
    return "\n".join(lines) + "\n"
