"""A diagnosis as plain JSON types, for programs."""

from dataclasses import asdict
from math import isfinite
from typing import Any

from mxassay.triage.diagnosis import Diagnosis
from mxassay.triage.failure import Failure
from mxassay.triage.report.contents import verdict_words
from mxassay.triage.report.outputs import bfloat16_hex, outputs_of
from mxassay.triage.report.smallest import nonzero_elements


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Everything that the report says, without the pictures, as the types that JSON has."""
    said, certainty = verdict_words(diagnosis)
    explanations = [{**_renamed(asdict(x)), "exact": x.exact} for x in diagnosis.explanations]
    return {
        "sentence": said,
        "certainty": certainty,
        "class": diagnosis.class_,
        "stage": diagnosis.stage,
        "failure": _failure(diagnosis.failure),
        "shrunk": _failure(diagnosis.shrunk),
        "explanations": explanations,
        "xray": _xray(diagnosis),
        "blame": asdict(diagnosis.blame) if diagnosis.blame else None,
        "notes": list(diagnosis.notes),
        "seconds": dict(diagnosis.seconds),
    }


def _renamed(fields: dict[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in fields.items()}


def _failure(failure: Failure) -> dict[str, Any]:
    outputs = outputs_of(failure)
    plan = failure.launch.plan
    found: dict[str, Any] = {
        "subject": asdict(failure.subject),
        "shape": list(failure.operands.shape),
        "inputs": failure.operands.words,
        "dialect": failure.operands.dialect,
        "plan": getattr(plan, "words", None) if plan is not None else None,
        "entry": failure.launch.entry,
        "placement": asdict(failure.placement),
        "property": failure.property,
        "error": failure.error,
        "nonzero_elements": nonzero_elements(failure),
        "outputs": failure.operands.shape[0] * failure.operands.shape[1],
        "wrong": outputs.count if outputs else None,
        "first_wrong": None,
    }
    if found["subject"]["tile"] is not None:
        found["subject"]["tile"] = list(found["subject"]["tile"])
    if outputs is not None and outputs.first is not None:
        i, j = outputs.first
        exact = outputs.expectation.exact
        found["first_wrong"] = {
            "index": [i, j],
            "got": _number(float(outputs.out[i, j])),
            "got_hex": bfloat16_hex(outputs.out[i, j]),
            "expected": _number(float(exact[i, j])),
            "expected_hex": bfloat16_hex(exact[i, j]),
            "certified": bool(outputs.expectation.certified[i, j]),
            "steps": None if outputs.special[i, j] else int(outputs.steps[i, j]),
        }
    return found


def _number(value: float) -> float | str:
    """JSON has neither NaN nor infinities."""
    return value if isfinite(value) else str(value)


def _xray(diagnosis: Diagnosis) -> dict[str, Any] | None:
    xray = diagnosis.xray
    if xray is None:
        return None
    checkpoints = [asdict(checkpoint) for checkpoint in xray.checkpoints]
    for checkpoint in checkpoints:
        source = checkpoint["source"]
        checkpoint["index"] = list(checkpoint["index"])
        checkpoint["source"] = {"file": source[0], "line": source[1]} if source else None
    first = xray.first_divergence
    place = next((i for i, checkpoint in enumerate(xray.checkpoints) if checkpoint is first), None)
    return {"checkpoints": checkpoints, "first_divergence": place, "notes": list(xray.notes)}
