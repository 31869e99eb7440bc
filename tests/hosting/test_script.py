"""Scripts and test suites on the emulated card: how they run, how they end, and what is counted."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from mxassay.errors import UnsupportedError
from mxassay.hosting.launch_log import LaunchLog
from mxassay.hosting.script import run_program


def _script(tmp_path, text):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    return str(file)


def test_a_script_runs_as_main_with_its_arguments_and_its_folder(tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 3\n")
    script = _script(
        tmp_path,
        """
        import sys, pathlib
        import torch
        from neighbour import VALUE
        assert __name__ == "__main__"
        x = torch.ones(VALUE, device="cuda")
        pathlib.Path(sys.argv[1]).write_text(f"{sys.argv} {x.device} {torch.cuda.get_device_name()}")
        """,
    )
    argv, path = list(sys.argv), list(sys.path)
    out = tmp_path / "out.txt"
    run = run_program([script, str(out), "--flag"])
    assert (run.exit_code, run.error) == (0, None)
    assert out.read_text() == f"{[script, str(out), '--flag']} cuda:0 AMD Instinct MI355X (emulated)"
    assert (sys.argv, sys.path) == (argv, path)
    assert run.notes[0].startswith('device="cuda" is this machine')
    assert run.summary() == "mxassay: no kernel was launched on the emulated card"
    assert not torch.cuda.is_available()


@pytest.mark.parametrize(("call", "code"), [("sys.exit()", 0), ("sys.exit(5)", 5), ("sys.exit('no')", 1)])
def test_exit_codes_are_the_shells(tmp_path, call, code, capsys):
    run = run_program([_script(tmp_path, f"import sys\n{call}")])
    assert (run.exit_code, run.error) == (code, None)
    assert capsys.readouterr().err == ("no\n" if code == 1 else "")


def test_an_exception_comes_out_as_exit_code_one(tmp_path):
    run = run_program([_script(tmp_path, "raise ValueError('here')")])
    assert (run.exit_code, str(run.error)) == (1, "here")


def test_refusals_that_a_script_catches_are_in_the_summary(tmp_path):
    script = _script(tmp_path, "import torch\ntry:\n    torch.cuda.graph()\nexcept Exception:\n    pass\n")
    assert "refused: torch.cuda.graph must be left out" in run_program([script]).summary()


def test_hip_sources_are_refused_and_host_ones_are_not(tmp_path, monkeypatch):
    import torch.utils.cpp_extension as extension

    monkeypatch.setattr(extension, "load_inline", lambda name, cpp, cuda=None, **_: name)
    script = """
        from torch.utils.cpp_extension import load, load_inline
        assert load_inline("host", "int f();") == "host"
        for call in (lambda: load_inline("q", "", ["__global__ void f();"]), lambda: load("q", ["a.cpp", "b.hip"])):
            try:
                call()
            except Exception as error:
                assert str(error).startswith("the extension q must be Triton or host C++ on the emulated card"), error
            else:
                raise AssertionError("it must be refused")
        """
    run = run_program([_script(tmp_path, script)])
    assert run.error is None


def test_a_module_runs_as_main(tmp_path, monkeypatch, capsys):
    (tmp_path / "tool_for_this.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    monkeypatch.chdir(tmp_path)
    assert run_program(["-m", "tool_for_this", "a"]).exit_code == 0
    assert capsys.readouterr().out == "__main__ ['a']\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"^a program must be named, as SCRIPT\.py or -m MODULE, not left out$"),
        (["-m"], r"^a program must be named, as SCRIPT\.py or -m MODULE, not left out$"),
        (["pytest"], r"^a script must be an existing file, not pytest; a module takes -m before its name$"),
    ],
)
def test_what_is_no_program_is_refused(words, message):
    with pytest.raises(UnsupportedError, match=message):
        run_program(words)


SUITE = """
import pytest, torch
from mxassay.errors import UnsupportedError

def test_right():
    assert torch.ones(2, device="cuda").is_cuda

def test_wrong():
    assert torch.ones(2, device="cuda").sum() == 3

@pytest.mark.skip(reason="elsewhere")
def test_skipped(): ...

@pytest.mark.parametrize("which", [0, 1])
def test_graph(which):
    torch.cuda.CUDAGraph()

@pytest.fixture
def broken():
    raise RuntimeError("fixture")

def test_error(broken): ...
"""


def test_a_suite_is_counted_and_unsupported_is_no_failure(tmp_path):
    """In a process of its own: pytest inside pytest shares too much."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    code = (
        "import sys\n"
        "from mxassay.hosting.script import run_program\n"
        f"run = run_program(['-m', 'pytest', '-q', '-p', 'no:cacheprovider', {str(tmp_path)!r}])\n"
        "print('counts', sorted(run.tests.counts.items()), run.exit_code)\n"
        "print(run.summary())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    counts = "[('error', 1), ('failed', 1), ('passed', 1), ('skipped', 1), ('unsupported', 2)]"
    assert f"counts {counts} 1" in done.stdout, done.stdout + done.stderr
    assert "  2 unsupported: torch.cuda.CUDAGraph must be left out" in done.stdout
    assert ".FsUUE" in done.stdout


def test_the_log_adds_up_by_kernel():
    log = LaunchLog()
    for name, instructions in (("add", 10), ("mul", 5), ("add", 10)):
        line = log.line(name)
        line.launches += 1
        line.workgroups += 4
        line.wave_instructions += instructions
    log.line("mul").operations = {"inferred": ["v_exp_f32"]}
    log.faults += ["it fell over", "it fell over"]
    assert log.launches == 3
    assert [entry["wave_instructions"] for entry in log.as_json()] == [20, 5]
    assert log.summary().splitlines() == [
        "mxassay: 3 launches of 2 kernels on the emulated gfx950, 25 wave instructions, 0.0 s",
        "      2 x add  8 workgroups, 0.00 s",
        "      1 x mul  4 workgroups, 0.00 s",
        "  bits inferred: v_exp_f32",
        "  fault: it fell over (2 times)",
    ]


TRITON = """
import sys
import torch, triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

DEVICE = triton.runtime.driver.active.get_active_torch_device()
x, y = torch.arange(1000.0, device=DEVICE), torch.ones(1000, device="cuda")
out = torch.full((1001,), -1.0, device="cuda")
add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000)
assert x.is_cuda and out.is_cuda
assert torch.equal(out[:1000].cpu(), torch.arange(1000.0) + 1) and out[1000] == -1
"""


def test_a_triton_script_with_autotune_runs_on_the_emulated_card(tmp_path):
    run = run_program([_script(tmp_path, TRITON)])
    assert run.error is None
    assert (run.log.launches, list(run.log.kernels)) == (1, ["add"])
    assert run.log.kernels["add"].wave_instructions > 0
    assert "no faults" in run.summary()


def test_a_fault_of_a_kernel_comes_out_by_name(tmp_path):
    run = run_program([_script(tmp_path, TRITON.replace("at < n)", "at < 1000000)").replace("(1001,)", "(8,)"))])
    assert run.exit_code == 1
    assert "MemoryFault" in type(run.error).__name__
    assert run.log.faults
    assert run.summary().count("fault: ") == 1
