"""A case file from check to replay, triage and a script: what a user types, on a kernel with a wrong rule in it."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from simulated import WIDE, dense, failing, right

from mxassay import cli
from mxassay.triage.casefile import load, save
from mxassay.triage.failure import Subject
from mxassay.triage.script import to_script

# A kernel of torch operations that swaps the nibbles of A: `--abi mxfp4-gemm`, any device.
KERNEL = """
import torch
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import matmul, quantize, unpack, pack

def fn(a, weights, scales):
    n, half = weights.shape
    codes = WEIGHT_PRESHUFFLE.invert(weights, (n, half))
    table = SCALE_SHUFFLE.invert(scales, (n, half // 16))
    q = quantize(a)
    swapped = pack(unpack(q.packed).view(len(a), -1, 2).flip(2).flatten(1))
    return matmul(swapped, q.scales, codes, table)
"""


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "swapped.py"
    path.write_text(KERNEL)
    return f"{path}:fn"


def test_check_saves_what_triage_and_replay_read(kernel, tmp_path, capsys):
    folder = tmp_path / "cases"
    words = ["check", kernel, "--device", "emulated", "--shapes", "5,48,320", "1,16,64", "--save", str(folder)]
    assert cli.main([*words, "--no-history"]) == 1
    first, second = sorted(folder.glob("*.json"))
    assert f"mxassay triage {second}" in capsys.readouterr().err
    small, report = tmp_path / "small.json", tmp_path / "report.html"
    words = ["triage", str(second), "--quick", "--save", str(small), "--report", str(report), "--no-history", "--json"]
    assert cli.main(words) == 1
    found = json.loads(capsys.readouterr().out)["diagnosis"]
    assert (found["class"], found["stage"]) == ("nibble-order", "pack")
    assert found["explanations"][0]["suspect"] == "a-nibbles-swapped"
    assert found["size"]["tiles"] == 1
    assert found["size"]["elements"] <= 4
    assert report.read_text().startswith("<!doctype html>")
    assert small.stat().st_size < 1000
    assert load(small).operands.dialect == "even"
    assert cli.main(["replay", str(small)]) == 1
    printed = capsys.readouterr().out
    assert "of 16 outputs wrong" in printed
    assert "the outputs are bit for bit those of the case file" in printed
    assert cli.main(["replay", str(first), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["same_as_then"] is True


def test_the_shapes_that_are_named_are_looked_at(kernel, tmp_path, capsys):
    """Of the named ones alone, with the inputs of `mxassay check`."""
    words = ["triage", kernel, "--quick", "--no-history", "--shapes", "3,32,128", "7,16,64", "--seed", "3", "--json"]
    assert cli.main([*words, "--save", str(tmp_path / "case.json")]) == 1
    failure = json.loads(capsys.readouterr().out)["diagnosis"]["failure"]
    assert failure["shape"] == [3, 32, 128]
    assert failure["inputs"] == "seed 3"


def test_shapes_that_a_kernel_refuses_are_told_before_anything_runs(kernel, tmp_path, capsys):
    Path(kernel.removesuffix(":fn")).write_text(KERNEL + 'MXASSAY = {"multiples": (8, 32, 128)}')
    assert cli.main(["triage", kernel, "--no-history", "--shapes", "3,32,128"]) == 2
    assert "--shapes must hold multiples of M=8, N=32, K=128, not 3,32,128" in capsys.readouterr().err
    assert cli.main(["triage", str(tmp_path / "case.json"), "--no-history", "--shapes", "3,32,128"]) == 2
    assert "--shapes must go with a kernel, not with a case file" in capsys.readouterr().err


def test_the_command_that_runs_it_again_runs_it_again(kernel, tmp_path, monkeypatch, capsys):
    """Nobody named a file for the case: it lies in the data folder, and the printed command finds it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert cli.main(["triage", kernel, "--quick", "--no-history", "--shapes", "3,32,128"]) == 1
    printed = capsys.readouterr().out
    command = re.search(r"mxassay replay (\S+)", printed)[1]
    assert Path(command).parent == tmp_path / "data" / "mxassay" / "cases"
    assert Path(command).name.startswith("swapped-1x16x64-")
    assert cli.main(["replay", command]) == 1
    assert "the outputs are bit for bit those of the case file" in capsys.readouterr().out


def test_a_case_that_cannot_be_written_is_refused(kernel, tmp_path, capsys):
    words = ["triage", kernel, "--quick", "--no-history", "--shapes", "3,32,128", "--save"]
    assert cli.main([*words, str(tmp_path)]) == 2
    assert f"the case file must be one that can be written, not {tmp_path}: Is a directory" in capsys.readouterr().err


def test_a_dialect_option_overrides_what_the_kernel_declares(tmp_path, capsys):
    """The kernel follows EVEN and says RCEIL."""
    path = tmp_path / "declared.py"
    path.write_text('MXASSAY = {"dialect": "rceil"}' + KERNEL.replace("matmul(swapped,", "matmul(q.packed,"))
    words = ["triage", f"{path}:fn", "--quick", "--no-history", "--shapes", "5,48,320"]
    words += ["--save", str(tmp_path / "case.json")]
    assert cli.main(words) == 1
    assert cli.main([*words, "--dialect", "even"]) == 0


def test_a_right_kernel_replays_to_a_pass(tmp_path, capsys):
    failure = failing(right, dense(3, 16, 64), WIDE)
    wrong = replace(failure, out=failure.out + 1)
    case = save(wrong, tmp_path / "case.json")
    assert cli.main(["replay", str(case)]) == 0
    assert "the outputs are not those of the case file" in capsys.readouterr().out


@pytest.mark.parametrize("view", ["every third row"])
def test_the_script_stands_alone(view, tmp_path, capsys):
    failure = failing(right, dense(3, 16, 64), WIDE)
    failure = replace(failure, placement=replace(failure.placement, view=view))
    case = save(failure, tmp_path / "case.json")
    script = tmp_path / "case.py"
    assert cli.main(["replay", str(case), "--script", str(script)]) == 0
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "all 48 outputs are right\n", done.stderr
    spoiled = script.read_text().replace("wrong = (~right)", "out[1, 2] += 64\nright[1, 2] = False\nwrong = (~right)")
    script.write_text(spoiled)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 of 48 outputs are wrong" in done.stderr


def test_a_script_of_somebody_s_file_calls_it(kernel, tmp_path):
    failure = failing(right, dense(1, 16, 64))
    failure = replace(failure, subject=Subject(kernel, "mxfp4-gemm", "interpreter"))
    script = tmp_path / "case.py"
    script.write_text(to_script(failure))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert "outputs are wrong" in done.stderr, done.stderr
    assert torch.equal(right(failure), failure.out)


def test_words_that_fit_nothing_are_refused(tmp_path, capsys):
    assert cli.main(["triage", "a", "b", "c"]) == 2
    assert cli.main(["replay", str(tmp_path / "none.json")]) == 2
    assert "a case must be a readable JSON file" in capsys.readouterr().err
