"""The last line of a check that did not pass says what looks for the cause."""

import io
import shlex

import pytest
from rich.console import Console

from mxassay.cli import parser
from mxassay.terminal import print_check
from mxassay.verdicts import CaseRecord, Verdict


def printed(*records):
    out = io.StringIO()
    print_check(Console(file=out, width=140), list(records), 1.0)
    return out.getvalue().rstrip("\n").splitlines()[-1]


def record(verdict, words="k.py:fn", device="emulated"):
    replay = f"mxassay check {words} --shapes 4,64,256 --device {device} --seed 0"
    return CaseRecord((4, 64, 256), "k.py:fn", device, "gemm-agreement", "own", verdict, replay=replay)


@pytest.mark.parametrize(
    ("words", "device", "command"),
    [
        ("k.py:fn", "emulated", "mxassay triage k.py:fn"),
        ("'my kernel.py' --abi gpumode --aiter /a", "cuda",
         "mxassay triage 'my kernel.py' --abi gpumode --aiter /a --device cuda"),
        ("x.co --tile 32x128", "mi355x", "mxassay triage x.co --tile 32x128 --device mi355x"),
    ],
)  # fmt: skip
def test_the_first_failure_names_the_command(words, device, command):
    last = printed(record(Verdict.PASS), record(Verdict.FAIL, words, device), record(Verdict.ERROR, "other.py:fn"))
    assert last == f"Why: {command}, or the replay with --report FILE.html"
    parser().parse_args(shlex.split(command)[1:])


def test_who_passes_or_is_refused_gets_no_advice():
    assert printed(record(Verdict.PASS)).startswith("PASS")
    assert printed(record(Verdict.UNSUPPORTED)).startswith("UNSUPPORTED")
