"""`mxassay history`: when a property last passed, and how counts moved."""

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.verdicts import Document, ExitCode, Verdict

if TYPE_CHECKING:
    from mxassay.triage.versions.history import Entry
    from mxassay.triage.versions.standing import Moved, Standing

_STYLE = {
    "PASS": "green",
    "killed": "green",
    "right": "green",
    "FAIL": "bold red",
    "ERROR": "bold red",
    "UNSUPPORTED": "yellow",
}


def run(options: argparse.Namespace) -> int:
    """Print how each property of each kernel stands, and what comparisons and bisections found."""
    from mxassay.triage.versions.history import History, default_path
    from mxassay.triage.versions.standing import ABOUT_PROPERTIES, standings

    started = time.perf_counter()
    with History(Path(options.history) if options.history else default_path(), create=False) as history:
        entries = history.entries(options.kernel, options.property)
    if not entries:
        wanted = [f"of {options.kernel}"] if options.kernel else []
        wanted += [f"about {options.property}"] if options.property else []
        raise ContractError(f"the history must hold a verdict {' '.join(wanted)}, not none; `mxassay check` keeps them")
    found = standings(entries)
    changes = [entry for entry in entries if entry.command not in ABOUT_PROPERTIES]
    if options.json:
        extra = {
            "history": str(history.path),
            "standings": [standing.as_json() for standing in found],
            "changes": [entry.as_json() for entry in changes],
        }
        seconds = time.perf_counter() - started
        print(Document("history", Verdict.PASS, seconds, environment(), extra).dumps())
    else:
        _print(Console(width=None if sys.stdout.isatty() else 140), found, changes)
    return ExitCode.PASS


def _print(console: Console, found: "list[Standing]", changes: "list[Entry]") -> None:
    kernels: dict[tuple[str, str], list[Standing]] = {}
    for standing in found:
        kernels.setdefault((standing.last.kernel, standing.last.place), []).append(standing)
    for number, ((kernel, place), group) in enumerate(kernels.items()):
        if number:
            console.print()
        console.print(f"[bold]{kernel}[/] in {place}" if place else f"[bold]{kernel}[/]", highlight=False)
        properties = [standing for standing in group if not _is_fault(standing)]
        if properties:
            console.print(_table(properties))
        _print_faults(console, [standing for standing in group if _is_fault(standing)])
        _print_other_plans(console, properties)
        _print_moved(console, [(standing, standing.moved[0]) for standing in group if standing.moved])
    if changes:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("when (UTC)", "command", "kernel", "what", "found", "where"):
            table.add_column(heading, no_wrap=heading != "where")
        for entry in changes:
            table.add_row(_when(entry), entry.command, entry.kernel, entry.property, entry.result, entry.message)
        console.print()
        console.print(table)


def _is_fault(standing: "Standing") -> bool:
    return standing.last.command == "faults"


def _print_faults(console: Console, faults: "list[Standing]") -> None:
    """Planted faults in two lines, and those in full that are not as they must be."""
    for kind, words in (("fault:", "planted faults killed"), ("triage:", "causes of planted faults named")):
        mine = [standing for standing in faults if standing.last.property.startswith(kind)]
        if mine:
            bad = [standing for standing in mine if standing.failing_since is not None]
            latest = max((standing.last for standing in mine), key=lambda entry: entry.at)
            console.print(
                f"  {words}: {len(mine) - len(bad)} of {len(mine)}, at last {_when(latest)} ({_version(latest)})",
                highlight=False,
            )
            if bad:
                console.print(_table(bad))


def _table(group: "list[Standing]") -> Table:
    """One row a standing. Rows of the same property, shape and device say under what they stand apart."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    under = _under(group)
    headings = ["property", "M,N,K", *(["under"] if any(under) else []), "device", "now", "last passed (UTC)", "at"]
    for heading in (*headings, "failing since (UTC)", "at", "verdicts"):
        right = heading in ("M,N,K", "verdicts")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "under", overflow="fold")
    for standing, words in zip(group, under, strict=True):
        last, passed, failing = standing.last, standing.last_passed, standing.failing_since
        table.add_row(
            last.property,
            last.shape or "-",
            *([words or "-"] if any(under) else []),
            last.device,
            f"[{_STYLE.get(last.result, 'bold')}]{last.result}[/]",
            _when(passed) if passed else "never",
            _version(passed) if passed else "",
            _when(failing) if failing else "-",
            _version(failing) if failing else "",
            str(standing.verdicts),
        )
    return table


def _under(group: "list[Standing]") -> list[str]:
    """For each row the dialect, and where it was chosen the plan, the seed or the profile: as far as rows of one
    property, shape and device differ in it."""
    rows = [_chosen(standing) for standing in group]
    values: dict[tuple[str, ...], set[str]] = {}
    for standing, row in zip(group, rows, strict=True):
        for name in ("dialect", "plan", "profile"):
            values.setdefault((*_case(standing), name), set()).add(row.get(name, ""))
    return [
        ", ".join(value for name, value in row.items() if len(values[*_case(standing), name]) > 1)
        for standing, row in zip(group, rows, strict=True)
    ]


def _case(standing: "Standing") -> tuple[str, str, str]:
    return standing.last.property, standing.last.shape, standing.last.device


def _chosen(standing: "Standing") -> dict[str, str]:
    from mxassay.triage.versions.history import CAMPAIGN

    last = standing.last
    found = {"dialect": last.dialect}
    if last.profile.startswith(CAMPAIGN):
        found |= {"plan": last.plan, "profile": last.profile.removeprefix("campaign, ")}
    elif not last.shape:
        found["profile"] = last.profile or "no profile"
    return found


def _print_moved(console: Console, moved: "list[tuple[Standing, Moved]]") -> None:
    for standing, pair in moved:
        words = ", ".join(f"{name} {before:,} to {after:,}" for name, (before, after) in pair.counts.items())
        plans = "; the plan became {1}, before {0}".format(*pair.plans) if pair.plans else ""
        console.print(
            f"  executed, {standing.last.shape}: {words}{plans} ({_version(pair.before)} to {_version(pair.after)})",
            highlight=False,
            soft_wrap=True,
        )


def _print_other_plans(console: Console, group: "list[Standing]") -> None:
    """Where a case that passed under one plan fails under another."""
    for standing in group:
        passed, last = standing.last_passed, standing.last
        if standing.failing_since is not None and passed is not None and passed.plan != last.plan:
            console.print(
                f"  plan, {last.shape}: {passed.plan} when it last passed, {last.plan} now",
                highlight=False,
                soft_wrap=True,
            )


def _when(entry: "Entry") -> str:
    return datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M")


def _version(entry: "Entry") -> str:
    """The revision, with a star where the kernel was changed since; the hash of the kernel where there is none."""
    if entry.revision and not entry.dirty:
        return entry.revision[:10]
    return f"{entry.revision[:10]}* {entry.kernel_hash[:8]}" if entry.revision else f"kernel {entry.kernel_hash[:8]}"
