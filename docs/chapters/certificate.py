"""The chapter of the exactness certificate."""

import math

import torch

from chapters.mistakes import mistake_table
from chapters.statement import Statement, statements, table, tag
from mxassay.reference import certificate, error_bound

_STATEMENTS = (
    Statement("certain", "Products of two E2M1 values are multiples of 1/4, at most 36.", "ocp", "5.3.3"),
    Statement(
        "certain",
        "Where T ≤ 2^24 · U, U ≥ 2^-149 and T ≤ 2^128 - 2^104, every float32 partial sum is exact, in any order, "
        "with any "
        "number of splits, fused or not. One bfloat16 pattern is right.",
        "certificate",
        "the proof of `certificate`",
    ),
    Statement(
        "certain",
        "Adders that align to the largest input and keep 24 bits or more lose nothing there either.",
        "certificate",
        "the proof of `certificate`",
    ),
    Statement(
        "inferred",
        "The card's matrix unit keeps 24 bits or more of its products' sum and does not flush subnormals. MI300X was "
        "measured to keep 24.",
        "mma-sim",
    ),
    Statement(
        "certain",
        "Elsewhere the output of a float32 summation lies between S - E and S + E, rounded to bfloat16.",
        "certificate",
        "the derivation of `error_bound`",
    ),
    Statement(
        "certain",
        "-0 passes for +0: a sum of zeros has the sign that its start gives it.",
        "ieee",
        "6.3",
    ),
    Statement("certain", "An output touched by scale byte 255 is NaN, and certified as that.", "ocp", "6.1"),
)

_MISTAKES = (
    Statement(
        "certain",
        "Choosing a tolerance until the test passes. `allclose` with 1e-2 accepts a store that truncates instead of "
        "rounding.",
        "reference",
        "computed by the tests of docs/",
    ),
    Statement(
        "certain",
        "Comparing with a float32 or bfloat16 product on another device: that rounds in its own order.",
        "ieee",
    ),
    Statement(
        "certain",
        "Storing partial sums of a split K as bfloat16: the certificate assumes 24 bits.",
        "certificate",
        "the proof of `certificate`",
    ),
    Statement(
        "certain",
        "Rounding twice, to float32 in the reduction and then to bfloat16, is right only inside the certified region.",
        "ieee",
    ),
)

_DEPTHS = (128, 512, 1536, 2048, 7168, 16384)


def safe_spread(k: int) -> int:
    """The largest s such that scales sa + sb that differ by at most s bits are certified for every K = k codes."""
    # Each product is at most 36 times its scale, and a multiple of a quarter of the least scale.
    return math.floor(math.log2(2**24 / (4 * 36 * k)))


def page() -> str:
    """spec/certificate.md."""
    codes = torch.full((1, 32), 0x22, dtype=torch.uint8)
    near, far = (torch.tensor([[127, byte]], dtype=torch.uint8) for byte in (130, 160))
    found = certificate(codes, near, codes, near).item(), certificate(codes, far, codes, far).item()
    bound = error_bound(codes, near, codes, near)
    lines = [
        "# The exactness certificate",
        "",
        (
            "Floating-point sums depend on the order of adding, and so tests of kernels use tolerances. For MXFP4 "
            "there is "
            "mostly no need to: the terms are so coarse that no addition rounds. The certificate says where."
        ),
        "",
        (
            "Let the terms of one output be its products, code times code times both scales; T the sum of their "
            "magnitudes; U "
            "a power of two of which every term is a multiple."
        ),
        "",
        *statements(_STATEMENTS),
        "",
        "## Why",
        "",
        (
            "Every sum of any of the terms is a multiple of U of magnitude at most T: an integer of at most 24 bits, "
            "or 2^24 "
            "itself, times U. That is a float32 number. So no float32 addition rounds, and what remains is the one "
            "rounding to "
            "bfloat16."
        ),
        "",
        (
            "U is taken block by block. A code other than zero is an odd integer times 2^-1, 2^0, 2^1 or 2^2, so a "
            "block's "
            "elements share the least of these times the scale, and their products share the product of the two. A "
            "block in "
            "which one side is all zeros sets no U."
        ),
        "",
        *tag("certain", "certificate", "the proof of `certificate`"),
        "## How far scales may spread",
        "",
        (
            "Where the sums of scale bytes sa + sb of one output differ by at most this many bits, it is certified "
            "whatever "
            "the codes: 36 · 2^spread · K ≤ 2^24 / 4."
        ),
        "",
        *table(("K", *_DEPTHS), [("spread in bits", *(safe_spread(k) for k in _DEPTHS))]),
        "",
        *tag("certain", "certificate", "computed; the tests of docs/ try each entry and the next one"),
        "## The bound elsewhere",
        "",
        (
            "E = ((1 + 2^-23)^(2(n - 1)) - 1) · T + 6n · 2^-149, with n the count of nonzero products, at "
            "most. It covers "
            "trees of float32 adders of any shape, rounding to nearest or toward zero, and adders of many "
            "inputs that cut "
            "them to 24 bits of the largest. Nothing in it is tuned."
        ),
        "",
        *tag("certain", "certificate", "the derivation of `error_bound`"),
        "## Worked example",
        "",
        (
            f"64 ones times 64 ones, scale bytes [127, 130] on both sides: certified is {found[0]}. With [127, 160] "
            f"the two "
            f"blocks lie 66 bits apart: certified is {found[1]}, and the bound decides. The first one's only right "
            f"output is "
            f"{bound.lower.item():g}."
        ),
        "",
        "```python",
        "import torch",
        "from mxassay.reference import certificate",
        "",
        "ones = torch.full((1, 32), 0x22, dtype=torch.uint8)  # 64 codes of 1.0",
        "near = torch.tensor([[127, 130]], dtype=torch.uint8)",
        "far = torch.tensor([[127, 160]], dtype=torch.uint8)",
        f"assert certificate(ones, near, ones, near).item() is {found[0]}",
        f"assert certificate(ones, far, ones, far).item() is {found[1]}",
        "```",
        "",
        *tag("certain", "certificate", "run by the tests of docs/"),
        "## Usual mistakes",
        "",
        *mistake_table(_MISTAKES),
    ]
    return "\n".join(lines) + "\n"
