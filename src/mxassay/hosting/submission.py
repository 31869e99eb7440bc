"""Runs a contest submission in a process of its own, within limits of time and memory, and brings back what happened.

Several calls share the process, so that caches and state of the file show. A call that breaks a limit ends the process;
the next call starts a new one, and says so.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mxassay.errors import MxassayError, UnsupportedError
from mxassay.hosting import wire

_POLL_SECONDS = 0.05
_KEPT_OUTPUT = 4000


@dataclass(frozen=True)
class Limits:
    """What one call may use: wall-clock seconds, and resident bytes of the process and its children together.

    Resident memory is watched 20 times a second. An address-space limit would not do: torch and Triton reserve far more
    than they touch.
    """

    seconds: float = 600.0
    memory_bytes: int = 8 << 30


class SubmissionError(MxassayError):
    """The submission raised. `type_name` and `remote_traceback` are those of its own exception."""

    def __init__(self, type_name: str, message: str, remote_traceback: str) -> None:
        self.type_name, self.remote_traceback = type_name, remote_traceback
        super().__init__(f"{type_name}: {message}\n{remote_traceback}")


class SubmissionEndedError(SubmissionError):
    """The process is gone. `reason` says why: a limit, a signal, an exit; `printed` is what it wrote last."""

    def __init__(self, reason: str, printed: str) -> None:
        self.reason, self.printed = reason, printed
        super().__init__("SubmissionEndedError", reason, printed)


@dataclass(frozen=True)
class Outcome:
    """One call that returned.

    Attributes:
        out: what `custom_kernel` returned, in host memory.
        seconds, compile_seconds: wall time of the call, and Triton's compile time in it.
        changed: indices of the inputs whose storage the call changed; the caller's tensors hold the changed bytes too.
        launches: launches of kernels on the emulated card in this call.
        faults, unsupported: what stopped launches in this call, although the submission caught the error and returned:
            a result beside a fault is no pass, and one beside an unsupported launch may come from another kernel.
        kernels: totals of each kernel since the process began.
        refused: what was refused by name since the process began, even if the submission caught the error.
        warnings: what the call warned of.
        process: counts the processes so far; it rises after a death.
    """

    out: torch.Tensor
    seconds: float
    compile_seconds: float
    changed: tuple[int, ...]
    launches: int
    faults: tuple[str, ...]
    unsupported: tuple[str, ...]
    kernels: tuple[dict[str, Any], ...]
    refused: tuple[str, ...]
    warnings: tuple[str, ...]
    process: int


@dataclass
class Submission:
    """A contest file and the process that runs it. Close it, or use it in a `with`.

    Args:
        path: the file; it must define `attribute`.
        checkout: root of an aiter checkout, for files that import aiter.
        limits: of each call, and of loading the file.

    >>> with Submission("submission.py", checkout="aiter") as kernel:  # doctest: +SKIP
    ...     kernel.call((a, b, b_q, b_shuffle, b_scale_sh)).out
    """

    path: "str | os.PathLike[str]"
    checkout: "str | os.PathLike[str] | None" = None
    limits: Limits = field(default_factory=Limits)
    attribute: str = "custom_kernel"
    notes: tuple[str, ...] = ()
    _worker: "_Worker | None" = None
    _processes: int = 0

    def __enter__(self) -> "Submission":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def load(self) -> tuple[str, ...]:
        """Start the process and run the file's top level, unless that is done. Returns notes for the user.

        Raises:
            UnsupportedError, SubmissionError, SubmissionEndedError: as `call`.
        """
        if self._worker is None:
            if not Path(self.path).is_file():
                raise UnsupportedError(f"a submission must be an existing file, not {os.fspath(self.path)}")
            self._worker = _Worker(self)
            self._processes += 1
            header, _ = self._exchange(None)
            self.notes = tuple(header.get("notes", ()))
        return self.notes

    def call(self, data: Sequence[torch.Tensor]) -> Outcome:
        """Call the submission with `data`, tensors in host memory that it sees as tensors on the card.

        Each input goes with its whole storage, so bytes around a view are there too. Changes come back into `data`.

        Raises:
            UnsupportedError: it needs something that nobody supplies here, named in the message.
            SubmissionError: it raised, or returned no tensor.
            SubmissionEndedError: it broke a limit, died, or ended its process.
        """
        self.load()
        request = {"inputs": [wire.describe(tensor) for tensor in data]}
        header, blobs = self._exchange((request, [wire.storage_bytes(tensor) for tensor in data]))
        out = wire.rebuild(header["out"], blobs[0])
        changed = tuple(int(index) for index in header["changed"])
        for index, blob in zip(changed, blobs[1:], strict=True):
            _write_storage(data[index], blob)
        return Outcome(
            out=out,
            seconds=float(header["seconds"]),
            compile_seconds=float(header["compile_seconds"]),
            changed=changed,
            launches=int(header["launches"]),
            faults=tuple(header["faults"]),
            unsupported=tuple(header["unsupported"]),
            kernels=tuple(header["kernels"]),
            refused=tuple(header["refused"]),
            warnings=tuple(header["warnings"]),
            process=self._processes,
        )

    def _exchange(self, request: tuple[dict[str, Any], list[bytes]] | None) -> tuple[dict[str, Any], list[bytes]]:
        worker = self._worker
        assert worker is not None
        try:
            header, blobs = worker.exchange(request, self.limits)
        except SubmissionEndedError:
            self.close()
            raise
        if raised := header.get("raised"):
            if request is None:
                self.close()
            message = str(raised["message"])
            if raised["unsupported"]:
                raise UnsupportedError(message)
            raise SubmissionError(str(raised["type"]), message, str(raised["traceback"]))
        return header, blobs


class _Worker:
    """One process and its pipes."""

    def __init__(self, submission: Submission) -> None:
        to_worker, self._requests = os.pipe()
        self._answers, from_worker = os.pipe()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._folder = tempfile.TemporaryDirectory(
            prefix="mxassay-"
        )  # its temporary files go when it goes, killed or not
        checkout = "" if submission.checkout is None else os.fspath(submission.checkout)
        command = [sys.executable, "-m", "mxassay.hosting.submission_worker", str(to_worker), str(from_worker)]
        self._process = subprocess.Popen(
            [*command, os.fspath(submission.path), submission.attribute, checkout],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            pass_fds=(to_worker, from_worker),
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_search_path()), "TMPDIR": self._folder.name},
        )
        os.close(to_worker)
        os.close(from_worker)

    def close(self) -> None:
        os.close(self._requests)
        os.close(self._answers)
        self._kill()
        self._printed.close()
        self._folder.cleanup()

    def _kill(self) -> None:
        """End the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def exchange(
        self, request: tuple[dict[str, Any], list[bytes]] | None, limits: Limits
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Send a request, if any, and wait for the answer within the limits."""
        watch = _Watch(self._process.pid, limits)
        try:
            if request is not None:
                wire.send(self._requests, *request)
            return wire.receive(self._reader(watch))
        except (EOFError, BrokenPipeError) as error:
            reason = watch.broken or self._death()
            raise SubmissionEndedError(reason, self._last_words()) from error
        except (ValueError, KeyError) as error:
            raise SubmissionEndedError(f"the process must answer in its protocol, not write {error}", "") from error

    def _reader(self, watch: "_Watch") -> Callable[[int], bytes]:
        def read(count: int) -> bytes:
            data = bytearray()
            while len(data) < count:
                ready, _, _ = select.select([self._answers], [], [], _POLL_SECONDS)
                if ready:
                    part = os.read(self._answers, min(count - len(data), 1 << 20))
                    if not part:
                        raise EOFError
                    data += part
                elif watch.exceeded():
                    self._kill()
                    raise EOFError
            return bytes(data)

        return read

    def _death(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "the process must answer each call, not close its pipe"
        if code < 0:
            return f"the process must answer each call, not die of {signal.Signals(-code).name}"
        return f"the process must answer each call, not exit with code {code}"

    def _last_words(self) -> str:
        end = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, end - _KEPT_OUTPUT))
        return self._printed.read().decode(errors="replace")


class _Watch:
    """Time and memory of a process group against its limits."""

    def __init__(self, group: int, limits: Limits) -> None:
        self.group, self.limits = group, limits
        self.started = time.monotonic()
        self.broken = ""

    def exceeded(self) -> bool:
        seconds, resident = time.monotonic() - self.started, resident_bytes(self.group)
        if seconds > self.limits.seconds:
            self.broken = f"a call must end within {self.limits.seconds:g} s, not run longer; raise the time limit"
        elif resident > self.limits.memory_bytes:
            self.broken = (
                f"a call must fit into {self.limits.memory_bytes / 2**20:,.0f} MiB, not take {resident / 2**20:,.0f}; "
                "raise the memory limit"
            )
        return bool(self.broken)


def resident_bytes(group: int) -> int:
    """Bytes of memory that the processes of a group hold, from /proc; pages that they share count for each."""
    pages = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[2]) == group:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _search_path() -> list[str]:
    import mxassay

    return [str(Path(mxassay.__file__).parents[1]), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _write_storage(tensor: torch.Tensor, blob: bytes) -> None:
    torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).copy_(
        torch.frombuffer(bytearray(blob), dtype=torch.uint8)
    )
