"""An aiter checkout without ROCm: what imports, what is served, what is refused by name; and nothing is left behind."""

import importlib
import os
import sys
import warnings
from pathlib import Path

import pytest
import torch

from mxassay.errors import ContractError, UnsupportedError
from mxassay.hosting.aiter_checkout import aiter_checkout
from mxassay.hosting.aiter_compiled import ENUMS
from mxassay.hosting.aiter_gemm import GemmA4W4, ServedByPrebuilt
from mxassay.hosting.refusals import refused_since


@pytest.fixture
def package(fake_checkout):
    with aiter_checkout(fake_checkout):
        yield importlib.import_module("aiter")


def test_triton_only_mode_is_on_and_the_stand_in_says_gfx950(package):
    assert package.TRITON_ONLY
    chip = importlib.import_module("chip_info")
    assert (chip.GFX, chip.UNITS, chip.HIP) == ("gfx950", "256", "7.0.0")


def test_names_are_there_while_the_package_loads(package):
    assert importlib.import_module("aiter.ops.triton.early").seen == "fp4x2"


def test_exports_are_found_where_the_checkout_defines_them(package):
    assert package.dtypes.fp4x2 == "fp4x2"
    assert package.pure(1) == 2
    assert package.CONSTANT == 7
    assert package.QuantType.per_1x32 == 3
    assert package.get_padded_m(17, 1, 1, 0) == 32


def test_what_is_nowhere_is_an_attribute_error(package):
    assert not hasattr(package, "nonsense")
    with pytest.raises(AttributeError, match=r"^module 'aiter' has no attribute 'nonsense'$"):
        package.nonsense  # noqa: B018


def test_compiled_operators_are_refused_by_name_when_called(package):
    message = (
        r"^aiter\.rms_norm must be a Triton kernel, a pure-torch helper or a prebuilt a4w4 kernel of aiter, not an "
        r"operator of its compiled module module_norm, which takes a HIP compiler and a real card; run it on an MI355X$"
    )
    with pytest.raises(UnsupportedError, match=message):
        package.rms_norm(torch.ones(2))
    assert any(text.startswith("aiter.rms_norm must be") for text in refused_since(0))


def test_a_name_that_takes_another_package_says_which(package):
    assert not hasattr(package, "needs_more")
    message = (
        r"^aiter\.needs_more must import from aiter\.ops\.needs_more, not need a_package_that_nobody_has; install it"
    )
    with pytest.raises(UnsupportedError, match=message):
        package.needs_more  # noqa: B018


def test_gemm_a4w4_is_served(package):
    module = importlib.import_module("aiter.ops.gemm_op_a4w4")
    assert package.gemm_a4w4 == module.gemm_a4w4
    assert module.get_GEMM_config(4, 256, 512)["kernelName"] == "_ZN5aiter1aE"
    assert module.get_GEMM_config(3, 3, 3) is None
    module.get_GEMM_config.cache_clear()
    with pytest.raises(UnsupportedError, match=r"^aiter\.gemm_a4w4_blockscale must be"):
        module.gemm_a4w4_blockscale()


def test_moved_modules_are_found_by_their_only_file(package):
    old = importlib.import_module("aiter.ops.triton._triton_kernels.gemm_x")
    assert (old.VALUE, old.__name__) == ("private", "aiter.ops.triton._triton_kernels.gemm.basic.gemm_x")
    assert old.__spec__.name == old.__name__
    assert importlib.import_module("aiter.ops.triton.gemm_x").VALUE == "public"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("aiter.ops.triton.twice")


def test_nothing_is_left_behind(fake_checkout):
    files = sorted(file for file in fake_checkout.rglob("*") if "__pycache__" not in file.parts)
    before = (dict(os.environ), list(sys.path), list(sys.meta_path))
    with aiter_checkout(fake_checkout):
        importlib.import_module("aiter")
        root = Path(os.environ["ROCM_HOME"])
        assert (root / "bin" / "rocminfo").is_file()
    assert not root.exists()
    assert (dict(os.environ), sys.path, sys.meta_path) == before
    assert not [name for name in sys.modules if name.split(".")[0] in ("aiter", "chip_info")]
    assert sorted(file for file in fake_checkout.rglob("*") if "__pycache__" not in file.parts) == files


def test_a_checkout_from_before_the_triton_only_mode(fake_checkout):
    init = fake_checkout / "aiter" / "__init__.py"
    init.write_text("\n".join(line.strip() for line in init.read_text().splitlines() if "TRITON_ONLY" not in line))
    with aiter_checkout(fake_checkout):
        package = importlib.import_module("aiter")
        assert "core" not in vars(package)
        assert package.pure(1) == 2
        assert package.dtypes.fp4x2 == "fp4x2"
        assert importlib.import_module("aiter.ops.triton.early").seen == "fp4x2"


def test_two_checkouts_do_not_mix(fake_checkout, tmp_path):
    other = tmp_path / "other"
    (other / "aiter").mkdir(parents=True)
    (other / "aiter" / "__init__.py").write_text("")
    with aiter_checkout(fake_checkout):
        importlib.import_module("aiter")
        with pytest.raises(UnsupportedError, match=r"^aiter must come from .*other, not be imported already from"):
            aiter_checkout(other).__enter__()


def test_a_folder_without_aiter_is_refused(tmp_path):
    with pytest.raises(
        ContractError, match=r"^--aiter must be an aiter checkout, a folder with aiter/__init__\.py, not"
    ):
        aiter_checkout(tmp_path).__enter__()


@pytest.fixture
def served(fake_checkout, monkeypatch):
    calls = []

    def run(path, a, a_scales, b, b_scales, **options):
        calls.append((path.name, a.dtype, options))
        options["out"].fill_(1)

    monkeypatch.setattr("mxassay.hosting.aiter_gemm.run_a4w4", run)
    return GemmA4W4(fake_checkout), calls


def _operands(m, n, k):
    def packed(rows, columns, dtype):
        return torch.zeros(rows, columns, dtype=torch.uint8).view(dtype)

    fp4, e8m0 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
    scales = k // 32
    return packed(m, k // 2, fp4), packed(n, k // 2, fp4), packed(256, scales, e8m0), packed(256, scales, e8m0)


def test_gemm_runs_the_tuned_kernel_into_padded_rows(served):
    gemm, calls = served
    out = gemm.gemm_a4w4(*_operands(4, 256, 512))
    assert (out.shape, out.dtype) == ((4, 256), torch.bfloat16)
    [(name, dtype, options)] = calls
    assert (name, dtype) == ("f4gemm_BpreShuffle_64x128.co", torch.uint8)
    assert (options["out"].shape, options["tile"], options["log2_k_split"]) == ((32, 256), (64, 128), 0)


def test_gemm_keeps_leading_dimensions(served):
    gemm, _ = served
    a, *rest = _operands(4, 256, 512)
    assert gemm.gemm_a4w4(a.view(2, 2, 256), *rest).shape == (2, 2, 256)


def test_a_compiled_kernel_of_the_table_is_replaced_and_said(served):
    gemm, calls = served
    with pytest.warns(ServedByPrebuilt, match=r"^aiter's table names a4w4_blockscale_compiled for 512,128,512, which"):
        gemm.gemm_a4w4(*_operands(512, 128, 512))
    assert calls[0][0].startswith("f4gemm_BpreShuffle")


def test_a_named_kernel_runs_and_splits_only_if_it_can(served):
    gemm, calls = served
    out = torch.empty(32, 256, dtype=torch.bfloat16)
    a, b, a_scales, b_scales = _operands(4, 256, 512)
    gemm.gemm_a4w4_asm(a, b, a_scales, b_scales, out, "_ZN5aiter1aE", log2_k_split=1)
    gemm.gemm_a4w4_asm(a, b, a_scales, b_scales, out, "_ZN5aiter1bE", log2_k_split=1)
    gemm.gemm_a4w4_asm(a, b, a_scales, b_scales, out, bpreshuffle=False)
    assert [(name, options["log2_k_split"]) for name, _, options in calls] == [
        ("f4gemm_BpreShuffle_64x128.co", 0),
        ("f4gemm_BpreShuffle_256x256.co", 1),
        ("f4gemm_noBpreShuffle_256x256.co", 0),
    ]


@pytest.mark.parametrize("form", [{"dtype": torch.float16}, {"apreshuffle": True}, {"global_A_scale": torch.ones(1)}])
def test_other_forms_are_refused(served, form):
    gemm, calls = served
    with pytest.raises(UnsupportedError, match=r"^aiter\.gemm_a4w4 on gfx950 must give bfloat16 from MXFP4"):
        gemm.gemm_a4w4(*_operands(4, 256, 512), **form)
    assert not calls


def test_enums_count_as_aiter_counts():
    """aiter, csrc/include/aiter_enum.h and mx_quant_utils.h."""
    assert {member.name: member.value for member in ENUMS["ActivationType"]} == {
        "No": -1, "Silu": 0, "Gelu": 1, "Swiglu": 2, "Situv2": 3,
    }  # fmt: skip
    assert [member.value for member in ENUMS["QuantType"]] == list(range(8))
    assert ENUMS["QuantType"].per_1x32 == 3
    assert [(m.name, m.value) for m in ENUMS["MxScaleRoundMode"]][2] == ("Even", 2)


def test_a_real_checkout_imports(real_checkout):
    from mxassay.gfx950.driver import emulated

    with warnings.catch_warnings(), emulated(), aiter_checkout(real_checkout):
        warnings.simplefilter("ignore")
        for name in (
            "aiter.ops.triton.quant",
            "aiter.ops.triton.gemm.basic.gemm_afp4wfp4",
            "aiter.ops.triton.gemm_afp4wfp4",
            "aiter.ops.triton._triton_kernels.gemm_afp4wfp4",
            "aiter.utility.fp4_utils",
            "aiter.ops.shuffle",
            "aiter.ops.quant",
        ):
            importlib.import_module(name)
        package = importlib.import_module("aiter")
        assert package.dtypes.fp4x2 == torch.float4_e2m1fn_x2
        assert package.get_triton_quant(package.QuantType.per_1x32)
