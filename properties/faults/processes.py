"""Runs of Python in processes of their own, with a limit; forked from one that has everything heavy loaded."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_running: set[int] = set()
_nurseries: list["_Nursery"] = []
_own = threading.local()


def run(
    words: list[str], folder: Path, environment: dict[str, str], limit: float, loaded: tuple[str, ...] = ()
) -> tuple[int | None, str, str]:
    """`python WORDS` in `folder`: exit code (negative: a signal; None: killed after `limit` seconds), standard output
    and error. `words` begin with -m. `loaded`: the modules that the process begins with, where not the suite's.
    """
    if "interpreter" in words or not hasattr(os, "fork"):  # Triton decides on import whether it interprets
        return _spawned(words, folder, environment, limit)
    nursery = getattr(_own, "nursery", None)
    if nursery is None or not nursery.serves(environment, loaded):
        nursery = _own.nursery = _Nursery(environment, loaded)
    found: tuple[int | None, str, str] = nursery.run(words, folder, environment, limit)
    return found


def stop() -> None:
    """Kill everything that this process has running."""
    for pid in list(_running):
        _kill(pid)
    for nursery in _nurseries:
        nursery.close()
    _nurseries.clear()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _spawned(words: list[str], folder: Path, environment: dict[str, str], limit: float) -> tuple[int | None, str, str]:
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    _running.add(process.pid)
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _kill(process.pid)
        stdout, stderr = process.communicate()
        return None, stdout, stderr
    finally:
        _running.discard(process.pid)
    return process.returncode, stdout, stderr


class _Nursery:
    """See `mxassay.properties.faults.nursery`. Used by one thread."""

    def __init__(self, environment: dict[str, str], loaded: tuple[str, ...]) -> None:
        self._loaded, self._loaded_with = loaded, _early(environment)
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("nursery.py")), *loaded],
            env={name: value for name, value in environment.items() if name != "PYTHONPATH"},
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        _nurseries.append(self)

    def serves(self, environment: dict[str, str], loaded: tuple[str, ...]) -> bool:
        """Whether it lives, and was started with these modules and what libraries read when they load."""
        same = self._loaded == loaded and self._loaded_with == _early(environment)
        return same and self.process.poll() is None

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def run(
        self, words: list[str], folder: Path, environment: dict[str, str], limit: float
    ) -> tuple[int | None, str, str]:
        """As `run` does."""
        outputs = {name: folder / f".{name}" for name in ("stdout", "stderr")}
        request = {"words": words, "folder": str(folder), "environment": environment}
        asks, answers = self.process.stdin, self.process.stdout
        assert asks is not None and answers is not None  # noqa: PT018
        print(json.dumps(request | {name: str(path) for name, path in outputs.items()}), file=asks, flush=True)
        pid = int(answers.readline())
        _running.add(pid)
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(pid)

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            code = int(answers.readline())
        finally:
            timer.cancel()
            _running.discard(pid)
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in outputs.values()]
        return None if late.is_set() else code, texts[0], texts[1]


def _early(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("OMP_", "MKL_"))}
