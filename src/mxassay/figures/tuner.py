"""An honest search over the plans of a shape: every candidate must be right to the bit before it may win.

The search starts at the plan that `plan_for` gives and walks: of the best plan so far it tries every neighbour, a plan
that differs in one field by one step, before it goes on from the next best. A real card is timed, in turn with the plan
to beat; without one the candidate runs on the emulated card and the stated model of time judges it.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mxassay.errors import ContractError, MxassayError
from mxassay.kernels import Shape

if TYPE_CHECKING:
    from mxassay.cases import Problem
    from mxassay.optimized import Plan

__all__ = ["Trial", "Tuned", "neighbours", "tune"]

_SEEDS = (0, 1)  # inputs that each candidate must get right
_FIELDS: dict[str, tuple[int, ...]] = {
    "tile_m": (4, 8, 16, 32, 64, 128, 256),
    "tile_n": (16, 32, 64, 128, 256),
    "tile_k": (128, 256, 512, 1024),
    "splits": (1, 2, 3, 4, 5, 7, 8, 10, 14, 16),
    "num_warps": (2, 4, 8),
    "num_stages": (1, 2, 3),
    "group_m": (1, 2, 4, 8),
    "matrix_instr_nonkdim": (16, 32),
    "waves_per_eu": (0, 1, 2, 4),
}


@dataclass(frozen=True)
class Trial:
    """One plan and what became of it: `seconds` where it is right, else `refused` says why it may not win."""

    plan: "Plan"
    seconds: float | None
    low: float | None = None
    high: float | None = None
    refused: str = ""
    how: str = ""

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {**asdict(self), "plan": asdict(self.plan), "words": self.plan.words}


@dataclass(frozen=True)
class Tuned:
    """All trials, the first of them the plan to beat. `best` is that plan where nothing right is faster."""

    shape: Shape
    device: str
    trials: tuple[Trial, ...]

    @property
    def baseline(self) -> Trial:
        return self.trials[0]

    @property
    def best(self) -> Trial:
        """The fastest right plan. On a real card its median must lie below all turns of the plan to beat."""
        right = [trial for trial in self.trials if trial.seconds is not None]
        found = min(right, key=lambda trial: trial.seconds or 0.0, default=self.baseline)
        least = self.baseline.low if self.baseline.low is not None else self.baseline.seconds
        beaten = least is None or (found.seconds is not None and found.seconds < least)
        return found if beaten else self.baseline


def neighbours(plan: "Plan") -> Iterator["Plan"]:
    """Legal plans one step away, each once.

    >>> from mxassay.optimized import Plan
    >>> len(list(neighbours(Plan(tile_m=4, tile_n=64, tile_k=256))))
    12
    """
    for field, values in _FIELDS.items():
        at = getattr(plan, field)
        lower = max((value for value in values if value < at), default=None)
        higher = min((value for value in values if value > at), default=None)
        for value in (lower, higher):
            if value is None:
                continue
            try:
                yield replace(plan, **cast(Any, {field: value}))
            except ContractError:
                continue


def tune(
    shape: Shape,
    device: str,
    candidates: int,
    *,
    start: "Plan | None" = None,
    told: Callable[[Trial], None] = lambda trial: None,
) -> Tuned:
    """Try up to `candidates` plans of `shape` beside the one to beat, which is `start` or else `plan_for`'s.

    device: "emulated" models; "mi355x" and "cuda" time. The device must be open.

    Raises MxassayError where the plan to beat is itself wrong.
    """
    from mxassay.devices import DEVICES
    from mxassay.optimized import plan_for

    judge = _Judge(shape, device, DEVICES[device].tensors_on)
    first = judge(start or plan_for(*shape))
    if first.seconds is None:
        raise MxassayError(f"the plan to beat must be right, not this: {first.refused}")
    trials = {first.plan: first}
    told(first)
    open_plans = [first]
    while open_plans and len(trials) <= candidates:
        best = min(open_plans, key=lambda trial: trial.seconds or 0.0)
        open_plans.remove(best)
        for plan in neighbours(best.plan):
            if plan in trials or len(trials) > candidates or _same_launch(plan, trials, shape):
                continue
            trial = trials[plan] = judge(plan)
            told(trial)
            if trial.seconds is not None:
                open_plans.append(trial)
    return Tuned(shape, device, tuple(trials.values()))


def _same_launch(plan: "Plan", tried: "dict[Plan, Trial]", shape: Shape) -> bool:
    """Whether the plan launches what another one launched already: K may not be divisible as it wishes."""
    from mxassay.optimized import reconcile

    def launched(one: "Plan") -> tuple[object, ...]:
        split = reconcile(shape[2], one.tile_k, one.splits)
        return (split, replace(one, tile_k=split.tile_k, splits=1))

    return any(launched(plan) == launched(other) for other in tried)


class _Judge:
    """Verifies a plan on the inputs of several seeds, then times or models it."""

    def __init__(self, shape: Shape, device: str, tensors_on: str) -> None:
        from mxassay.cases import Case, build

        self.shape, self.device = shape, device
        self.problems = [build(Case(shape, seed), tensors_on) for seed in _SEEDS]
        self.baseline: Plan | None = None

    def __call__(self, plan: "Plan") -> Trial:
        try:
            return self._modelled(plan) if self.device == "emulated" else self._timed(plan)
        except MxassayError as error:
            return Trial(plan, None, refused=str(error))
        except Exception as error:  # the compiler's own, of many kinds
            return Trial(plan, None, refused=f"it does not compile: {type(error).__name__}: {error}"[:300])

    def _run(self, plan: "Plan", problem: "Problem") -> str:
        from mxassay.optimized import matmul

        x = problem.arguments
        out = matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan)
        wrong = int(problem.expectation.wrong(out.cpu()).sum())
        return f"{wrong} outputs are wrong" if wrong else ""

    def _modelled(self, plan: "Plan") -> Trial:
        from mxassay.gfx950 import Options, emulated
        from mxassay.gfx950.timing import WorkObserver, modelled

        for problem in self.problems[1:]:
            with emulated():
                if refused := self._run(plan, problem):
                    return Trial(plan, None, refused=refused)
        observer = WorkObserver()
        with emulated(Options(observer=observer)):
            if refused := self._run(plan, self.problems[0]):
                return Trial(plan, None, refused=refused)
        if spills := sum(work.spills or 0 for work in observer.work):
            return Trial(plan, None, refused=f"it spills {spills} registers")
        times = [modelled(work) for work in observer.work]
        how = "modelled: " + ", ".join(f"{time.kernel} by {time.limit}" for time in times)
        return Trial(plan, sum(time.seconds for time in times), how=how)

    def _timed(self, plan: "Plan") -> Trial:
        import statistics

        from mxassay.figures.kernels_on_cuda import in_turn
        from mxassay.optimized import matmul

        for problem in self.problems:
            if refused := self._run(plan, problem):
                return Trial(plan, None, refused=refused)
        x = self.problems[0].arguments
        self.baseline = self.baseline or plan
        plans = {"candidate": plan, "baseline": self.baseline}
        calls = {
            name: partial(matmul, x.a, x.b_preshuffled, x.b_scales_shuffled, plan=one) for name, one in plans.items()
        }
        times = [1e-6 * each for each in in_turn(calls, 50)[0]]
        quartiles = statistics.quantiles(times, n=4)
        return Trial(plan, statistics.median(times), quartiles[0], quartiles[2], how="timed, in turn with the baseline")
