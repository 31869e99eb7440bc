"""How packed codes and scale bytes lie in memory."""

from mxassay.layouts.declaration import Axis, Factor, Layout, Place

PACKING = Layout(
    name="PACKING",
    axes=(
        Axis(
            "k",
            (Factor("k1", None, "packed byte"), Factor("k0", 2, "nibble in byte")),
            meaning="element along K",
            codes=1,
        ),
    ),
    places=(Place("byte", ("k1",)), Place("nibble", ("k0",))),
    element_bits=4,
    space="memory",
    element="4-bit code (E2M1)",
    purpose="Two 4-bit codes share a byte; the code with the even k lies in the low nibble.",
    source="PyTorch float4_e2m1fn_x2 and AMD v_cvt_scalef32_pk_fp4_*: element 0 in bits 3:0",
    aliases=("torch.float4_e2m1fn_x2", "aiter fp4x2, fp4_utils.pack_uint4", "Triton e2m1, packed along K"),
    notes=("[0.5, 6.0] is the codes [1, 7] and packs to 0x71.",),
    leading=True,
)

WEIGHT_PRESHUFFLE = Layout(
    name="WEIGHT_PRESHUFFLE",
    axes=(
        Axis(
            "n", (Factor("n1", None, "tile of 16 rows"), Factor("n0", 16, "row in tile")), meaning="row (output column)"
        ),
        Axis(
            "kb",
            (
                Factor("k2", None, "tile of 32 bytes (64 codes)"),
                Factor("k1", 2, "half of the tile, 16 bytes (one MX block)"),
                Factor("k0", 16, "byte in half"),
            ),
            meaning="packed byte along K, K/2 of them",
            codes=2,
        ),
    ),
    places=(Place("offset", ("n1", "k2", "k1", "n0", "k0")),),
    element_bits=8,
    space="memory",
    element="packed byte (codes k = 2·kb in the low nibble, 2·kb + 1 in the high one)",
    purpose="The (16,16) preshuffle of packed FP4 weights: each run of 16 bytes is one MX block of one row, "
    "and the 16 rows of a tile follow each other.",
    source="aiter.ops.shuffle.shuffle_weight(w, layout=(16, 16)) on fp4x2 or uint8",
    aliases=("aiter shuffle_weight(layout=(16, 16))", "aiter bpreshuffle=True", "contest B_shuffle"),
    notes=("Not idempotent: applied twice it gives another order.",),
    leading=True,
)

SCALE_SHUFFLE = Layout(
    name="SCALE_SHUFFLE",
    axes=(
        Axis(
            "r",
            (
                Factor("r2", None, "tile of 32 rows"),
                Factor("r1", 2, "row group of 16 (one MFMA operand)"),
                Factor("r0", 16, "row in group"),
            ),
            pad_to=256,
            meaning="row of the matrix, m or n",
        ),
        Axis(
            "g",
            (
                Factor("g2", None, "tile of 8 blocks (256 codes)"),
                Factor("g1", 2, "half of the tile, 4 blocks (one MFMA along K)"),
                Factor("g0", 4, "block in half"),
            ),
            pad_to=8,
            meaning="MX block along K, K/32 of them",
            codes=32,
        ),
    ),
    places=(Place("offset", ("r2", "g2", "g0", "r0", "g1", "r1")),),
    element_bits=8,
    space="memory",
    element="E8M0 scale byte of 32 codes",
    purpose="The e8m0 shuffle of scale bytes, for activations and weights alike: four consecutive bytes are what one "
    "lane needs for a 32x256 tile, two row groups by two K halves.",
    source="aiter.utility.fp4_utils.e8m0_shuffle (aiter.ops.shuffle.shuffle_scale)",
    aliases=("aiter e8m0_shuffle, shuffle_scale", "contest B_scale_sh"),
    notes=("Projects disagree on what the padding holds (0, 127, leftovers): a right kernel does not depend on it.",),
)
