"""The aiter path against a recorded stand-in for the four aiter functions that it uses.

The stand-in has the signatures and the behaviour that aiter's source shows (2026-08): `dynamic_mxfp4_quant` returns
uint8 codes and a transposed view of scales, `e8m0_shuffle` pads and shuffles, `gemm_a4w4` multiplies, and
`get_GEMM_config` keeps its table as an attribute of an lru_cache wrapper. It shows that the calls are right, not that
aiter is.
"""

import functools
import re
import sys
import types

import pytest
import torch

from mxassay import reference
from mxassay.errors import ContractError, UnsupportedError
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, aiter_path

KNOWN = (1, 512, 4096)


class Aiter:
    """The stand-in; `calls` records every call with its arguments."""

    def __init__(self, has_gfx):
        self.calls = []
        self.has_gfx = has_gfx
        calls = self.calls

        @functools.lru_cache(maxsize=1024)
        def get_GEMM_config(M, N, K):  # noqa: N802
            if not hasattr(get_GEMM_config, "gemm_dict"):
                get_GEMM_config.gemm_dict = {self.key(*KNOWN): {"kernelName": "tuned", "splitK": 1}}
                get_GEMM_config.has_gfx = has_gfx
            return get_GEMM_config.gemm_dict.get(self.key(M, N, K))

        def dynamic_mxfp4_quant(x, scaling_mode="even"):
            calls.append(("quantize", x, scaling_mode))
            packed, scales = reference.quantize(x, reference.EVEN_AITER)
            return packed, scales.t().contiguous().t()

        def e8m0_shuffle(scale):
            calls.append(("shuffle", scale))
            return SCALE_SHUFFLE.apply(scale, fill=0xA5)

        def gemm_a4w4(
            A,
            B,
            A_scale,
            B_scale,
            bias=None,
            dtype=torch.bfloat16,
            alpha=1.0,
            beta=0.0,
            bpreshuffle=True,
            apreshuffle=False,
            global_A_scale=None,
            global_B_scale=None,
        ):
            calls.append(("gemm", A, B, A_scale, B_scale, dtype, bpreshuffle))
            (m, half), n = A.shape, B.shape[0]
            shapes = (m, half), (n, half), (m, half // 16), (n, half // 16)
            a, b, a_scales, b_scales = (t.view(torch.uint8) for t in (A, B, A_scale, B_scale))
            return reference.matmul(
                a,
                SCALE_SHUFFLE.invert(a_scales, shapes[2]),
                WEIGHT_PRESHUFFLE.invert(b, shapes[1]),
                SCALE_SHUFFLE.invert(b_scales, shapes[3]),
            )

        self.lookup = get_GEMM_config
        self.modules = {
            "aiter": {"gemm_a4w4": gemm_a4w4},
            "aiter.ops": {},
            "aiter.ops.triton": {},
            "aiter.ops.triton.quant": {"dynamic_mxfp4_quant": dynamic_mxfp4_quant},
            "aiter.ops.gemm_op_a4w4": {"get_GEMM_config": get_GEMM_config},
            "aiter.utility": {},
            "aiter.utility.fp4_utils": {"e8m0_shuffle": e8m0_shuffle},
        }

    def key(self, *shape):
        return ("gfx950", 256, *shape) if self.has_gfx else (256, *shape)

    def install(self, monkeypatch):
        for name, contents in self.modules.items():
            module = types.ModuleType(name)
            module.__dict__.update(contents)
            monkeypatch.setitem(sys.modules, name, module)
        return self


@pytest.fixture(params=[True, False], ids=["table keyed with gfx", "table keyed without gfx"])
def stand_in(request, monkeypatch):
    return Aiter(request.param).install(monkeypatch)


def test_the_product_and_the_calls(stand_in, make_case, assert_same_bits):
    case = make_case(5, 48, 320)
    strided = torch.cat([case.a, case.a], dim=1)[:, :320]
    assert_same_bits(aiter_path.matmul(strided, case.b, case.scales), case.expected)
    (_, quantized, mode), (_, shuffled), (_, a, b, a_scale, b_scale, dtype, preshuffled) = stand_in.calls
    assert quantized.is_contiguous()
    assert mode == "even"
    assert shuffled.shape == (5, 10)
    assert (a.dtype, b.dtype) == (torch.float4_e2m1fn_x2,) * 2
    assert (a_scale.dtype, b_scale.dtype) == (torch.float8_e8m0fnu,) * 2
    assert (a.shape, a_scale.shape, b_scale.shape) == ((5, 160), (256, 16), (256, 16))
    assert b.data_ptr() == case.b.data_ptr()
    assert (dtype, preshuffled) == (torch.bfloat16, True)


def test_priming_names_the_32x128_kernel_for_every_contest_shape(stand_in):
    shape = LEADERBOARD[0]
    assert stand_in.lookup(*shape) is None
    aiter_path.prime_tuned_configs()
    for shape in (*LEADERBOARD, *TEST_SHAPES):
        config = stand_in.lookup(*shape)
        assert config["kernelName"] == "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E"
        assert config["splitK"] == 0
    assert stand_in.lookup(*KNOWN)["kernelName"] == "tuned", "other entries stay"
    assert stand_in.lookup(7, 16, 64) is None


def test_priming_takes_other_shapes(stand_in):
    aiter_path.prime_tuned_configs([(7, 16, 64)])
    assert stand_in.lookup(7, 16, 64)["splitK"] == 0
    assert stand_in.lookup(*LEADERBOARD[0]) is None


@pytest.mark.parametrize("shape", [(1, 2), (1, 2, 0), (1, 2, 3.0), (True, 16, 64)])
def test_priming_refuses_what_is_no_shape(stand_in, shape):
    message = f"shapes must hold (M, N, K) of positive integers, not {shape}"
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        aiter_path.prime_tuned_configs([LEADERBOARD[0], shape])
    assert stand_in.lookup(*LEADERBOARD[0]) is None, "nothing is primed when one shape is wrong"


def test_priming_an_aiter_with_another_table(stand_in):
    stand_in.lookup(*KNOWN)
    stand_in.lookup.gemm_dict = None
    with pytest.raises(UnsupportedError, match="must keep its table in gemm_dict, not in NoneType"):
        aiter_path.prime_tuned_configs()


def test_the_contract_is_checked_before_aiter_is_asked_for(make_case, monkeypatch):
    monkeypatch.setitem(sys.modules, "aiter", None)
    case = make_case(2, 16, 64)
    with pytest.raises(ContractError, match=r"^a\.dtype must be bfloat16, not float32;"):
        aiter_path.matmul(case.a.float(), case.b, case.scales)
    with pytest.raises(ContractError, match="must be positive for aiter, not 0"):
        aiter_path.matmul(case.a[:0], case.b, case.scales)


def test_without_aiter_the_error_says_so(make_case, monkeypatch):
    for name in ("aiter", "aiter.ops.triton.quant", "aiter.ops.gemm_op_a4w4"):
        monkeypatch.setitem(sys.modules, name, None)
    case = make_case(2, 16, 64)
    with pytest.raises(UnsupportedError, match=r"^aiter\.ops\.triton\.quant must be importable, not failing with"):
        aiter_path.matmul(case.a, case.b, case.scales)
    with pytest.raises(UnsupportedError, match=r"^aiter\.ops\.gemm_op_a4w4 must be importable, not failing with"):
        aiter_path.prime_tuned_configs()


def test_an_aiter_that_lacks_a_function(make_case, monkeypatch):
    stand_in = Aiter(has_gfx=True)
    del stand_in.modules["aiter.utility.fp4_utils"]["e8m0_shuffle"]
    stand_in.install(monkeypatch)
    case = make_case(2, 16, 64)
    with pytest.raises(UnsupportedError, match=r"^aiter\.utility\.fp4_utils must have e8m0_shuffle, but"):
        aiter_path.matmul(case.a, case.b, case.scales)
