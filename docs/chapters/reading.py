"""Which lane and register of which MFMA reads each stored byte, computed from the register maps, and why."""

from chapters.statement import Statement, statements, table
from mxassay.layouts import (
    LAYOUTS,
    MFMA_16X16X128_A,
    MFMA_16X16X128_B,
    MFMA_16X16X128_SCALE,
    MFMA_32X32X64_B,
    MFMA_32X32X64_SCALE,
    PACKING,
    SCALE_SHUFFLE,
    WEIGHT_PRESHUFFLE,
    Layout,
)

_LANES = (0, 1, 15, 16, 17, 32, 48, 63)


def reading(name: str) -> list[str]:
    """The section for the layout of that name."""
    if name in _SECTIONS:
        return _SECTIONS[name]()
    return _register_map(LAYOUTS[name])


def weight_runs(mfma: Layout) -> dict[int, tuple[int, int]]:
    """The (first byte, byte after the last) that each lane of `mfma` needs of the weights at rows 0.. and k 0..

    Raises AssertionError where a lane's bytes are not one run in the register's order.
    """
    rows, k = mfma.fixed_shape or (0, 0)
    weights, registers = WEIGHT_PRESHUFFLE.bind((max(rows, 16), k // 2)), mfma.bind((rows, k))
    found: dict[int, dict[int, int]] = {}
    for row in range(rows):
        for element in range(k):
            place = registers.place((row, element))
            position = 8 * place["vgpr"] + place["nibble"]
            found.setdefault(place["lane"], {})[position] = 2 * weights.offset((row, element // 2)) + element % 2
    runs = {}
    for lane, nibbles in found.items():
        first = nibbles[0]
        assert all(nibbles[position] == first + position for position in range(32))
        runs[lane] = first // 2, first // 2 + 16
    return runs


def scale_words(mfma: Layout) -> dict[int, set[tuple[int, int]]]:
    """(dword, byte) of the 256-byte scale tile that each lane of `mfma` needs for the tile's 32 rows and 8 blocks."""
    rows, blocks = mfma.fixed_shape or (0, 0)
    scales, registers = SCALE_SHUFFLE.bind((32, 8)), mfma.bind((rows, blocks))
    found: dict[int, set[tuple[int, int]]] = {}
    for row in range(32):
        for block in range(8):
            lane = registers.place((row % rows, block % blocks))["lane"]
            found.setdefault(lane, set()).add(divmod(scales.offset((row, block)), 4))
    return found


def _packing() -> list[str]:
    rows = []
    maps = MFMA_16X16X128_A.bind((16, 128))
    for k in (0, 1, 7, 8, 31, 32, 127):
        place, byte = maps.place((0, k)), PACKING.bind((128,)).place((k,))
        rows.append((k, byte["byte"], byte["nibble"], place["lane"], place["vgpr"], place["nibble"]))
    assert all(PACKING.bind((128,)).place((k,))["nibble"] == maps.place((0, k))["nibble"] % 2 for k in range(128))
    return [
        "Row 0 of operand A of `v_mfma_scale_f32_16x16x128_f8f6f4`:",
        "",
        *table(("k", "byte", "nibble in byte", "lane", "VGPR", "nibble in VGPR"), rows),
        "",
        *statements(
            [
                Statement(
                    "certain",
                    "A register's nibbles run in the order of k, so four packed bytes, loaded as one little-endian "
                    "dword, are one VGPR of the operand without any shift.",
                    "layouts",
                    "computed for all 128 k",
                )
            ]
        ),
    ]


def _weights() -> list[str]:
    runs = weight_runs(MFMA_16X16X128_B)
    assert all(run == (16 * lane, 16 * lane + 16) for lane, run in runs.items())
    wide = weight_runs(MFMA_32X32X64_B)
    rows = [(lane, lane % 16, lane // 16, f"{runs[lane][0]}–{runs[lane][1] - 1}") for lane in _LANES]
    wide_rows = [(lane, lane % 32, lane // 32, f"{wide[lane][0]}–{wide[lane][1] - 1}") for lane in _LANES]
    return [
        (
            "Bytes that each lane of `v_mfma_scale_f32_16x16x128_f8f6f4` needs for operand B, rows n = 0..15 and k = "
            "0..127, "
            "counted from the start of that tile:"
        ),
        "",
        *table(("lane", "row n", "block k/32", "bytes, into VGPR 0–3"), rows),
        "",
        (
            "The same for `v_mfma_scale_f32_32x32x64_f8f6f4`, rows 0..31 and k = 0..63 of a matrix with K = 64 (in a "
            "longer "
            "one, rows 16..31 begin 16·KB bytes after row 0):"
        ),
        "",
        *table(("lane", "row n", "block k/32", "bytes, into VGPR 0–3"), wide_rows),
        "",
        *statements(
            [
                Statement(
                    "certain",
                    "Lane l of the 16×16×128 instruction needs bytes 16·l to 16·l + 15 of each 1,024-byte span of "
                    "a tile "
                    "row, in the order of its registers: one 16-byte load per lane, 64 lanes side by side.",
                    "layouts",
                    "computed for all 2,048 elements",
                ),
                Statement(
                    "inferred",
                    "That is why the order is what it is: the load is coalesced and goes straight to registers, "
                    "with no "
                    "detour through LDS. Modular's documentation gives this reason for the same order.",
                    "modular",
                ),
            ]
        ),
    ]


def _scales() -> list[str]:
    words = scale_words(MFMA_16X16X128_SCALE)
    assert all(found == {(lane, byte) for byte in range(4)} for lane, found in words.items())
    scales = SCALE_SHUFFLE.bind((32, 8))
    rows = []
    for lane in (0, 1, 15, 16, 17, 63):
        at = [scales.coords(4 * lane + byte) for byte in range(4)]
        rows.append((lane, *(f"({r}, {g})" for r, g in at)))
    wide = scale_words(MFMA_32X32X64_SCALE)
    most = max(len({word for word, _ in found}) for found in wide.values())
    return [
        (
            "A tile of 32 rows and 8 blocks (256 codes) is 256 bytes, one dword for each lane. Its four bytes, as "
            "(row, block):"
        ),
        "",
        *table(("lane = dword", "byte 0", "byte 1", "byte 2", "byte 3"), rows),
        "",
        *statements(
            [
                Statement(
                    "certain",
                    "Dword l of the tile holds exactly the four scales that lane l of the 16×16×128 instruction needs "
                    "for two row groups (byte bit 0) times two halves of K (byte bit 1).",
                    "layouts",
                    "computed for all 256 scales",
                ),
                Statement(
                    "certain",
                    "OP_SEL and OP_SEL_HI pick the byte, so one 4-byte load feeds four MFMAs with no shift and no "
                    "mask.",
                    "isa",
                    "V_MFMA_SCALE_F32_16X16X128_F8F6F4",
                    probe=("mfma.scaled.scale_byte_0", "mfma.scaled.scale_byte_3"),
                ),
                Statement(
                    "inferred",
                    "That is why the order is what it is. Composable Kernel's comments name the four 16×128 building "
                    "blocks of a 32×256 tile.",
                    "ck",
                ),
                Statement(
                    "certain",
                    f"The 32×32×64 instruction finds its scales of the same tile spread over {most} dwords per lane: "
                    "Triton's tutorial uses another order for it.",
                    "triton-tutorial",
                ),
            ]
        ),
    ]


def _register_map(layout: Layout) -> list[str]:
    bound = layout.bind(layout.fixed_shape or ())
    picked = [0, 1, bound.size // 4, bound.size // 2 + 1, bound.size - 1]
    names = list(bound.place_sizes)
    rows = []
    for offset in picked:
        coords = bound.coords(offset)
        rows.append((*coords, *bound.place(coords).values()))
    sizes = ", ".join(f"{count} {name}s" for name, count in bound.place_sizes.items())
    shape = layout.name.split("_")[1].lower()
    return [
        f"`v_mfma_scale_f32_{shape}_f8f6f4` of one wave: {sizes}.",
        "",
        *table((*(axis.name for axis in layout.axes), *names), rows),
        "",
        *statements(_WHY[layout.name.rsplit("_", 1)[1]]),
    ]


_OPERAND = (
    Statement(
        "certain",
        "One lane holds exactly one MX block, 32 codes of one row in four VGPRs, so one scale byte per lane suffices.",
        "layouts",
        "computed for every element",
    ),
    Statement(
        "inferred",
        "That is why FP4 (and FP6) blocks are not interleaved between lanes as FP8 operands of the same "
        "instruction are.",
        "isa",
    ),
)
_WHY = {
    "A": _OPERAND,
    "B": _OPERAND,
    "SCALE": (
        Statement(
            "certain",
            "The lane that holds a block of the operand holds its scale.",
            "layouts",
            "computed for every scale",
        ),
        Statement("certain", "Which of the VGPR's four bytes counts is chosen by OP_SEL and OP_SEL_HI.", "isa"),
    ),
    "D": (
        Statement(
            "certain",
            "Four consecutive rows i of one column lie in one lane. Kernels that want four consecutive columns "
            "exchange "
            "A and B and compute the transposed product.",
            "layouts",
            "computed for every element",
        ),
        Statement("certain", "C, the addend, lies in the same places.", "isa"),
    ),
}

_SECTIONS = {"PACKING": _packing, "WEIGHT_PRESHUFFLE": _weights, "SCALE_SHUFFLE": _scales}
