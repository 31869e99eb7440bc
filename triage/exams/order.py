"""All exams, and those worth the time first after a property has failed."""

from mxassay.triage.exams.contracts import CONTRACTS
from mxassay.triage.exams.exam import Exam
from mxassay.triage.exams.host import HOST
from mxassay.triage.exams.joins import JOINS
from mxassay.triage.exams.machine import MACHINE
from mxassay.triage.exams.stages import STAGES

EXAMS: tuple[Exam, ...] = (*CONTRACTS, *HOST, *STAGES, *MACHINE, *JOINS)
"""Cheapest first."""


# What needs no launch first: it is certain, and costs next to nothing.
_WITH_A_WRONG_PRODUCT = tuple(sorted((*STAGES, *HOST, *MACHINE), key=lambda exam: exam.launches))


def exams_for(property_id: str, product: bool, joined: bool = False) -> tuple[Exam, ...]:
    """The exams in the order in which they are worth the time: those that name the property first. Where a `product` is
    wrong, contracts and caches have nothing to say, and stages by themselves come first; before them the sum, where it
    is `joined` to the launch, and nowhere else."""
    exams = ((*JOINS, *_WITH_A_WRONG_PRODUCT) if joined else _WITH_A_WRONG_PRODUCT) if product else EXAMS
    return tuple(sorted(exams, key=lambda exam: property_id not in exam.properties))
