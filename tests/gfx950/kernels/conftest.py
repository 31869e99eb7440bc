"""The emulated card as Triton's device, and a seeded generator."""

import pytest
import torch

from mxassay.gfx950 import emulated


@pytest.fixture(autouse=True)
def card():
    with emulated() as driver:
        yield driver


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(20)


@pytest.fixture
def integers(generator):
    """Tensors of small integers, exact in every format here: sums of products are exact in any order."""

    def make(*shape, low=-2, high=2, dtype=torch.float32):
        return torch.randint(low, high + 1, shape, generator=generator).to(dtype)

    return make
