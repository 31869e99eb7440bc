"""The chapter of the model of time: its bounds, its assumptions, how far to trust it."""

import json
from pathlib import Path

import mxassay.figures
from chapters.statement import table
from mxassay.gfx950.timing import CARD, NOT_MODELLED

_BOUNDS = (
    ("wave", "the slowest wave alone on its SIMD, times the rounds of workgroups that a compute unit runs in turn"),
    ("vector, scalar, matrix", "the busiest SIMD's cycles of each unit, its waves together"),
    ("lds, l1", "the busiest compute unit's bytes; for LDS with its bank conflicts"),
    ("l2", "the busiest die's bytes, after one trip to memory"),
    ("fabric", "what all dies load and store, each line of 128 bytes once a die, after one trip to memory"),
    ("memory", "every line once, after one trip to memory"),
)
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1.0, ""), (1e-6, "u"))
_PUBLISHED = "the model over published times of prebuilt kernels"


def page() -> str:
    """spec/time-model.md."""
    lines = [
        "# The model of time",
        "",
        (
            "`mxassay bench gfx950` and `mxassay bench --tune` set a time beside a kernel that ran on the emulated "
            "card. What is counted is fact: instructions by class, waits, bytes, lines, LDS cycles, registers. The "
            "time is a model's: the launch floor, and then the longest of these bounds."
        ),
        "",
        *table(("bound", "what it is"), _BOUNDS),
        "",
        (
            "Workgroups go to the dies in turn, and evenly to a die's compute units. A wave issues in order, once "
            "in four cycles; a load's data are there a latency after its issue, and `s_waitcnt` waits for them; a "
            "barrier waits for the last wave. Overlap inside a launch is taken as perfect, between launches as "
            "none. It is a model to compare kernels by, no prediction: where it and experience with a card "
            "disagree, experience is right."
        ),
        "",
        "## How far to trust it",
        "",
        *_published(),
        "",
        "## What it takes for granted",
        "",
        (
            "certain: AMD states it, or it follows from what AMD states. inferred: measured or stated for a near "
            "relative, or drawn from published timings. unknown: nobody says; a declared policy."
        ),
        "",
        *table(
            ("assumption", "value", "how sure", "source"),
            (
                (f"`{row['name']}`", _value(row["value"], row["unit"]), f"**{row['how']}**", row["source"])
                for row in CARD.rows()
            ),
        ),
        "",
        "`mxassay.gfx950.timing.CARD.but(launch=0)` gives the same model with another number.",
        "",
        "## What is in no number",
        "",
        *(f"- {words}" for words in NOT_MODELLED),
    ]
    return "\n".join(lines) + "\n"


def _value(value: float, unit: str) -> str:
    """
    >>> _value(17.2e12, "B/s"), _value(2.2e-6, "s"), _value(256, "")
    ('17.2 TB/s', '2.2 us', '256')
    """
    if unit in ("Hz", "B/s", "s"):
        factor, prefix = next(pair for pair in _PREFIXES if value >= pair[0])
        return f"{value / factor:.4g} {prefix}{unit}"
    return f"{value:g} {unit}".strip()


def _published() -> list[str]:
    record = json.loads(Path(mxassay.figures.__file__).with_name("last.json").read_text(encoding="utf-8"))
    (figure,) = [row for row in record["figures"] if row["id"] == _PUBLISHED]
    return [
        (
            f"aiter publishes times of its prebuilt kernels on an MI355X. Over those shapes the model gives "
            f"{figure['value']:.2f} of the published time in the geometric mean, {figure['low']:.2f} to "
            f"{figure['high']:.2f} (record of {record['machine']['date']}). A ratio of two modelled times of one shape "
            "that is nearer to 1 than this spread should convince nobody."
        )
    ]
