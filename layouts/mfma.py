"""Which lane, VGPR and nibble hold each element of the two scaled MFMA shapes with FP4 operands (cbsz = blgp = 4).

FP8 operands lie in another, interleaved order; these maps are for FP4 alone.
"""

from mxassay.layouts.declaration import Axis, Factor, Layout, Place

_ISA = "AMD CDNA4 ISA reference guide, V_MFMA_SCALE_F32_{}_F8F6F4 (matrix operand layout, 4-bit formats)"
_OPSEL = (
    "Each lane's VGPR holds four scale bytes; the instruction picks one: {OP_SEL_HI[0], OP_SEL[0]} for A, "
    "{OP_SEL_HI[1], OP_SEL[1]} for B. The byte is not part of this map."
)


def _operand(shape: str, letter: str, rows: int, blocks: int) -> Layout:
    row = {"A": "m", "B": "n"}[letter]
    return Layout(
        name=f"MFMA_{shape}_{letter}",
        axes=(
            Axis(row, (Factor(row, rows, f"row of {letter}"),), meaning=f"row of {letter}"),
            Axis(
                "k",
                (
                    Factor("k2", blocks, "MX block"),
                    Factor("k1", 4, "VGPR in block"),
                    Factor("k0", 8, "nibble in VGPR"),
                ),
                meaning="element along K",
                codes=1,
            ),
        ),
        places=(Place("lane", ("k2", row)), Place("vgpr", ("k1",)), Place("nibble", ("k0",))),
        element_bits=4,
        space="registers",
        element="4-bit code (E2M1)",
        purpose=f"Operand {letter} of the scaled MFMA {shape.lower()}: one lane holds exactly one MX block of one row.",
        source=_ISA.format(shape),
    )


def _scale(shape: str, rows: int, blocks: int) -> Layout:
    return Layout(
        name=f"MFMA_{shape}_SCALE",
        axes=(
            Axis("row", (Factor("row", rows, "row of A or B"),), meaning="row of A (m) or of B (n)"),
            Axis("block", (Factor("block", blocks, "MX block"),), meaning="MX block along K, 32 codes", codes=32),
        ),
        places=(Place("lane", ("block", "row")),),
        element_bits=8,
        space="registers",
        element="E8M0 scale byte of 32 codes",
        purpose=f"Scales of operand A or B of the scaled MFMA {shape.lower()}: "
        "the lane that holds a block holds its scale.",
        source=_ISA.format(shape),
        notes=(_OPSEL,),
    )


def _result(shape: str, rows: tuple[Factor, ...], columns: int, vgpr: tuple[str, ...]) -> Layout:
    return Layout(
        name=f"MFMA_{shape}_D",
        axes=(
            Axis("i", rows, meaning="row of D (m)"),
            Axis("j", (Factor("j", columns, "column"),), meaning="column of D (n)"),
        ),
        places=(Place("lane", ("i1", "j")), Place("vgpr", vgpr)),
        element_bits=32,
        space="registers",
        element="float32 sum",
        purpose=f"Result D and addend C of the scaled MFMA {shape.lower()}: four consecutive rows lie in one lane.",
        source=_ISA.format(shape),
        aliases=("C, the addend, lies in the same order",),
    )


MFMA_16X16X128_A = _operand("16X16X128", "A", rows=16, blocks=4)
MFMA_16X16X128_B = _operand("16X16X128", "B", rows=16, blocks=4)
MFMA_16X16X128_SCALE = _scale("16X16X128", rows=16, blocks=4)
MFMA_16X16X128_D = _result(
    "16X16X128",
    rows=(Factor("i1", 4, "group of 4 rows"), Factor("i0", 4, "row in group")),
    columns=16,
    vgpr=("i0",),
)

MFMA_32X32X64_A = _operand("32X32X64", "A", rows=32, blocks=2)
MFMA_32X32X64_B = _operand("32X32X64", "B", rows=32, blocks=2)
MFMA_32X32X64_SCALE = _scale("32X32X64", rows=32, blocks=2)
MFMA_32X32X64_D = _result(
    "32X32X64",
    rows=(
        Factor("i2", 4, "group of 8 rows"),
        Factor("i1", 2, "half of the group"),
        Factor("i0", 4, "row in half"),
    ),
    columns=32,
    vgpr=("i2", "i0"),
)
