"""One job of a campaign, and what tells it from every other."""

from dataclasses import asdict, dataclass
from typing import Any

from mxassay.kernels import Shape

__all__ = ["Job", "Key"]

Key = tuple[str, ...]
"""What a verdict is about, to the last detail: equal keys are the same job, whoever does it and when."""


@dataclass(frozen=True)
class Job:
    """One kernel on one case.

    Attributes:
        spec, abi, aiter: the kernel, as on the command line; spec None is our own.
        device: where it runs.
        shape, dialect, seed: the case.
        plan: the fields of a plan of our own kernel; None where the kernel plans for itself.
        plan_words: the plan as verdicts tell it.
    """

    spec: str | None
    abi: str | None
    aiter: str | None
    device: str
    shape: Shape
    dialect: str
    seed: int
    plan: tuple[tuple[str, int | bool], ...] | None = None
    plan_words: str = "own"

    @property
    def words(self) -> str:
        """For people."""
        shape = ",".join(map(str, self.shape))
        return f"{self.spec or 'our own kernel'} on {shape}, {self.plan_words}, {self.dialect}, seed {self.seed}"

    def as_wire(self) -> dict[str, Any]:
        """Plain types, for a worker of another process or machine."""
        return asdict(self)

    @staticmethod
    def from_wire(fields: dict[str, Any]) -> "Job":
        """The opposite of `as_wire`."""
        plan = fields["plan"]
        return Job(**{
            **fields,
            "shape": tuple(fields["shape"]),
            "plan": None if plan is None else tuple((name, value) for name, value in plan),
        })  # fmt: skip
