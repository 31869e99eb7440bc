"""`mxassay bench --tune M,N,K`: the plans of a shape, searched; none wins that is not right to the bit."""

import argparse
import sys
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import UnsupportedError
from mxassay.figures.tuner import Trial, Tuned, tune
from mxassay.verdicts import Document, ExitCode, Verdict


def run(options: argparse.Namespace) -> int:
    """Search, and print every trial. A plan that beats the present one is told, never written anywhere."""
    chosen = device(options.device)
    if chosen.name == "interpreter":
        raise UnsupportedError("device must be emulated, cuda or mi355x to tune, not interpreter: it tells no time")
    started = time.perf_counter()
    progress = Console(stderr=True, quiet=options.json or not sys.stderr.isatty())

    def told(trial: Trial) -> None:
        progress.print(f"{trial.plan.words}: {_outcome(trial)}", highlight=False, markup=False)

    with chosen.open():
        tuned = tune(options.tune, chosen.name, options.candidates, told=told)
    seconds = time.perf_counter() - started
    if options.json:
        extra = {
            "shape": list(tuned.shape),
            "device": tuned.device,
            "best": tuned.best.as_json(),
            "baseline": tuned.baseline.as_json(),
            "trials": [trial.as_json() for trial in tuned.trials],
        }
        print(Document("tune", Verdict.PASS, seconds, environment(), extra).dumps())
    else:
        _show(tuned, seconds)
    return ExitCode.PASS


def _outcome(trial: Trial) -> str:
    return f"{trial.seconds * 1e6:.2f} us" if trial.seconds is not None else f"may not win: {trial.refused}"


def _show(tuned: Tuned, seconds: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan", no_wrap=True)
    table.add_column("us", justify="right")
    table.add_column("how, or why it may not win")
    ordered = sorted(tuned.trials, key=lambda trial: (trial.seconds is None, trial.seconds or 0.0))
    for trial in ordered:
        value = f"{trial.seconds * 1e6:.2f}" if trial.seconds is not None else ""
        table.add_row(escape(trial.plan.words), value, escape(trial.refused or trial.how))
    console.print(table)
    best, baseline = tuned.best, tuned.baseline
    assert best.seconds is not None
    assert baseline.seconds is not None
    shape = ",".join(map(str, tuned.shape))
    if best is baseline:
        console.print(f"\n{shape}: none of {len(tuned.trials) - 1} plans beats {baseline.plan.words}", highlight=False)
    else:
        console.print(
            f"\n{shape}: {best.plan.words} at {best.seconds / baseline.seconds:.3f} of {baseline.plan.words} "
            f"on {tuned.device}, {seconds:.0f} s",
            highlight=False,
        )
