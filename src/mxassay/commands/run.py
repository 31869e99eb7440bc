"""`mxassay run`: a script or a test suite written for `device="cuda"` and Triton, on the emulated MI355X."""

import argparse
import sys
import traceback
from contextlib import ExitStack

from mxassay.errors import ContractError
from mxassay.verdicts import ExitCode


def run(options: argparse.Namespace) -> int:
    """Run the program in this process and close with a summary.

    The exit code is the program's own; where that is 0, it is 1 if a check found something, and 3 if all that kept
    pytest from passing is a test that nobody can run here.
    """
    if options.list_checks:
        return _list_checks()
    if not options.program:
        raise ContractError("a program must be named, as SCRIPT.py or -m MODULE, not left out")
    from mxassay.gfx950 import Options
    from mxassay.gfx950.checks import Checks
    from mxassay.hosting.script import run_program

    with ExitStack() as stack:
        checks = stack.enter_context(Checks(options.checks)) if options.checks != "none" else None
        done = run_program(options.program, checkout=options.aiter, options=Options(observer=checks))
    if done.error is not None:
        traceback.print_exception(done.error)
    lines = ["", *(f"mxassay: {note}" for note in done.notes), done.summary()]
    if checks is not None:
        lines.append(checks.text())
    print("\n".join(lines), file=sys.stderr)
    if done.exit_code == 0 and checks is not None and checks.findings:
        return ExitCode.FAIL
    if done.exit_code == 0 and done.tests is not None and done.tests.counts["unsupported"]:
        return ExitCode.UNSUPPORTED
    return done.exit_code


def _list_checks() -> int:
    from mxassay.gfx950.checks import CHECKS

    for name, check in CHECKS.items():
        print(f"{name:18}{'on ' if check.default else 'off'}  {check.statement}")
    return ExitCode.PASS
