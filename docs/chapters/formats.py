"""The chapter of the two number formats."""

import torch

from chapters.mistakes import mistake_table
from chapters.statement import Statement, statements, table, tag
from mxassay.reference import E2M1, E8M0, decode_scales, encode, pack

_STATEMENTS = (
    Statement("certain", "A code is 4 bits: the sign in bit 3, the magnitude in bits 2:0.", "ocp", "5.3.3"),
    Statement("certain", "There is no infinity and no NaN among the codes. Code 8 is -0.", "ocp", "5.3.3"),
    Statement("certain", "Scale byte e means 2^(e - 127). e = 0 is 2^-127, not zero; e = 255 is NaN.", "ocp", "5.4.1"),
    Statement("certain", "One scale serves 32 consecutive elements along K: a block.", "ocp", "5.2"),
    Statement("certain", "An element's value is its code's value times its block's scale.", "ocp", "6.1"),
    Statement("certain", "Under scale byte 255 the whole block is NaN, elements of code 0 included.", "ocp", "6.1"),
    Statement(
        "certain",
        "Two codes share a byte, the even k in the low nibble: [packing](packing.md).",
        "pytorch",
    ),
    Statement("certain", "Conversion saturates: what rounds beyond 6 becomes 6.", "ocp", "5.3.3 and 6.3"),
    Statement(
        "certain",
        "Conversion rounds to the nearest code; where a tie goes is part of the dialect. All dialects here "
        "send it to the "
        "even code.",
        "reference",
        "dialects.py",
    ),
    Statement("inferred", "The sign of what rounds to zero is kept: code 8.", "reference", "formats.py"),
    Statement(
        "certain",
        "A value that was quantized and dequantized is an exact bfloat16 number for scale bytes 0 to 252.",
        "reference",
        "computed for all 16 × 253 pairs",
    ),
)


_USERS = (
    Statement("certain", "PyTorch: `float4_e2m1fn_x2` for two codes, `float8_e8m0fnu` for a scale.", "pytorch"),
    Statement("certain", "ml_dtypes: `float4_e2m1fn`, `float8_e8m0fnu`.", "ml-dtypes"),
    Statement("certain", 'Triton: `"e2m1"` with scales of `tl.uint8` in `tl.dot_scaled`.', "triton-tutorial"),
    Statement("certain", "aiter: `dtypes.fp4x2` and `dtypes.fp8_e8m0`.", "aiter-fp4"),
    Statement("certain", "HIP: `__hip_fp4_e2m1`.", "hip"),
)

_MISTAKES = (
    Statement(
        "certain",
        "Reading scale byte 0 as zero. A block of zeros has scale byte 0 in every dialect here, and its codes are what "
        "makes it zero.",
        "ocp",
        "5.4.1",
    ),
    Statement(
        "certain",
        "Reading scale byte 0 as 2^-126, the least normal float32: see the [dialects](dialects.md) that do.",
        "torchao",
    ),
    Statement(
        "certain",
        "Looking for a NaN code: a NaN survives quantization only as scale byte 255, and not every dialect writes it.",
        "ocp",
        "5.3.3",
    ),
    Statement(
        "certain",
        "Comparing codes 0 and 8 as different values; comparing packed bytes does just that.",
        "ocp",
        "5.3.3",
    ),
)

_CODE = [
    "```python",
    "import math",
    "",
    "MAGNITUDES = (0, 0.5, 1, 1.5, 2, 3, 4, 6)",
    "",
    "",
    "def value(code, scale_byte=127):",
    "    magnitude = MAGNITUDES[code & 7] * 2.0 ** (scale_byte - 127)  # byte 255 is NaN instead",
    "    return -magnitude if code & 8 else magnitude",
    "",
    "",
    "def code(x, scale_byte=127):",
    "    scaled = min(abs(x) / 2.0 ** (scale_byte - 127), 6)  # saturates",
    "    # The nearest; of two that are equally near, the even one.",
    "    nearest = min(range(8), key=lambda c: (abs(MAGNITUDES[c] - scaled), c % 2))",
    "    return nearest + 8 * (math.copysign(1, x) < 0)",
    "",
    "",
    "assert [code(value(c, 130), 130) for c in range(16)] == list(range(16))",
    "```",
    "",
]


def page() -> str:
    """spec/formats.md."""
    lines = ["# Formats", "", "MXFP4 is E2M1 codes of four bits in blocks of 32 that share one E8M0 scale byte.", ""]
    lines += [*statements(_STATEMENTS), "", "## E2M1", ""]
    lines += table(
        ("code", "bits", "value"), ((code, f"`{code:04b}`", f"{value:g}") for code, value in enumerate(E2M1.values))
    )
    lines += ["", *tag("certain", "ocp", "5.3.3"), "In code:", "", *_CODE]
    lines += ["Midpoints between magnitudes, and the code that each becomes:", ""]
    points = torch.tensor(E2M1.midpoints)
    lines += table(
        ("midpoint", *(f"{point:g}" for point in E2M1.midpoints)),
        (
            ("ties to even", *encode(points).tolist()),
            ("ties away from zero", *encode(points, ties="away").tolist()),
        ),
    )
    lines += ["", *tag("certain", "reference", "computed; ml_dtypes agrees with the first row"), "## E8M0", ""]
    picked = torch.tensor([0, 1, 126, 127, 128, 254, 255], dtype=torch.uint8)
    values = decode_scales(picked).tolist()
    meaning = ["NaN" if byte == E8M0.nan else f"2^{byte - E8M0.bias}" for byte in picked.tolist()]
    lines += table(
        ("byte", "meaning", "value"),
        ((byte, words, f"{value:.6g}") for byte, words, value in zip(picked.tolist(), meaning, values, strict=True)),
    )
    codes = torch.tensor([1, 7], dtype=torch.uint8)
    lines += [
        "",
        *tag("certain", "ocp", "5.4.1"),
        "## Worked example",
        "",
        (
            f"The values [0.5, 6.0] are the codes {encode(torch.tensor([0.5, 6.0])).tolist()} and pack to "
            f"0x{int(pack(codes)[0]):02X}. Under scale byte 128 they mean 1.0 and 12.0. In Python:"
        ),
        "",
        "```python",
        "import torch",
        "from mxassay.reference import dequantize, quantize",
        "",
        "block = torch.tensor([0.5, 6.0] + [0.0] * 30)",
        "packed, scales = quantize(block)",
        "assert packed[0] == 0x71 and scales.tolist() == [127]",
        "assert torch.equal(dequantize(packed, scales), block)",
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
