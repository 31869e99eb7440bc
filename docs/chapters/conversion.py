"""The chapter of v_cvt_scalef32_pk_fp4_bf16."""

from dataclasses import fields

import torch

from chapters.mistakes import mistake_table
from chapters.statement import TAGS, Statement, statements, table, tag
from mxassay.gfx950.hazardrules import RULES
from mxassay.reference import E2M1, CvtPolicy, cvt_scalef32_pk_fp4_bf16

_ONE = 127 << 23

_STATEMENTS = (
    Statement(
        "certain",
        "Of the scale only bits 30:23 count, e. Sign and mantissa are ignored. Elements are divided by 2^(e - 127).",
        "isa",
        probe=("cvt.fp4.scale_bits",),
    ),
    Statement("certain", "Bits 15:0 of the source become the low nibble, bits 31:16 the high one.", "isa"),
    Statement(
        "certain",
        "OPSEL[3:2] chooses the byte of VDST; the other 24 bits stay, so VDST is an input too.",
        "isa",
        probe=("cvt.fp4.byte_0", "cvt.fp4.byte_1", "cvt.fp4.byte_2", "cvt.fp4.byte_3"),
    ),
    Statement("certain", "Lanes that EXEC has off are not written.", "isa", probe=("cvt.fp4.exec",)),
    Statement(
        "certain",
        "Finite x, e from 1 to 254: nearest, ties to the even code, saturation at ±6, sign kept. AMD's HIP header, "
        "Composable Kernel, aiter and ml_dtypes agree.",
        "hip",
        probe=("cvt.fp4.finite",),
    ),
    Statement(
        "inferred",
        "±Inf becomes ±6: it saturates as every large value does.",
        "reference",
        "instruction.py",
        probe=("cvt.fp4.inf",),
    ),
    Statement(
        "unknown",
        "NaN becomes ±6 by its sign bit. rocjitsu gives +0 instead.",
        "reference",
        "instruction.py",
        probe=("cvt.fp4.nan",),
    ),
    Statement(
        "unknown",
        "-0 and negative values that round to zero keep their sign: code 8.",
        "reference",
        "instruction.py",
        probe=("cvt.fp4.negative_zero",),
    ),
    Statement(
        "unknown",
        "bfloat16 subnormals are converted by value, not flushed.",
        "reference",
        "instruction.py",
        probe=("cvt.fp4.denormal",),
    ),
    Statement(
        "unknown",
        "e = 0 stands for 2^-127, as E8M0 reads it.",
        "reference",
        "instruction.py",
        probe=("cvt.fp4.scale_0",),
    ),
    Statement(
        "unknown",
        "e = 255 writes the largest magnitude with the element's sign, as HIP's header does. rocjitsu leaves the byte "
        "alone.",
        "hip",
        probe=("cvt.fp4.scale_255",),
    ),
    Statement(
        "unknown",
        "What is read when the scale is an SGPR or an inline constant. The emulated card refuses that form: keep the "
        "scale in a VGPR.",
        "gfx950",
        "ops/conversion_fp4.py",
        probe=("cvt.fp4.scale_sgpr", "cvt.fp4.scale_inline_1_0"),
    ),
    Statement(
        "certain",
        "AMD's pseudocode calls `bf16_to_fp4_scale` and does not define it, so the manual says nothing on rounding.",
        "isa",
    ),
)


_USERS = (
    Statement("certain", "LLVM: `llvm.amdgcn.cvt.scalef32.pk.fp4.bf16`.", "llvm-intrinsics"),
    Statement(
        "certain",
        "HIP: `__hip_cvt_bfloat16raw2_to_fp4x2` and its siblings in `amd_hip_fp4.h`, where the target is gfx950.",
        "hip",
    ),
    Statement(
        "certain",
        "aiter: its HIP quantizer `quant_mxfp4.cu`. Its Triton quantizer `_mxfp4_quant_op` converts in software.",
        "aiter-quant-hip",
    ),
)

_MISTAKES = (
    Statement("certain", "Reading the result with the next instruction.", "hazards"),
    Statement(
        "certain",
        "Declaring VDST as a pure output of inline assembly: the other bytes are then undefined.",
        "isa",
        "VDST is an input too",
    ),
    Statement(
        "certain",
        "Passing the scale byte itself instead of a float32 whose exponent it is (`byte << 23`).",
        "isa",
        "bits 30:23 count",
    ),
    Statement("certain", "Passing the reciprocal: the instruction divides.", "hip"),
    Statement(
        "unknown",
        "Letting the compiler put the scale into an SGPR (constraint `s` or a literal): nobody says what is read.",
        "gfx950",
        "ops/conversion_fp4.py",
    ),
)


def _low_codes(bits: list[int], exponent: int) -> list[int]:
    found = cvt_scalef32_pk_fp4_bf16(torch.tensor(bits), exponent << 23, 0)
    return [int(code) & 15 for code in found]


def page() -> str:
    """spec/conversion.md."""
    rule = next(rule for rule in RULES if "conversion to F4" in rule.producer)
    example = int(cvt_scalef32_pk_fp4_bf16(0x40C0_3F00, _ONE, 0xAABBCCDD, byte=1))
    midpoints = [_bf16(point) for point in E2M1.midpoints]
    lines = [
        "# The conversion instruction",
        "",
        "`v_cvt_scalef32_pk_fp4_bf16 vdst, vsrc, vscale` turns two bfloat16 numbers into one byte of two E2M1 codes.",
        "",
        *TAGS,
        "",
        *statements(_STATEMENTS),
        "",
        "## Worked example",
        "",
        (
            "0.5 (0x3F00) in the low half, 6.0 (0x40C0) in the high half, scale 1.0, byte 1 of a register that holds "
            f"0xAABBCCDD: the result is 0x{example:08X}. In Python:"
        ),
        "",
        "```python",
        "from mxassay.reference import cvt_scalef32_pk_fp4_bf16",
        "",
        "found = cvt_scalef32_pk_fp4_bf16(0x40C03F00, 127 << 23, 0xAABBCCDD, byte=1)",
        f"assert int(found) == 0x{example:08X}",
        "```",
        "",
        *tag("certain", "reference", "instruction.py, run by the tests of docs/"),
        "## Ties",
        "",
        "bfloat16 inputs at the midpoints under scale byte 127, and their neighbours:",
        "",
        *table(
            ("x", *(f"{point:g}" for point in E2M1.midpoints)),
            (
                ("code of the bfloat16 below x", *_low_codes([b - 1 for b in midpoints], 127)),
                ("code of x", *_low_codes(midpoints, 127)),
                ("code of the bfloat16 above x", *_low_codes([b + 1 for b in midpoints], 127)),
            ),
        ),
        "",
        *tag("certain", "reference", "computed; ml_dtypes gives the same codes"),
        "## What stays open, and what we do",
        "",
        *tag("unknown", "reference", "instruction.py"),
        "The model takes these answers as a policy (`CvtPolicy`); the defaults:",
        "",
        *table(
            ("question", "our default"),
            ((f"`{field.name}`", f"`{field.default!r}`") for field in fields(CvtPolicy)),
        ),
        "",
        "## Wait states",
        "",
        *statements(
            [
                Statement(
                    "certain",
                    "After a conversion to F4 or F8 a NOP, or an instruction that writes another VGPR, must "
                    "come before "
                    "the result is read.",
                    "hazards",
                    "AMD's notes on gfx950, quoted there",
                ),
                Statement(
                    "inferred",
                    f"That is {rule.wait_states} wait state, whatever the OPSEL: AMD's experiments found so "
                    f"for the FP8 "
                    "forms and the stochastic FP4 forms (LLVM pull requests 140218 and 118589).",
                    "hazards",
                ),
                Statement(
                    "inferred",
                    "One wait state is enough, two change nothing.",
                    "hazards",
                    probe=("cvt.fp4.hazard_1", "cvt.fp4.hazard_2"),
                ),
                Statement(
                    "unknown",
                    "What a reader sees with none. The emulated card gives the new value; `mxassay isa --hazards` "
                    "reports "
                    "the missing wait state.",
                    "gfx950",
                    "hazardrules.py",
                    probe=("cvt.fp4.hazard_0",),
                ),
                Statement(
                    "inferred",
                    "LLVM's hazard recognizer works on machine instructions and does not look inside inline "
                    "assembly, so a "
                    "kernel that converts there must wait by itself.",
                    "llvm",
                ),
            ]
        ),
        "",
        "## Who uses it",
        "",
        *statements(_USERS),
        "",
        "## Usual mistakes",
        "",
        *mistake_table(_MISTAKES),
    ]
    return "\n".join(lines) + "\n"


def _bf16(value: float) -> int:
    return int(torch.tensor([value], dtype=torch.bfloat16).view(torch.int16)[0]) & 0xFFFF
