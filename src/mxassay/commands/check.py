"""`mxassay check`: the verdict on a kernel."""

import argparse
import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from mxassay.cases import EDGES, Case, cases
from mxassay.checking import check_case, refused
from mxassay.declaration import Declaration, settled
from mxassay.devices import Device, device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.kernels import Kernel, Shape
from mxassay.loading import Request, open_kernels
from mxassay.recording import Recorder, recording
from mxassay.suite import PropertyRecord, run_suite, suite_beside, suite_verdict
from mxassay.terminal import print_check, print_properties
from mxassay.verdicts import CaseRecord, Document, exit_code, worst

if TYPE_CHECKING:
    from mxassay.run_report import Found
    from mxassay.triage.failure import Subject


def shapes_named(words: list[str | Shape]) -> list[Shape]:
    """The shapes that `words` name, each once, in order: group names and M,N,K triples."""
    from mxassay.optimized import LEADERBOARD, TEST_SHAPES

    groups = {"leaderboard": LEADERBOARD, "tests": TEST_SHAPES, "edges": EDGES}
    groups["all"] = (*LEADERBOARD, *TEST_SHAPES, *EDGES)
    found: list[Shape] = []
    for word in words:
        found += groups[word] if isinstance(word, str) else [word]
    return list(dict.fromkeys(found))


def run(options: argparse.Namespace) -> int:
    """Check one kernel, or all prebuilt ones of a checkout, print the table, or JSON, and keep the verdicts."""
    with recording(options) as recorder:
        return _run(options, recorder)


def _run(options: argparse.Namespace, recorder: Recorder) -> int:
    page = _page(options)
    chosen = device(options.device)
    told = settled(options.kernel, options.dialect, options.multiples)
    dialect = str(told.dialect)
    started = time.perf_counter()
    with chosen.open():
        from mxassay.reference import DIALECTS

        if dialect not in DIALECTS:
            raise ContractError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect}")
        request = Request(
            spec=options.kernel,
            abi=options.abi,
            dialect=dialect,
            device=chosen.name,
            aiter=options.aiter,
            tile=options.tile,
            seconds=options.limit_seconds,
            memory_gib=options.limit_gib,
        )
        # What a kernel prints must not mix with the document.
        quiet = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
        with quiet, open_kernels(request) as kernels, _beside(options, chosen) as finish:
            todo = [
                (kernel, case)
                for kernel in kernels
                for case in cases(
                    kernel, _shapes(kernel, options.shapes, told), full_size=chosen.full_size, seed=options.seed
                )
            ]
            watched = track(
                todo,
                description=f"checking on {chosen.name}",
                console=Console(stderr=True),
                disable=options.json or not sys.stderr.isatty(),
                transient=True,
            )
            records = []
            for kernel, case in watched:
                if told.admits(case.shape):
                    record, counts = _counted(kernel, case, chosen)
                else:
                    takes = "M={}, N={}, K={}".format(*told.takes)
                    record, counts = refused(kernel, case, chosen, f"sizes must be multiples of {takes}"), {}
                records.append(record)
                recorder.case(_file_or_spec(options, kernel), record, options.profile or "", counts)
            found = _found_out(options, todo, records, chosen, told.takes) if page is not None else None
            saved = _saved(options, todo, records, chosen, told.takes) if options.save else []
            properties = _properties(options, chosen, finish)
    recorder.properties(options.kernel, properties, options.profile or "", chosen.name, dialect)
    seconds = time.perf_counter() - started
    verdicts = [record.verdict for record in records]
    verdict = worst([*verdicts, suite_verdict(properties)] if properties else verdicts)
    if page is not None:
        from mxassay.run_report import write

        write(page, records, properties, found)
    if options.json:
        extra: dict[str, Any] = {"cases": [record.as_json() for record in records]}
        if properties:
            extra["properties"] = [record.as_json() for record in properties]
        print(Document("check", verdict, seconds, environment(), extra).dumps())
    else:
        # A pipe has no width; a table cut to 80 columns there helps nobody.
        console = Console(width=None if sys.stdout.isatty() else 140)
        if properties:
            print_properties(console, properties)
        print_check(console, records, seconds)
    if page is not None:
        print(f"mxassay: report in {page}", file=sys.stderr)
    for place in saved:
        print(f"mxassay: case in {place}; find the cause with `mxassay triage {place}`", file=sys.stderr)
    return exit_code(verdict)


def _found_out(
    options: argparse.Namespace,
    todo: list[tuple[Kernel, Case]],
    records: list[CaseRecord],
    device: Device,
    takes: Shape,
) -> "Found":
    from mxassay.run_report import found_out

    checked = [(*what, record) for what, record in zip(todo, records, strict=True)]
    console = Console(stderr=True)
    with console.status("looking for the cause") if console.is_terminal else contextlib.nullcontext():
        return found_out(checked, device, takes, lambda kernel: _subject(options, kernel, device))


def _saved(
    options: argparse.Namespace,
    todo: list[tuple[Kernel, Case]],
    records: list[CaseRecord],
    device: Device,
    takes: Shape,
) -> list[Path]:
    from mxassay.triaging import save_failing

    checked = [(*what, record) for what, record in zip(todo, records, strict=True)]
    return save_failing(checked, device, takes, lambda kernel: _subject(options, kernel, device), options.save)


def _subject(options: argparse.Namespace, kernel: Kernel, device: Device) -> "Subject":
    from mxassay.triage.failure import Subject

    return Subject(_file_or_spec(options, kernel), kernel.abi, device.name, options.aiter, options.tile)


def _page(options: argparse.Namespace) -> Path | None:
    """Where the report goes; made sure of before anything runs."""
    if options.report is None:
        return None
    place = Path(options.report)
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise ContractError(f"--report must be a file in a folder that exists, not {options.report}")
    return place


def _counted(kernel: Kernel, case: Case, device: Device) -> tuple[CaseRecord, dict[str, int]]:
    """The verdict, and what was executed, where the emulated card ran it in this process."""
    if device.name != "emulated":
        return check_case(kernel, case, device), {}
    from mxassay.gfx950.launches import launches

    with launches() as ran:
        record = check_case(kernel, case, device)
    return record, ran.instructions()


def _file_or_spec(options: argparse.Namespace, kernel: Kernel) -> str | None:
    """The kernel as the command line names it; of a whole checkout, the one code object."""
    if options.kernel is None and kernel.abi == "aiter-a4w4":
        return shlex.split(kernel.words)[0]
    return str(options.kernel) if options.kernel else None


_Finish = Callable[[], list[PropertyRecord]]


@contextlib.contextmanager
def _beside(options: argparse.Namespace, device: Device) -> Iterator[_Finish]:
    """The suite of `--profile`, beside the block where the device leaves room for both. What is yielded waits for it
    to end, or runs it."""
    if options.profile is None:
        yield list
        return
    if options.kernel is None and options.abi == "aiter-a4w4":
        raise ContractError("--profile must go with one kernel, not with a whole checkout; name a code object")
    words = {
        "kernel": options.kernel,
        "abi": options.abi,
        "dialect": options.dialect,
        "multiples": ",".join(map(str, options.multiples)) if options.multiples else None,
        "aiter": options.aiter,
        "tile": "x".join(map(str, options.tile)) if options.tile else None,
        "database": options.database,
        "save": options.save,
    }
    if device.tensors_on == "cpu":
        with suite_beside(options.profile, device.name, words) as finish:
            yield finish
    else:  # on one card they would disturb each other
        yield lambda: run_suite(options.profile, device.name, words)


def _properties(options: argparse.Namespace, device: Device, finish: _Finish) -> list[PropertyRecord]:
    console = Console(stderr=True)
    words = f"{options.profile} suite of properties on {device.name}"
    shows = console.is_terminal and not options.json and options.profile
    with console.status(words) if shows else contextlib.nullcontext():
        return finish()


def _shapes(kernel: Kernel, words: list[str | Shape] | None, told: Declaration) -> list[Shape]:
    """What the user named; else those of the kernel's own or of all groups that the kernel says it takes."""
    if words is not None:
        return shapes_named(words)
    found = [*(kernel.shapes if kernel.shapes is not None else shapes_named(["all"])), *told.shapes]
    return list(dict.fromkeys(shape for shape in found if told.admits(shape))) or [told.takes]
