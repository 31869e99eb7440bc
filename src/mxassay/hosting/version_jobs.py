"""Jobs and plans on their way to the process that runs a version, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from mxassay.errors import UnsupportedError

if TYPE_CHECKING:
    from mxassay.arenas import Arena
    from mxassay.kernels import GemmArguments
    from mxassay.triage.versions.cases import Case
    from mxassay.triage.versions.change import Job


def job_as_json(job: "Job") -> dict[str, Any]:
    """Plain JSON types; `case_of` reads the case back."""
    plan = dict(job.case.plan) if job.case.plan else None
    return {"case": asdict(job.case), "plan": job.plan or plan, "counted": job.counted}


def case_of(document: Mapping[str, Any]) -> "Case":
    """The case that `job_as_json` wrote."""
    from mxassay.triage.versions.cases import Case

    m, n, k = document["shape"]
    plan = tuple((name, value) for name, value in document["plan"]) if document["plan"] else None
    return Case((m, n, k), document["inputs"], document["dialect"], document["seed"], plan)


def planned(plan: Any) -> dict[str, Any]:
    """A plan in words, and its fields where it can be made again: of dataclasses, named tuples and dictionaries."""
    if plan is None:
        return {"plan": None, "words": "own"}
    if is_dataclass(plan) and not isinstance(plan, type):
        found = {field.name: getattr(plan, field.name) for field in fields(plan) if field.init}
    elif hasattr(plan, "_asdict"):
        found = plan._asdict()
    elif isinstance(plan, dict):
        found = plan
    else:
        return {"plan": None, "words": str(plan)}
    if not all(isinstance(value, int | float | str | bool | None) for value in found.values()):
        return {"plan": None, "words": str(plan)}
    words = getattr(plan, "words", None)
    said = words if isinstance(words, str) else " ".join(f"{name}={value}" for name, value in found.items())
    return {"plan": found, "words": said}


class NoSuchPlanError(UnsupportedError):
    """This version has no plan with these fields."""


def plan_from(like: Any, values: Mapping[str, Any]) -> Any:
    """The plan that has these fields, of the type of `like`, this version's own plan.

    Raises NoSuchPlanError.
    """
    try:
        return dict(values) if isinstance(like, dict) else type(like)(**values)
    except Exception as error:
        raise NoSuchPlanError(f"a plan must be one that this version has, not {dict(values)}") from error


def arenas_of(case: "Case", device: str) -> "tuple[GemmArguments, tuple[Arena, ...]]":
    """The arguments of a case, each in a guarded buffer; the padding of the scale table is NaN."""
    import torch

    from mxassay.arenas import Arena
    from mxassay.kernels import GemmArguments
    from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
    from mxassay.reference import dequantize

    operands = case.operands()
    given = {
        "a": operands.a,
        "b": dequantize(operands.codes, operands.scales).to(torch.bfloat16),
        "b_packed": operands.codes,
        "b_preshuffled": WEIGHT_PRESHUFFLE.apply(operands.codes),
        "b_scales_shuffled": SCALE_SHUFFLE.apply(operands.scales, fill=0xFF),
    }
    arenas = tuple(Arena(name, tensor, device, fill=True) for name, tensor in given.items())
    return GemmArguments(**{arena.name: arena.tensor for arena in arenas}), arenas
