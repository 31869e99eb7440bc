"""A failing call made again in a process of its own: on Triton's interpreter, or compiled by another Triton.

Triton decides when it is imported how kernels run, so this process can't do it.

python -m mxassay.elsewhere DEVICE SECONDS < case.json > outcome.json
"""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxassay
from mxassay.errors import UnsupportedError

if TYPE_CHECKING:
    from mxassay.triage.compilations import Compiled
    from mxassay.triage.failure import Failure

_MARK = "mxassay outcome: "
SECONDS = 10.0
"""Of processor time, for a call on the interpreter."""
_COMPILING = 60.0
_PATIENCE = 10.0  # times as much of the clock, on a machine that is busy

_waiting: "tuple[multiprocessing.process.BaseProcess, Connection[Any, Any]] | None" = None


def prepare() -> None:
    """Let a process wait that has loaded torch and not yet Triton, for the next call of `on_interpreter`.

    That call would begin with loading torch, which takes longer than most cases. Nothing is done once this process has
    Triton or other threads, or where processes can't be forked: then the call starts from nothing.
    """
    global _waiting
    if _waiting or "triton" in sys.modules or threading.active_count() > 1 or sys.platform != "linux":
        return
    import torch  # noqa: F401  # what the process is to have loaded

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_wait, args=(theirs, ours), daemon=True)
    process.start()
    theirs.close()
    _waiting = process, ours


def _wait(requests: "Connection[Any, Any]", ours: "Connection[Any, Any]") -> None:
    """Answer one request, or end with the process that would make it."""
    ours.close()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        text = requests.recv()
    except (EOFError, KeyboardInterrupt):
        return
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ.pop("MXASSAY_DEVICE", None)
    try:
        requests.send(("", _outcome(json.loads(text), "interpreter", SECONDS)))
    except BaseException as error:
        requests.send((f"{type(error).__name__}: {error}", None))


def on_interpreter(failure: "Failure") -> "Failure":
    """The same call on Triton's interpreter: the failure with `out`, or with `error` where there is none.

    Raises UnsupportedError where the process fails, or takes more than SECONDS of processor time.
    """
    global _waiting
    from mxassay.triage.casefile import dumps, from_json

    if _waiting is None:
        return from_json(_started(failure, "interpreter", SECONDS, {"TRITON_INTERPRET": "1"}))
    (process, connection), _waiting = _waiting, None
    try:
        connection.send(dumps(failure))
        if not connection.poll(_PATIENCE * SECONDS):
            raise UnsupportedError(_too_long(_PATIENCE * SECONDS))
        words, outcome = connection.recv()
    except (EOFError, BrokenPipeError):
        words, outcome = f"exit code {process.exitcode}", None
    finally:
        process.kill()
        process.join()
        connection.close()
    if outcome is None:
        raise UnsupportedError(f"the case must run on Triton's interpreter, not end with: {words}")
    return from_json(outcome)


@dataclass(frozen=True)
class OtherTriton:
    """Another Triton: a folder that `pip install --target` filled, or a Python that has it beside torch."""

    place: Path

    def __post_init__(self) -> None:
        if not self._is_folder and not (self.place.is_file() and os.access(self.place, os.X_OK)):
            raise UnsupportedError(
                f"the other Triton must be a folder that holds triton, or a Python to run, not {self.place}; make one "
                "with `pip install --target DIR triton==VERSION`"
            )

    @property
    def _is_folder(self) -> bool:
        return (self.place / "triton").is_dir()

    def compiled(self, failure: "Failure") -> "tuple[str, Failure, list[Compiled]]":
        """Its version, what comes of the call where it compiles the kernels, and what it made of them.

        Raises UnsupportedError where the process fails.
        """
        from mxassay.triage.casefile import from_json
        from mxassay.triage.compilations import Compiled

        first = [str(self.place.resolve())] if self._is_folder else []
        python = sys.executable if self._is_folder else str(self.place.absolute())
        found = _started(failure, "emulated", _COMPILING, {}, python, first)
        kernels = [Compiled(kernel["name"], kernel["texts"], b"") for kernel in found["kernels"]]
        return found["triton"], from_json(found), kernels


def _started(
    failure: "Failure",
    device: str,
    seconds: float,
    environment: Mapping[str, str],
    python: str = sys.executable,
    first: "list[str] | None" = None,
) -> dict[str, Any]:
    """What a new process makes of the call. `first`: folders in which it looks for modules before all others."""
    from mxassay.triage.casefile import dumps

    kept = {name: value for name, value in os.environ.items() if name not in ("MXASSAY_DEVICE", "TRITON_INTERPRET")}
    path = [*(first or []), str(Path(mxassay.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            [python, "-m", "mxassay.elsewhere", device, str(seconds)], input=dumps(failure), capture_output=True,
            text=True, env={**kept, **environment, "PYTHONPATH": os.pathsep.join(path)},
            timeout=_PATIENCE * (seconds + 5), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise UnsupportedError(_too_long(float(late.timeout))) from None
    line = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        where = "on Triton's interpreter" if device == "interpreter" else "in another process"
        raise UnsupportedError(f"the case must run {where}, not end with: {last}")
    found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    return found


def _too_long(seconds: float) -> str:
    return f"a call elsewhere must end within {seconds:.0f} s, not run on; give a smaller case"


def _outcome(document: Mapping[str, Any], on: str, seconds: float) -> dict[str, Any]:
    """The case file of what came of a case file's call on the device `on`, with Triton's version and what it compiled.

    Raises UnsupportedError where it takes more than so many seconds of processor time.
    """
    from mxassay.devices import device
    from mxassay.loading import Request, open_kernels
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.budget import TimeUp, within
    from mxassay.triage.casefile import as_json, from_json
    from mxassay.triage.compilations import compiled_by
    from mxassay.triage.rerun import again
    from mxassay.triage.rerun import on as calls_on

    failure = from_json(document)
    subject, chosen = failure.subject, device(on)
    request = Request(subject.spec, subject.abi, failure.operands.dialect, on, subject.aiter, subject.tile)
    try:
        with within(seconds), chosen.open(), open_kernels(request) as kernels, compiled_by() as seen:
            kernel = KernelUnderTest(kernels[0], on, chosen.tensors_on, own=subject.spec is None)
            outcome = again(failure, calls_on(kernel))
    except TimeUp:
        raise UnsupportedError(f"a call elsewhere must take {seconds:.0f} s of processor time, not more") from None
    import triton

    texts = [{"name": kernel.name, "texts": asdict(kernel)["texts"]} for kernel in seen]
    return {**as_json(outcome), "triton": triton.__version__, "kernels": texts}


def main() -> int:
    """Read a case file from standard input, make the call, write what came of it."""
    on, seconds = sys.argv[1], float(sys.argv[2])
    print(_MARK + json.dumps(_outcome(json.load(sys.stdin), on, seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
