"""Contest files in a process of their own: results, state, exceptions, limits, deaths, and what is not let through."""

import os
import textwrap
from pathlib import Path

import pytest
import torch

from mxassay.errors import UnsupportedError
from mxassay.hosting.submission import Limits, Submission, SubmissionEndedError, SubmissionError, resident_bytes

# One file with a behaviour for each test, chosen by the first input: starting a process takes seconds.
SOURCE = """
#!POPCORN leaderboard amd-mxfp4-mm
import os
import torch
from task import input_t, output_t

os.environ["MXASSAY_TEST_LEAK"] = "1"
TABLE = torch.arange(4, device="cuda")
calls = 0


def custom_kernel(data: input_t) -> output_t:
    global calls
    calls += 1
    print("call", calls)
    what, x = int(data[0]), data[1]
    assert x.is_cuda and TABLE.device == x.device == torch.device("cuda:0")
    if what == 1:
        return torch.full((2,), calls, device="cuda")
    if what == 2:
        raise ValueError("rows must be even")
    if what == 3:
        x += 1
    if what == 4:
        x.as_strided((1,), (1,), x.storage_offset() - 1).fill_(9)
    if what == 5:
        return None
    if what == 6:
        torch.cuda.CUDAGraph()
    if what == 7:
        try:
            torch.cuda.CUDAGraph()
        except Exception:
            pass
    if what == 8:
        return torch.empty(3, dtype=torch.bfloat16, device="cuda")
    if what == 10:
        import tempfile
        return torch.tensor([ord(letter) for letter in tempfile.mkdtemp()])
    if what == 9:
        import warnings
        warnings.warn("slow path")
    if what == 11:
        from mxassay.layouts import WEIGHT_PRESHUFFLE
        return WEIGHT_PRESHUFFLE.apply(torch.zeros(3, 3, dtype=torch.uint8))
    return (x * 2).T
"""


@pytest.fixture(scope="module")
def submission(tmp_path_factory):
    file = tmp_path_factory.mktemp("contest") / "sub.py"
    file.write_text(SOURCE)
    with Submission(file, limits=Limits(seconds=120)) as opened:
        yield opened


def _call(submission, what, x=None):
    return submission.call((torch.tensor(what), torch.ones(2, 3) if x is None else x))


def test_the_result_comes_back_with_its_layout(submission):
    x = torch.arange(6.0).reshape(2, 3)
    outcome = _call(submission, 0, x)
    assert torch.equal(outcome.out, (2 * x).T)
    assert outcome.out.stride() == (1, 3)
    assert outcome.out.device.type == "cpu"
    assert (outcome.changed, outcome.launches, outcome.process) == ((), 0, 1)
    assert outcome.seconds > 0


def test_notes_say_where_the_card_is(submission):
    assert submission.load()[0].startswith('device="cuda" is this machine\'s memory')


def test_calls_share_the_state_of_the_file(submission):
    first, second = _call(submission, 1).out, _call(submission, 1).out
    assert (second - first).tolist() == [1, 1]


def test_its_environment_stays_its_own(submission):
    submission.load()
    assert "MXASSAY_TEST_LEAK" not in os.environ


def test_an_exception_comes_back_with_type_message_and_traceback(submission):
    with pytest.raises(SubmissionError, match=r"(?s)^ValueError: rows must be even\n.*in custom_kernel") as caught:
        _call(submission, 2)
    assert caught.value.type_name == "ValueError"
    assert 'raise ValueError("rows must be even")' in caught.value.remote_traceback
    assert _call(submission, 0).process == 1  # the process lives on


def test_what_we_refuse_shows_lines_of_the_file_alone(submission):
    with pytest.raises(SubmissionError, match=r"^LayoutError: WEIGHT_PRESHUFFLE") as caught:
        _call(submission, 11)
    trace = caught.value.remote_traceback
    assert trace.count('  File "') == 1
    assert "in custom_kernel" in trace


def test_changed_inputs_are_told_and_come_back(submission):
    x = torch.zeros(2, 3)
    assert _call(submission, 3, x).changed == (1,)
    assert x.eq(1).all()


def test_changed_bytes_around_an_input_come_back_too(submission):
    storage = torch.zeros(10)
    assert _call(submission, 4, storage[4:].view(2, 3)).changed == (1,)
    assert storage.tolist() == [0, 0, 0, 9, 0, 0, 0, 0, 0, 0]


def test_a_result_that_is_no_tensor(submission):
    with pytest.raises(SubmissionError, match=r"^TypeError: custom_kernel must return a tensor, not NoneType"):
        _call(submission, 5)


def test_what_nobody_supplies_is_unsupported(submission):
    with pytest.raises(UnsupportedError, match=r"^torch\.cuda\.CUDAGraph must be left out on the emulated card"):
        _call(submission, 6)


def test_a_refusal_that_the_file_catches_is_told(submission):
    assert any("CUDAGraph" in text for text in _call(submission, 7).refused)


def test_memory_that_nobody_wrote_is_nan(submission):
    assert _call(submission, 8).out.isnan().all()


def test_its_temporary_files_go_with_it(tmp_path):
    file = tmp_path / "sub.py"
    file.write_text(SOURCE)
    with Submission(file, limits=Limits(seconds=60)) as submission:
        made = Path("".join(map(chr, _call(submission, 10).out.tolist())))
        assert made.is_dir()
    assert not made.exists()


def test_warnings_are_told(submission):
    assert "UserWarning: slow path" in _call(submission, 9).warnings


def test_eight_bit_floats_and_packed_codes_travel(submission):
    for dtype in (torch.float8_e8m0fnu, torch.float4_e2m1fn_x2):
        with pytest.raises(SubmissionError, match="Error"):
            _call(submission, 0, torch.zeros(2, 4, dtype=torch.uint8).view(dtype))  # torch can't multiply them
    assert _call(submission, 0, torch.ones(1, 1, dtype=torch.bfloat16)).out.dtype == torch.bfloat16


def _file(tmp_path, body, head=""):
    file = tmp_path / "sub.py"
    file.write_text(
        f"import os, time\nimport torch\n{head}\ndef custom_kernel(data):\n{textwrap.indent(body, '    ')}\n"
    )
    return file


def test_the_time_limit_ends_a_call_and_the_next_one_starts_anew(tmp_path):
    file = _file(tmp_path, "print('going to sleep', flush=True)\ntime.sleep(60 * int(data[0]))\nreturn data[0]")
    with Submission(file, limits=Limits(seconds=20)) as submission:
        submission.load()
        submission.limits = Limits(seconds=8)  # enough for a busy machine to come to the print
        message = r"(?s)^SubmissionEndedError: a call must end within 8 s, not run longer; raise the time limit\n"
        with pytest.raises(SubmissionEndedError, match=message) as caught:
            submission.call((torch.tensor(1),))
        assert caught.value.printed == "going to sleep\n"
        submission.limits = Limits(seconds=20)
        assert submission.call((torch.tensor(0),)).process == 2


def test_the_memory_limit_ends_a_call(tmp_path):
    file = _file(tmp_path, "keep = [torch.ones(1 << 24) for _ in range(64)]\ntime.sleep(5)\nreturn keep[0]")
    with Submission(file, limits=Limits(seconds=30)) as submission:
        submission.load()
        resident = resident_bytes(submission._worker._process.pid)
        assert resident > 1 << 26
        submission.limits = Limits(seconds=30, memory_bytes=resident + (1 << 29))
        with pytest.raises(
            SubmissionEndedError, match=r"a call must fit into [\d,]+ MiB, not take [\d,]+; raise the memory"
        ):
            submission.call((torch.tensor(1),))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os._exit(7)", r"the process must answer each call, not exit with code 7"),
        ("os.abort()", r"the process must answer each call, not die of SIGABRT"),
    ],
)
def test_a_death_is_told(tmp_path, body, reason):
    with (
        Submission(_file(tmp_path, body), limits=Limits(seconds=30)) as submission,
        pytest.raises(SubmissionEndedError, match=reason),
    ):
        submission.call((torch.tensor(1),))


@pytest.mark.parametrize(
    ("head", "kind", "message"),
    [
        ("import a_package_that_nobody_has", SubmissionError, r"^ModuleNotFoundError: No module named 'a_package_that"),
        ("raise SystemExit(3)", SubmissionError, r"^SystemExit: 3"),
        (
            "custom_kernel = 1\n\ndef other(): ...\n'''",
            UnsupportedError,
            r"must define a callable custom_kernel, not int$",
        ),
        (
            "def other(): ...\n'''",
            UnsupportedError,
            r"must define a callable custom_kernel, not leave it out; a kernel that takes three .* as .*:NAME$",
        ),
    ],
)
def test_a_file_that_does_not_load(tmp_path, head, kind, message):
    file = _file(tmp_path, "return data[0]" + ("\n'''" if head.endswith("'''") else ""), head)
    with Submission(file, limits=Limits(seconds=30)) as submission, pytest.raises(kind, match=message):
        submission.call((torch.tensor(1),))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"^a submission must be an existing file, not .*nowhere\.py$"):
        Submission(tmp_path / "nowhere.py").load()


CAUGHT = """
import torch, triton
import triton.language as tl
from task import input_t, output_t

@triton.jit
def fill(x, n, value, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, value, at < n)

def custom_kernel(data):
    n, x = int(data[0]), data[1]
    out = torch.empty_like(x)
    try:
        fill[(1,)](out, n, 3.0, BLOCK=256)
    except Exception:
        out.zero_()
    return out
"""


def test_a_fault_that_the_file_catches_is_told(tmp_path):
    file = tmp_path / "sub.py"
    file.write_text(CAUGHT)
    with Submission(file, limits=Limits(seconds=120)) as submission:
        right = submission.call((torch.tensor(8), torch.ones(8)))
        assert (right.out.tolist(), right.faults, right.launches) == ([3.0] * 8, (), 1)
        assert right.compile_seconds > 0
        assert right.kernels[0]["kernel"] == "fill"
        wrong = submission.call((torch.tensor(200), torch.ones(8)))
        assert wrong.out.tolist() == [0.0] * 8
        assert len(wrong.faults) == 1
        assert "must stay inside a buffer" in wrong.faults[0]
        assert submission.call((torch.tensor(8), torch.ones(8))).faults == ()
