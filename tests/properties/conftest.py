"""A right kernel and wrong ones in plain torch, put under test without a device, so that properties run in moments."""

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, settings

from mxassay.kernels import Kernel, Returned
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.kernel import Contract, KernelUnderTest, put_under_test
from mxassay.reference import matmul, quantize

sys.path.insert(0, str(Path(__file__).parent))  # for copying_kernels, whose source Triton must find in a module


def right_product(x):
    n, k = x.b_preshuffled.shape[0], 2 * x.b_preshuffled.shape[1]
    weights = WEIGHT_PRESHUFFLE.invert(x.b_preshuffled)
    scales = SCALE_SHUFFLE.invert(x.b_scales_shuffled, (n, k // 32))
    return matmul(*quantize(x.a), weights, scales)


@pytest.fixture
def right():
    return right_product


@pytest.fixture
def kernel_of():
    """A `KernelUnderTest` around a function of GemmArguments, made the one under test."""

    def make(function, *, name="planted", device="emulated", contract=None, own=False):
        kernel = Kernel(name, "mxfp4-gemm", "even", lambda x, _plan: Returned(function(x)))
        found = KernelUnderTest(kernel, device, "cpu", contract or Contract(), own=own)
        put_under_test(found)
        return found

    return make


@pytest.fixture
def own_kernel(kernel_of):
    """What tests of our own stages ask for; they call `mxassay.optimized` themselves."""
    return kernel_of(right_product, own=True)


@pytest.fixture
def run_property():
    """Run a Hypothesis test of the suite with few examples and without shrinking: one failing example is enough."""

    def run(test, kernel, max_examples=None, **arguments):
        if hasattr(test, "hypothesis"):
            test._hypothesis_internal_use_settings = settings(
                test._hypothesis_internal_use_settings,
                max_examples=max_examples or test._hypothesis_internal_use_settings.max_examples,
                phases=(Phase.explicit, Phase.generate),
                database=None,
                print_blob=False,
                report_multiple_bugs=False,
            )
        test(kernel, **arguments) if kernel is not None else test(**arguments)

    return run


@pytest.fixture
def flip():
    """Add one unit in the last place to one element of a bfloat16 tensor."""

    def change(out, at):
        out = out.clone()
        out.view(torch.int16)[at] += 1
        return out

    return change
