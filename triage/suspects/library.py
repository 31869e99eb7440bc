"""All suspects, and the search among them for the rule that gives the very bits of a wrong output."""

from collections.abc import Callable, Iterable, Sequence

import torch

from mxassay.triage.budget import TimeUp
from mxassay.triage.diagnosis import Explanation
from mxassay.triage.failure import Failure
from mxassay.triage.suspects.loading import LOADING
from mxassay.triage.suspects.pipeline import Prediction, product, sides
from mxassay.triage.suspects.quantizing import QUANTIZING
from mxassay.triage.suspects.scene import Scene, scenes_of
from mxassay.triage.suspects.summing import SUMMING
from mxassay.triage.suspects.suspect import RIGHT, Suspect

SUSPECTS: dict[str, Suspect] = {suspect.id: suspect for suspect in (*QUANTIZING, *LOADING, *SUMMING)}
"""By id; the simplest of a kind first."""

_POSTS = ("steps", "partial", "reduce", "store", "written")


def predicted(suspect: Suspect, scene: Scene, rows: torch.Tensor | None = None) -> Prediction | None:
    """What the rule gives in a call, or None where it acts on nothing there: then it predicts the right outputs.

    `rows`: int64, of the outputs to work out; all of them without it.
    """
    pipeline = suspect.in_scene(scene)
    if pipeline is RIGHT:
        return None
    found, loop = sides(pipeline, scene)
    right, _ = scene.once(("right",), lambda: sides(RIGHT, scene))
    if found.same(right) and all(getattr(pipeline, name) is getattr(RIGHT, name) for name in _POSTS):
        return None
    return product(pipeline, scene, found, loop, rows)


def explanation(
    suspect: Suspect, scene: Scene, out: torch.Tensor, wrong: torch.Tensor, rows: torch.Tensor | None = None
) -> Explanation | None:
    """How far the rule explains `out`, bfloat16 (M, N), of which `wrong`, bool (M, N), is wrong. None: not at all.

    With `rows`, int64, these rows alone are looked at and counted.
    """
    prediction = predicted(suspect, scene, rows)
    if prediction is None:
        return None
    if rows is not None:
        out, wrong = out[rows], wrong[rows]
    differs = prediction.expected.wrong(out)
    known = ~prediction.unknown
    reproduced = int((wrong & known & ~differs).sum())
    if not reproduced:
        return None
    return Explanation(
        suspect.id,
        suspect.class_,
        suspect.stage,
        suspect.statement,
        reproduced,
        int(wrong.sum()),
        int((~wrong & known & differs).sum()),
        int((wrong & ~known & ~differs).sum()),
    )


def explanations(
    failure: Failure,
    among: Iterable[Suspect] | None = None,
    *,
    until: Callable[[], bool] = lambda: False,
    told: Callable[[str], object] = lambda words: None,
) -> tuple[Explanation, ...]:
    """The suspects that reproduce something of a wrong output, best first: exact ones, then by the share of wrong
    outputs reproduced less the share of right ones spoiled.

    Stops once `until` holds, or at a TimeUp; `told` hears how many suspects were left untried then.

    An output about which the rule's own bound says next to nothing is neither reproduced nor a contradiction. One
    whose sum the certificate leaves open counts as reproduced inside the bound of the suspect's own sum, and where a
    suspect rounds on the way, nothing is said about it. Of a large output a few rows decide which suspects are worth a
    look at all of it. Empty where the kernel raised, or nothing is wrong.
    """
    out = failure.out
    if out is None or out.shape != failure.operands.expectation.exact.shape or out.dtype != torch.bfloat16:
        return ()
    wrong = failure.operands.expectation.wrong(out)
    if not wrong.any():
        return ()
    rows = _telling(wrong)
    scenes = scenes_of(failure)
    every = list(SUSPECTS.values() if among is None else among)
    best: dict[str, Explanation] = {}
    untried = len(every) * len(scenes)
    try:
        for scene in scenes:
            suspects = every
            if rows is not None:
                suspects = _worth_a_look(every, scene, out, wrong, rows, until)
            for suspect in suspects:
                if until():
                    raise TimeUp
                one = explanation(suspect, scene, out, wrong)
                if one and (suspect.id not in best or _order(one, wrong) < _order(best[suspect.id], wrong)):
                    best[suspect.id] = one
                untried -= rows is None
            untried -= len(every) * (rows is not None)
    except TimeUp:
        told(f"{untried} of {len(every) * len(scenes)} wrong rules were not held against the outputs: the time was up")
    return tuple(sorted(best.values(), key=lambda found: _order(found, wrong)))


def _worth_a_look(
    suspects: Sequence[Suspect],
    scene: Scene,
    out: torch.Tensor,
    wrong: torch.Tensor,
    rows: torch.Tensor,
    until: Callable[[], bool],
) -> list[Suspect]:
    """Those that explain the rows, and of the others the nearest few."""
    found = []
    for suspect in suspects:
        if until():
            raise TimeUp
        found.append(explanation(suspect, scene, out, wrong, rows))
    kept = sorted((one for one in found if one), key=lambda one: _order(one, wrong))
    names = {one.suspect for number, one in enumerate(kept) if one.exact or number < _NEAREST}
    return [suspect for suspect in suspects if suspect.id in names]


_FEW = 6  # rows that decide; the rest of a tile is worth it for few suspects alone
_NEAREST = 5


def _telling(wrong: torch.Tensor) -> torch.Tensor | None:
    """The rows with the most wrong outputs and those with the fewest; None where there are few rows anyway."""
    if len(wrong) <= 2 * _FEW:
        return None
    order = wrong.sum(1).sort().indices
    return torch.cat((order[: _FEW // 2], order[-_FEW:]))


def _order(found: Explanation, wrong: torch.Tensor) -> tuple[bool, float, int]:
    right = max(wrong.numel() - found.wrong, 1)
    return not found.exact, found.spoiled / right - found.reproduced / found.wrong, SUSPECTS[found.suspect].rank


def exact(found: Sequence[Explanation]) -> list[Explanation]:
    """Those that give every output bit for bit."""
    return [one for one in found if one.exact]
