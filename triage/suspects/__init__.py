"""Wrong rules as variants of the reference: the one that gives the very bits of a wrong output is the cause."""

from mxassay.triage.suspects.library import SUSPECTS, exact, explanation, explanations, predicted
from mxassay.triage.suspects.suspect import Suspect

__all__ = ["SUSPECTS", "Suspect", "exact", "explanation", "explanations", "predicted"]
