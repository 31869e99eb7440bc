"""The reference as a row of named stages, each of which a suspect may replace, and what a row of stages gives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from mxassay.reference import (
    DIALECTS,
    Dialect,
    Expectation,
    decode,
    decode_scales,
    encode,
    expectation,
    pack,
    round_to_bfloat16,
    unpack,
)
from mxassay.triage.suspects import addresses, coverage
from mxassay.triage.suspects.scene import Cut, Scene, right_cut

BLOCK = 32


class Loop(NamedTuple):
    """The blocks of K in the order in which a kernel takes them. All int64 (L,).

    split, step, block: which split, which step of it, which block of the step. first: the k where the split starts.
    span, tile_k: of the cut.
    """

    split: torch.Tensor
    step: torch.Tensor
    block: torch.Tensor
    first: torch.Tensor
    span: int
    tile_k: int

    @property
    def position(self) -> torch.Tensor:
        """The k where each block starts."""
        return self.first + self.step * self.tile_k + self.block * BLOCK


@dataclass(frozen=True)
class Pipeline:
    """The stages. Defaults are right; a suspect replaces one of them.

    Attributes:
        cut: K, tile depth and wish for splits to a Cut.
        loop: the scene and its cut to a Loop.
        activations: bfloat16 words int64 (M, L, 32) as loaded.
        scale: words of blocks (..., 32) to scale bytes, uint8 (...).
        element: words (..., 32) and scales (...) to codes, uint8 (..., 32).
        pack: codes in the order in which they lie in the operand (..., 32).
        weights: codes of W, uint8 (N, L, 32).
        weight_scales: uint8 (N, L).
        steps: float32 sums of steps (T, M, N) of one split to its sum.
        partial: what becomes of a split's sum on its way to memory and back.
        reduce: float32 partials (S, M, N) to a sum.
        store: float32 to bfloat16.
        written: the scene to bool (M, N): which outputs are written at all.
    """

    cut: Callable[[int, int, int], Cut] = right_cut
    loop: "Callable[[Scene, Cut], Loop]" = None  # type: ignore[assignment]
    activations: Callable[[Scene, Loop], torch.Tensor] = addresses.activations
    scale: Callable[[torch.Tensor, Dialect], torch.Tensor] = None  # type: ignore[assignment]
    element: Callable[[torch.Tensor, torch.Tensor, Dialect], torch.Tensor] = None  # type: ignore[assignment]
    pack: Callable[[torch.Tensor], torch.Tensor] | None = None
    weights: Callable[[Scene, Loop], torch.Tensor] = addresses.weights
    weight_scales: Callable[[Scene, Loop], torch.Tensor] = addresses.weight_scales
    exchange: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]] | None = None
    steps: Callable[[torch.Tensor], torch.Tensor] | None = None
    partial: Callable[[torch.Tensor], torch.Tensor] | None = None
    reduce: Callable[[torch.Tensor], torch.Tensor] | None = None
    store: Callable[[torch.Tensor], torch.Tensor] | None = None
    written: Callable[[Scene], torch.Tensor] = coverage.everything

    def __post_init__(self) -> None:
        for name, right in (("loop", right_loop), ("scale", right_scale), ("element", right_element)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, right)


def right_loop(scene: Scene, cut: Cut) -> Loop:
    """Every split in turn, `span // tile_k` steps each."""
    return loop_over(cut, torch.arange(cut.count) * cut.span, cut.span // cut.tile_k)


def loop_over(cut: Cut, firsts: torch.Tensor, steps: int | list[int]) -> Loop:
    """A loop whose split i starts at k = firsts[i] and takes `steps` steps (of its own, where a list is given)."""
    blocks = cut.tile_k // BLOCK
    counts = steps if isinstance(steps, list) else [steps] * len(firsts)
    rows = [
        (split, step, block, int(firsts[split]))
        for split, count in enumerate(counts)
        for step in range(count)
        for block in range(blocks)
    ]
    split, step, block, first = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4).T
    return Loop(split, step, block, first, cut.span, cut.tile_k)


def right_scale(words: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    """The dialect's scale byte of each block of bfloat16 words."""
    return dialect.scale_bytes((words & 0x7FFF).amax(-1).int() << 16)


def right_element(words: torch.Tensor, scales: torch.Tensor, dialect: Dialect) -> torch.Tensor:
    """The codes of bfloat16 words over their scales."""
    return encode(as_floats(words).flatten(-2), scales, ties=dialect.ties, byte0_exponent=dialect.byte0_exponent).view(
        words.shape
    )


def as_floats(words: torch.Tensor) -> torch.Tensor:
    """bfloat16 of int64 words."""
    signed: torch.Tensor = torch.where(words >= 0x8000, words - 0x10000, words)
    return signed.to(torch.int16).view(torch.bfloat16)


class Sides(NamedTuple):
    """What reaches the matrix instructions: codes (rows, L, 32) and scales (rows, L) of A and of W."""

    a: torch.Tensor
    a_scales: torch.Tensor
    w: torch.Tensor
    w_scales: torch.Tensor

    def same(self, other: "Sides") -> bool:
        """Bit for bit."""
        return all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(self, other, strict=True))


class Prediction(NamedTuple):
    """What a row of stages gives: the admissible outputs, and bool (M, N) where nothing can be said."""

    expected: Expectation
    unknown: torch.Tensor


def quantized(pipeline: Pipeline, words: torch.Tensor, dialect: Dialect) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (..., 32) and scale bytes (...) of blocks of bfloat16 words int64 (..., 32)."""
    scales = pipeline.scale(words, dialect)
    codes = pipeline.element(words, scales, dialect)
    return (pipeline.pack(codes) if pipeline.pack else codes), scales


def sides(pipeline: Pipeline, scene: Scene) -> tuple[Sides, Loop]:
    """Load and quantize."""
    k, geometry = scene.shape[2], scene.geometry
    way = (pipeline.cut, pipeline.loop)
    loop = scene.once(way, lambda: pipeline.loop(scene, pipeline.cut(k, geometry.tile_k, geometry.splits)))
    dialect = DIALECTS[scene.operands.dialect]
    words = scene.once((*way, pipeline.activations), lambda: pipeline.activations(scene, loop))
    rules = (pipeline.activations, pipeline.scale, pipeline.element, pipeline.pack)
    codes, scales = scene.once((*way, *rules), lambda: quantized(pipeline, words, dialect))
    w = scene.once((*way, pipeline.weights), lambda: pipeline.weights(scene, loop))
    w_scales = scene.once((*way, pipeline.weight_scales), lambda: pipeline.weight_scales(scene, loop))
    if pipeline.exchange:
        scales, w_scales = pipeline.exchange(scales, w_scales)
    return Sides(codes, scales, w, w_scales), loop


def product(pipeline: Pipeline, scene: Scene, found: Sides, loop: Loop, rows: torch.Tensor | None = None) -> Prediction:
    """Sum, reduce, store: of all rows of A, or of `rows`, int64."""
    if rows is not None:
        found = found._replace(a=found.a[rows], a_scales=found.a_scales[rows])
    if not len(loop.split):
        m, n = len(found.a), len(found.w)
        zero = torch.zeros(m, n, dtype=torch.bfloat16)
        no = torch.zeros(m, n, dtype=torch.bool)
        expected = Expectation(zero, ~no, zero, zero, no)
    else:
        packed = (pack(found.a.flatten(1)), found.a_scales, pack(found.w.flatten(1)), found.w_scales)
        expected = expectation(*(tensor.contiguous() for tensor in packed))
    unknown = torch.zeros_like(expected.certified)
    rounding = (pipeline.steps, pipeline.partial, pipeline.reduce, pipeline.store)
    if any(rounding) and len(loop.split):
        out = _rounded(pipeline, found, loop)
        infinite = expected.lower.isinf() & (expected.lower == expected.upper)
        unknown = ~(expected.certified | infinite)
        expected = Expectation(out, expected.certified, out, out, out.isnan())
    due = scene.operands.expectation.exact.isnan()
    due = due if rows is None else due[rows]
    # A number where NaN is due says something, however vague it is.
    unknown = unknown | (_vague(expected) & (~due | expected.may_be_nan))
    written = pipeline.written(scene) if rows is None else pipeline.written(scene)[rows]
    if not written.all():
        lost = torch.full_like(expected.exact, float("nan"))
        exact, lower, upper = (torch.where(written, x, lost) for x in (expected.exact, expected.lower, expected.upper))
        expected = Expectation(exact, expected.certified | ~written, lower, upper, expected.may_be_nan | ~written)
        unknown = unknown & written
    return Prediction(expected, unknown)


_VAGUE = 256  # steps of bfloat16: a factor of four


def _vague(expected: Expectation) -> torch.Tensor:
    """bool (M, N): outputs whose bound is so wide that lying in it explains nothing."""
    lower, upper = (
        torch.where(bits < 0, -(bits & 0x7FFF), bits) for bits in (_bits(expected.lower), _bits(expected.upper))
    )
    return (upper - lower > _VAGUE) & ~expected.exact.isnan()


def _bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(torch.int16).int()


def _rounded(pipeline: Pipeline, found: Sides, loop: Loop) -> torch.Tensor:
    """The output by float32 sums of steps. Exact where the certificate holds, whatever the order."""
    a = decode(found.a, torch.float64) * decode_scales(found.a_scales).unsqueeze(-1)
    w = decode(found.w, torch.float64) * decode_scales(found.w_scales).unsqueeze(-1)
    partials = []
    for split in sorted(set(loop.split.tolist())):
        mine = loop.split == split
        sums = []
        for step in sorted(set(loop.step[mine].tolist())):
            chosen = mine & (loop.step == step)
            sums.append((a[:, chosen].flatten(1) @ w[:, chosen].flatten(1).T).float())
        stacked = torch.stack(sums)
        total = pipeline.steps(stacked) if pipeline.steps else stacked.double().sum(0).float()
        several = int(loop.split.max()) > 0
        partials.append(pipeline.partial(total) if pipeline.partial and several else total)
    stacked = torch.stack(partials)
    if len(partials) > 1 and pipeline.reduce:
        total = pipeline.reduce(stacked)
    else:
        total = stacked[0].clone()
        for part in stacked[1:]:
            total += part
    return pipeline.store(total) if pipeline.store else round_to_bfloat16(total.double())


def packed_bytes(codes: torch.Tensor) -> torch.Tensor:
    """uint8 (rows, L * 16) of codes (rows, L, 32)."""
    return pack(codes.flatten(1))


def unpacked(packed: torch.Tensor, blocks: int) -> torch.Tensor:
    """Codes (rows, blocks, 32) of packed bytes (rows, blocks * 16)."""
    return unpack(packed).view(len(packed), blocks, BLOCK)
