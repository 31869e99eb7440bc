"""Whole operands. Bulk data follow from a drawn seed; what matters is drawn: shape, blocks, levels, spreads."""

from collections.abc import Sequence

import torch
from hypothesis import strategies as st

from mxassay.kernels import Shape
from mxassay.properties.kernel import under_test
from mxassay.properties.operands import Operands
from mxassay.properties.strategies.blocks import Block, stacked, usable_blocks
from mxassay.properties.strategies.scales import ramp, safe_spread, sweep
from mxassay.properties.strategies.shapes import shapes

_SEEDS = st.integers(0, 9)


def activations_of(bytes_wanted: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """bfloat16 (M, 32 G) whose blocks get exactly the scale bytes (M, G), 1..252, in the kernel's dialect.

    Elements are uniform; one of each block, at a random place, has the largest magnitude: 4 or 6 times the scale, on
    which all rules but CEIL agree, and there 4.
    """
    m, groups = bytes_wanted.shape
    top = 4 if under_test().kernel.dialect.startswith("ceil") else 6
    values = (torch.rand(m, groups, 32, generator=generator, dtype=torch.float64) * 2 - 1) * top
    place = torch.randint(0, 32, (m, groups, 1), generator=generator)
    sign = torch.randint(0, 2, (m, groups, 1), generator=generator) * 2.0 - 1
    largest = torch.where(torch.rand(m, groups, 1, generator=generator) < 0.5, 4.0, float(top))
    values.scatter_(2, place, largest.double() * sign)
    scaled = values * torch.exp2(bytes_wanted.double() - 127).unsqueeze(2)
    return scaled.reshape(m, 32 * groups).to(torch.bfloat16)


def random_codes(n: int, k: int, generator: torch.Generator) -> torch.Tensor:
    """uint8 (n, k/2): packed codes, each of the 16 as likely as any other."""
    return torch.randint(0, 256, (n, k // 2), generator=generator, dtype=torch.uint8)


def ramped(
    shape: Shape, seed: int, *, level: int = 127, start: int | None = None, sweep_rows: bool = False
) -> Operands:
    """Operands certified by construction: every block has its own scale within `safe_spread`.

    With `start`, one side's rows sweep the scale bytes from there on, W's rows or with `sweep_rows` A's, while the
    other side stays near the byte `level`; without it both stay near `level` and 127.
    """
    m, n, k = shape
    generator = torch.Generator().manual_seed(seed)
    spread = safe_spread(k)
    left, right = spread // 2, spread - spread // 2
    base_a: torch.Tensor | int = level
    base_b: torch.Tensor | int = 127
    words = f"each block its own scale, near {level}, seed {seed}"
    if start is not None:
        # Sums of bytes from 107 on keep units above 2^-149, up to 352 keep sums of 2^14 products below 2^128.
        lowest, highest = max(0, 107 - level), min(254, 352 - level)
        if sweep_rows:
            base_a = sweep(m, max(lowest, 1), min(highest, 252) - left, start)
            base_b = level
            words = f"rows of A sweep scale bytes from {start}, W near {level}, seed {seed}"
        else:
            if not under_test().full_range:
                lowest, highest = max(lowest, 1), min(highest, 250)
            base_b = sweep(n, lowest, highest - right, start)
            words = f"rows of W sweep scale bytes from {start}, A near {level}, seed {seed}"
    a = activations_of(ramp(m, k // 32, left, base_a), generator)
    scales = ramp(n, k // 32, right, base_b)
    return Operands(a, random_codes(n, k, generator), scales, under_test().kernel.dialect, words)


def rows_of_blocks(rows: Sequence[Sequence[Block]], shape: Shape, words: str) -> Operands:
    """Row i of A holds the blocks of rows[i] in turn, over and over; W has random codes and scales near 1."""
    m, n, k = shape
    a = torch.cat(
        [stacked(rows[i % len(rows)][g % len(rows[i % len(rows)])] for g in range(k // 32)) for i in range(m)]
    )
    codes = random_codes(n, k, torch.Generator().manual_seed(0))
    return Operands(a.reshape(m, k), codes, ramp(n, k // 32, 3, 126), under_test().kernel.dialect, words)


@st.composite
def certified_operands(draw: st.DrawFn, most: int = 1 << 22) -> Operands:
    """Every output is certified by construction, and every block has a scale of its own."""
    return ramped(draw(shapes(most)), draw(_SEEDS, label="seed"))


@st.composite
def ramped_operands(draw: st.DrawFn, most: int = 1 << 22) -> Operands:
    """Certified by construction; rows of W, or of A, sweep the scale bytes."""
    rows = draw(st.booleans(), label="A sweeps")
    level = draw(st.sampled_from((127, 95, 110, 140)), label="level of the other side")
    start = draw(st.sampled_from((127, 1, 60, 190, 230)) | st.integers(1, 250), label="first byte")
    shape = draw(shapes(most))
    return ramped(shape, draw(_SEEDS, label="seed"), level=level, start=start, sweep_rows=rows)


@st.composite
def wide_operands(draw: st.DrawFn, most: int = 1 << 22) -> Operands:
    """Scales spread so far that the certificate fails for most outputs of more than one block."""
    m, n, k = draw(shapes(most))
    spread = draw(st.sampled_from((24, 12, 40)), label="spread in bits")
    seed = draw(_SEEDS, label="seed")
    generator = torch.Generator().manual_seed(seed)
    a = activations_of(ramp(m, k // 32, spread, 127 - spread // 2), generator)
    scales = torch.randint(127, 128 + spread, (n, k // 32), generator=generator).to(torch.uint8)
    words = f"scales {spread} bits apart, seed {seed}"
    return Operands(a, random_codes(n, k, generator), scales, under_test().kernel.dialect, words)


@st.composite
def block_matrices(draw: st.DrawFn, palette: st.SearchStrategy[Block] | None = None, most: int = 1 << 21) -> Operands:
    """Activations put together from one to three drawn blocks, and weights of random codes with scales near 1."""
    shape = m, n, k = draw(shapes(most))
    colours = draw(st.lists(usable_blocks(palette), min_size=1, max_size=3), label="blocks")
    seed = draw(_SEEDS, label="seed")
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(0, len(colours), (m, k // 32), generator=generator)
    a = stacked(colours)[chosen].reshape(m, k)
    words = f"A of {len(colours)} drawn blocks, seed {seed}"
    scales = ramp(n, k // 32, safe_spread(shape[2]) // 2, 126)
    return Operands(a, random_codes(n, k, generator), scales, under_test().kernel.dialect, words)
