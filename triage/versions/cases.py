"""The cases that two versions of a kernel are compared on: where bits are certain, where order shows, and the edges."""

from dataclasses import dataclass
from typing import Any

import torch

from mxassay.kernels import Shape
from mxassay.properties.operands import Operands
from mxassay.reference import DIALECTS, Quantized, quantize

SHAPES: tuple[Shape, ...] = ((32, 128, 512), (5, 48, 320), (33, 144, 832))
"""What a kernel is compared on when nobody names shapes: whole tiles, less than one, and tails everywhere."""

INPUTS = {
    "certified": "normal values, each block times its own small power of two: nearly every output is certified",
    "order": "large blocks that cancel later blocks: the bits depend on the order of summation",
    "edges": "rows of zeros, tiny and huge blocks, Inf and NaN: where dialects differ at the edges",
}

EDGES = ("ordinary", "zeros", "subnormal", "tiny", "halfway", "huge", "Inf", "NaN")
"""What the rows of "edges" hold, in turn."""
NOT_FINITE = ("Inf", "NaN")

_NORMAL_BYTE = 127  # E8M0 byte of 2^0
_APART = 40  # powers of two between the weights of even and of odd columns, and 1


Plan = tuple[tuple[str, Any], ...]
"""Names and values of a plan's fields."""

OWN_PLANS: tuple[Plan, ...] = (
    (("tile_m", 16), ("tile_n", 16), ("tile_k", 128), ("group_m", 2)),
    (("tile_m", 32), ("tile_n", 64), ("tile_k", 64), ("matrix_instr_nonkdim", 32), ("splits", 3)),
    (("tile_m", 16), ("tile_n", 32), ("tile_k", 256), ("linear", True), ("splits", 2)),
)
"""Plans of our own kernel that together take its every branch: scales gathered and read wide, weights preshuffled and
linear, both MFMAs, tiles in bands, splits of unequal length.
"""
PLANNED_SHAPE: Shape = (33, 112, 576)
"""What they are launched on: bands, tails and splits in all of them, and small."""


@dataclass(frozen=True)
class Case:
    """One product: its inputs follow from a shape, the sort of inputs (a key of INPUTS), a dialect and a seed. `plan`:
    what to launch with; the version's own plan for the shape without.
    """

    shape: Shape
    inputs: str
    dialect: str = "even"
    seed: int = 0
    plan: Plan | None = None

    @property
    def words(self) -> str:
        return f"{','.join(map(str, self.shape))} {self.inputs}"

    def operands(self) -> Operands:
        """A and W; W is drawn in codes and scales, so it is the same in every dialect."""
        generator = torch.Generator().manual_seed(self.seed)
        make = {"certified": _certified, "order": _cancelling, "edges": _edges}[self.inputs]
        a, w = make(self.shape, generator)
        return Operands(a, w.packed, w.scales, self.dialect, self.words)


def cases_for(
    shapes: tuple[Shape, ...], *, dialect: str, seed: int, full_range: bool, plans: tuple[Plan, ...] = ()
) -> list[Case]:
    """Every shape with certain and with order-dependent bits; on the shape of most rows also the edges; certain bits
    under each of `plans`.

    `full_range`: whether the device keeps every scale byte exact; the edges are left out without.
    """
    found = [Case(shape, inputs, dialect, seed) for shape in shapes for inputs in ("certified", "order")]
    if full_range:
        found.append(Case(max(shapes, key=lambda shape: shape[0]), "edges", dialect, seed))
    return found + [Case(PLANNED_SHAPE, "certified", dialect, seed, plan) for plan in plans]


def edge_of(row: int) -> str:
    """What a row of "edges" holds."""
    return EDGES[row % len(EDGES)]


def _normal(rows: int, k: int, generator: torch.Generator, powers: int) -> torch.Tensor:
    """float32 (rows, k): normal, each block times one of `powers` + 1 powers of two."""
    values = torch.randn(rows, k // 32, 32, generator=generator)
    levels = torch.randint(0, powers + 1, (rows, k // 32, 1), generator=generator)
    return torch.ldexp(values, levels).reshape(rows, k)


def _certified(shape: Shape, generator: torch.Generator) -> tuple[torch.Tensor, Quantized]:
    m, n, k = shape
    # By depth, the most powers that keep nearly every output certified.
    powers = next(powers for limit, powers in ((512, 6), (2048, 5), (7168, 4), (1 << 62, 3)) if k <= limit)
    a, w = _normal(m, k, generator, powers), _normal(n, k, generator, powers)
    return a.bfloat16(), quantize(w.bfloat16())


def _cancelling(shape: Shape, generator: torch.Generator) -> tuple[torch.Tensor, Quantized]:
    """Half of the first blocks are 2^16 times larger than the rest; each has a block in the second half that takes its
    products away again. What is left depends on how much was lost in between.
    """
    m, n, k = shape
    blocks = k // 32
    a = _normal(m, k, generator, 2).bfloat16().reshape(m, blocks, 32)
    w = quantize(_normal(n, k, generator, 2).bfloat16())
    packed, scales = w.packed.reshape(n, blocks, 16).clone(), w.scales.clone()
    half = blocks // 2
    for block in range(0, half, 2):
        opposite = half + block
        a[:, block] *= 2.0**16
        a[:, opposite] = -a[:, block]
        packed[:, opposite], scales[:, opposite] = packed[:, block], scales[:, block]
    return a.reshape(m, k), Quantized(packed.reshape(n, k // 2), scales)


def _edges(shape: Shape, generator: torch.Generator) -> tuple[torch.Tensor, Quantized]:
    m, n, k = shape
    a = _normal(m, k, generator, 1).bfloat16().reshape(m, k // 32, 32)
    for row in range(m):
        _make_edge(a[row], edge_of(row), row)
    w = quantize(_normal(n, k, generator, 1).bfloat16())
    # Huge rows stay finite in even columns, tiny ones are seen in odd columns.
    column = torch.arange(n).unsqueeze(1)
    scales = torch.where(column % 2 == 0, w.scales.int() - _APART, w.scales.int() + _APART).clamp(0, 254)
    return a.reshape(m, k), Quantized(w.packed, scales.to(torch.uint8))


def _make_edge(blocks: torch.Tensor, edge: str, row: int) -> None:
    """Change bfloat16 (K/32, 32) in place."""
    index = torch.arange(32)
    one = row // len(EDGES) % len(blocks)
    if edge == "zeros":
        blocks.zero_()
    elif edge == "subnormal":  # multiples of bfloat16's least number
        blocks.copy_((index % 8).float() * 2.0**-133)
    elif edge == "tiny":  # scale byte 0 in every dialect, with codes of every size
        blocks.copy_((index % 13 - 6).float() * 2.0**-128)
    elif edge == "halfway":  # amax at every mantissa where some rule changes its mind
        peaks = torch.tensor([1.0, 1.25, 1.4921875, 1.5, 1.5078125, 1.7421875, 1.75, 1.9921875])
        blocks[:, 0] = 4 * peaks[torch.arange(len(blocks)) % len(peaks)]
        blocks[:, 1:] = blocks[:, 1:].clamp(-3, 3)
    elif edge == "huge":
        blocks.copy_(blocks.sign() * 2.0**127 * torch.tensor([1.0, 1.25, 1.75, 1.9921875]).repeat(8))
    elif edge in NOT_FINITE:
        blocks[one, 5] = float(edge)


def dialects_by_likeness(first: str) -> list[str]:
    """Every dialect, `first` first, then those with its scale rule, then the others."""
    rule = DIALECTS[first].carry
    return sorted(DIALECTS, key=lambda name: (name != first, DIALECTS[name].carry != rule))
