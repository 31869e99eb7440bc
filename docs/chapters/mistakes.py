"""Usual mistakes with each layout. Where a mistake has numbers, they are computed."""

from chapters.statement import Statement, table, tagged
from mxassay.layouts import PACKING, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE

_COMPUTED = "computed by the tests of docs/"


def mistakes(name: str) -> list[str]:
    """The table for the layout of that name."""
    return mistake_table(_LISTS[name]() if name in _LISTS else _REGISTERS[name.rsplit("_", 1)[1]])


def mistake_table(found: tuple[Statement, ...]) -> list[str]:
    """A table of mistakes: each says what is done wrong and what is true instead, tagged as statements are."""
    return table(("how sure", "mistake", "source"), map(tagged, found))


def _packing() -> tuple[Statement, ...]:
    codes = [1, 7]
    right = sum(code << 4 * PACKING.bind((2,)).place((k,))["nibble"] for k, code in enumerate(codes))
    wrong = codes[0] << 4 | codes[1]
    return (
        Statement(
            "certain",
            f"Even k in the high nibble: the codes [1, 7] become 0x{wrong:02X} instead of 0x{right:02X}. Both operands "
            "packed that way still give right products, until one of them comes from somewhere else.",
            "layouts",
            _COMPUTED,
        ),
        Statement("certain", "Packing two rows into a byte instead of two k.", "pytorch"),
        Statement("certain", "Counting K in bytes: strides and shapes of packed tensors have K/2.", "pytorch"),
    )


def _weights() -> tuple[Statement, ...]:
    bound = WEIGHT_PRESHUFFLE.bind((16, 64))
    once = bound.offset((1, 0))
    twice = bound.offset(divmod(once, 64))
    return (
        Statement(
            "certain",
            f"Applying it twice: byte (1, 0) of a 16 × 64 tensor goes to {once}, and from there to {twice}.",
            "layouts",
            "computed",
        ),
        Statement(
            "certain",
            "Applying it to scales, or to codes before they are packed: the factors count packed bytes.",
            "aiter-shuffle",
        ),
        Statement(
            "certain",
            "Feeding a kernel that expects row-major weights (aiter's `noBpreShuffle` code object, upstream Triton). "
            "Shapes and dtypes are the same, so nothing complains.",
            "aiter-f4gemm",
        ),
        Statement(
            "certain",
            "Taking K for KB: `n//16` is multiplied by 16·K/2 bytes, half of what 16·K gives.",
            "layouts",
            "the formula above",
        ),
        Statement(
            "certain",
            "Testing with equal rows or K = 64: a wrong order of rows or of k tiles is then invisible.",
            "layouts",
            "the formula above",
        ),
    )


def _scales() -> tuple[Statement, ...]:
    short, padded = SCALE_SHUFFLE.bind((256, 12)), 12
    right = short.offset((32, 0))
    return (
        Statement(
            "certain",
            f"Forgetting that columns are padded before they count: with 12 blocks, row 32 begins at {right}, "
            f"not at {32 * padded}.",
            "layouts",
            "computed",
        ),
        Statement(
            "certain",
            "Depending on the padding. aiter leaves whatever the allocator gave, others write 0 or 127, and 255 is "
            "NaN. A right kernel's result does not change when the padding does.",
            "aiter-shuffle",
        ),
        Statement(
            "certain",
            "Passing the padded scales with the unpadded count of blocks as stride.",
            "layouts",
            "the formula above has Gp",
        ),
        Statement(
            "certain",
            "Testing with normal random data: nine blocks in ten share one scale byte there, so most wrong orders "
            "give the right result. Give each block its own power of two.",
            "reference",
            _COMPUTED,
        ),
        Statement(
            "certain",
            "Using it with `v_mfma_scale_f32_32x32x64_f8f6f4` as if a lane's dword served that shape.",
            "layouts",
            "computed above",
        ),
    )


_LISTS = {"PACKING": _packing, "WEIGHT_PRESHUFFLE": _weights, "SCALE_SHUFFLE": _scales}
_REGISTERS = {
    "A": (
        Statement("certain", "Using the interleaved FP8 map for FP4 operands.", "isa"),
        Statement(
            "certain",
            "Giving a lane 32 elements of two blocks: its one scale byte is then wrong for half of them.",
            "layouts",
            "the formula above",
        ),
    ),
    "B": (
        Statement(
            "certain",
            "Storing B as K × N and reading columns: a lane needs 32 consecutive k of one n.",
            "layouts",
            "the formula above",
        ),
        Statement("certain", "Exchanging A and B without exchanging their scales and the byte selects.", "isa"),
    ),
    "SCALE": (
        Statement(
            "inferred",
            "Passing literal zeros for both scales: that assembles to the instruction without scales (scale 1), while "
            "a byte 0 in a VGPR means 2^-127.",
            "isa",
        ),
        Statement(
            "certain",
            "Selecting the byte by the row group of A for B too: each operand has its own two select bits.",
            "isa",
        ),
    ),
    "D": (
        Statement(
            "certain",
            "Reading VGPRs as columns: four consecutive VGPRs are four consecutive rows.",
            "layouts",
            "the formula above",
        ),
        Statement(
            "certain",
            "In the 32×32 shape, taking VGPR 4 for row 4: rows 4 to 7 lie in lanes 32 to 63, and VGPR 4 is row 8.",
            "layouts",
            "the map of 32×32×64",
        ),
    ),
}
