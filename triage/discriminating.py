"""Experiments that tell suspects apart: calls for which they foresee different outputs, made and compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mxassay.properties.operands import Operands
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run, again, malformed
from mxassay.triage.suspects.library import predicted
from mxassay.triage.suspects.pipeline import Prediction
from mxassay.triage.suspects.scene import Scene, scenes_of
from mxassay.triage.suspects.suspect import Suspect


@dataclass(frozen=True)
class Experiment:
    """A failing call, changed in one respect. `change` returns None where it does not apply."""

    id: str
    change: Callable[[Failure], Failure | None]


def _padding(byte: int) -> Callable[[Failure], Failure | None]:
    return lambda failure: replace(failure, placement=replace(failure.placement, padding=byte))


def _view(view: str) -> Callable[[Failure], Failure | None]:
    return lambda failure: replace(failure, placement=replace(failure.placement, view=view))


def _plan(**changes: Any) -> Callable[[Failure], Failure | None]:
    def change(failure: Failure) -> Failure | None:
        plan = failure.launch.plan
        return None if plan is None else replace(failure, launch=replace(failure.launch, plan=replace(plan, **changes)))

    return change


def _deeper(more: int) -> Callable[[Failure], Failure | None]:
    """K longer by `more`, with blocks that come again: other tails, other spans."""

    def change(failure: Failure) -> Failure | None:
        groups = failure.operands.shape[2] // 32
        index = torch.arange(groups + more // 32) % groups
        return replace(failure, operands=failure.operands.blocks(index))

    return change


def _to_depth(steps: float) -> Callable[[Failure], Failure | None]:
    """K of that many steps of the plan."""

    def change(failure: Failure) -> Failure | None:
        plan, groups = failure.launch.plan, failure.operands.shape[2] // 32
        if plan is None:
            return None
        wanted = int(plan.tile_k * steps)
        if wanted % 64 or wanted == failure.operands.shape[2]:
            return None
        return replace(failure, operands=failure.operands.blocks(torch.arange(wanted // 32) % groups))

    return change


def _lone_activations(failure: Failure) -> Failure | None:
    """Activations of one sign in each block, magnitudes that quantize without rounding: codes alone matter."""
    a = failure.operands.a.clone()
    k = torch.arange(a.shape[1])
    a[:] = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0, 0.5, 1.5])[k % 7].bfloat16()
    return replace(failure, operands=replace(failure.operands, a=a, words="activations that quantize exactly"))


def _ramped_scales(failure: Failure) -> Failure | None:
    """Every scale of W another than its neighbours'."""
    scales = failure.operands.scales
    row, group = torch.arange(scales.shape[0]).unsqueeze(1), torch.arange(scales.shape[1])
    ramped = (124 + (3 * row + 5 * group + row // 16 + group // 4) % 7).to(torch.uint8)
    return replace(failure, operands=replace(failure.operands, scales=ramped, words="scales that name their blocks"))


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("neutral padding", _padding(0x7F)),
    Experiment("padding of NaN", _padding(0xFF)),
    Experiment("padding of zeros", _padding(0x00)),
    Experiment("contiguous activations", _view("contiguous")),
    Experiment("columns of a wider buffer", _view("columns of a wider buffer")),
    Experiment("one split", _plan(splits=1)),
    Experiment("two splits", _plan(splits=2)),
    Experiment("K of one and a half steps", _to_depth(1.5)),
    Experiment("K of three steps", _to_depth(3)),
    Experiment("K of two steps and a quarter", _to_depth(2.25)),
    Experiment("K of one step", _to_depth(1)),
    Experiment("deeper by 64", _deeper(64)),
    Experiment("scales that name their blocks", _ramped_scales),
    Experiment("activations that quantize exactly", _lone_activations),
    Experiment("linear weights", _plan(linear=True)),
    Experiment("preshuffled weights", _plan(linear=False)),
    Experiment("gathered scales", _plan(tile_n=16, tile_k=128)),
    Experiment("wide loads of scales", _plan(tile_n=32, tile_k=256, matrix_instr_nonkdim=16)),
)
"""Of those that tell as much, the first is made."""


def tell_apart(
    suspects: Sequence[Suspect], failure: Failure, run: Run, *, runs: int = 6, until: Callable[[], bool] = lambda: False
) -> tuple[list[Suspect], list[str]]:
    """The suspects that also foresee what comes out of other calls, and words about the calls that were made.

    Each time the call is made for which the most pairs of suspects foresee different outputs. Suspects of one class and
    stage are not told apart. Stops after `runs` calls, or once `until` holds.
    """
    left, words = list(suspects), []
    calls = list(_applicable(failure))
    for _ in range(runs):
        if until() or _settled(left):
            break
        best = _most_telling(left, calls, until)
        if best is None:
            break
        calls.remove(best)
        experiment, call = best
        found = again(call, run)
        if found.out is None or malformed(found):
            continue
        scene = scenes_of(call)[0]
        kept = [suspect for suspect in left if not _contradicts(_foreseen(suspect, scene), found.out)]
        if kept and len(kept) < len(left):
            gone = ", ".join(suspect.id for suspect in left if suspect not in kept)
            words.append(f"with {experiment.id}: not {gone}")
            left = kept
    return left, words


def _settled(suspects: Sequence[Suspect]) -> bool:
    return len({(suspect.class_, suspect.stage) for suspect in suspects}) < 2


def _most_telling(
    suspects: Sequence[Suspect], calls: Sequence[tuple[Experiment, Failure]], until: Callable[[], bool]
) -> tuple[Experiment, Failure] | None:
    """The call for which the most pairs foresee different outputs, the first of several; None where none does."""
    best, most = None, 0
    for experiment, call in calls:
        if until():
            break
        scene = scenes_of(call)[0]
        told = _pairs_told_apart([(s.class_, s.stage, _foreseen(s, scene)) for s in suspects])
        if told > most:
            best, most = (experiment, call), told
    return best


def _applicable(failure: Failure) -> Iterator[tuple[Experiment, Failure]]:
    from mxassay.errors import MxassayError

    for experiment in EXPERIMENTS:
        try:
            call = experiment.change(failure)
        except MxassayError:  # such a plan is not legal
            continue
        if call is not None:
            yield experiment, call


def _foreseen(suspect: Suspect, scene: Scene) -> Prediction:
    return predicted(suspect, scene) or _right(scene.operands)


def _right(operands: Operands) -> Prediction:
    expected = operands.expectation
    return Prediction(expected, torch.zeros_like(expected.certified))


def _pairs_told_apart(foreseen: list[tuple[str, str, Prediction]]) -> int:
    """How many pairs of suspects of different classes or stages foresee different certified bits."""
    return sum(
        (class_, stage) != (other_class, other_stage) and _contradicts(one, other.expected.exact)
        for number, (class_, stage, one) in enumerate(foreseen)
        for other_class, other_stage, other in foreseen[number + 1 :]
    )


def _contradicts(prediction: Prediction, out: torch.Tensor) -> bool:
    return bool((prediction.expected.wrong(out) & ~prediction.unknown).any())
