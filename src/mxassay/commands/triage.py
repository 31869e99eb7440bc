"""`mxassay triage`: from a failure to its cause."""

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.verdicts import Document, Verdict, exit_code

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.diagnosis import Diagnosis
    from mxassay.triage.failure import Failure, Subject


def run(options: argparse.Namespace) -> int:
    """Two versions are compared (`mxassay.commands.compare`); a case file or a kernel is diagnosed.

    FAIL where a call fails, with the diagnosis; PASS where none that was tried does.
    """
    if len(options.subject) > 2:
        raise ContractError(f"a case, a kernel, or BASE and CANDIDATE must be given, not {len(options.subject)} words")
    if len(options.subject) == 2:
        from mxassay.commands import compare

        return compare.run(options)
    return _one(options, options.subject[0] if options.subject else None)


def _one(options: argparse.Namespace, word: str | None) -> int:
    from mxassay.triaging import diagnosed, opened

    started = time.perf_counter()
    console = Console(stderr=True)
    status: Any = console.status("triage") if console.is_terminal and not options.json else None
    failure, subject = _failure(options, word)
    quiet = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    dialect = failure.operands.dialect if failure else _dialect(options, subject)
    with quiet, status or contextlib.nullcontext(), opened(subject, dialect) as kernel:
        if failure is None:
            failure = _searched(kernel, subject, status)
        found_after, spent = time.perf_counter(), time.process_time()
        diagnosis = diagnosed(failure, kernel, quick=options.quick) if failure is not None else None
        from_failure = time.perf_counter() - found_after, time.process_time() - spent
    if diagnosis is not None:
        _write(options, diagnosis)
    verdict = Verdict.PASS if diagnosis is None else Verdict.FAIL
    seconds = time.perf_counter() - started
    if options.json:
        extra = {"diagnosis": _as_json(diagnosis, from_failure) if diagnosis else None}
        print(Document("triage", verdict, seconds, environment(), extra).dumps())
    elif diagnosis is None:
        print(f"PASS  no call that was tried fails, {seconds:.1f} s")
    else:
        from mxassay.triage.report import text
        from mxassay.triaging import replay_of

        wide = Console(width=None if sys.stdout.isatty() else 120)
        text(diagnosis, wide, replay=replay_of(diagnosis.shrunk, options.save))
    return exit_code(verdict)


def _failure(options: argparse.Namespace, word: str | None) -> "tuple[Failure | None, Subject]":
    """The failure of a case file, or None and the kernel to look for one."""
    from mxassay.triage.failure import Subject

    if word is not None and word.endswith(".json"):
        from dataclasses import replace

        from mxassay.triage.casefile import load

        failure = load(word)
        if options.device != "auto":
            failure = replace(failure, subject=replace(failure.subject, device=device(options.device).name))
        return failure, failure.subject
    from mxassay.loading import abi_of

    spec = word or options.kernel
    abi = options.abi or abi_of(spec)
    return None, Subject(spec, abi, device(options.device).name, options.aiter, options.tile)


def _dialect(options: argparse.Namespace, subject: "Subject") -> str:
    """The option where it says more than its default, else what the kernel declares."""
    from mxassay.declaration import settled

    given = None if options.dialect == "even" else options.dialect
    return str(settled(subject.spec, given).dialect)


def _searched(kernel: "KernelUnderTest", subject: "Subject", status: Any) -> "Failure | None":
    from mxassay.triage.screen import find_failure

    def told(words: str) -> None:
        if status is not None:
            status.update(f"looking for a failing call: {words}")

    return find_failure(kernel, subject, told)


def _write(options: argparse.Namespace, diagnosis: "Diagnosis") -> None:
    from mxassay.triaging import replay_of

    if options.save:
        from mxassay.triage.casefile import save

        save(diagnosis.shrunk, options.save)
    if options.script:
        from mxassay.triage.script import to_script

        Path(options.script).write_text(to_script(diagnosis.shrunk), encoding="utf-8")
    if options.report:
        from mxassay.triage.report import html

        page = html(diagnosis, replay=replay_of(diagnosis.shrunk, options.save))
        Path(options.report).write_text(page, encoding="utf-8")


def _as_json(diagnosis: "Diagnosis", seconds: tuple[float, float]) -> dict[str, Any]:
    from mxassay.triage.report import as_json
    from mxassay.triage.shrink import size_of

    size = size_of(diagnosis.shrunk)
    return {
        **as_json(diagnosis),
        "size": {"tiles": size.tiles, "elements": size.elements},
        "seconds_from_failure": round(seconds[0], 3),
        "processor_seconds_from_failure": round(seconds[1], 3),
    }
