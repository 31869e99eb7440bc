"""The contest entry that our kernels replace, run unmodified on the emulated card. Skipped where its file is absent."""

import os
from pathlib import Path

import pytest
import torch

from mxassay.cases import Case
from mxassay.checking import check_case
from mxassay.devices import DEVICES
from mxassay.kernels import GemmArguments
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.loading import Request, open_kernels
from mxassay.optimized import LEADERBOARD
from mxassay.reference import dequantize, expectation, quantize
from mxassay.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[2]
SEED = Path(os.environ.get("MXASSAY_SEED", ROOT.parent / "shared/seed/submission_748756.txt"))

# What the entry asks of aiter when it is imported; none of it runs for the shapes that it has plans for.
AITER = {
    "__init__.py": "",
    "ops/__init__.py": "",
    "ops/triton/__init__.py": "",
    "ops/triton/quant.py": "def dynamic_mxfp4_quant(x): raise AssertionError('not for a planned shape')",
    "ops/gemm_op_a4w4.py": (
        "import functools\n@functools.lru_cache\ndef get_GEMM_config(m, n, k): return None\n"
        "get_GEMM_config.gemm_dict = {}"
    ),
    "utility/__init__.py": "",
    "utility/dtypes.py": "",
    "utility/fp4_utils.py": "def e8m0_shuffle(scales): raise AssertionError('not for a planned shape')",
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    if not SEED.is_file():
        pytest.skip("the seed's file is absent; MXASSAY_SEED names it")
    folder = tmp_path_factory.mktemp("seed")
    for name, text in AITER.items():
        file = folder / "aiter" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # The text has a title above the Python file, which begins with the contest's marks.
    text = SEED.read_text()
    (folder / "submission.py").write_text(text[text.index("#!POPCORN") :])
    request = Request(str(folder / "submission.py"), "gpumode", "even", "emulated")
    with open_kernels(request) as kernels:
        yield kernels[0]


@pytest.mark.parametrize("shape", LEADERBOARD, ids=str)
def test_the_seed_agrees_bit_for_bit(kernel, shape):
    record = check_case(kernel, Case(shape), DEVICES["emulated"])
    assert record.verdict is Verdict.PASS, record.message
    assert record.bit_differences == 0
    assert record.outputs == shape[0] * shape[1]
    assert record.certified > 0.999 * record.outputs


def test_the_seed_loses_a_nan_that_stands_beside_finite_values(kernel):
    """Its maximum drops NaN, so the block's scale is that of the others and the row comes out wrong, not NaN; the other
    rows are right. Our dialect `even` takes the byte of infinity there, a declared policy."""
    m, n, k = LEADERBOARD[0]
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(m, k, generator=generator).bfloat16()
    a[1, 3] = float("nan")
    weights = quantize(torch.randn(n, k, generator=generator).bfloat16())
    shuffled = WEIGHT_PRESHUFFLE.apply(weights.packed), SCALE_SHUFFLE.apply(weights.scales, fill=255)
    out = kernel.call(GemmArguments(a, dequantize(*weights).bfloat16(), weights.packed, *shuffled), None).out
    wrong = expectation(*quantize(a), *weights).wrong(out)
    assert wrong[1].float().mean() > 0.99
    assert out[1].isfinite().all()
    assert not wrong[[0, 2, 3]].any()
