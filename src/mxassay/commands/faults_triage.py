"""`mxassay faults --triage`: how often triage names the class and the stage of a planted fault."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mxassay.environment import environment
from mxassay.recording import Recorder
from mxassay.verdicts import Document, Verdict, exit_code

if TYPE_CHECKING:
    from mxassay.properties.faults import Fault
    from mxassay.triage_campaign import Triaged


def run(options: argparse.Namespace, faults: "list[Fault]", caches: Path, recorder: Recorder) -> int:
    """Diagnose each fault that has no proof of equivalence, print the table or JSON, and keep each answer.

    FAIL where less holds than is promised: see `mxassay.triage_campaign.BARS`.
    """
    from mxassay.properties.faults import causes
    from mxassay.triage_campaign import holds, score
    from mxassay.triage_campaign import run as run_campaign

    started = time.perf_counter()
    faults = [fault for fault in faults if not fault.equivalent]
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=options.json or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with progress:
        task = progress.add_task("diagnosing", total=len(faults))

        def told(one: "Triaged") -> None:
            progress.update(task, advance=1)
            said = f"{one.said_class} at {one.said_stage}: {one.sentence}"
            recorder.fault(f"triage:{one.id}", "right" if _right(one) else "wrong", one.seconds, said)
            ended.append(one)
            if progress.disable:
                right = "right" if _right(one) else "wrong"
                words = f"{right:6} {one.id}: {one.said_class} at {one.said_stage}"
                counted = f"({sum(map(_right, ended))} of {len(ended)} so far, {len(faults)} in all)"
                print(words, counted, file=sys.stderr, flush=True)

        ended: list[Triaged] = []
        found = run_campaign(
            faults, jobs=options.jobs, caches=caches, fresh=options.fresh, minutes=options.minutes, told=told
        )
    seconds = time.perf_counter() - started
    scores = score(found)
    verdict = Verdict.PASS if holds(scores) and len(found) == len(faults) else Verdict.FAIL
    if options.record:
        facts = {
            "date": time.strftime("%Y-%m-%d", time.gmtime()), "shipped": len(faults), "seconds": round(seconds),
            "jobs": options.jobs, "environment": environment(), "score": scores,
        }  # fmt: skip
        causes.write(Path(options.record), facts, [one.as_json() for one in found])
    if options.json:
        extra = {"faults": [one.as_json() for one in found], "score": scores}
        print(Document("faults", verdict, seconds, environment(), extra).dumps())
    else:
        _print(Console(width=None if sys.stdout.isatty() else 170), found, scores)
        left = len(faults) - len(found)
        more = f", {left} not begun within {options.minutes:g} minutes" if left else ""
        print(f"\n{verdict.value}  {len(found)} faults diagnosed{more}, {seconds:.0f} s")
    return exit_code(verdict)


def _right(one: "Triaged") -> bool:
    return (one.said_class, one.said_stage) == (one.class_, one.stage)


def _print(console: Console, found: "list[Triaged]", scores: dict[str, Any]) -> None:
    from mxassay.triage_campaign import BARS

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("fault", "class", "stage", "case", "seconds", "diagnosis"):
        right = heading == "seconds"
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "diagnosis")
    for one in found:
        size = f"{one.tiles} tile{'s' * (one.tiles != 1)}, {one.elements} elements" if one.product else "-"
        table.add_row(
            one.id,
            _said(one.said_class, one.class_),
            _said(one.said_stage, one.stage),
            size,
            f"{one.seconds:.1f}" if one.found else "-",
            one.sentence,
        )
    console.print(table)
    for name, words in (("all", "all faults"), ("kernels", "without those in what judges")):
        some = scores[name]
        console.print(f"\n{words}: {some['faults']}, of which {some['found']} were found", highlight=False)
        for key, what in (
            ("class", "right class ranked first"),
            ("stage", "right stage"),
            ("small", f"case of one tile and at most 4 elements, of {some['products']} products"),
        ):
            share = "-" if some[key] is None else f"{100 * some[key]:.1f} %"
            console.print(f"  {what:64}{share:>8}   bar {100 * BARS[key]:.0f} %", highlight=False)
        if some["seconds"] is not None:
            what = "median seconds from failure to diagnosis (of the processor)"
            both = f"{some['seconds']:.1f} ({some['processor']:.1f})"
            console.print(f"  {what:60}{both:>12}   bar {BARS['seconds']:.0f}", highlight=False)
    console.print("\nby what was wrong: faults, right class, right stage", highlight=False)
    for what, some in scores["evidence"].items():
        shares = "".join(f"{100 * some[key]:8.1f} %" for key in ("class", "stage"))
        console.print(f"  {what:52}{some['faults']:>4}{shares}", highlight=False)


def _said(said: str | None, right: str) -> str:
    return f"[green]{right}[/]" if said == right else f"[red]{said or 'none'}[/], not {right}"
