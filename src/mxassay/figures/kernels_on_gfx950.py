"""Our kernels on gfx950 by counts and a stated model, beside the contest entry's and aiter's prebuilt ones."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured
from mxassay.figures.rivals import Call, Rival, contest_entry, default_entry, prebuilt, published
from mxassay.figures.watched import Watched, watch
from mxassay.kernels import GemmArguments, Shape

_VECTOR_BAR = 0.6  # of the seed's vector ALU instructions an MFMA
_TIME_BAR = 0.75  # of the seed's modelled time, in the geometric mean
_CALIBRATED = 8  # shapes of aiter's table


def measure(wish: Wish) -> Measured:
    """For each leaderboard shape: vector ALU instructions an MFMA and modelled time, ours over the seed's; spills and
    wrong bits over all shapes. The table has a row a launch, with everything that was counted.

    The seed is `wish.seed_kernel`, else the file beside the checkout; without one there is no bar. With `wish.aiter`,
    its prebuilt kernels stand beside, and the model is held against published times of theirs.
    """
    from mxassay.gfx950.timing import CARD, NOT_MODELLED
    from mxassay.optimized import LEADERBOARD

    with _seed(wish) as seed:
        ours = [watch(_own, shape) for shape in LEADERBOARD]
        theirs = [watch(seed.call, shape) for shape in LEADERBOARD] if seed else None
    figures = [*_counts(LEADERBOARD, ours, theirs), *_times(LEADERBOARD, ours, theirs), *_health(ours)]
    table = [row for each in ours for row in each.rows("ours")]
    table += [row for each in theirs or () for row in each.rows("seed")]
    if wish.aiter:
        checkout = Path(wish.aiter)
        for shape in LEADERBOARD:
            rival = prebuilt(checkout, shape)
            table += watch(rival.call, shape).rows(rival.name)
        figures.append(_calibration(checkout))
    table += [{"assumption": row["name"], **row} for row in CARD.rows()]
    table += [{"assumption": "not modelled", "source": words} for words in NOT_MODELLED]
    return Measured(tuple(figures), tuple(table))


def _own(x: GemmArguments) -> Any:
    from mxassay.optimized import matmul

    return matmul(x.a, x.b_preshuffled, x.b_scales_shuffled)


@contextlib.contextmanager
def _seed(wish: Wish) -> Iterator[Rival | None]:
    file = Path(wish.seed_kernel) if wish.seed_kernel else default_entry()
    if file is None:
        yield None
        return
    with contest_entry(file) as rival:
        yield rival


def _named(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _counts(shapes: tuple[Shape, ...], ours: list[Watched], theirs: list[Watched] | None) -> Iterator[Figure]:
    for index, (shape, own) in enumerate(zip(shapes, ours, strict=True)):
        value = own.vector_per_matrix
        peer = theirs[index].vector_per_matrix if theirs else None
        yield Figure(
            id=f"{_named(shape)} vector ALU per MFMA", group="gfx950", value=value, unit="",
            bar=_VECTOR_BAR * peer if peer else None, peer=f"seed: {peer:.1f}" if peer else None,
            ratio=value / peer if peer else None,
        )  # fmt: skip


def _times(shapes: tuple[Shape, ...], ours: list[Watched], theirs: list[Watched] | None) -> Iterator[Figure]:
    ratios = []
    for index, (shape, own) in enumerate(zip(shapes, ours, strict=True)):
        peer = theirs[index].seconds if theirs else None
        if peer:
            ratios.append(own.seconds / peer)
        yield Figure(
            id=f"{_named(shape)} modelled time", group="gfx950", value=own.seconds * 1e6, unit="us",
            bar=peer * 1e6 if peer else None, peer=f"seed: {peer * 1e6:.2f} us" if peer else None,
            ratio=own.seconds / peer if peer else None, note=own.limit,
        )  # fmt: skip
    if theirs:
        busy = [own.busy / other.busy for own, other in zip(ours, theirs, strict=True)]
        yield Figure(
            id="modelled time over the seed's", group="gfx950", value=_geometric(ratios), unit="", bar=_TIME_BAR,
            low=min(ratios), high=max(ratios), note="geometric mean of six, launches included",
        )  # fmt: skip
        yield Figure(
            id="modelled time over the seed's, without launch cost", group="gfx950", value=_geometric(busy), unit="",
            low=min(busy), high=max(busy), note="geometric mean of six",
        )  # fmt: skip


def _health(ours: list[Watched]) -> Iterator[Figure]:
    spills = sum(work.spills or 0 for each in ours for work in each.work)
    yield Figure(id="registers spilled, six shapes", group="gfx950", value=spills, unit="", bar=0)
    wrong = sum(each.wrong for each in ours)
    yield Figure(id="wrong outputs, six shapes", group="gfx950", value=wrong, unit="", bar=0)


def _calibration(checkout: Path) -> Figure:
    """Modelled over published time of prebuilt kernels: how far to trust the model."""
    rows = sorted(published(checkout).items(), key=lambda row: row[1])
    step = max(1, len(rows) // _CALIBRATED)
    ratios = []
    for shape, seconds in rows[::step]:
        call: Call = prebuilt(checkout, shape).call
        ratios.append(watch(call, shape).seconds / seconds)
    return Figure(
        id="the model over published times of prebuilt kernels", group="gfx950", value=_geometric(ratios), unit="",
        low=min(ratios), high=max(ratios), repeats=len(ratios),
        note="aiter's tuning table, times on an MI355X; geometric mean, least and greatest",
    )  # fmt: skip


def _geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
