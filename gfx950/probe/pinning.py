"""From a real card's answers to pins."""

from dataclasses import dataclass

from mxassay.errors import ContractError
from mxassay.gfx950.pins import PINNABLE, Pins
from mxassay.gfx950.probe.asking import QUESTIONS, contradictions, hypotheses
from mxassay.gfx950.probe.record import Record

__all__ = ["Pinned", "pins_of"]

# Ways of adding that the emulator has, by the probe's names.
_MODELS = {
    "exact, rounded once": "exact",
    "one product after another in float32": "sequential-f32",
    "as MI300X was measured (MMA-Sim)": "truncating",
}


@dataclass(frozen=True, slots=True)
class Pinned:
    """`pins`, and by question why the others of the pinnable ones are `open`."""

    pins: Pins
    open: dict[str, str]


def pins_of(record: Record) -> Pinned:
    """What `record`, the answers of a real card, pins.

    Float32 operands are left out of the way of adding: they have their own.

    Raises:
        ContractError: the record is of an emulated card, or contradicts what is certain.
    """
    if record.kind == "emulated":
        raise ContractError("pins must come from a real card's answers, not from the emulated one's")
    wrong = contradictions(record)
    if wrong:
        raise ContractError(f"the controls must be answered as is certain, not otherwise: {', '.join(wrong)}")
    readings, left = [], {}
    for identity, known in PINNABLE.items():
        answer = record.answers.get(identity)
        if answer is None or answer.outputs is None:
            left[identity] = "no answer"
        elif not answer.stable:
            left[identity] = "the answer changes"
        elif answer.digest != QUESTIONS[identity].digest:
            left[identity] = "asked with other code or inputs"
        elif not answer.readings or answer.readings[0] not in known:
            left[identity] = "no behaviour that the emulator has gives these bits"
        else:
            readings.append((identity, answer.readings[0]))
    models = {
        instruction: {_MODELS[name] for name in names if name in _MODELS}
        for instruction, names in hypotheses(record).items()
        if instruction != "mfma.f32"
    }
    common = set.intersection(*models.values()) if models else set()
    if len(common) != 1:
        left["accumulation"] = "no one model gives the answers of every matrix instruction"
    return Pinned(Pins(tuple(readings), next(iter(common)) if len(common) == 1 else None), left)
