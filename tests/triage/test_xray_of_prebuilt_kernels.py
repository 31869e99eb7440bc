"""aiter's prebuilt code objects under the x-ray: right as they are, and the bytes that are wrong are named."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mxassay.gfx950 import emulated
from mxassay.loading import Request, open_kernels
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import quantize
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import on
from mxassay.triage.xray import xray

AITER = os.environ.get("MXASSAY_AITER")
CODE = Path(AITER or ".") / "hsa/gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co"
pytestmark = pytest.mark.skipif(not CODE.is_file(), reason="MXASSAY_AITER names no aiter checkout with code objects")


@pytest.fixture(scope="module")
def kernel():
    with emulated(), open_kernels(Request(str(CODE), None, "even", "emulated")) as kernels:
        yield KernelUnderTest(kernels[0], "emulated", "cpu")


@pytest.fixture
def failure():
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(5, 256, generator=generator).to(torch.bfloat16)
    weights = quantize(torch.randn(128, 256, generator=generator).to(torch.bfloat16))
    return Failure(Subject(str(CODE), "aiter-a4w4"), Operands(a, *weights), Launch(), Placement(), None)


def test_a_prebuilt_kernel_is_right_from_its_loads_to_its_stores(kernel, failure):
    found = xray(failure, on(kernel))
    assert found.first_divergence is None
    assert found.notes == ("every point looked at is right",)
    counts = {point.what: point.compared for point in found.checkpoints}
    assert counts["bfloat16 values as stored"] == 5 * 128
    assert counts["times that each block of K is counted"] == 5 * 128 * 8


def test_a_row_of_another_place_is_named(kernel, failure):
    def run(case):
        wrong = replace(case.operands, codes=case.operands.codes.roll(1, 0))
        return kernel.run(wrong, case.launch, case.placement).out

    first = xray(failure, run).first_divergence
    assert first is not None
    assert (first.stage, first.source) == ("weights.layout", None)
    assert first.expected.startswith("n 0, block 0")
    assert first.found.startswith("n 127, block 0")
