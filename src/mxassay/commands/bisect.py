"""`mxassay bisect`: the commit that changed what a kernel computes."""

import argparse
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mxassay.commands import compare
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.recording import recording
from mxassay.verdicts import Document, ExitCode, Verdict

if TYPE_CHECKING:
    from mxassay.triage.diagnosis import Diagnosis
    from mxassay.triage.versions.bisect import Bisected, Step

_STYLE = {"good": "green", "bad": "bold red", "skipped": "yellow"}


def run(options: argparse.Namespace) -> int:
    """Bisect, compare the first bad commit with its parent, print both as text or JSON, and keep the answer.

    The exit status is 0 where one commit was found, 3 where commits that can't be tried leave several.
    """
    from mxassay.triage.versions.bisect import Bisection
    from mxassay.triage.versions.compare import Bench
    from mxassay.triage.versions.version import Versions

    started = time.perf_counter()
    repository = compare.repository_of(options)
    if repository is None:
        raise ContractError("a bisection must run in a git repository, not outside; name one with --repo PATH")
    good, bad = repository.commit(options.good), repository.commit(options.bad)
    with recording(options) as recorder, Versions(repository, options.kernel) as versions:
        base = versions.ready(versions.revision(good))
        told_by_good = compare.told_by(options, base)
        with compare.examiner_of(options, told_by_good) as examiner:
            cases = compare.cases_of(options, base.spec, told_by_good, examiner.setting.device)
            console = Console(stderr=True)
            live = console.is_terminal and not options.json
            told = (lambda step: _print_step(console, step)) if live else (lambda step: None)
            bench = Bench(cases, examiner.examine, versions.ready)
            found = Bisection(versions, bench, told).between(good, bad)
            diagnosis = compare.diagnosed(options, found.compared, examiner) if found.compared else None
        seconds = time.perf_counter() - started
        if found.compared is not None:
            compare.keep(recorder, found.compared, examiner.setting.device.name, seconds)
    saved = compare.written(options, found.compared, diagnosis) if found.compared else None
    if options.json:
        verdict = Verdict.PASS if found.first_bad else Verdict.UNSUPPORTED
        print(Document("bisect", verdict, seconds, environment(), as_json(found, diagnosis, saved)).dumps())
    else:
        _print(compare.console_of(), found, diagnosis, saved, seconds)
    return ExitCode.PASS if found.first_bad else ExitCode.UNSUPPORTED


def as_json(found: "Bisected", diagnosis: "Diagnosis | None", saved: str | None = None) -> dict[str, Any]:
    """The fields of the document. `saved`: the file of the smallest case."""
    return {
        "first_bad": found.first_bad,
        "suspects": list(found.suspects),
        "steps": [asdict(step) for step in found.steps],
        "notes": list(found.notes),
        "compared": found.compared and compare.as_json(found.compared, diagnosis, saved),
    }


def _print_step(console: Console, step: "Step") -> None:
    console.print(f"[{_STYLE[step.status]}]{step.status:8}[/]{step.commit[:10]}  {step.change}", highlight=False)


def _print(
    console: Console, found: "Bisected", diagnosis: "Diagnosis | None", saved: str | None, seconds: float
) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("commit", "", "since GOOD", "", "subject"):
        table.add_column(heading, no_wrap=heading != "subject")
    for step in found.steps:
        again = "same kernel as before" if step.cached else ""
        table.add_row(step.commit[:10], f"[{_STYLE[step.status]}]{step.status}[/]", step.change, again, step.subject)
    console.print(table)
    ran = sum(not step.cached for step in found.steps)
    if found.first_bad is None:
        console.print("\n[yellow]several commits are left[/], since those between can't be tried:", highlight=False)
        for commit in found.suspects:
            console.print(f"  {commit}", highlight=False)
    else:
        assert found.compared is not None
        subject = found.compared.candidate.subject
        console.print(f"\nfirst bad commit: [bold]{found.first_bad}[/]  {subject}", highlight=False, soft_wrap=True)
        for note in found.notes:
            console.print(f"  {note}", highlight=False, markup=False, soft_wrap=True)
        console.print()
        compare.print_compared(console, found.compared, diagnosis, saved)
    console.print(f"\n{len(found.steps)} commits looked at, {ran} kernels run, {seconds:.1f} s", highlight=False)
    sys.stdout.flush()
