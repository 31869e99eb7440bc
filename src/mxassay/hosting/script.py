"""Runs a script, a module or pytest on the emulated card: what `mxassay run` does.

The program runs in this process, as `python SCRIPT` or `python -m MODULE` would run it.
"""

import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mxassay.errors import UnsupportedError
from mxassay.hosting.host import emulated_host
from mxassay.hosting.launch_log import LaunchLog
from mxassay.hosting.pytest_outcomes import Outcomes
from mxassay.hosting.refusals import refusals_so_far, refused_since

if TYPE_CHECKING:
    from mxassay.gfx950 import Options


@dataclass(frozen=True)
class Run:
    """A program that ended.

    Attributes:
        exit_code: as the shell would see it; 1 where an exception came out.
        error: that exception, or None.
        log: what was launched on the emulated card.
        refused: what was refused by name, even if the program caught the error.
        notes: what to tell the user about the host.
        tests: outcomes, where the program was pytest.
    """

    exit_code: int
    error: BaseException | None
    log: LaunchLog
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    tests: Outcomes | None = None

    def summary(self) -> str:
        """Launches, faults and refusals, as lines for people."""
        tests = [self.tests.summary()] if self.tests is not None else []
        return "\n".join([*tests, self.log.summary(), *(f"  refused: {text}" for text in self.refused)])


def run_program(
    words: Sequence[str],
    *,
    checkout: "str | os.PathLike[str] | None" = None,
    options: "Options | None" = None,
) -> Run:
    """Run `SCRIPT.py ARGUMENTS...` or `-m MODULE ARGUMENTS...` with `device="cuda"` and Triton on the emulated card.

    Never raises for what the program does, KeyboardInterrupt apart. pytest must run in one process: workers that it
    starts (`-n`) don't have the host.

    Raises:
        UnsupportedError: no such file, no words, or a checkout that can't be used.
    """
    words = list(words)
    if not words or words == ["-m"]:
        raise UnsupportedError("a program must be named, as SCRIPT.py or -m MODULE, not left out")
    if words[0] != "-m" and not Path(words[0]).is_file():
        raise UnsupportedError(f"a script must be an existing file, not {words[0]}; a module takes -m before its name")
    error: BaseException | None = None
    code, mark = 0, refusals_so_far()
    tests = Outcomes() if words[:2] == ["-m", "pytest"] else None
    with emulated_host(checkout, options) as host, _arguments(words):
        try:
            if tests is not None:
                code = int(pytest.main(list(words[2:]), plugins=[tests]))
            else:
                _execute(words)
        except SystemExit as exit_:
            code = _exit_code(exit_.code)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            error, code = raised, 1
    return Run(code, error, host.log, refused_since(mark), host.notes, tests)


def _execute(words: Sequence[str]) -> None:
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


@contextmanager
def _arguments(words: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and the head of `sys.path` as Python sets them for a program."""
    argv, path = sys.argv, list(sys.path)
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, os.getcwd())
    else:
        sys.argv = list(words)
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def module_from_file(file: Path, name: str) -> types.ModuleType:
    """Import a file under a name of our choice, and register it: Triton reads a kernel's source through its module."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UnsupportedError(f"a module must be a Python file, not {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
