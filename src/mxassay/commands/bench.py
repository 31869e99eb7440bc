"""`mxassay bench`: every figure that we promise, beside its bar and its peer, measured in one run."""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from mxassay.environment import environment
from mxassay.errors import UnsupportedError
from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Group, chosen
from mxassay.figures.machine import machine
from mxassay.figures.printed import print_figures, print_table
from mxassay.verdicts import Document, Verdict, exit_code


def run(options: argparse.Namespace) -> int:
    """Measure the groups that are named, and print the figures as tables or JSON. FAIL where one falls short."""
    if options.tune:
        from mxassay.commands.tune import run as tune

        return tune(options)
    if options.last:
        return _last(options)
    started = time.perf_counter()
    wish = Wish(options.repeats, options.aiter, options.seed_kernel)
    console = Console(stderr=True, quiet=options.json or not sys.stderr.isatty())
    figures: list[Figure] = []
    tables: dict[str, list[dict[str, object]]] = {}
    skipped: dict[str, str] = {}
    loads = [os.getloadavg()[0]]
    for group in chosen(options.groups):
        with console.status(f"{group.name}: {group.summary}"):
            _measure(group, wish, figures, tables, skipped, named=bool(options.groups))
        loads.append(os.getloadavg()[0])
    document = Document(
        "bench",
        Verdict.FAIL if any(figure.holds is False for figure in figures) else Verdict.PASS,
        time.perf_counter() - started,
        environment(),
        {
            "machine": machine(loads),
            "figures": [figure.as_json() for figure in figures],
            "tables": tables,
            "skipped": skipped,
        },
    )
    if options.record:
        Path(options.record).write_text(document.dumps() + "\n")
    if options.json:
        print(document.dumps())
    else:
        _show(json.loads(document.dumps()), details=options.details)
    return exit_code(document.verdict)


def _measure(
    group: Group,
    wish: Wish,
    figures: list[Figure],
    tables: dict[str, list[dict[str, object]]],
    skipped: dict[str, str],
    *,
    named: bool,
) -> None:
    try:
        measured = group.measure(wish)
    except UnsupportedError as error:
        if named:
            raise
        skipped[group.name] = str(error)
        return
    figures += measured.figures
    if measured.table:
        tables[group.name] = list(measured.table)


def _last(options: argparse.Namespace) -> int:
    """Print the record that came with this version."""
    from mxassay.figures.record import last

    document = last()
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        _show(document, details=options.details)
    return exit_code(Verdict(document["verdict"]))


def _show(document: dict[str, Any], *, details: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_figures(console, document)
    if details:
        for name, rows in document["tables"].items():
            print_table(console, name, rows)
