"""The report of a diagnosis: one HTML file, text for a terminal, JSON for programs; all three say the same.

html(diagnosis, comparison) -> str
text(diagnosis, console)
as_json(diagnosis) -> dict
"""

from typing import TYPE_CHECKING

from rich.console import Console

from mxassay.triage.diagnosis import Diagnosis
from mxassay.triage.report.contents import Replay, document
from mxassay.triage.report.page import page
from mxassay.triage.report.plain import as_json
from mxassay.triage.report.terminal import print_document

if TYPE_CHECKING:
    from mxassay.triage.versions.compare import Compared

__all__ = ["Replay", "as_json", "html", "text"]


def html(diagnosis: Diagnosis | None, comparison: "Compared | None" = None, replay: Replay | None = None) -> str:
    """The report as one HTML file, to be written as UTF-8. It fetches nothing and runs nothing.

    Args:
        diagnosis: what was found out; None where there is only a comparison.
        comparison: of two versions of the kernel: what changed, and how their instructions differ.
        replay: how to see the failure again.

    Raises ContractError where there is neither.
    """
    return page(document(diagnosis, comparison, replay))


def text(
    diagnosis: Diagnosis | None,
    console: Console,
    comparison: "Compared | None" = None,
    replay: Replay | None = None,
) -> None:
    """Print the report. Args and Raises as for `html`."""
    print_document(document(diagnosis, comparison, replay), console)
