"""A process with torch, Triton, Hypothesis and pytest loaded that forks a child for each run: saves seconds a trial.

    python -P nursery.py [MODULE ...] < requests > answers

It loads the modules that are named, or those that the suite needs. Run as a file, since mxassay must be imported in
the children alone, each from its own copy. A request is one line of
JSON: `words` (as after `python`: "-m", a module, its arguments), `environment`, `folder`, and the files `stdout` and
`stderr`. The answers are the child's pid, which leads a session of its own, and its exit code, negative for a signal.
"""

import contextlib
import json
import os
import runpy
import sys
import traceback
from typing import Any

_LOADED = ("torch", "triton", "triton.language", "numpy", "hypothesis", "pytest", "tinygrad.renderer.amd")


def child(request: dict[str, Any]) -> int:
    """Become `python WORDS` in the folder, and return the exit code."""
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for name, number in (("stdout", 1), ("stderr", 2)):
        with open(request[name], "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    _, module, *arguments = request["words"]
    sys.path[:0] = ["", *request["environment"].get("PYTHONPATH", "").split(os.pathsep)]
    sys.argv = [module, *arguments]
    sys.dont_write_bytecode = True
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Answer requests until there are no more."""
    for name in sys.argv[1:] or _LOADED:
        with contextlib.suppress(ModuleNotFoundError):  # a GPU's machine needs no decoder of gfx950 code
            __import__(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = child(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
