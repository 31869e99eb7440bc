"""`mxassay campaign`: a sweep that can be stopped, killed and taken up again; every verdict goes into the history."""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from mxassay.campaign.job import Job
from mxassay.campaign.ledger import Ledger, alone
from mxassay.campaign.machines import DaskEngine
from mxassay.campaign.processes import ProcessEngine
from mxassay.campaign.sweep import Sweep
from mxassay.commands.check import shapes_named
from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.verdicts import Document, Verdict, exit_code, worst

_SHOWN = 20


def run(options: argparse.Namespace) -> int:
    """Do what the history does not hold yet, and print how all jobs stand."""
    from mxassay.triage.versions.history import History, default_path

    started = time.perf_counter()
    sweep = Sweep(
        kernels=options.kernels or ["own"],
        shapes=shapes_named(options.shapes or ["leaderboard"]),
        dialects=options.dialects,
        seeds=options.seeds,
        device=device(options.device).name,
        neighbours=options.neighbours,
        abi=options.abi,
        aiter=options.aiter,
    )
    jobs = sweep.jobs()
    if not jobs:
        raise ContractError("the shapes of a campaign must be such as its kernels take, not all refused by them")
    path = Path(options.history) if options.history else default_path()
    engine: ProcessEngine | DaskEngine = ProcessEngine(options.workers or len(os.sched_getaffinity(0)))
    if options.engine == "dask" or options.scheduler:
        engine = DaskEngine(options.scheduler, options.workers or len(os.sched_getaffinity(0)))
    outcomes: list[tuple[Job, dict[str, Any]]] = []
    with History(path) as history, alone(path):
        ledger = Ledger(history, environment())
        todo = [job for job in jobs if ledger.key(job) not in ledger.done]
        quiet = options.json or not sys.stderr.isatty()
        with Progress(console=Console(stderr=True), disable=quiet, transient=True) as progress:
            bar = progress.add_task(f"campaign on {sweep.device}", total=len(todo))

            def done(job: Job, outcome: dict[str, Any]) -> None:
                if ledger.keep(job, outcome):
                    outcomes.append((job, outcome))
                progress.advance(bar)

            if todo:
                engine.run(todo, done)
        keys = {ledger.key(job) for job in jobs}
        results = [Verdict(entry.result) for entry in history.entries() if ledger.key_of(entry) in keys]
    for kernel, shape in sweep.left_out():
        print(f"left out: {kernel} does not take {','.join(map(str, shape))}", file=sys.stderr)
    return _report(options, jobs, outcomes, results, engine.deaths, time.perf_counter() - started)


def _report(
    options: argparse.Namespace,
    jobs: list[Job],
    outcomes: list[tuple[Job, dict[str, Any]]],
    results: list[Verdict],
    deaths: int,
    seconds: float,
) -> int:
    verdict = worst(results)
    if options.json:
        extra = {
            "jobs": len(jobs),
            "done_before": len(jobs) - len(outcomes),
            "done_now": len(outcomes),
            "workers_lost": deaths,
            "results": dict(Counter(result.value for result in results)),
            "cases": [{key: outcome[key] for key in sorted(outcome)} for _, outcome in outcomes],
        }
        print(Document("campaign", verdict, seconds, environment(), extra).dumps())
        return exit_code(verdict)
    console = Console(width=None if sys.stdout.isatty() else 140)
    bad = [(job, outcome) for job, outcome in outcomes if outcome["verdict"] != Verdict.PASS.value]
    if bad:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("verdict", "job", "wrong", "why"):
            table.add_column(heading)
        for job, outcome in bad[:_SHOWN]:
            wrong = str(outcome["bit_differences"] or "")
            table.add_row(outcome["verdict"], escape(job.words), wrong, escape(_why(outcome)))
        console.print(table)
        if len(bad) > _SHOWN:
            console.print(f"and {len(bad) - _SHOWN} more; see mxassay history", highlight=False)
    counted = ", ".join(f"{count} {name}" for name, count in Counter(result.value for result in results).items())
    lost = f"; {_counted(deaths, 'worker')} lost and replaced" if deaths else ""
    console.print(
        f"{_counted(len(jobs), 'job')}: {counted}; {len(jobs) - len(outcomes)} done before, "
        f"{len(outcomes)} now in {seconds:.0f} s{lost}",
        highlight=False,
    )
    return exit_code(verdict)


def _why(outcome: dict[str, Any]) -> str:
    """A line for people: the first wrong output, or what was said instead."""
    if first := outcome.get("first_wrong"):
        index = ", ".join(map(str, first["index"]))
        demanded = f"must be {first['expected_hex']}"
        if not first["certified"]:
            demanded = f"must lie in {first['lower_hex']}..{first['upper_hex']}"
        return f"out[{index}] is {first['got_hex']}, {demanded}"
    return str(outcome["message"]).split("\n")[0]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
