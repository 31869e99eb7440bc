"""`mxassay run`: a script or a test suite written for `device="cuda"` and Triton, on the emulated MI355X."""

import argparse
import sys
import traceback

from mxassay.errors import ContractError
from mxassay.verdicts import ExitCode


def run(options: argparse.Namespace) -> int:
    """Run the program in this process and close with a summary. The exit code is the program's own, or 3 where all that
    kept pytest from passing is a test that nobody can run here."""
    if not options.program:
        raise ContractError("a program must be named, as SCRIPT.py or -m MODULE, not left out")
    from mxassay.hosting.script import run_program

    done = run_program(options.program, checkout=options.aiter)
    if done.error is not None:
        traceback.print_exception(done.error)
    print("\n".join(["", "mxassay run", *(f"  note: {note}" for note in done.notes), done.summary()]), file=sys.stderr)
    if done.exit_code == 0 and done.tests is not None and done.tests.counts["unsupported"]:
        return ExitCode.UNSUPPORTED
    return done.exit_code
