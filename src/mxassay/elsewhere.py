"""A failing call on Triton's interpreter, in a process of its own: Triton decides when it is imported.

python -m mxassay.elsewhere < case.json > outcome.json
"""

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from mxassay.errors import UnsupportedError

if TYPE_CHECKING:
    from mxassay.triage.failure import Failure

_DEVICE = "interpreter"
_MARK = "mxassay outcome: "
SECONDS = 300.0


def on_interpreter(failure: "Failure") -> "Failure":
    """The same call on Triton's interpreter: the failure with `out`, or with `error` where there is none.

    Raises UnsupportedError where the process fails, or takes more than SECONDS.
    """
    from mxassay.triage.casefile import dumps, from_json

    environment = {name: value for name, value in os.environ.items() if name != "MXASSAY_DEVICE"}
    environment["TRITON_INTERPRET"] = "1"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mxassay.elsewhere"], input=dumps(failure), capture_output=True, text=True,
            env=environment, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"Triton's interpreter must end within {SECONDS:.0f} s, not run on; give a smaller case"
        ) from None
    line = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UnsupportedError(f"the case must run on Triton's interpreter, not end with: {last}")
    return from_json(json.loads(line.removeprefix(_MARK)))


def main() -> int:
    """Read a case file from standard input, make the call, write the case file of what came of it."""
    from mxassay.devices import device
    from mxassay.loading import Request, open_kernels
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.casefile import as_json, from_json
    from mxassay.triage.rerun import again, on

    failure = from_json(json.load(sys.stdin))
    subject, chosen = failure.subject, device(_DEVICE)
    request = Request(subject.spec, subject.abi, failure.operands.dialect, _DEVICE, subject.aiter, subject.tile)
    with chosen.open(), open_kernels(request) as kernels:
        kernel = KernelUnderTest(kernels[0], _DEVICE, chosen.tensors_on, own=subject.spec is None)
        outcome = again(failure, on(kernel))
    print(_MARK + json.dumps(as_json(outcome)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
