"""`mxassay faults`: the score of the suite, on faults planted one at a time."""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError, UnsupportedError
from mxassay.recording import Recorder, recording
from mxassay.verdicts import Document, Verdict, exit_code

if TYPE_CHECKING:
    from mxassay.properties.faults import Campaign, Fault, Trial

_GATES = {"usual_test": "usual test", "ratio_gate": "95 % gate", "cosine_gate": "cosine"}
_STYLE = {"killed": "green", "survived": "bold red", "equivalent": "dim"}


def run(options: argparse.Namespace) -> int:
    """Plant each fault in a copy, run the suite and the usual tests, and print the matrix or JSON.

    FAIL where a fault survives, and where one is killed in spite of its proof.
    """
    if options.record and (options.only or options.file):
        raise ContractError("--record must come with all shipped faults, not with --only or --from")
    chosen = _chosen(options)
    if options.list:
        return _list(chosen, options)
    faults, untried = _divided(chosen, options)
    with recording(options) as recorder:
        if options.triage:
            from mxassay.commands import faults_triage

            return faults_triage.run(options, faults, default_cache(options.cache), recorder)
        return _run(options, faults, untried, recorder)


def _divided(chosen: "list[Fault]", options: argparse.Namespace) -> "tuple[list[Fault], dict[str, str]]":
    """The faults that are tried here, and why others are not."""
    from mxassay.properties.faults import divided
    from mxassay.properties.faults.record import RECORD

    faults, untried = divided(chosen, options.device)
    if not faults:
        why = "; ".join(f"{name} {words}" for name, words in untried.items()) or "none of these faults needs a GPU"
        raise UnsupportedError(f"faults must be such as can be tried with --device {options.device}, not none: {why}")
    if options.device == "cuda":
        import torch

        device("cuda")
        if (capability := torch.cuda.get_device_capability()) != (9, 0):
            raise UnsupportedError(f"device cuda must be an NVIDIA Hopper GPU, not one of capability {capability}")
        if options.record and Path(options.record).name == RECORD.name:
            raise ContractError(f"--record must name a file of its own with --device cuda, not {RECORD.name}")
    return faults, untried


def _run(options: argparse.Namespace, faults: "list[Fault]", untried: dict[str, str], recorder: Recorder) -> int:
    from mxassay.properties.faults import run as run_campaign

    started = time.perf_counter()
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, disable=options.json or not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    with progress:
        task = progress.add_task("planting", total=len(faults))

        def told(what: str, trial: "Trial | None") -> None:
            if trial is None:
                progress.update(task, description=what)
                return
            progress.update(task, advance=1, description="planting")
            by = trial.death.by or ""
            recorder.fault(f"fault:{trial.fault.id}", trial.verdict, trial.death.seconds, by, options.profile)
            if progress.disable:
                print(f"{trial.verdict:10} {trial.fault.id}: {trial.death.by or '-'}", file=sys.stderr, flush=True)

        campaign = run_campaign(
            faults,
            profile=options.profile,
            seed=options.seed,
            jobs=options.jobs,
            caches=default_cache(options.cache),
            fresh=options.fresh,
            told=told,
        )
    seconds = time.perf_counter() - started
    score = campaign.score()
    if options.record:
        _keep(Path(options.record), campaign, seconds)
    all_killed = score["killed"]["with_tests"] == score["faults"]
    verdict = Verdict.PASS if all_killed and not score["refuted"] else Verdict.FAIL
    if options.json:
        extra = {
            "profile": campaign.profile,
            "code": campaign.code,
            "faults": [trial.as_json() for trial in campaign.trials],
            "score": score,
            "not_tried": untried,
        }
        print(Document("faults", verdict, seconds, environment(), extra).dumps())
    else:
        print_matrix(Console(width=None if sys.stdout.isatty() else 170), campaign, seconds, verdict)
        for reason in dict.fromkeys(untried.values()):
            names = [name for name, its in untried.items() if its == reason]
            print(f"not tried, and not counted: {len(names)} faults, {reason} ({', '.join(names)})")
    return exit_code(verdict)


def _keep(path: Path, campaign: "Campaign", seconds: float) -> None:
    from mxassay.properties.faults.record import write
    from mxassay.properties.faults.usual import RUNS

    facts = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "code": campaign.code,
        "seconds": round(seconds),
        "environment": environment(),
        "score": campaign.score(),
        "gates_ran": RUNS,
    }
    write(path, campaign.profile, facts, [trial.as_json() for trial in campaign.trials])


def default_cache(named: str | None = None) -> Path:
    """Where results and compiled kernels are kept between runs: the folder that `--cache` names, or the user's."""
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mxassay" / "faults"


def _chosen(options: argparse.Namespace) -> "list[Fault]":
    from mxassay.properties.faults import faults_in, planted

    faults = faults_in(Path(options.file)) if options.file else planted()
    if not options.only:
        return list(faults)
    known = {fault.id: fault for fault in faults}
    classes = {fault.class_ for fault in faults}
    unknown = [word for word in options.only if word not in known and word not in classes]
    if unknown:
        raise ContractError(f"--only must name ids or classes that --list shows, not {', '.join(unknown)}")
    return [fault for fault in faults if fault.id in options.only or fault.class_ in options.only]


def _list(faults: "list[Fault]", options: argparse.Namespace) -> int:
    if options.json:
        listed = [
            {"id": f.id, "class": f.class_, "file": f.file, "stage": f.stage, "device": f.device, "why": f.why,
             "equivalent": f.equivalent or None}
            for f in faults
        ]  # fmt: skip
        print(Document("faults", Verdict.PASS, 0.0, environment(), {"faults": listed}).dumps())
        return exit_code(Verdict.PASS)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("fault", "class", "stage", "file", "why"):
        table.add_column(heading, no_wrap=heading != "why")
    for fault in faults:
        why = f"{fault.why} (equivalent)" if fault.equivalent else fault.why
        table.add_row(fault.id, fault.class_, fault.stage, fault.file, why)
    Console(width=None if sys.stdout.isatty() else 170).print(table)
    return exit_code(Verdict.PASS)


def print_matrix(console: Console, campaign: "Campaign", seconds: float, verdict: Verdict) -> None:
    """One row a fault, then classes, then the scores."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("fault", "class", "verdict", "killed by", "examples", "seconds", *_GATES.values()):
        right = heading in ("examples", "seconds")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for trial in campaign.trials:
        record = trial.as_json()
        by = record["killed_by"] or "-"
        if record["how"] not in ("", "failure"):
            by = f"{by} ({record['how']})"
        table.add_row(
            record["id"],
            record["class"],
            f"[{_STYLE[record['verdict']]}]{record['verdict']}[/]",
            by if record["by"] != "tests" else f"{by} (own tests)",
            str(record["examples"] or "-"),
            f"{record['seconds']:.0f}",
            *(_gate(record[gate]) for gate in _GATES),
        )
    console.print(table)
    for trial in campaign.trials:
        if trial.verdict == "survived":
            console.print(f"\nsurvived: {trial.fault.id} in {trial.fault.file}\n  {trial.fault.why}", highlight=False)
    score = campaign.score()
    console.print(
        f"\n{score['faults']} faults that change something, {score['equivalent']} proved equivalent", highlight=False
    )
    shown = {
        "suite": f"the suite, {campaign.profile}, in what it judges",
        "judges": "the suite or its own tests, in the judges",
        "with_tests": "both",
        **_GATES,
    }
    for name, words in shown.items():
        console.print(_share(words, score, name), highlight=False)
    for name in score["refuted"]:
        console.print(f"[bold red]{name} was killed in spite of its proof[/]")
    counts = Counter(trial.verdict for trial in campaign.trials)
    console.print(
        f"\n{verdict.value}  {', '.join(f'{count} {word}' for word, count in sorted(counts.items()))}, {seconds:.0f} s",
        highlight=False,
    )


def _gate(word: str) -> str:
    return "killed" if word == "killed" else "[red]passed[/]"


def _share(words: str, score: dict[str, Any], name: str) -> str:
    share = score["share"][name]
    counts = f"{score['killed'][name]:>5} of {score['of'][name]:<4}"
    return f"  {words:44}{counts}" + (f"  {100 * share:5.1f} %" if share is not None else "")
