"""`mxassay triage`: from a failure to its cause."""

import argparse
import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from mxassay.declaration import settled
from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.recording import Recorder, recording
from mxassay.verdicts import Document, Verdict, exit_code

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.diagnosis import Diagnosis
    from mxassay.triage.failure import Failure, Subject
    from mxassay.triage.versions.history import Entry


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
    with recording(options) as recorder:
        return _found_out(options, word, recorder)


def _found_out(options: argparse.Namespace, word: str | None, recorder: Recorder) -> int:
    from mxassay.elsewhere import OtherTriton, prepare
    from mxassay.triaging import diagnosed, opened

    started = time.perf_counter()
    others = [OtherTriton(Path(place)) for place in options.other_triton]
    failure, subject = _failure(options, word)
    if not options.quick:
        prepare()
    console = Console(stderr=True)
    status: Any = console.status("triage") if console.is_terminal and not options.json else None
    quiet = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    dialect = failure.operands.dialect if failure else str(settled(subject.spec, options.dialect).dialect)
    with quiet, status or contextlib.nullcontext(), opened(subject, dialect) as kernel:
        if failure is None:
            failure = _searched(options, kernel, subject, status)
        found_after, spent = time.perf_counter(), time.process_time()
        diagnosis = None
        if failure is not None:
            diagnosis = diagnosed(failure, kernel, quick=options.quick, seconds=options.seconds, other_tritons=others)
        from_failure = time.perf_counter() - found_after, time.process_time() - spent
    seconds = time.perf_counter() - started
    recorder.keep([_entry(recorder, subject, dialect, diagnosis, seconds)])
    verdict = Verdict.PASS if diagnosis is None else Verdict.FAIL
    if diagnosis is None:
        if options.json:
            print(Document("triage", verdict, seconds, environment(), {"diagnosis": None}).dumps())
        else:
            print(f"PASS  no call that was tried fails, {seconds:.1f} s")
        return exit_code(verdict)
    saved = _written(options, diagnosis)
    if options.json:
        extra = {"diagnosis": _as_json(diagnosis, from_failure), "case": saved}
        print(Document("triage", verdict, seconds, environment(), extra).dumps())
    else:
        from mxassay.triage.report import text
        from mxassay.triaging import replay_of

        wide = Console(width=None if sys.stdout.isatty() else 120)
        text(diagnosis, wide, replay=replay_of(diagnosis.shrunk, saved))
    return exit_code(verdict)


def _failure(options: argparse.Namespace, word: str | None) -> "tuple[Failure | None, Subject]":
    """The failure of a case file, or None and the kernel to look for one."""
    from mxassay.triage.failure import Subject

    if word is not None and word.endswith(".json"):
        from mxassay.triage.casefile import load

        if options.shapes:
            raise ContractError("--shapes must go with a kernel, not with a case file, which has a shape of its own")
        failure = load(word)
        if options.device != "auto":
            failure = replace(failure, subject=replace(failure.subject, device=device(options.device).name))
        if options.dialect:
            failure = replace(failure, operands=replace(failure.operands, dialect=options.dialect))
        return failure, failure.subject
    from mxassay.loading import abi_of

    spec = word or options.kernel
    abi = options.abi or abi_of(spec)
    return None, Subject(spec, abi, device(options.device).name, options.aiter, options.tile)


def _searched(
    options: argparse.Namespace, kernel: "KernelUnderTest", subject: "Subject", status: Any
) -> "Failure | None":
    """The first call that fails: of the shapes that `--shapes` names, else of those that touch every path."""
    from mxassay.triage.screen import find_failure

    def told(words: str) -> None:
        if status is not None:
            status.update(f"looking for a failing call: {words}")

    if not options.shapes:
        return find_failure(kernel, subject, told)
    from mxassay.commands.check import shapes_named
    from mxassay.triaging import of_shapes

    return find_failure(kernel, subject, told, of_shapes(kernel, shapes_named(options.shapes), options.seed))


def _entry(
    recorder: Recorder, subject: "Subject", dialect: str, diagnosis: "Diagnosis | None", seconds: float
) -> "Entry":
    """What the history keeps: that no call fails, or which one does and why."""
    from mxassay.triage.versions.history import Entry

    who = recorder.identity(subject.spec, "mxassay.optimized:matmul")
    entry = Entry(
        recorder.command, who.kernel, "cause", Verdict.PASS.value, who.place, who.kernel_hash, who.revision, who.dirty,
        subject.device, dialect=dialect, seconds=seconds, message="no call that was tried fails",
    )  # fmt: skip
    if diagnosis is None:
        return entry
    from mxassay.triage.failure import is_call
    from mxassay.triage.report.contents import verdict_words
    from mxassay.triage.rerun import malformed, wrong_outputs

    failure = diagnosis.failure
    judged = failure.out is not None and not malformed(failure)
    return replace(
        entry,
        property=failure.property,
        result=Verdict.FAIL.value,
        shape=",".join(map(str, failure.operands.shape)) if is_call(failure) else "",
        outputs=failure.out.numel() if failure.out is not None else 0,
        wrong=int(wrong_outputs(failure).sum()) if judged else 0,
        message=f"{diagnosis.class_} at {diagnosis.stage}: {verdict_words(diagnosis)[0]}",
    )


def _written(options: argparse.Namespace, diagnosis: "Diagnosis") -> str | None:
    """Write what the options ask for, and the smallest case in any event. Returns the case's file."""
    from mxassay.triaging import kept_case, replay_of

    saved = kept_case(diagnosis.shrunk, options.save)
    if options.script:
        from mxassay.triage.script import to_script

        Path(options.script).write_text(to_script(diagnosis.shrunk), encoding="utf-8")
    if options.report:
        from mxassay.triage.report import html

        page = html(diagnosis, replay=replay_of(diagnosis.shrunk, options.save))
        Path(options.report).write_text(page, encoding="utf-8")
    return saved


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
