"""The process a contest submission runs in: loads the file under the emulated host, then answers call after call.

    python -m mxassay.hosting.submission_worker REQUESTS ANSWERS FILE ATTRIBUTE AITER

REQUESTS and ANSWERS are descriptors of inherited pipes; AITER is a checkout or empty. Started by `submission`.
"""

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mxassay.errors import MxassayError, UnsupportedError, called_from
from mxassay.hosting import wire
from mxassay.hosting.host import Host, emulated_host
from mxassay.hosting.refusals import refused_since
from mxassay.hosting.script import module_from_file
from mxassay.hosting.task_module import install_task


def main(arguments: list[str]) -> int:
    """Serve one submission. Every request gets one answer."""
    requests, answers = int(arguments[0]), int(arguments[1])
    file, attribute, checkout = Path(arguments[2]), arguments[3], arguments[4] or None
    read = wire.reader(requests)
    try:
        with emulated_host(checkout) as host:
            function = _load(file, attribute)
            wire.send(answers, {"loaded": True, "notes": list(host.notes)})
            while True:
                header, blobs = wire.receive(read)
                if header.get("stop"):
                    return 0
                wire.send(answers, *_answer(host, function, header, blobs))
    except EOFError:
        return 0
    except BaseException as error:
        wire.send(answers, {"raised": _described(error)})
        return 1


def _load(file: Path, attribute: str) -> Callable[[Any], torch.Tensor]:
    install_task()
    sys.path.insert(0, str(file.resolve().parent))
    function = getattr(module_from_file(file, "submission"), attribute, None)
    if function is None:
        raise UnsupportedError(
            f"{file} must define a callable {attribute}, not leave it out; a kernel that takes three tensors is named "
            f"as {file}:NAME"
        )
    if not callable(function):
        raise UnsupportedError(f"{file} must define a callable {attribute}, not {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _answer(
    host: Host, function: Callable[[Any], torch.Tensor], header: dict[str, Any], blobs: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """Call the submission once. The answer says what it returned or raised, and brings every input that it changed."""
    with torch._C.DisableTorchFunction():
        inputs = [wire.rebuild(description, blob) for description, blob in zip(header["inputs"], blobs, strict=True)]
    data = tuple(host.cuda.put_on_card(tensor) for tensor in inputs)
    log = host.log
    before = log.launches, len(log.faults), len(log.unsupported)
    answer: dict[str, Any] = {}
    parts: list[bytes] = []
    with _compile_clock() as compiling, warnings.catch_warnings(record=True) as caught, poisoned_allocations():
        warnings.simplefilter("always")
        started = time.perf_counter()
        try:
            out = function(data)
            answer["out"] = _described_output(out)
        except BaseException as error:
            answer["raised"] = _described(error)
            out = None
        answer["seconds"] = time.perf_counter() - started
    with torch._C.DisableTorchFunction():
        if out is not None:
            parts.append(wire.storage_bytes(out))
        after = [wire.storage_bytes(tensor) for tensor in inputs]
    changed = [index for index, (now, before) in enumerate(zip(after, blobs, strict=True)) if now != before]
    parts += [after[index] for index in changed]
    answer |= {
        "changed": changed,
        "compile_seconds": sum(compiling) / 1e6,
        "launches": log.launches - before[0],
        "faults": log.faults[before[1] :],
        "unsupported": log.unsupported[before[2] :],
        "kernels": log.as_json(),
        "refused": list(refused_since(0)),
        "warnings": sorted({f"{note.category.__name__}: {note.message}" for note in caught}),
    }
    return answer, parts


def _described_output(out: Any) -> dict[str, Any]:
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"custom_kernel must return a tensor, not {type(out).__name__}")
    with torch._C.DisableTorchFunction():
        return wire.describe(out)


def _described(error: BaseException) -> dict[str, Any]:
    # What we raise on purpose says all in its text; where in our own files it was raised helps nobody.
    meant = isinstance(error, MxassayError)
    return {
        "type": type(error).__name__,
        "unsupported": isinstance(error, UnsupportedError),
        "message": str(error),
        "traceback": called_from(error) if meant else "".join(traceback.format_exception(error)),
    }


@contextmanager
def poisoned_allocations() -> Iterator[None]:
    """Let torch.empty return NaN, so that an output or a partial nobody wrote can't look right by luck."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def _compile_clock() -> Iterator[list[float]]:
    """Microseconds of every compilation by Triton inside the block."""
    from triton import knobs

    spent: list[float] = []
    before = knobs.compilation.listener
    knobs.compilation.listener = lambda **event: spent.append(event["times"].total)
    try:
        yield spent
    finally:
        knobs.compilation.listener = before


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # threads that the submission left behind must not keep the process alive
