"""The jobs of a campaign: kernels times shapes times plans times dialects times seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from mxassay.campaign.job import Job
from mxassay.declaration import settled
from mxassay.errors import ContractError
from mxassay.kernels import Shape

__all__ = ["Sweep"]


@dataclass(frozen=True)
class Sweep:
    """What to do. `kernels`: as on the command line, "own" is ours; `dialects`: of the inputs, none: the one that each
    kernel declares; `neighbours`: so many plans beside our kernel's own for each shape. A shape that a kernel declares
    not to take is no job, but `left_out`.

    Raises ContractError on a dialect that is none of mxassay.reference.DIALECTS, here or in a kernel's file.
    """

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
        dialects: Sequence[str | None] = self.dialects or [None]
        found = [
            Job(spec, self.abi if spec else None, self.aiter, self.device, shape, dialect, seed, plan, words)
            for seed in range(self.seeds)
            for asked in dialects
            for shape in self.shapes
            for spec in self._specs
            if (told := settled(spec, asked)).admits(shape)
            for dialect in [_known(told.dialect)]
            for plan, words in self._plans(spec, shape)
        ]
        return list(dict.fromkeys(found))

    def left_out(self) -> list[tuple[str, Shape]]:
        """Kernels, and shapes that their files declare not to take."""
        return [
            (spec or "own", shape) for spec in self._specs for shape in self.shapes if not settled(spec).admits(shape)
        ]

    @property
    def _specs(self) -> list[str | None]:
        return [None if kernel == "own" else kernel for kernel in self.kernels]

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


def _known(dialect: str | None) -> str:
    from mxassay.reference import DIALECTS

    if dialect not in DIALECTS:
        raise ContractError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect}")
    return dialect
