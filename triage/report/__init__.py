"""The report of a diagnosis: one HTML file, text for a terminal, JSON for programs; all three say the same.

html(diagnosis, comparison) -> str
text(diagnosis, console)
as_json(diagnosis) -> dict
"""

from typing import Any

from rich.console import Console

from mxassay.triage.diagnosis import Diagnosis
from mxassay.triage.report.contents import Replay, document
from mxassay.triage.report.page import page
from mxassay.triage.report.plain import as_json
from mxassay.triage.report.terminal import print_document

__all__ = ["Replay", "as_json", "html", "text"]


def html(diagnosis: Diagnosis, comparison: Any = None, replay: Replay | None = None) -> str:
    """The report as one HTML file, to be written as UTF-8. It fetches nothing and runs nothing.

    Args:
        diagnosis: what was found out.
        comparison: of two versions of the kernel: their instructions stand beside the diagnosis.
        replay: how to see the failure again.
    """
    return page(document(diagnosis, replay))


def text(diagnosis: Diagnosis, console: Console, comparison: Any = None, replay: Replay | None = None) -> None:
    """Print the report. Args as for `html`."""
    print_document(document(diagnosis, replay), console)
