"""The jobs of a campaign: kernels times shapes times plans times dialects times seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from mxassay.campaign.job import Job
from mxassay.kernels import Shape

__all__ = ["Sweep"]


@dataclass(frozen=True)
class Sweep:
    """What to do. `kernels`: as on the command line, "own" is ours; `neighbours`: so many plans beside our kernel's own
    for each shape."""

    kernels: Sequence[str]
    shapes: Sequence[Shape]
    dialects: Sequence[str]
    seeds: int
    device: str
    neighbours: int = 0
    abi: str | None = None
    aiter: str | None = None

    def jobs(self) -> list[Job]:
        """Each once, in an order that visits all kernels and shapes early."""
        found = [
            Job(spec, self.abi if spec else None, self.aiter, self.device, shape, dialect, seed, plan, words)
            for seed in range(self.seeds)
            for dialect in self.dialects
            for shape in self.shapes
            for spec in (None if kernel == "own" else kernel for kernel in self.kernels)
            for plan, words in self._plans(spec, shape)
        ]
        return list(dict.fromkeys(found))

    def _plans(self, spec: str | None, shape: Shape) -> Iterator[tuple[tuple[tuple[str, int | bool], ...] | None, str]]:
        if spec is not None:
            yield None, "own"
            return
        from mxassay.figures.tuner import neighbours
        from mxassay.optimized import plan_for

        own = plan_for(*shape)
        for number, plan in enumerate((own, *neighbours(own))):
            if number > self.neighbours:
                return
            yield tuple(asdict(plan).items()), plan.words
