"""All exams, and those worth the time first after a property has failed."""

from mxassay.triage.exams.contracts import CONTRACTS
from mxassay.triage.exams.exam import Exam
from mxassay.triage.exams.host import HOST
from mxassay.triage.exams.machine import MACHINE
from mxassay.triage.exams.stages import STAGES

EXAMS: tuple[Exam, ...] = (*CONTRACTS, *HOST, *STAGES, *MACHINE)
"""Cheapest first."""


def exams_for(property_id: str) -> tuple[Exam, ...]:
    """EXAMS, those that name the property first."""
    return tuple(sorted(EXAMS, key=lambda exam: property_id not in exam.properties))
