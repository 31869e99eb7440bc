"""`mxassay replay`: a case file, run again here."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mxassay.environment import environment
from mxassay.verdicts import CaseRecord, Document, Verdict, exit_code

if TYPE_CHECKING:
    import torch

    from mxassay.triage.failure import Failure


def run(options: argparse.Namespace) -> int:
    """Make the call of a case file again, on its device or on `--device`, and judge it as `mxassay check` does.

    With `--script` nothing runs: the case is written as a Python script that stands alone.
    """
    from mxassay.triage.casefile import load

    failure = load(options.case)
    if options.script:
        from mxassay.triage.script import to_script

        Path(options.script).write_text(to_script(failure), encoding="utf-8")
        print(f"written to {options.script}")
        return 0
    started = time.perf_counter()
    record, same = _replayed(failure, options)
    seconds = time.perf_counter() - started
    if options.json:
        extra = {"cases": [record.as_json()], "same_as_then": same}
        print(Document("replay", record.verdict, seconds, environment(), extra).dumps())
        return exit_code(record.verdict)
    from mxassay.terminal import print_check

    print_check(Console(width=None if sys.stdout.isatty() else 140), [record], seconds)
    if same is not None:
        print(f"the outputs are {'bit for bit those' if same else 'not those'} of the case file")
    return exit_code(record.verdict)


def _replayed(failure: "Failure", options: argparse.Namespace) -> tuple[CaseRecord, bool | None]:
    """The record of the call, and whether the outputs are those of the file; None where there are none to compare."""
    from dataclasses import replace

    from mxassay.checking import wrong_element
    from mxassay.errors import UnsupportedError
    from mxassay.triage.rerun import again, malformed, on
    from mxassay.triaging import opened

    where = None if options.device == "auto" else options.device
    with opened(failure.subject, failure.operands.dialect, where) as kernel:
        started = time.perf_counter()
        try:
            found = again(failure, on(kernel))
        except UnsupportedError as error:
            found = replace(failure, out=None, error=str(error))
        seconds = time.perf_counter() - started
        launch, name, device_name = failure.launch, kernel.kernel.name, kernel.device
    expectation = failure.operands.expectation
    record = CaseRecord(
        shape=failure.operands.shape,
        kernel=name,
        device=device_name,
        property=failure.property,
        plan=launch.plan.words if launch.plan is not None else "own",
        verdict=Verdict.PASS,
        outputs=expectation.exact.numel(),
        certified=int(expectation.certified.sum()),
        dialect=failure.operands.dialect,
        seconds=seconds,
        replay=f"mxassay replay {options.case}" + (f" --device {options.device}" if where else ""),
    )
    if found.out is None:
        return replace(record, verdict=Verdict.FAIL, message=found.error), None
    if malformed(found):
        return replace(record, verdict=Verdict.FAIL, message=f"the output is {tuple(found.out.shape)}"), None
    wrong = expectation.wrong(found.out)
    same = None if failure.out is None or malformed(failure) else _same(found.out, failure.out)
    if not wrong.any():
        return record, same
    return replace(
        record,
        verdict=Verdict.FAIL,
        bit_differences=int(wrong.sum()),
        first_wrong=wrong_element(found.out, expectation, wrong),
    ), same


def _same(one: "torch.Tensor", other: "torch.Tensor") -> bool:
    import torch

    bits = [tensor.contiguous().view(torch.int16) for tensor in (one, other)]
    return bool(((bits[0] == bits[1]) | (one.isnan() & other.isnan())).all())
