"""Every command and every Python block of the pages is run, and must give what the page shows."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxassay import cli

_LIMIT = 300  # seconds


def test_python_blocks_run(python_page: Path, snippets: list[str]) -> None:
    names: dict[str, Any] = {}
    for text in snippets:
        exec(compile(text, str(python_page), "exec"), names)


def test_commands(console: Any, workplace: Path, reasons: tuple[str, ...], root: Path, checkout: str | None) -> None:
    page, block = console
    why = block.notes.get("not run")
    if why is not None:
        assert why in reasons, f"{page.name}:{block.line} is not run because of a reason that nobody declared: {why}"
        if why != "needs an aiter checkout" or checkout is None:
            pytest.skip(why + (", which MXASSAY_AITER may name" if "aiter" in why else ""))
    if "first" in block.notes:
        assert _run(block.notes["first"], workplace, root)[0] == 0
    expected = int(block.notes.get("exit status", 0))
    statuses = [0] * (len(block.commands) - 1) + [expected]
    for command, wanted in zip(block.commands, statuses, strict=True):
        text = re.sub(r"\bPATH(?=/| |$)", checkout, command.text) if checkout else command.text
        status, output = _run(text, workplace, root)
        assert status == wanted, f"{page.name}:{block.line}: $ {command.text}\n{output}"
        if command.shown is not None:
            _assert_shown(command.shown, output, f"{page.name}:{block.line}: $ {command.text}")


def _run(command: str, folder: Path, root: Path) -> tuple[int, str]:
    """Exit status and output: standard output, or standard error where that is empty."""
    words = shlex.split(command)
    if words[:2] == ["mxassay", "layout"] and ">" not in words:
        return _in_process(words[1:])
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    for name, what in (("mxassay", f"{sys.executable} -m mxassay"), ("python", sys.executable)):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {what} "$@"\n')
        tool.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")])),
    }
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=_LIMIT
    )
    return done.returncode, done.stdout or done.stderr


def _in_process(words: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = cli.main(words)
    return status, out.getvalue()


def _assert_shown(shown: str, output: str, where: str) -> None:
    """`shown` is what came out, each … standing for anything."""
    pattern = ".*?".join(map(re.escape, _trimmed(shown).split("…")))
    assert re.fullmatch(pattern, _trimmed(output), re.DOTALL), f"{where} must print\n{shown}\nnot\n{output}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def test_the_report_that_is_explained_is_the_one_that_is_run(docs: Path) -> None:
    explained = (docs / "guide" / "read-a-report.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert explained in (docs / "guide" / "quickstart.md").read_text(encoding="utf-8")


def test_a_changed_output_is_seen() -> None:
    _assert_shown("a …\nb", "a 1\nb\n", "here")
    with pytest.raises(AssertionError, match="must print"):
        _assert_shown("a …\nb", "a 1\nc\n", "here")
