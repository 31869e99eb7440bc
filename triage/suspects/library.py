"""All suspects, and the search among them for the rule that gives the very bits of a wrong output."""

from collections.abc import Iterable, Sequence

import torch

from mxassay.triage.diagnosis import Explanation
from mxassay.triage.failure import Failure
from mxassay.triage.suspects.loading import LOADING
from mxassay.triage.suspects.pipeline import Prediction, Sides, product, sides
from mxassay.triage.suspects.quantizing import QUANTIZING
from mxassay.triage.suspects.scene import Scene, scenes_of
from mxassay.triage.suspects.summing import SUMMING
from mxassay.triage.suspects.suspect import RIGHT, Suspect

SUSPECTS: dict[str, Suspect] = {suspect.id: suspect for suspect in (*QUANTIZING, *LOADING, *SUMMING)}
"""By id; the simplest of a kind first."""

_POSTS = ("steps", "partial", "reduce", "store", "written")


def predicted(suspect: Suspect, scene: Scene) -> Prediction | None:
    """What the rule gives in a call, or None where it acts on nothing there: then it predicts the right outputs."""
    pipeline = suspect.in_scene(scene)
    if pipeline is RIGHT:
        return None
    found, loop = sides(pipeline, scene)
    right, _ = _right(scene)
    if found.same(right) and all(getattr(pipeline, name) is getattr(RIGHT, name) for name in _POSTS):
        return None
    return product(pipeline, scene, found, loop)


def _right(scene: Scene) -> tuple[Sides, Prediction]:
    def compute() -> tuple[Sides, Prediction]:
        found, loop = sides(RIGHT, scene)
        return found, product(RIGHT, scene, found, loop)

    return scene.once(("right",), compute)


def explanation(suspect: Suspect, scene: Scene, out: torch.Tensor, wrong: torch.Tensor) -> Explanation | None:
    """How far the rule explains `out`, bfloat16 (M, N), of which `wrong`, bool (M, N), is wrong. None: not at all."""
    prediction = predicted(suspect, scene)
    if prediction is None:
        return None
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
    )


def explanations(failure: Failure, among: Iterable[Suspect] | None = None) -> tuple[Explanation, ...]:
    """The suspects that reproduce something of a wrong output, best first: exact ones, then by the share of wrong
    outputs reproduced less the share of right ones spoiled.

    An output whose sum the certificate leaves open counts as reproduced inside the bound of the suspect's own sum, and
    where a suspect rounds on the way, nothing is said about it. Empty where the kernel raised, or nothing is wrong.
    """
    out = failure.out
    if out is None or out.shape != failure.operands.expectation.exact.shape or out.dtype != torch.bfloat16:
        return ()
    wrong = failure.operands.expectation.wrong(out)
    if not wrong.any():
        return ()
    best: dict[str, Explanation] = {}
    for scene in scenes_of(failure):
        for suspect in SUSPECTS.values() if among is None else among:
            found = explanation(suspect, scene, out, wrong)
            if found and (suspect.id not in best or _order(found, wrong) < _order(best[suspect.id], wrong)):
                best[suspect.id] = found
    return tuple(sorted(best.values(), key=lambda found: _order(found, wrong)))


def _order(found: Explanation, wrong: torch.Tensor) -> tuple[bool, float, int]:
    right = max(wrong.numel() - found.wrong, 1)
    return not found.exact, found.spoiled / right - found.reproduced / found.wrong, SUSPECTS[found.suspect].rank


def exact(found: Sequence[Explanation]) -> list[Explanation]:
    """Those that give every output bit for bit."""
    return [one for one in found if one.exact]
