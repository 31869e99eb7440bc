"""Looks at one stage of a kernel by itself, or at what judges it: each look has one answer on a right kernel."""

from mxassay.triage.exams.exam import Exam, Seen, look
from mxassay.triage.exams.judges import JUDGES
from mxassay.triage.exams.order import EXAMS, exams_for

__all__ = ["EXAMS", "JUDGES", "Exam", "Seen", "exams_for", "look"]
