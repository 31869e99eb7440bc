"""What a kernel declares in its file: read without running it, checked, overridden by options, and acted on."""

import json
import re
import sys

import pytest
import torch

from mxassay import declaration
from mxassay.cli import main
from mxassay.declaration import Declaration, declared, multiples_of, settled
from mxassay.errors import ContractError
from mxassay.kernels import GemmArguments
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE

KERNEL = """
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import RCEIL, matmul, quantize

MXASSAY = {"dialect": "rceil", "multiples": (2, 32, 128)}


def fn(a, b, scales):
    m, k = a.shape
    n = b.shape[0]
    assert m % 2 == n % 32 == k % 128 == 0
    weights = WEIGHT_PRESHUFFLE.invert(b)
    return matmul(*quantize(a, RCEIL), weights, SCALE_SHUFFLE.invert(scales, (n, k // 32)))
"""
ROW_MAJOR = """
from mxassay.reference import matmul, quantize

MXASSAY = {"weights": "ROW_MAJOR", "scales": "ROW_MAJOR"}


def fn(a, b, scales):
    return matmul(*quantize(a), b, scales)
"""


@pytest.fixture(autouse=True)
def _nothing_remembered():
    declared.cache_clear()


def write(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_declaration_is_read_without_running_the_file(tmp_path):
    path = write(
        tmp_path, 'MXASSAY = {"dialect": "floor", "multiples": [1, 32, 256]}\nraise SystemExit("it was run")\n'
    )
    assert declared(path) == declared(f"{path}:fn") == Declaration("floor", (1, 32, 256))


def test_shapes_that_a_kernel_treats_apart(tmp_path):
    path = write(tmp_path, 'MXASSAY = {"shapes": [(4, 2880, 512), [16, 2112, 7168]]}\n')
    assert declared(path).shapes == ((4, 2880, 512), (16, 2112, 7168))


def test_a_module_is_found_without_importing_the_packages_above_it(tmp_path, monkeypatch):
    package = tmp_path / "somebodys" / "kernels"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("raise SystemExit('it was run')\n")
    (package / "gemm.py").write_text('MXASSAY = {"multiples": (4, 16, 64)}\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert declared("somebodys.kernels.gemm:fn").takes == (4, 16, 64)
    assert "somebodys" not in sys.modules
    assert declared("somebodys.kernels.other:fn") == declared("nobodys:fn") == Declaration()


def test_what_says_nothing_declares_nothing(tmp_path):
    silent = write(tmp_path, "x = 1\n")
    broken = write(tmp_path, "def (\n", "broken.py")
    for spec in (None, silent, broken, str(tmp_path / "absent.py"), "sys:exit", "mxassay.optimized:matmul"):
        assert declared(spec) == Declaration()
        declared.cache_clear()
    assert Declaration().takes == (1, 16, 64)
    assert Declaration().admits((3, 17, 65))


def test_the_name_of_a_code_object_says_how_it_takes_weights():
    assert declared("f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co").weights == "WEIGHT_PRESHUFFLE"
    assert declared("a/f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256.co").weights == "ROW_MAJOR"


def test_options_come_first(tmp_path):
    path = write(tmp_path, 'MXASSAY = {"dialect": "floor", "multiples": (1, 32, 256), "scales": "ROW_MAJOR"}\n')
    assert settled(path) == Declaration("floor", (1, 32, 256), scales="ROW_MAJOR")
    assert settled(path, "ceil") == Declaration("ceil", (1, 32, 256), scales="ROW_MAJOR")
    assert settled(path, None, (1, 16, 64)) == Declaration("floor", (1, 16, 64), scales="ROW_MAJOR")
    assert settled(None) == Declaration("even")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[1]", "MXASSAY of {} must be a dictionary, not [1]"),
        (
            "dict(dialect='even')",
            "MXASSAY of {} must be a dictionary of literals, not dict(dialect='even'); it is read without running it",
        ),
        (
            "{'dialct': 'even'}",
            "MXASSAY of {} must have no keys but dialect, multiples, shapes, weights, scales, not 'dialct'",
        ),
        ("{'dialect': 3}", "MXASSAY of {}: dialect must be a name, not 3"),
        (
            "{'multiples': (1, 16)}",
            "MXASSAY of {}: multiples must be (M, N, K), three positive integers, not (1, 16)",
        ),
        (
            "{'multiples': (1, 16, 0)}",
            "MXASSAY of {}: multiples must be (M, N, K), three positive integers, not (1, 16, 0)",
        ),
        (
            "{'multiples': (True, 16, 64)}",
            "MXASSAY of {}: multiples must be (M, N, K), three positive integers, not (True, 16, 64)",
        ),
        ("{'shapes': 3}", "MXASSAY of {}: shapes must be a list of (M, N, K), not 3"),
        (
            "{'shapes': [(4, 2880)]}",
            "MXASSAY of {}: a shape must be (M, N, K), three positive integers, not (4, 2880)",
        ),
        (
            "{'weights': 'plain'}",
            "MXASSAY of {}: weights must be WEIGHT_PRESHUFFLE or ROW_MAJOR, not 'plain'",
        ),
        ("{'scales': None}", "MXASSAY of {}: scales must be SCALE_SHUFFLE or ROW_MAJOR, not None"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(tmp_path, value, words):
    path = write(tmp_path, f"MXASSAY = {value}\n")
    with pytest.raises(ContractError, match=f"^{re.escape(words.format(path))}$"):
        declared(path)


@pytest.mark.parametrize("text", ["1,16", "1,16,x", "0,16,64", "1,16,64,1", ""])
def test_multiples_are_three_positive_integers(text):
    with pytest.raises(ContractError, match=f"^multiples must be M,N,K with positive integers, not {text}$"):
        multiples_of(text)
    assert multiples_of("1, 32,256") == (1, 32, 256)


def test_declared_orders_are_handed_over():
    packed = torch.arange(32 * 64, dtype=torch.int64).to(torch.uint8).view(32, 64)
    scales = torch.arange(32 * 4, dtype=torch.uint8).view(32, 4)
    x = GemmArguments(packed, packed, packed, WEIGHT_PRESHUFFLE.apply(packed), SCALE_SHUFFLE.apply(scales, fill=255))
    given = Declaration().arranged(x)
    assert given[0] is x.b_preshuffled
    assert given[1] is x.b_scales_shuffled
    plain = Declaration(weights="ROW_MAJOR", scales="ROW_MAJOR").arranged(x)
    assert torch.equal(plain[0], packed)
    assert torch.equal(plain[1], scales)


def checked(capsys, *words):
    code = main(["check", *words, "--device", "emulated", "--no-history", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_check_keeps_to_the_declared_dialect_and_shapes(tmp_path, capsys):
    path = write(tmp_path, KERNEL)
    code, document = checked(capsys, f"{path}:fn", "--shapes", "2,32,128", "3,32,128")
    right, refused = document["cases"]
    assert (right["verdict"], refused["verdict"], code) == ("PASS", "UNSUPPORTED", 3)
    assert refused["message"] == "sizes must be multiples of M=2, N=32, K=128"


def test_an_option_overrides_the_declared_dialect(tmp_path, capsys):
    path = write(tmp_path, KERNEL)
    code, document = checked(capsys, f"{path}:fn", "--shapes", "2,32,1024", "--dialect", "floor")
    assert (code, document["cases"][0]["verdict"]) == (1, "FAIL")
    code, document = checked(capsys, f"{path}:fn", "--shapes", "2,32,192", "--multiples", "1,16,64")
    assert (code, document["cases"][0]["verdict"]) == (1, "ERROR")


def test_without_shapes_the_legal_ones_of_all_groups_run(tmp_path, capsys, monkeypatch):
    from mxassay.commands import check
    from mxassay.kernels import Kernel

    monkeypatch.setattr(check, "shapes_named", lambda _: [(2, 32, 128), (3, 32, 128), (4, 64, 64)])
    kernel = Kernel("k", "mxfp4-gemm", "even", lambda x, plan: None)
    assert check._shapes(kernel, None, Declaration(multiples=(2, 32, 128))) == [(2, 32, 128)]
    assert check._shapes(kernel, None, Declaration(multiples=(8, 16, 512))) == [(8, 16, 512)]
    apart = Declaration(multiples=(2, 32, 128), shapes=((2, 32, 128), (6, 64, 128), (7, 64, 128)))
    assert check._shapes(kernel, None, apart) == [(2, 32, 128), (6, 64, 128)]
    assert check._shapes(kernel, None, Declaration()) == [(2, 32, 128), (3, 32, 128), (4, 64, 64)]


def test_triage_keeps_to_the_declared_dialect_and_sizes(tmp_path, capsys):
    path = write(tmp_path, KERNEL)
    assert main(["triage", f"{path}:fn", "--device", "emulated", "--no-history"]) == 0
    assert capsys.readouterr().out.startswith("PASS  no call that was tried fails")


def test_a_kernel_that_takes_plain_rows_gets_them(tmp_path, capsys):
    path = write(tmp_path, ROW_MAJOR)
    code, document = checked(capsys, f"{path}:fn", "--shapes", "3,48,320")
    assert (code, document["cases"][0]["verdict"]) == (0, "PASS")


def test_a_contest_file_has_its_layouts_from_its_abi(tmp_path, capsys):
    path = write(tmp_path, ROW_MAJOR)
    assert main(["check", path, "--shapes", "3,48,320", "--no-history"]) == 2
    words = f"{path} must declare no ROW_MAJOR layout, not one for ABI gpumode; it hands over both orders"
    assert words in capsys.readouterr().err


def test_a_wrong_declaration_ends_a_check_as_wrong_usage(tmp_path, capsys):
    path = write(tmp_path, "MXASSAY = 3\n")
    assert main(["check", f"{path}:fn"]) == 2
    assert capsys.readouterr().err == f"mxassay: MXASSAY of {path} must be a dictionary, not 3\n"


def test_every_key_is_described():
    assert all(f'"{key}"' in (declaration.__doc__ or "") for key in declaration._KEYS)
