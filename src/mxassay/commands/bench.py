"""`mxassay bench`: the reference's speed beside its peers, measured in one run."""

import argparse
import logging
import os
import sys
import time

from rich.console import Console
from rich.table import Table

from mxassay.environment import environment
from mxassay.verdicts import Document, Verdict, exit_code


def run(options: argparse.Namespace) -> int:
    """Measure, and print the figures as a table or JSON."""
    # torch's profiler and torchao's import both talk on standard error about themselves.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    from mxassay.reference.benchmark import figures

    started = time.perf_counter()
    rows = figures()
    seconds = time.perf_counter() - started
    verdict = Verdict.PASS if all(row.get("holds", True) for row in rows) else Verdict.FAIL
    if options.json:
        print(Document("bench", verdict, seconds, environment(), {"figures": rows}).dumps())
        return exit_code(verdict)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("figure", "value", "unit", "bar", "holds", "peer", "ratio"):
        table.add_column(heading, justify="right" if heading in ("value", "bar", "ratio") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in ("id", "value", "unit", "bar", "holds", "peer", "ratio")))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return exit_code(verdict)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
