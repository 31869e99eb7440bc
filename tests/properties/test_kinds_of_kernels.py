"""One property on every kind of kernel that the command line can name: a right one passes, a wrong one does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = "mxassay.properties.test_special_values::test_scale_255_makes_a_column_nan"
KERNELS = """
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import matmul, quantize


def right(a, b, scales):
    n, k = b.shape[0], 2 * b.shape[1]
    return matmul(*quantize(a), WEIGHT_PRESHUFFLE.invert(b), SCALE_SHUFFLE.invert(scales, (n, k // 32)))


def wrong(a, b, scales):
    return right(a, b, scales.clamp(max=254))
"""
SUBMISSION = """
import torch
from kernels_of_every_kind import {which}


def custom_kernel(data):
    a, _, _, weights, scales = data
    return {which}(a, weights.view(torch.uint8), scales.view(torch.uint8))
"""


def verdict(folder, *words):
    """Of the one property."""
    file = folder / "verdicts.json"
    start = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mxassay.pytest_plugin"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "MXASSAY_R"))}
    environment |= {"PYTHONPATH": f"{ROOT / 'src'}:{folder}"}
    done = subprocess.run(
        [*start, "--pyargs", TARGET, "--mx-device", "emulated", "--mx-verdicts", str(file), *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    assert file.exists(), done.stdout + done.stderr
    (record,) = json.loads(file.read_text())
    return record["verdict"], record["message"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels_of_every_kind.py").write_text(KERNELS)
    for which in ("right", "wrong"):
        (tmp_path / f"submission_{which}.py").write_text(SUBMISSION.format(which=which))
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["kernels_of_every_kind:{}", "kernels_of_every_kind.py:{}", "submission_{}.py"],
    ids=["module:attr", "path.py:attr", "contest file"],
)
def test_a_right_kernel_passes_and_a_wrong_one_fails(name, folder):
    found, message = verdict(folder, "--mx-kernel", name.format("right"))
    assert (found, message) == ("PASS", "")
    found, message = verdict(folder, "--mx-kernel", name.format("wrong"))
    assert found == "FAIL"
    assert f"--mx-kernel {name.format('wrong')}" in message


def test_a_prebuilt_code_object_passes(folder):
    checkout = Path(os.environ.get("MXASSAY_AITER", ROOT.parent / "aiter"))
    objects = sorted((checkout / "hsa" / "gfx950" / "f4gemm").glob("*BpreShuffle_32x128.co"))
    if not objects:
        pytest.skip("needs an aiter checkout at MXASSAY_AITER, whose hsa/gfx950/f4gemm/*.co are run")
    assert verdict(folder, "--mx-kernel", str(objects[0]), "--mx-multiples", "1,128,256") == ("PASS", "")
