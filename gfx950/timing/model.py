"""Modelled time: the greatest of several bounds, each from work that was counted and a rate that is written down.

A launch takes the launch floor, and then the longest of

- wave: the slowest wave alone on its SIMD, times the rounds of workgroups that a compute unit runs one after another;
- vector, scalar, matrix: the busiest SIMD's cycles of each unit, its waves together;
- lds, l1: the busiest compute unit's, for l1 the one with the busiest workgroup; l2: the busiest die's; fabric: what
  all dies load and store, each line once a die; memory: every line once; before each of these last three, one trip to
  memory.

Workgroups go to the dies in turn and evenly to a die's compute units. So overlap inside a launch is taken as perfect,
between launches as none: a model to compare kernels by, no prediction. `CARD` and `NOT_MODELLED` say the rest.
"""

from dataclasses import dataclass
from typing import Any

from mxassay.gfx950.checks.traffic import LINE
from mxassay.gfx950.timing.assumptions import CARD, Card
from mxassay.gfx950.timing.watch import LaunchWork

__all__ = ["LaunchTime", "modelled"]


@dataclass(frozen=True)
class LaunchTime:
    """One launch. `bounds` in seconds by name; `seconds` is the launch floor and the greatest of them; `rounds`: how
    many times a compute unit is filled; `simd_issue`: cycles that the busiest SIMD issues."""

    kernel: str
    bounds: dict[str, float]
    launch: float
    rounds: int
    simd_issue: int

    @property
    def limit(self) -> str:
        """The bound that decides."""
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def seconds(self) -> float:
        return self.launch + self.bounds[self.limit]

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {
            "kernel": self.kernel, "seconds": self.seconds, "launch": self.launch, "limit": self.limit,
            "bounds": self.bounds, "rounds": self.rounds, "simd_issue": self.simd_issue,
        }  # fmt: skip


def modelled(work: LaunchWork, card: Card = CARD) -> LaunchTime:
    """The modelled time of one launch on `card`."""
    units, dies, simds = int(card["compute_units"]), int(card["dies"]), int(card["simds"])
    groups = max(work.groups, 1)
    per_unit = -(-groups // units)
    rounds = -(-per_unit // max(work.occupancy.groups, 1))
    # The busiest SIMD's share: the mean of a wave times its waves. Waves of a workgroup go round the SIMDs.
    waves = groups * work.waves_per_group
    busiest = -(-per_unit * work.waves_per_group // simds)
    per_simd = busiest / waves
    of_unit, of_die = per_unit / groups, -(-groups // dies) / groups
    lines = work.lines
    moved = {
        "fabric": (lines["loaded"] + lines["stored"]) * LINE / card["fabric_bytes"],
        "memory": (lines["loaded_once"] + lines["stored_once"]) * LINE / card["memory_bytes"],
        "l2": lines["requested"] * LINE * of_die / card["l2_bytes"] / card["clock"],
    }
    cycles = {
        "wave": float(rounds * work.longest),
        "vector": work.vector * per_simd,
        "scalar": work.scalar * per_simd,
        "matrix": work.matrix * per_simd,
        "lds": work.lds_cycles * of_unit,
        # Workgroups may differ: the one that sums what all of a tile have left loads most.
        "l1": (lines["busiest"] + lines["requested"] * (per_unit - 1) / groups) * LINE / card["l1_bytes"],
    }
    trip = card["memory_latency"] / card["clock"]
    return LaunchTime(
        work.kernel,
        {name: count / card["clock"] for name, count in cycles.items()}
        | {name: seconds + trip for name, seconds in moved.items()},
        card["launch"],
        rounds,
        round(work.issue * per_simd),
    )
