"""`mxassay check` says FAIL, with the first wrong element, when one line of our own kernel is wrong."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("src", "layouts", "reference", "optimized", "gfx950", "properties", "triage")


@dataclass(frozen=True)
class Fault:
    """One line of `file`, changed; `shape` is the smallest of the edge shapes that shows it."""

    name: str
    file: str
    find: str
    replace: str
    shape: str
    device: str = "interpreter"


FAULTS = (
    Fault(
        "stride of a scale stripe halved",
        "optimized/operands.py",
        "pointers = s_ptr + (stripe * (stride_row * SCALE_STRIPE) + byte)",
        "pointers = s_ptr + (stripe * (stride_row * 16) + byte)",
        "5,48,320",
    ),
    Fault(
        "stride of a weight stripe doubled",
        "optimized/operands.py",
        "pointers = w_ptr + (stripe * (stride_row * 16) + byte)",
        "pointers = w_ptr + (stripe * (stride_row * 32) + byte)",
        "5,48,320",
    ),
    Fault(
        "nibbles of the activations swapped",
        "optimized/pack.py",
        "packed = encode_e2m1(even, scale) | (encode_e2m1(odd, scale) << 4)",
        "packed = encode_e2m1(odd, scale) | (encode_e2m1(even, scale) << 4)",
        "1,16,64",
    ),
    Fault(
        "ties go up instead of to the even code",
        "optimized/pack.py",
        "large = ((scaled + 0x1F + ((scaled >> 6) & 1)) >> 6) - (126 << 1)",
        "large = ((scaled + 0x20) >> 6) - (126 << 1)",
        "17,80,576",
    ),
    Fault(
        "the tie at 0.25 goes up",
        "optimized/pack.py",
        "(scaled > (125 << 7))",
        "(scaled >= (125 << 7))",
        "17,80,576",
    ),
    Fault(
        "K tail of the activations not masked",
        "optimized/operands.py",
        "mask=(row < rows_left) & (k < k_left), other=0.0)",
        "mask=row < rows_left, other=0.0)",
        "5,48,320",
    ),
    Fault(
        "K tail of the scales not masked",
        "optimized/operands.py",
        "return tl.where((row < rows_left) & (group < groups_left), scales, NEUTRAL_SCALE).to(tl.uint8)",
        "return tl.where(row < rows_left, scales, NEUTRAL_SCALE).to(tl.uint8)",
        "5,48,320",
    ),
    Fault(
        "N tail of the output not masked",
        "optimized/fused_gemm.py",
        "mask = (row < M - first_m) & (column < N - first_n)",
        "mask = row < M - first_m",
        "17,80,576",
    ),
    Fault(
        "bfloat16 output truncated",
        "optimized/rounding.py",
        "rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16",
        "rounded = bits >> 16",
        "5,48,320",
    ),
    Fault(
        "scale boundary at mantissa 1.5 instead of 1.75",
        "optimized/pack.py",
        "(tl.minimum(peak, 0x7F80) + 0x20) >> 7",
        "(tl.minimum(peak, 0x7F80) + 0x40) >> 7",
        "5,48,320",
    ),
)

README_FAULT = Fault(
    "bfloat16 output truncated in machine code",
    "optimized/direct_gemm.py",
    "values.to(gl.bfloat16), tile,",
    "(values.to(gl.uint32, bitcast=True) >> 16).to(gl.uint16).to(gl.bfloat16, bitcast=True), tile,",
    "32,2880,512",
    "emulated",
)


def check_a_copy(fault, folder, *options):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    if fault is not None:
        file = folder / fault.file
        text = file.read_text()
        assert text.count(fault.find) == 1, f"{fault.find!r} must stand once in {fault.file}"
        file.write_text(text.replace(fault.find, fault.replace))
    shape, device = (fault.shape, fault.device) if fault else ("5,48,320", "interpreter")
    words = [sys.executable, "-m", "mxassay", "check", "--device", device, "--shapes", shape, *options]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(folder / "src")
    return subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def document_of(fault, folder):
    done = check_a_copy(fault, folder, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_an_unchanged_copy_passes(tmp_path):
    code, document = document_of(None, tmp_path)
    assert (code, document["verdict"]) == (0, "PASS")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_fails(fault, tmp_path):
    code, document = document_of(fault, tmp_path)
    assert (code, document["verdict"]) == (1, "FAIL")
    (case,) = document["cases"]
    assert case["verdict"] == "FAIL"
    wrong = case["first_wrong"]
    assert wrong is not None
    assert wrong["got_hex"] != wrong["expected_hex"]
    assert case["bit_differences"] > 0


def test_the_readme_shows_what_the_tool_prints(tmp_path):
    report = (ROOT / "README.md").read_text().split("```\n")[1]
    done = check_a_copy(README_FAULT, tmp_path)
    assert done.returncode == 1
    assert report.startswith("FAIL: mxassay.optimized:matmul\n")
    assert report in done.stdout
