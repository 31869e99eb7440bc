"""A failing call made as small as it goes: fewest tiles, fewest elements that are not zero, the simplest values."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mxassay.properties.kernel import Launch
from mxassay.properties.operands import Operands
from mxassay.reference import pack, unpack
from mxassay.triage.budget import TimeUp
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, again, kind, malformed, wrong_outputs

_ONE = 0x3F80  # bfloat16 1.0
_CODE_ONE = 2  # E2M1 1.0


@dataclass(frozen=True)
class Size:
    """How large a case is.

    `elements` counts activations and codes of W that are not zero (-0 counts as zero); `tiles` the output tiles of
    the plan that the outputs cover.
    """

    tiles: int
    elements: int

    @property
    def small(self) -> bool:
        """At most one tile and four elements."""
        return self.tiles <= 1 and self.elements <= 4


def size_of(failure: Failure) -> Size:
    """The size of a case. Where the plan is not known, tiles are 16 x 32."""
    m, n, _ = failure.operands.shape
    plan = failure.launch.plan
    tile_m, tile_n = (plan.tile_m, plan.tile_n) if plan is not None else (16, 32)
    codes = unpack(failure.operands.codes)
    elements = int((_words(failure.operands.a) & 0x7FFF != 0).sum()) + int((codes & 7 != 0).sum())
    return Size(-(-m // tile_m) * -(-n // tile_n), elements)


def _words(a: torch.Tensor) -> torch.Tensor:
    return a.contiguous().view(torch.int16).int() & 0xFFFF


@dataclass
class _Search:
    """The smallest case so far, and what may still be spent."""

    best: Failure
    run: Run
    until: float
    runs: int
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.kind = kind(self.best)

    @property
    def spent(self) -> bool:
        return self.runs <= 0 or time.process_time() > self.until

    def take(self, operands: Operands | None = None, launch: Launch | None = None, placement: Any = None) -> bool:
        """Whether the changed call still fails in the same way; it is the best one then."""
        if self.spent:
            return False
        self.runs -= 1
        changed = replace(
            self.best,
            operands=operands or self.best.operands,
            launch=launch or self.best.launch,
            placement=placement or self.best.placement,
        )
        found = again(changed, self.run)
        if kind(found) != self.kind:
            return False
        self.best = found
        return True


def shrink(failure: Failure, run: Run, *, seconds: float = 5.0, runs: int = 250) -> Failure:
    """The smallest call found that fails in the same way as `failure` (see `mxassay.triage.rerun.kind`).

    Our own kernel keeps the plan that it chose for the case as it came. In turn: one tile around the first wrong
    output, a simpler launch, fewer blocks and elements that are not zero (delta debugging), 1 for values and 127 for
    scales, and at last the least shape. Stops after `seconds` of processor time or `runs` calls, whichever comes first,
    and at a TimeUp; a shape that the kernel has not been compiled for takes about a second.

    Returns the call with what came of it when it was last run; `failure` itself where it does not fail again.
    """
    first = again(failure, run)
    if not kind(first) or kind(first).split(":")[0] != kind(failure).split(":")[0]:
        return failure
    search = _Search(first, run, time.process_time() + seconds, runs)
    with contextlib.suppress(TimeUp):
        _made_small(search)
    words = f"shrunk from {failure.operands!r}"
    return replace(search.best, operands=replace(search.best.operands, words=words))


def _made_small(search: _Search) -> None:
    _same_plan(search)
    _one_tile(search)
    _shallower(search)
    _simpler_launch(search)
    _two_terms(search)
    for _ in range(2):
        before = size_of(search.best).elements
        _fewer_elements(search)
        if search.spent or size_of(search.best).elements == before:
            break
    _simpler_values(search)
    _least_shape(search)


def _place(failure: Failure) -> tuple[int, int]:
    """Row and column of a wrong output, one whose bits are certain if there is such a one; (0, 0) where none is."""
    if failure.out is None or malformed(failure):
        return 0, 0
    wrong = wrong_outputs(failure)
    certain = wrong & failure.operands.expectation.certified
    i, j = (int(x) for x in (certain if certain.any() else wrong).nonzero()[0])
    return i, j


def _same_plan(search: _Search) -> None:
    """A smaller shape would get another plan from our own kernel, and the fault may be that of the plan's."""
    failure = search.best
    own = failure.subject.spec is None and failure.subject.abi == "mxfp4-gemm"
    if own and failure.launch.plan is None and failure.launch.entry != "custom_kernel":
        from mxassay.optimized import plan_for

        search.take(launch=replace(failure.launch, plan=plan_for(*failure.operands.shape)))


def _one_tile(search: _Search) -> None:
    """The tile around a wrong output, cut so that what is ragged stays ragged: then nothing is compiled anew."""
    m, n, _ = search.best.operands.shape
    i, j = _place(search.best)
    plan = search.best.launch.plan
    tile_m, tile_n = (plan.tile_m, plan.tile_n) if plan is not None else (16, 32)
    rows, columns = _range(i, tile_m, m, 1), _range(j, tile_n, n, 16)
    operands = search.best.operands
    if (len(rows), len(columns)) != (m, n):
        small = operands.rows(rows).columns(columns)
        if not search.take(small) and not search.take(operands.rows(rows)):
            search.take(operands.columns(columns))


def _range(index: int, tile: int, size: int, least: int) -> torch.Tensor:
    """The places of the tile that holds `index`; less `least` of them where the last tile of `size` is not whole and
    this one is."""
    first = index // tile * tile
    last = min(first + tile, size)
    if size % tile and last - first == tile and tile > 2 * least:
        first, last = (first + least, last) if index - first >= least else (first, last - least)
    return torch.arange(first, last)


def _shallower(search: _Search) -> None:
    """Fewer steps of a deep K, ragged where it was: every later call is the faster."""
    operands, plan = search.best.operands, search.best.launch.plan
    tile = plan.tile_k if plan is not None else 256
    k = operands.shape[2]
    rest = k % tile
    for steps in (1, 2):
        depth = steps * tile + rest
        if depth < k // 2 and search.take(operands.blocks(torch.arange(depth // 32))):
            return


def _simpler_launch(search: _Search) -> None:
    failure = search.best
    if failure.placement.view != "contiguous":
        search.take(placement=replace(failure.placement, view="contiguous"))
    if failure.launch.entry != "matmul" and not search.take(launch=replace(failure.launch, entry="matmul")):
        return
    plan = search.best.launch.plan
    if plan is None:
        return
    for splits in (1, 2):
        if plan.splits > splits and search.take(launch=replace(search.best.launch, plan=replace(plan, splits=splits))):
            break
    plan = search.best.launch.plan
    if plan.group_m > 1:
        search.take(launch=replace(search.best.launch, plan=replace(plan, group_m=1)))


# Two terms of a sum in the places of bits where roundings part: above a tie, at a tie below an even and an odd number.
_TERMS = ((1.0, 1.5 * 2.0**-8), (1.0, 2.0**-8), (1.0, 3 * 2.0**-8), (-1.0, -1.5 * 2.0**-8))


def _two_terms(search: _Search) -> None:
    """The shortest sum that needs rounding, in place of one that becomes exact with each element that it loses."""
    if search.kind != "certified":
        return
    i, j = _place(search.best)
    operands = search.best.operands
    k = operands.shape[2]
    for first, second in _TERMS:
        a, codes = torch.zeros_like(operands.a), torch.zeros_like(unpack(operands.codes))
        a[i, 0], a[i, k - 32] = first, second
        codes[j, 0] = codes[j, k - 32] = _CODE_ONE
        scales = torch.full_like(operands.scales, 127)
        if search.take(replace(operands, a=a, codes=pack(codes).contiguous(), scales=scales)):
            return


# Delta debugging over groups of elements.


def _ddmin(units: list[Any], keeps: Callable[[list[Any]], bool]) -> None:
    """Tell `keeps` ever smaller lists of units to keep; it answers whether that still fails."""
    if units and keeps([]):
        return
    pieces = 2
    while len(units) > 1:
        step = -(-len(units) // pieces)
        chunks = [units[start : start + step] for start in range(0, len(units), step)]
        for chunk in chunks if len(chunks) > 1 else []:
            if keeps(chunk):
                units, pieces = chunk, 2
                break
        else:
            for number in range(len(chunks)):
                rest = [unit for other, chunk in enumerate(chunks) if other != number for unit in chunk]
                if len(chunks) > 2 and keeps(rest):
                    units, pieces = rest, max(pieces - 1, 2)
                    break
            else:
                if pieces >= len(units):
                    return
                pieces = min(2 * pieces, len(units))


def _fewer_elements(search: _Search) -> None:
    i, j = _place(search.best)
    operands = search.best.operands
    one_row, one_column = torch.zeros(operands.shape[0], 1), torch.zeros(operands.shape[1], 1)
    one_row[i], one_column[j] = 1, 1
    a, w = one_row.bool().expand(operands.a.shape), one_column.bool().expand(-1, operands.shape[2])
    if not _keep(search, a, w) and not _keep(search, None, w):
        _keep(search, a, None)
    for unit in (32, 1):
        _ddmin(_ranges(search.best.operands, unit), lambda kept: _keep_depths(search, kept))
    for keep, table in ((_keep_w, _codes), (_keep_a, lambda operands: _words(operands.a) & 0x7FFF)):
        _ddmin(list(_groups(table(search.best.operands), 1)), _keeper(search, keep))


def _ranges(operands: Operands, unit: int) -> list[torch.Tensor]:
    """The places along K, `unit` together, at which A or W is not zero."""
    used = (_words(operands.a) & 0x7FFF).ne(0).any(0) | _codes(operands).ne(0).any(0)
    return [part for part in torch.arange(len(used)).view(-1, unit) if used[part].any()]


def _keep_depths(search: _Search, kept: list[torch.Tensor]) -> bool:
    """Keep these places along K, of A and W alike."""
    operands = search.best.operands
    mask = torch.zeros(operands.shape[2], dtype=torch.bool)
    for part in kept:
        mask[part] = True
    return _keep(search, mask.expand(operands.a.shape), mask.expand(operands.shape[1], -1))


def _keep(search: _Search, a: torch.Tensor | None, w: torch.Tensor | None) -> bool:
    """Keep the elements of A and of W that the masks name; None keeps all."""
    operands = search.best.operands
    if a is not None:
        operands = replace(operands, a=torch.where(a, operands.a, torch.zeros_like(operands.a)))
    if w is not None:
        codes = torch.where(w, unpack(operands.codes), 0).to(torch.uint8)
        operands = replace(operands, codes=pack(codes).contiguous())
    return search.take(operands)


def _groups(values: torch.Tensor, unit: int) -> Iterator[torch.Tensor]:
    """The places of what is not zero, (count, 2), by groups of `unit` along K."""
    places = values.nonzero()
    if unit == 1:
        yield from places.unsqueeze(1)
        return
    keys = places[:, 0] * values.shape[1] + places[:, 1] // unit
    for key in sorted(set(keys.tolist())):
        yield places[keys == key]


def _keeper(search: _Search, keep: Callable[[_Search, torch.Tensor], bool]) -> Callable[[list[Any]], bool]:
    def keeps(units: list[Any]) -> bool:
        shape = search.best.operands.a.shape if keep is _keep_a else _codes(search.best.operands).shape
        mask = torch.zeros(shape, dtype=torch.bool)
        for places in units:
            mask[places[:, 0], places[:, 1]] = True
        return keep(search, mask)

    return keeps


def _keep_a(search: _Search, mask: torch.Tensor) -> bool:
    return _keep(search, mask, None)


def _keep_w(search: _Search, mask: torch.Tensor) -> bool:
    return _keep(search, None, mask)


def _codes(operands: Operands) -> torch.Tensor:
    """int (N, K), the sign of zero left out."""
    codes = unpack(operands.codes).int()
    return torch.where(codes == 8, 0, codes)


def _simpler_values(search: _Search) -> None:
    operands = search.best.operands
    plain = torch.full_like(operands.scales, 127)
    if not search.take(replace(operands, scales=plain)):
        _plain_scales(search)
    operands = search.best.operands
    words = _words(operands.a)
    ones = torch.where(words & 0x7FFF != 0, _ONE, 0).to(torch.int16).view(torch.bfloat16)
    if not search.take(replace(operands, a=ones)):
        for i, k in (words & 0x7FFF).nonzero()[:8].tolist():
            changed = search.best.operands.a.clone()
            changed[i, k] = 1.0
            search.take(replace(search.best.operands, a=changed))
    codes = _codes(search.best.operands)
    plain_codes = torch.where(codes != 0, _CODE_ONE, 0).to(torch.uint8)
    search.take(replace(search.best.operands, codes=pack(plain_codes).contiguous()))
    if search.best.placement.padding != 0x7F:
        search.take(placement=replace(search.best.placement, padding=0x7F))


def _plain_scales(search: _Search) -> None:
    """127 wherever a code is zero, then in all columns but that of the first wrong output, then one at a time."""
    operands = search.best.operands
    n, k = operands.shape[1:]
    used = _codes(operands).view(n, k // 32, 32).ne(0).any(2)
    search.take(replace(operands, scales=torch.where(used, operands.scales, 127).to(torch.uint8)))
    operands = search.best.operands
    for row, group in (operands.scales != 127).nonzero()[:12].tolist():
        changed = search.best.operands.scales.clone()
        changed[row, group] = 127
        search.take(replace(search.best.operands, scales=changed))


def _least_shape(search: _Search) -> None:
    """One row, 16 columns and the least K that still fail: each a shape that may have to be compiled.

    Where one tile does not fail, a whole tile and the least part of a second one may.
    """
    i, j = _place(search.best)
    m, n, k = search.best.operands.shape
    plan = search.best.launch.plan
    tile_m, tile_n = (plan.tile_m, plan.tile_n) if plan is not None else (16, 32)
    for rows in ([i], range(m - tile_m - 1, m), range(tile_m + 1)):
        if m > len(rows) and rows[0] >= 0 and search.take(search.best.operands.rows(torch.tensor(list(rows)))):
            break
    for columns in (range(j // 16 * 16, j // 16 * 16 + 16), range(n - tile_n - 16, n), range(tile_n + 16)):
        if n > len(columns) and columns[0] >= 0 and search.take(search.best.operands.columns(torch.tensor(columns))):
            break
    operands = search.best.operands
    used = (_words(operands.a) & 0x7FFF).ne(0).any(0) | _codes(operands).ne(0).any(0)
    last = int(used.nonzero().max()) if used.any() else 0
    for least in dict.fromkeys((-(-(last + 1) // 64) * 64, -(-(last + 1) // 256) * 256)):
        if least < k and search.take(operands.blocks(torch.arange(least // 32))):
            return
