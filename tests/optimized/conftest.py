"""Where the kernels of these tests run, and the inputs they get.

MXASSAY_DEVICE picks the device: `emulated` (the default), `interpreter` or `cuda`. The interpreter must be settled
before Triton is imported, so it wants a pytest process of its own: `MXASSAY_DEVICE=interpreter pytest tests/optimized`.
"""

import os
from dataclasses import dataclass

import pytest

DEVICE = os.environ.get("MXASSAY_DEVICE", "emulated")
if DEVICE == "interpreter":
    os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import torch  # noqa: E402

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE  # noqa: E402
from mxassay.reference import certificate, matmul, quantize  # noqa: E402

POISON = 0xFF  # a NaN in bfloat16, two -6 codes, the NaN scale


@dataclass(frozen=True)
class Case:
    """Inputs of one GEMM inside poisoned buffers, with their linear form and the right output."""

    a: torch.Tensor
    b: torch.Tensor
    scales: torch.Tensor
    linear_b: torch.Tensor
    linear_scales: torch.Tensor
    expected: torch.Tensor


@pytest.fixture(scope="module", autouse=True)
def _driver():
    """The chosen Triton driver, active while this module's tests run."""
    if DEVICE not in ("interpreter", "emulated", "cuda"):
        raise pytest.UsageError(f"MXASSAY_DEVICE must be interpreter, emulated or cuda, not {DEVICE}")
    if DEVICE != "emulated":
        yield
        return
    from mxassay.gfx950 import emulated

    with emulated():
        yield


@pytest.fixture(scope="session")
def device():
    """The torch device of the inputs."""
    return torch.device("cuda" if DEVICE == "cuda" else "cpu")


@pytest.fixture(scope="session")
def embed(device):
    """Put a tensor inside a buffer whose other bytes are 0xFF, `lead` bytes after its start."""

    def place(tensor, lead=64):
        size = tensor.numel() * tensor.element_size()
        buffer = torch.full((lead + size + 4096,), POISON, dtype=torch.uint8, device=device)
        view = buffer[lead : lead + size].view(tensor.dtype).view(tensor.shape)
        return view.copy_(tensor)

    return place


@pytest.fixture(scope="session")
def make_case(device, embed):
    """Random codes, scales that differ between neighbouring rows and blocks, activations whose blocks differ likewise.

    Every output is certified: its bits do not depend on the order of summation, so one bit pattern is right.
    """

    def make(m, n, k, seed=0, fill=POISON):
        generator = torch.Generator().manual_seed(seed)
        row, group = torch.arange(m)[:, None], torch.arange(k // 32)[None, :]
        ramp = torch.exp2(((7 * row + 3 * group) % 3).float()).repeat_interleave(32, 1)
        a = (torch.randn(m, k, generator=generator) * ramp).bfloat16()
        linear_b = torch.randint(0, 256, (n, k // 2), generator=generator, dtype=torch.uint8)
        column = torch.arange(n)[:, None]
        linear_scales = (126 + (5 * column + 3 * group + column // 16) % 3).to(torch.uint8)
        quantized = quantize(a)
        operands = (quantized.packed, quantized.scales, linear_b, linear_scales)
        assert certificate(*operands).all()
        return Case(
            a=embed(a),
            b=embed(WEIGHT_PRESHUFFLE.apply(linear_b)),
            scales=embed(SCALE_SHUFFLE.apply(linear_scales, fill=fill)),
            linear_b=linear_b.to(device),
            linear_scales=linear_scales.to(device),
            expected=matmul(*operands).to(device),
        )

    return make


@pytest.fixture(scope="session")
def assert_same_bits():
    """Equality of bfloat16 or byte tensors, bit for bit, with the first difference in the message."""

    def check(found, expected):
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        raw = torch.int16 if found.dtype == torch.bfloat16 else found.dtype
        wrong = (found.contiguous().view(raw) != expected.contiguous().view(raw)).nonzero()
        if len(wrong):
            at = tuple(wrong[0].tolist())
            raise AssertionError(
                f"{len(wrong)} of {found.numel()} differ, first at {at}: {found[at]}, not {expected[at]}"
            )

    return check
