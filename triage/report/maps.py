"""Maps of the wrong outputs: difference of values, bit distance, certificate; one cell for an output or for a tile."""

import torch

from mxassay.triage.failure import Failure
from mxassay.triage.report.document import Level, Map, Maps
from mxassay.triage.report.outputs import Outputs, bfloat16_place, ranges

MOST_CELLS = 64
"""Outputs along one side, up to which each has a cell of its own: 5 px on a phone."""

_RIGHT = Level("right", ".", "right")
_SPECIAL = Level("nan", "N", "NaN on one side alone")

VALUES = (
    _RIGHT,
    Level("low3", "L", "too small by half of the largest output, or more"),
    Level("low2", "l", "too small by a 16th of it, or more"),
    Level("low1", "-", "too small by less"),
    Level("high1", "+", "too large by less"),
    Level("high2", "h", "too large by a 16th, or more"),
    Level("high3", "H", "too large by half of the largest output, or more"),
    _SPECIAL,
)
STEPS = (
    _RIGHT,
    Level("step1", "1", "1 step, the neighbouring bfloat16"),
    Level("step2", "2", "2 to 15 steps"),
    Level("step3", "3", "16 to 127 steps, less than a factor of two"),
    Level("step4", "4", "128 steps or more, of the same sign"),
    Level("step5", "5", "another sign"),
    _SPECIAL,
)
CERTIFICATE = (
    Level("sure", ".", "right, certified: one bit pattern alone is right"),
    Level("bound", "o", "right, within the bound: order of summation may show"),
    Level("sure-wrong", "X", "wrong, certified"),
    Level("bound-wrong", "B", "wrong, outside the bound"),
)
FOLDED = (
    _RIGHT,
    Level("share1", "1", "wrong in fewer than half of the blocks"),
    Level("share2", "2", "wrong in half of them, or more"),
    Level("share3", "3", "wrong in all of them"),
)


def maps(title: str, failure: Failure, outputs: Outputs) -> Maps:
    """The three maps of a call."""
    m, n = outputs.wrong.shape
    tile = (1, 1) if max(m, n) <= MOST_CELLS else tile_of(failure)
    cell = "one output" if tile == (1, 1) else f"one tile of {tile[0]} × {tile[1]} outputs and shows its worst"
    drawn = tuple(
        Map(name, cell, levels, _cells(of(outputs), tile, order), ("row", 0, m - 1), ("column", 0, n - 1), summary)
        for name, levels, of, order, summary in (
            ("Difference of values", VALUES, _values, (0, 4, 3, 5, 2, 6, 1, 7), _value_summary(outputs)),
            ("Bit distance", STEPS, _steps, tuple(range(len(STEPS))), _step_summary(outputs)),
            ("Certificate", CERTIFICATE, _certificate, tuple(range(len(CERTIFICATE))), _certificate_summary(outputs)),
        )
    )
    return Maps(title, drawn if tile == (1, 1) else (*drawn, _folded(outputs, tile)))


def tile_of(failure: Failure) -> tuple[int, int]:
    """(tile_m, tile_n) of the plan; of a code object's name; 16 × 16, the output of one MFMA, where nobody said."""
    plan = failure.launch.plan
    if plan is not None and hasattr(plan, "tile_m"):
        return plan.tile_m, plan.tile_n
    return failure.subject.tile or (16, 16)


def where_wrong(outputs: Outputs) -> tuple[str, str]:
    """Rows and columns that hold wrong outputs, in words."""
    return ranges(outputs.wrong.any(dim=1)), ranges(outputs.wrong.any(dim=0))


def _cells(level: torch.Tensor, tile: tuple[int, int], order: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The worst level of each tile; `order` names the levels, best first."""
    rank = torch.empty(len(order), dtype=torch.long)
    rank[list(order)] = torch.arange(len(order))
    padding = [0, -level.shape[1] % tile[1], 0, -level.shape[0] % tile[0]]
    ranked = torch.nn.functional.pad(rank[level], padding)
    down, across = ranked.shape[0] // tile[0], ranked.shape[1] // tile[1]
    worst = ranked.reshape(down, tile[0], across, tile[1]).amax(dim=(1, 3))
    return tuple(tuple(order[int(place)] for place in row) for row in worst)


def _folded(outputs: Outputs, tile: tuple[int, int]) -> Map:
    """All tiles on top of one another: a fault of a row group, a lane or a register shows its period here."""
    height, width = (min(side, MOST_CELLS) for side in tile)
    m, n = outputs.wrong.shape
    counts, blocks = (torch.zeros(height, width, dtype=torch.long) for _ in range(2))
    row, column = torch.arange(m)[:, None] % height, torch.arange(n)[None, :] % width
    places = (row * width + column).flatten()
    counts.view(-1).index_add_(0, places, outputs.wrong.long().flatten())
    blocks.view(-1).index_add_(0, places, torch.ones(m * n, dtype=torch.long))
    level = (counts > 0).long() + (2 * counts >= blocks.clamp(min=1)).long() + (counts == blocks.clamp(min=1)).long()
    touched = int((counts > 0).sum())
    return Map(
        "Place within a block",
        f"one place in blocks of {height} × {width}, over all blocks",
        FOLDED,
        tuple(map(tuple, torch.where(counts > 0, level, 0).tolist())),
        ("row", 0, height - 1),
        ("column", 0, width - 1),
        f"{touched:,} of {height * width:,} places are wrong in some block",
    )


def _values(outputs: Outputs) -> torch.Tensor:
    difference = _difference(outputs)
    exact = outputs.expectation.exact.double()
    finite = exact[exact.isfinite()].abs()
    largest = float(finite.max()) if len(finite) else 0.0
    size = difference.abs() / (largest or 1.0)
    magnitude = 1 + (size >= 1 / 16).long() + (size >= 1 / 2).long()
    level = torch.where(difference < 0, 4 - magnitude, 3 + magnitude)
    return _where_wrong(outputs, level, 7)


def _difference(outputs: Outputs) -> torch.Tensor:
    """float64 (M, N): what came out less what must; where both are the same infinity it is right, and 0."""
    difference = outputs.out.double() - outputs.expectation.exact.double()
    return torch.where(outputs.wrong, difference, 0.0)


def _steps(outputs: Outputs) -> torch.Tensor:
    level = 1 + torch.bucketize(outputs.steps, torch.tensor([2, 16, 128]), right=True)
    turned = bfloat16_place(outputs.out).sign() * bfloat16_place(outputs.expectation.exact).sign() < 0
    return _where_wrong(outputs, torch.where(turned, 5, level), 6)


def _certificate(outputs: Outputs) -> torch.Tensor:
    return torch.where(outputs.expectation.certified, 0, 1) + 2 * outputs.wrong.long()


def _where_wrong(outputs: Outputs, level: torch.Tensor, special: int) -> torch.Tensor:
    return torch.where(outputs.wrong, torch.where(outputs.special, special, level), 0)


def _value_summary(outputs: Outputs) -> str:
    difference, plain = _difference(outputs), outputs.wrong & ~outputs.special
    low, high = int((plain & (difference < 0)).sum()), int((plain & (difference > 0)).sum())
    nans = int(outputs.special.sum())
    parts = [f"{low:,} too small, {high:,} too large"] + ([f"{nans} NaN on one side alone"] if nans else [])
    return ", ".join(parts)


def _step_summary(outputs: Outputs) -> str:
    steps = outputs.steps[outputs.wrong & ~outputs.special]
    if not len(steps):
        return "no finite distance"
    least, middle, most = int(steps.min()), int(steps.median()), int(steps.max())
    if least == most:
        return f"{least:,} bfloat16 {'step' if most == 1 else 'steps'}"
    return f"{least:,} to {most:,} bfloat16 steps, the middle one {middle:,}"


def _certificate_summary(outputs: Outputs) -> str:
    certified, wrong = outputs.expectation.certified, outputs.wrong
    both = int((certified & wrong).sum())
    which = {0: "none of the wrong ones", outputs.count: "every wrong one"}
    among = which.get(both, f"{both:,} of the {outputs.count:,} wrong ones")
    return f"{int(certified.sum()):,} of {wrong.numel():,} outputs certified, {among} among them"
