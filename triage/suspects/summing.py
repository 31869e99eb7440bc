"""Wrong rules of the sum: steps and splits lost or doubled, rounding on the way, stores, tiles that nobody computes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mxassay.reference import round_to_bfloat16
from mxassay.triage.suspects import coverage
from mxassay.triage.suspects.pipeline import Loop, loop_over, right_loop
from mxassay.triage.suspects.scene import Cut, Scene, right_cut
from mxassay.triage.suspects.suspect import Suspect

Tensor = torch.Tensor
_LEAST_NORMAL = 2.0**-126
_LARGEST = 3.3895314e38  # bfloat16


def several(scene: Scene) -> bool:
    """K is split."""
    return scene.cut.count > 1


def single(scene: Scene) -> bool:
    """It is not."""
    return not several(scene)


# Loops.


def _halved_span(k: int, tile_k: int, splits: int) -> Cut:
    cut = right_cut(k, tile_k, splits)
    return Cut(max(cut.span // 2, cut.tile_k), cut.tile_k, cut.count)


def _halved_starts(scene: Scene, cut: Cut) -> Loop:
    return loop_over(cut, torch.arange(cut.count) * cut.span // 2, cut.span // cut.tile_k)


def _to_the_end(scene: Scene, cut: Cut) -> Loop:
    firsts = torch.arange(cut.count) * cut.span
    return loop_over(cut, firsts, [-(-(scene.shape[2] - int(first)) // cut.tile_k) for first in firsts])


def _whole_steps(scene: Scene, cut: Cut) -> Loop:
    firsts = torch.arange(cut.count) * cut.span
    return loop_over(cut, firsts, [min(scene.shape[2] - int(first), cut.span) // cut.tile_k for first in firsts])


def _steps(more: int) -> Callable[[Scene, Cut], Loop]:
    def loop(scene: Scene, cut: Cut) -> Loop:
        steps = max(cut.span // cut.tile_k + more, 0)
        return loop_over(cut, torch.arange(cut.count) * cut.span, steps)

    return loop


def _without(keep: Callable[[Loop], Tensor]) -> Callable[[Scene, Cut], Loop]:
    """The right loop, less what `keep` leaves out."""

    def loop(scene: Scene, cut: Cut) -> Loop:
        found = right_loop(scene, cut)
        kept = keep(found)
        split, step, block, first = (part[kept] for part in found[:4])
        return Loop(split, step, block, first, found.span, found.tile_k)

    return loop


def _twice(again: Callable[[Loop], Tensor]) -> Callable[[Scene, Cut], Loop]:
    """The right loop, and once more what `again` picks."""

    def loop(scene: Scene, cut: Cut) -> Loop:
        found = right_loop(scene, cut)
        more = again(found)
        split, step, block, first = (torch.cat((part, part[more])) for part in found[:4])
        return Loop(split, step, block, first, found.span, found.tile_k)

    return loop


# Rounding.


def to_float(x: Tensor) -> Tensor:
    """float32 to bfloat16 and back."""
    return round_to_bfloat16(x.double()).float()


def _bits(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A store that works on the float32's bits, as int64; NaN stays NaN."""

    def store(x: Tensor) -> Tensor:
        bits = x.view(torch.int32).long() & 0xFFFFFFFF
        high = change(bits) & 0xFFFF
        signed = torch.where(high >= 0x8000, high - 0x10000, high).to(torch.int16).view(torch.bfloat16)
        return torch.where(x.isnan(), torch.full_like(signed, float("nan")), signed)

    return store


def _nan_wraps(x: Tensor) -> Tensor:
    """Rounded to nearest even on bits alone: the payload of a NaN carries into the sign."""
    high = _nearest(x.view(torch.int32).long() & 0xFFFFFFFF) & 0xFFFF
    return torch.where(high >= 0x8000, high - 0x10000, high).to(torch.int16).view(torch.bfloat16)


def _nearest(bits: Tensor) -> Tensor:
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _stores(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A change of the float32 before the right store."""
    return lambda x: round_to_bfloat16(change(x).double())


def _sum_rounded(sums: Tensor) -> Tensor:
    """The accumulator is rounded to bfloat16 before each step is added."""
    total = sums[0].clone()
    for step in sums[1:]:
        total = to_float(total) + step
    return total


def _running(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def reduce(partials: Tensor) -> Tensor:
        total = partials[0].clone()
        for part in partials[1:]:
            total = change(total + part)
        return total

    return reduce


def _added(partials: Tensor) -> Tensor:
    total = partials[0].clone()
    for part in partials[1:]:
        total += part
    return total


def _half_range(partials: Tensor) -> Tensor:
    total = partials[0].clone()
    for part in partials[1:]:
        total += part.half().float()
    return total


def _then(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda partials: change(_added(partials))


def _nan_to(value: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.where(x.isnan(), torch.full_like(x, value), x)


def _lost(scene: Scene) -> Tensor:
    return torch.zeros_like(coverage.everything(scene))


def _more_than_wished(scene: Scene) -> bool:
    return scene.cut.count > 1 and scene.geometry.splits > scene.cut.count


def _loop(id_: str, class_: str, stage: str, statement: str, rule: Any, **more: Any) -> Suspect:
    return Suspect(id_, class_, stage, statement, {"loop": rule}, **more)


def _partials(id_: str, statement: str, rule: Callable[[Tensor], Tensor], class_: str = "partials") -> Suspect:
    return Suspect(id_, class_, "reduce", statement, {"reduce": rule}, several)


def _store(id_: str, statement: str, rule: Callable[[Tensor], Tensor], class_: str = "precision") -> Suspect:
    return Suspect(id_, class_, "store", statement, {"store": rule})


def _tiles(id_: str, statement: str, class_: str = "tile-map", stage: str = "tile-map", **how: Any) -> Suspect:
    return Suspect(id_, class_, stage, statement, {"written": partial(coverage.covered, **how)})


def _edge(id_: str, class_: str, stage: str, statement: str, axis: int, when: Callable[[Scene], bool]) -> Suspect:
    """The last row (axis 0) or column (1) is not written."""

    def written(scene: Scene) -> Tensor:
        found = coverage.everything(scene)
        found.narrow(axis, found.shape[axis] - 1, 1).fill_(False)
        return found

    return Suspect(id_, class_, stage, statement, {"written": written}, when)


def _whole_tiles(which: int) -> Callable[[int, int, int, Scene], int]:
    """Workgroups for whole tiles along M (0) or N (1) alone, at least one."""

    def launched(tiles_m: int, tiles_n: int, count: int, scene: Scene) -> int:
        sizes = [tiles_m, tiles_n]
        tile = (scene.geometry.tile_m, scene.geometry.tile_n)[which]
        sizes[which] = max(scene.shape[which] // tile, 1)
        return sizes[0] * sizes[1] * count

    return launched


SUMMING: tuple[Suspect, ...] = (
    # splits and steps
    Suspect("span-in-packed-bytes", "split-span", "split-k", "the span of a split is in packed bytes: half is left out",
            {"cut": _halved_span}),
    _loop("split-starts-in-packed-bytes", "split-span", "split-k", "splits start at half their k", _halved_starts),
    _loop("split-runs-to-the-end", "split-span", "split-k", "every split runs on to the end of K", _to_the_end),
    _loop("a-step-too-many", "split-span", "split-k", "every split takes one step more than its span", _steps(1)),
    _loop("a-step-too-few", "split-span", "split-k", "every split takes one step less than its span", _steps(-1)),
    _loop("ragged-step-dropped", "k-tail", "k-loop", "a last step that is not whole is left out", _whole_steps),
    _loop("first-step-lost", "k-tail", "k-loop", "the first step of every split is left out",
          _without(lambda loop: loop.step > 0)),
    _loop("first-step-twice", "k-tail", "k-loop", "the first step of every split counts twice",
          _twice(lambda loop: loop.step == 0)),
    _loop("first-block-lost", "k-tail", "k-loop", "the first block of every step is left out",
          _without(lambda loop: loop.block > 0)),
    _loop("last-block-lost", "k-tail", "k-loop", "the last block of every step is left out",
          _without(lambda loop: loop.block < loop.block.max())),
    _loop("first-block-twice", "k-tail", "k-loop", "the first block of every step counts twice",
          _twice(lambda loop: loop.block == 0)),
    # partials
    _partials("last-partial-lost", "the last partial is not added", lambda partials: _added(partials[:-1])),
    _partials("first-partial-lost", "the first partial is not added", lambda partials: _added(partials[1:])),
    _partials("first-partial-twice", "partials are read one slot early: the first counts twice, the last never",
              lambda partials: _added(torch.cat((partials[:1], partials[:-1])))),
    _partials("first-partial-alone-twice", "the first partial is added twice",
              lambda partials: _added(torch.cat((partials[:1], partials)))),
    _partials("last-partial-twice", "the last partial is added twice",
              lambda partials: _added(torch.cat((partials, partials[-1:])))),
    _partials("first-partial-only", "the first partial alone is taken", lambda partials: partials[0]),
    Suspect("unwritten-slots-read", "partials", "reduce",
            "the sum includes slots for splits that were wished for and never ran", {"written": _lost},
            _more_than_wished),
    Suspect("a-slot-too-many", "partials", "reduce", "the sum includes a slot behind the last split",
            {"written": _lost}, several, rank=2),
    Suspect("one-slot-for-all-splits", "race", "store", "all splits write one slot, and the others stay unwritten",
            {"written": _lost}, several, rank=3),
    # precision
    Suspect("partials-in-bfloat16", "precision", "store", "partials are rounded to bfloat16", {"partial": to_float},
            several),
    Suspect("partials-in-float16", "precision", "store", "partials pass through float16",
            {"partial": lambda x: x.half().float()}, several),
    _partials("sum-in-bfloat16", "the running sum of partials is rounded to bfloat16", _running(to_float), "precision"),
    _partials("added-partials-in-float16", "partials pass through float16 as they are added", _half_range, "precision"),
    Suspect("accumulator-in-bfloat16", "precision", "accumulate", "the sum is rounded to bfloat16 before every step",
            {"steps": _sum_rounded}),
    Suspect("sum-starts-at-one", "partials", "accumulate", "the sum starts at 1, not at 0",
            {"steps": lambda sums: sums.sum(0) + 1}),
    Suspect("sum-counts-twice", "partials", "accumulate", "every sum counts twice",
            {"steps": lambda sums: 2 * sums.sum(0)}),
    Suspect("last-step-alone", "partials", "accumulate", "a step replaces the sum, not adds to it",
            {"steps": lambda sums: sums[-1].clone()}),
    _store("output-cut", "the bfloat16 store cuts instead of rounding", _bits(lambda bits: bits >> 16)),
    _store("output-ties-away", "ties of the output go away from zero", _bits(lambda bits: (bits + 0x8000) >> 16)),
    _store("output-rounded-twice", "the output is first rounded to 15 mantissa bits",
           _bits(lambda bits: _nearest((bits + 0x80) & ~0xFF & 0xFFFFFFFF))),
    _store("output-through-float16", "the output passes through float16", _stores(lambda x: x.half().float())),
    _store("output-rounded-up", "the output is rounded away from zero", _bits(lambda bits: (bits + 0xFFFF) >> 16)),
    _store("output-subnormals-flushed", "outputs below 2^-126 become zero",
           _stores(lambda x: torch.where(x.abs() < _LEAST_NORMAL, torch.zeros_like(x), x)), "zero-tiny"),
    _store("output-saturates", "outputs beyond the range become the largest number, NaN with them",
           _stores(lambda x: x.nan_to_num(-_LARGEST).clamp(-_LARGEST, _LARGEST)), "nan-inf"),
    _store("output-saturates-but-nan", "outputs beyond the range become the largest number",
           _stores(lambda x: torch.where(x.isnan(), x, x.clamp(-_LARGEST, _LARGEST))), "nan-inf"),
    _store("nan-stored-as-zero", "a NaN is stored as zero", _stores(_nan_to(0.0)), "nan-inf"),
    _store("nan-wraps", "a NaN of large payload carries into its sign and is stored as zero", _nan_wraps, "nan-inf"),
    _store("inf-stored-as-zero", "Inf is stored as zero",
           _stores(lambda x: torch.where(x.isinf(), torch.zeros_like(x), x)), "nan-inf"),
    _store("sign-dropped", "outputs lose their sign", lambda x: round_to_bfloat16(x.double().abs())),
    _partials("nan-lost-in-the-sum", "a NaN among partials becomes zero", _then(_nan_to(0.0)), "nan-inf"),
    _store("zeros-stored", "outputs are zero, whatever the sum", lambda x: torch.zeros_like(x).bfloat16(),
           "stale-buffers"),
    # coverage
    _tiles("remap-forgets-the-remainder", "the spread over the dies forgets the remainder of the division by 8",
           spread=lambda pid, total: pid % 8 * (total // 8) + pid // 8),
    _tiles("remap-rounds-up", "the spread over the dies rounds the run of a die up",
           spread=lambda pid, total: pid % 8 * -(-total // 8) + min(pid % 8, total % 8) + pid // 8),
    _tiles("remap-rounds-up-alone", "the spread over the dies gives every die the longest run",
           spread=lambda pid, total: pid % 8 * -(-total // 8) + pid // 8),
    _tiles("remap-without-splits", "the spread over the dies is told of the tiles, but not of the splits",
           told=lambda tiles_m, tiles_n, count: tiles_m * tiles_n),
    _tiles("last-band-too-tall", "the last band of tiles is taken for a whole one",
           order=lambda tile, tiles_m, tiles_n, group_m: (
               tile // (group_m * tiles_n) * group_m + tile % (group_m * tiles_n) % group_m,
               tile % (group_m * tiles_n) // group_m)),
    _tiles("last-tiles-of-n-not-launched", "the ragged tiles along N are never launched", "n-tail", "launch",
           launched=_whole_tiles(1)),
    _tiles("last-tiles-of-m-not-launched", "the ragged tiles along M are never launched", "small-m", "launch",
           launched=_whole_tiles(0)),
    _tiles("splits-not-launched", "workgroups are launched for one split alone", "split-span", "launch",
           launched=lambda tiles_m, tiles_n, count, scene: tiles_m * tiles_n),
    _edge("last-column-not-reduced", "n-tail", "reduce", "the last column of the output is never reduced", 1,
          several),
    _edge("last-row-not-reduced", "small-m", "reduce", "the last row of the output is never reduced", 0, several),
    _edge("last-column-not-stored", "n-tail", "store", "the last column of the output is never stored", 1, single),
    _edge("last-row-not-stored", "small-m", "store", "the last row of the output is never stored", 0, single),
    Suspect("nothing-written", "stale-buffers", "store", "no output is written: what was there before comes back",
            {"written": _lost}, rank=4),
)  # fmt: skip
"""Rules that act on sums and outputs."""
