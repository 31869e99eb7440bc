"""One measured number, with its bar, its spread and its peer."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Figure", "Wish"]


@dataclass(frozen=True)
class Figure:
    """A figure of `mxassay bench`.

    Attributes:
        id: what was measured, in words; unique in a run.
        group: of the command line.
        value, unit: the median of `repeats`, or a count.
        bar: the most that we promise; None for a number that is only told.
        low, high: the least and the greatest of the repeats.
        cpu: seconds of processor time in the median repeat, where wall time was measured: on a busy machine it tells
            more.
        peer, ratio: who was measured beside it in the same run, and our value over theirs.
        note: what a reader must know.
    """

    id: str
    group: str
    value: float
    unit: str
    bar: float | None = None
    low: float | None = None
    high: float | None = None
    repeats: int = 1
    cpu: float | None = None
    peer: str | None = None
    ratio: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the value is at most the bar; None without one."""
        return None if self.bar is None else self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types; what is absent is left out, except `bar`, `holds` and `peer`'s `ratio`."""
        keep = {"id", "group", "value", "unit"} | ({"bar", "holds"} if self.bar is not None else set())
        keep |= {"peer", "ratio"} if self.peer is not None else set()
        row = {**asdict(self), "holds": self.holds}
        return {key: item for key, item in row.items() if key in keep or item not in (None, "")}


@dataclass(frozen=True)
class Wish:
    """What the user asked `mxassay bench` for: how often to repeat, and whose kernels to set beside ours."""

    repeats: int = 5
    aiter: str | None = None
    seed_kernel: str | None = None
