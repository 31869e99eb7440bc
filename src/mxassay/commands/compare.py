"""`mxassay triage BASE CANDIDATE`: what became of a kernel between two versions."""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mxassay.declaration import Declaration, settled
from mxassay.devices import Device, device
from mxassay.environment import environment
from mxassay.errors import ContractError, MxassayError, UnsupportedError
from mxassay.recording import Recorder, recording
from mxassay.verdicts import Document, ExitCode, Verdict

if TYPE_CHECKING:
    from mxassay.hosting.versions import Examiner
    from mxassay.triage.diagnosis import Diagnosis
    from mxassay.triage.report import Replay
    from mxassay.triage.versions.cases import Case
    from mxassay.triage.versions.compare import Compared
    from mxassay.triage.versions.repository import Repository
    from mxassay.triage.versions.version import Version

_STYLE = {"identical": "green", "order-only": "green", "fixed": "green"}


def run(options: argparse.Namespace) -> int:
    """Compare two versions, print the answer as text or JSON, and keep it.

    The exit status is 0 where CANDIDATE is no worse than BASE, 1 where it is, 125 where one of them can't be tried, so
    that the command serves `git bisect run` as it is.
    """
    from mxassay.triage.versions.compare import Bench, UntestableError
    from mxassay.triage.versions.version import Versions

    started = time.perf_counter()
    with recording(options) as recorder, Versions(repository_of(options), options.kernel) as versions:
        try:
            base, candidate = (versions.named(words) for words in options.subject)
            told = told_by(options, versions.ready(base))
            with examiner_of(options, told) as examiner:
                cases = cases_of(options, base.spec, told, examiner.setting.device)
                with _told(f"comparing {base.words} with {candidate.words}", options):
                    found = Bench(cases, examiner.examine, versions.ready).compared(base, candidate)
                diagnosis = diagnosed(options, found, examiner)
        except (UntestableError, UnsupportedError) as error:
            return _untestable(options, str(error), time.perf_counter() - started)
        keep(recorder, found, examiner.setting.device.name, time.perf_counter() - started)
    seconds = time.perf_counter() - started
    worse = found.comparison.wrong
    saved = written(options, found, diagnosis)
    if options.json:
        verdict = Verdict.FAIL if worse else Verdict.PASS
        print(Document("triage", verdict, seconds, environment(), as_json(found, diagnosis, saved)).dumps())
    else:
        console = console_of()
        print_compared(console, found, diagnosis, saved)
        console.print(f"\n{len(found.comparison.rows)} cases on both, {seconds:.1f} s", highlight=False)
    return ExitCode.FAIL if worse else ExitCode.PASS


def repository_of(options: argparse.Namespace) -> "Repository | None":
    """The repository that `--repo` names, or the one here; None where there is none."""
    from mxassay.triage.versions.repository import Repository

    if options.repo is None:
        return Repository.around(Path.cwd())
    found = Repository.around(Path(options.repo))
    if found is None:
        raise ContractError(f"--repo must be a git repository, not {options.repo}")
    return found


def told_by(options: argparse.Namespace, base: "Version") -> Declaration:
    """What holds for both versions: an option where it was given, else what BASE declares. Its files must be there."""
    from mxassay.reference import DIALECTS

    told = settled(base.spec, options.dialect)
    if told.dialect not in DIALECTS:
        raise ContractError(f"dialect must be one of {', '.join(DIALECTS)}, not {told.dialect}")
    return told


def examiner_of(options: argparse.Namespace, told: Declaration) -> "Examiner":
    """The process that runs versions, as the options want it; it has not started yet."""
    from mxassay.hosting.versions import Examiner, Setting

    chosen, dialect = device(options.device), str(told.dialect)
    return Examiner(Setting(chosen, dialect, options.abi, options.aiter, options.tile, options.limit_seconds))


def cases_of(options: argparse.Namespace, spec: str | None, told: Declaration, chosen: Device) -> "list[Case]":
    """What both versions run. `--shapes` says which shapes; for a code object they follow from its tile, and a kernel
    that declares multiples gets no others.

    `spec`: what is opened, None for our own kernel, which also runs under plans that take its every branch.
    """
    from mxassay.commands.check import shapes_named
    from mxassay.properties.kernel import Contract
    from mxassay.triage.versions.cases import OWN_PLANS, SHAPES, cases_for

    if options.shapes:
        shapes = tuple(shapes_named(options.shapes))
    elif spec is not None and spec.endswith((".co", ".hsaco")):
        from mxassay.hosting.prebuilt import tile_of

        tile_m, tile_n = options.tile or tile_of(spec)
        shapes = ((tile_m, 2 * tile_n, 1024), (tile_m + 1, tile_n, 512))
    else:
        contract = Contract(*told.takes)
        shapes = tuple(dict.fromkeys(contract.fitted(shape) for shape in SHAPES))
    full_range = chosen.name in ("emulated", "mi355x")
    plans = OWN_PLANS if spec is None else ()
    return cases_for(shapes, dialect=str(told.dialect), seed=options.seed, full_range=full_range, plans=plans)


def diagnosed(options: argparse.Namespace, found: "Compared", examiner: "Examiner") -> "Diagnosis | None":
    """What is wrong with the smallest case that is a fault in CANDIDATE; None where there is none or nobody asks.

    That no diagnosis could be made is said on standard error; the comparison stands without it.
    """
    from mxassay.triage.versions.change import Change, Job

    faults = [row for row in found.comparison.rows if row.change is Change.FAULT]
    if not faults or options.no_diagnosis:
        return None
    with _told("looking for the cause", options):
        try:
            # The smallest one: what is looked for grows with it.
            return examiner.diagnose(found.candidate, Job(min(faults, key=lambda row: math.prod(row.case.shape)).case))
        except MxassayError as error:
            print(f"mxassay: {error}", file=sys.stderr)
            return None


def written(options: argparse.Namespace, found: "Compared", diagnosis: "Diagnosis | None") -> str | None:
    """Write what `--report` and `--script` name, and where a fault was diagnosed its smallest case; return the case's
    file.

    Raises ContractError where a file can't be written.
    """
    from mxassay.triage.report import html
    from mxassay.triaging import kept_case

    texts: dict[str, str] = {}
    if options.report:
        texts[options.report] = html(diagnosis, found, replay_for(diagnosis, options.save))
    saved = kept_case(diagnosis.shrunk, options.save) if diagnosis is not None else None
    if diagnosis is not None and options.script:
        from mxassay.triage.script import to_script

        texts[options.script] = to_script(diagnosis.shrunk)
    for place, text in texts.items():
        try:
            Path(place).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ContractError(f"a file must be one that can be written, not {place}: {error.strerror}") from error
    return saved


def replay_for(diagnosis: "Diagnosis | None", saved: str | None = None) -> "Replay | None":
    """How to run the smallest case again, in a checkout of CANDIDATE."""
    from mxassay.triaging import replay_of

    return replay_of(diagnosis.shrunk, saved) if diagnosis is not None else None


def keep(recorder: Recorder, found: "Compared", device_name: str, seconds: float) -> None:
    """Put the answer into the history."""
    from mxassay.triage.versions.history import Entry

    base, candidate, comparison = found.base, found.candidate, found.comparison
    recorder.keep(
        [
            Entry(
                recorder.command, candidate.name, f"against {base.words}", comparison.change.value, candidate.place,
                found.candidate_hash, candidate.commit, candidate.dirty, device_name,
                dialect=comparison.base_dialect or "", outputs=sum(row.outputs for row in comparison.rows),
                wrong=sum(row.candidate_wrong for row in comparison.rows), seconds=seconds,
                message=f"{candidate.words}: {comparison.words}",
            )
        ]
    )  # fmt: skip


def as_json(found: "Compared", diagnosis: "Diagnosis | None" = None, saved: str | None = None) -> dict[str, Any]:
    """The fields of the document. `saved`: the file of the smallest case."""
    sides = {
        side: {
            "words": version.words, "kernel": version.name, "place": version.place, "commit": version.commit,
            "subject": version.subject, "dirty": version.dirty, "kernel_hash": digest,
        }
        for side, version, digest in (
            ("base", found.base, found.base_hash), ("candidate", found.candidate, found.candidate_hash),
        )
    }  # fmt: skip
    from mxassay.triage.report import as_json as in_plain_types

    return {
        **sides,
        **found.comparison.as_json(),
        "diagnosis": in_plain_types(diagnosis) if diagnosis is not None else None,
        "case": saved,
    }


def console_of() -> Console:
    """Standard output; a pipe has no width, and a table cut to 80 columns there helps nobody."""
    return Console(width=None if sys.stdout.isatty() else 140)


def print_compared(
    console: Console, found: "Compared", diagnosis: "Diagnosis | None" = None, saved: str | None = None
) -> None:
    """The answer first, then the cases, then the figures that differ, then the diagnosis."""
    comparison = found.comparison
    style = "bold red" if comparison.wrong else _STYLE.get(comparison.change.value, "yellow")
    console.print(f"[{style}]{comparison.change.value}[/]  {comparison.words}", highlight=False, soft_wrap=True)
    for side, version in (("BASE", found.base), ("CANDIDATE", found.candidate)):
        about = [version.words, version.commit[:10] if version.commit[:10] != version.words else "", version.subject]
        words = "  ".join(filter(None, about)) + (" (changed since)" if version.dirty else "")
        console.print(f"  {side:10}{words}", highlight=False, markup=False, soft_wrap=True)
    dialects = comparison.base_dialect or "none fits", comparison.candidate_dialect or "none fits"
    if dialects[0] != dialects[1]:
        console.print(f"  dialect   {dialects[0]} became {dialects[1]}", highlight=False)
    console.print()
    console.print(_cases(found))
    for row in comparison.rows:
        if row.first:
            console.print(f"  {row.case.words}: {row.first}", highlight=False, markup=False, soft_wrap=True)
    _print_figures(console, found)
    if diagnosis is not None:
        from mxassay.triage.report import text

        console.print()
        text(diagnosis, console, replay=replay_for(diagnosis, saved))


def _cases(found: "Compared") -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("M,N,K", "inputs", "change", "differing", "wrong before", "wrong now", "certified", "plan"):
        right = heading not in ("inputs", "change", "plan")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "plan")
    for row in found.comparison.rows:
        change = row.change.value if row.change else "not run"
        style = "bold red" if row.wrong else _STYLE.get(change, "yellow")
        plans = row.base_plan if row.base_plan == row.candidate_plan else f"{row.base_plan} → {row.candidate_plan}"
        table.add_row(
            ",".join(map(str, row.case.shape)),
            row.case.inputs,
            f"[{style}]{change}[/]",
            f"{row.differing} of {row.outputs}" if row.outputs else "-",
            str(row.base_wrong),
            str(row.candidate_wrong),
            str(row.certified),
            plans,
        )
    return table


def _print_figures(console: Console, found: "Compared") -> None:
    if not found.counted:
        console.print(
            "\nno instruction figures: they are counted on the emulated card, where a kernel runs in our own process",
            highlight=False,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("M,N,K", "kernel", "figure", "before", "now", ""):
        table.add_column(
            heading, justify="right" if heading in ("M,N,K", "before", "now", "") else "left", no_wrap=True
        )
    rows = 0
    for entry in found.counted:
        for difference in entry.differences:
            before, after = difference.before, difference.after
            moved = f"{100 * (after - before) / before:+.0f} %" if before else "new"
            shape = ",".join(map(str, entry.case.shape))
            table.add_row(shape, difference.kernel, difference.figure, f"{before:,}", f"{after:,}", moved)
            rows += 1
    console.print()
    if rows:
        console.print(table)
    else:
        console.print("instruction figures: the same (registers, spills, instructions, bytes, LDS conflicts)")


@contextmanager
def _told(words: str, options: argparse.Namespace) -> Iterator[None]:
    console = Console(stderr=True)
    if options.json or not console.is_terminal:
        yield
        return
    with console.status(words):
        yield


def _untestable(options: argparse.Namespace, message: str, seconds: float) -> int:
    print(f"mxassay: {message}", file=sys.stderr)
    if options.json:
        extra = {"message": message}
        print(Document(options.command, Verdict.UNSUPPORTED, seconds, environment(), extra).dumps())
    return ExitCode.UNTESTABLE
