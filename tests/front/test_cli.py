"""The command line: usage, exit codes, and messages that say what to do next."""

import json

import pytest

from mxassay.cli import main, parser


def message(capsys, *words):
    code = main(list(words))
    return code, capsys.readouterr().err.strip()


@pytest.mark.parametrize("shape", ["1,2", "1,2,3,4", "a,b,c", "0,16,64", "1.5,16,64", ""])
def test_a_shape_that_is_none_is_a_usage_error(shape, capsys):
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(["check", "--shapes", shape])
    assert stop.value.code == 2
    assert f"a shape must be M,N,K with positive integers, not {shape}" in capsys.readouterr().err


def test_shapes_and_group_names_mix():
    options = parser().parse_args(["check", "--shapes", "edges", "4,2880,512"])
    assert options.shapes == ["edges", (4, 2880, 512)]


def test_unknown_device(capsys):
    code, text = message(capsys, "check", "--device", "mi300x")
    assert code == 2
    assert text == "mxassay: device must be one of auto, emulated, interpreter, cuda, mi355x, not mi300x"


@pytest.mark.parametrize("name", ["cuda", "mi355x"])
def test_an_absent_device_is_unsupported_and_says_why(name, capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    code, text = message(capsys, "check", "--device", name)
    assert code == 3
    assert text.startswith(f"mxassay: device {name} must be present, not missing: torch ")
    assert text.endswith("try --device auto")


def test_unknown_layout(capsys):
    code, text = message(capsys, "layout", "swizzle")
    assert code == 2
    assert text.startswith("mxassay: layout must be one of PACKING, WEIGHT_PRESHUFFLE, SCALE_SHUFFLE, ")
    assert text.endswith(", not swizzle")


def test_an_element_without_a_shape_gets_the_smallest(capsys):
    assert main(["layout", "mfma_16x16x128_a", "--at", "3,4"]) == 0
    assert main(["layout", "weight_preshuffle", "--at", "3,4"]) == 0
    assert "16" in capsys.readouterr().out


def test_a_refusal_is_a_document_too(capsys):
    assert main(["check", "--shapes", "1,16,16", "--json"]) == 2
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["verdict"] == "UNSUPPORTED"
    assert document["message"] == "K must be a multiple of 32, not 16; a block has 32 elements along K"
    assert printed.err == f"mxassay: {document['message']}\n"


def test_what_a_kernel_prints_stays_out_of_the_document(tmp_path, capsys):
    kernel = tmp_path / "talks.py"
    kernel.write_text("print('loading')\ndef f(a, b, s):\n    print('running')\n    raise SystemExit(0)")
    assert main(["check", f"{kernel}:f", "--shapes", "1,16,64", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "ERROR"


def test_a_file_that_exits_has_not_passed(tmp_path, capsys):
    kernel = tmp_path / "exits.py"
    kernel.write_text("raise SystemExit(0)")
    code, text = message(capsys, "check", f"{kernel}:f", "--shapes", "1,16,64")
    assert code == 3
    assert text.endswith("must import without an error, not SystemExit: 0")


def test_layouts_are_listed(capsys):
    assert main(["layout"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"PACKING", "WEIGHT_PRESHUFFLE", "SCALE_SHUFFLE", "MFMA_16X16X128_A", "MFMA_32X32X64_D"} <= set(names)


def test_one_element_is_explained(capsys):
    assert main(["layout", "WEIGHT_PRESHUFFLE", "--shape", "2880,3584", "--at", "37,500"]) == 0
    # (37//16)*16*3584 + (500//32)*512 + ((500%32)//16)*256 + (37%16)*16 + 500%16
    assert "122708" in capsys.readouterr().out.replace(",", "")


def test_one_scale_is_explained(capsys):
    assert main(["layout", "scale-shuffle", "--shape", "2880,224", "--at", "37,31"]) == 0
    # (37//32)*32*224 + (31//8)*256 + (31%4)*64 + (37%16)*4 + ((31%8)//4)*2 + (37%32)//16
    assert "8150" in capsys.readouterr().out.replace(",", "")


def test_run_leaves_a_programs_own_options_alone(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(5)")
    assert main(["run", "--checks", "none", str(script), "--checks", "-m", "x"]) == 5
    assert "['--checks', '-m', 'x']" in capsys.readouterr().out
    assert main(["run", "--checks=none", "-m", "platform", "--terse"]) == 0
    assert main(["run", "--checks", "none"]) == 2
    assert "a program must be named, as SCRIPT.py or -m MODULE, not left out" in capsys.readouterr().err


def test_checks_are_listed(capsys):
    assert main(["run", "--list-checks"]) == 0
    assert {"bounds", "lds-races", "waitcnt"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}
