"""What only the emulated card can see, each seen failing: a small Triton kernel that is wrong in one way copies the
right product into place."""

import importlib

import pytest
import torch
from copying_kernels import KERNELS, copy_with

from mxassay.gfx950 import emulated
from mxassay.properties import test_determinism as determinism
from mxassay.properties import test_gemm as gemm
from mxassay.properties import test_memory as memory
from mxassay.properties.checks import PropertyError


@pytest.fixture(autouse=True)
def _emulated():
    importlib.import_module("tinygrad.renderer.amd")  # changes the recursion limit, of which Hypothesis would warn
    with emulated():
        yield


CASES = [
    (gemm.test_every_output_is_written_once, "twice"),
    (gemm.test_every_output_is_written_once, "all but the last"),
    (gemm.test_the_running_kernel_is_clean, "of memory nobody wrote"),
    (gemm.test_the_machine_code_waits_long_enough, "without waiting"),
    (memory.test_tails_reach_nothing_beside_the_arguments, "past the end"),
    (memory.test_any_call_stays_within_its_arguments, "past the end"),
    (determinism.test_neither_order_nor_garbage_matters, "of a register nobody wrote"),
]
TESTS = list(dict.fromkeys(test for test, _ in CASES))


@pytest.mark.parametrize("test", TESTS)
def test_a_right_copy_passes(test, kernel_of, right, run_property):
    run_property(test, kernel_of(copy_with("right", right)), max_examples=4)


@pytest.mark.parametrize(("test", "how"), CASES)
def test_a_wrong_copy_is_seen(test, how, kernel_of, right, run_property):
    with pytest.raises(PropertyError):
        run_property(test, kernel_of(copy_with(how, right)), max_examples=6)


def test_every_wrong_copy_is_used():
    assert {how for _, how in CASES} | {"right"} == set(KERNELS)
    assert torch.get_default_dtype() == torch.float32
