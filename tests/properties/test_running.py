"""The suite as users run it: verdicts, reasons for skipping, replay commands, options."""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from mxassay.errors import MxassayError
from mxassay.profiles import PROFILES, load, loaded
from mxassay.properties.catalogue import CATALOGUE
from mxassay.pytest_plugin import _dealt, _seldom_collected
from mxassay.suite import PropertyRecord, _Session, by_property, run_suite, suite_verdict
from mxassay.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[2]
WRONG = """
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import matmul, quantize

def fn(a, b, scales):
    n, k = b.shape[0], 2 * b.shape[1]
    if k % 256:
        from mxassay.errors import ContractError
        raise ContractError("K must be a multiple of 256, not " + str(k))
    weights = WEIGHT_PRESHUFFLE.invert(b)
    out = matmul(*quantize(a), weights, SCALE_SHUFFLE.invert(scales, (n, k // 32)))
    out[:, -1] = 0
    return out

def both(a, b, scales):
    if len(a) % 2:
        raise ValueError("rows must be even")
    return fn(a, b, scales)

def dies(a, b, scales):
    import os
    if len(a) == 1:
        os._exit(3)
    return fn(a, b, scales)

def refuses(a, b, scales):
    from mxassay.errors import UnsupportedError
    raise UnsupportedError("this kernel must have a card, not none")
"""


def suite(tmp_path, *words):
    """Verdicts by test, and the process."""
    verdicts = tmp_path / "verdicts.json"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mxassay.pytest_plugin", *words]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")}
    done = subprocess.run(
        [*words, "--mx-verdicts", str(verdicts)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert verdicts.exists(), done.stdout + done.stderr
    return {record["test"]: record for record in json.loads(verdicts.read_text())}, done


@pytest.fixture(scope="module")
def wrong_kernel(tmp_path_factory):
    """What the suite says of a kernel whose last column is zero, and which takes only some shapes."""
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "mine.py").write_text(WRONG)
    chapters = ("test_special_values::test_zeros_give_zeros", "test_contracts", "test_gemm::test_every_scale_byte")
    targets = [f"mxassay.properties.{chapter}" for chapter in chapters]
    return suite(folder, "--pyargs", *targets, "--mx-kernel", "mine.py:fn", "--mx-device", "emulated")


def test_a_failure_stands_alone(wrong_kernel):
    verdicts, done = wrong_kernel
    record = verdicts["test_gemm.py::test_every_scale_byte"]
    assert done.returncode == 1
    assert (record["property"], record["verdict"]) == ("gemm-scale-ramp", "FAIL")
    assert record["examples"] >= 1
    assert record["seconds"] > 0
    message = record["message"]
    assert CATALOGUE["gemm-scale-ramp"].statement in message
    assert "certified: every order of summation gives these bits" in message
    assert "kernel  mine.py:fn on emulated, dialect even" in message
    replay = "pytest --pyargs mxassay.properties.test_gemm::test_every_scale_byte --mx-kernel mine.py:fn --mx-device"
    assert replay in message
    assert "0.0 (0x0000), not " in message
    assert "tensor(" not in message


def test_each_of_several_failures_of_a_property_is_told(tmp_path):
    (tmp_path / "mine.py").write_text(WRONG)
    target = "mxassay.properties.test_gemm::test_certified_outputs_are_exact"
    verdicts, _ = suite(tmp_path, "--pyargs", target, "--mx-kernel", "mine.py:both", "--mx-device", "emulated")
    (record,) = verdicts.values()
    assert record["verdict"] == "FAIL"
    assert "ValueError: rows must be even" in record["message"]
    assert "0.0 (0x0000), not " in record["message"]
    assert record["message"].count("Failing test case: ") == 2


def test_a_kernel_that_ends_a_worker_has_not_passed(tmp_path):
    """What pytest-xdist says of a worker that died names the test, but not its property."""
    (tmp_path / "mine.py").write_text(WRONG)
    target = "mxassay.properties.test_special_values::test_zeros_give_zeros"
    words = ("--mx-kernel", "mine.py:dies", "--mx-multiples", "1,32,256", "--mx-device", "emulated", "-n", "1")
    verdicts, done = suite(tmp_path, "--pyargs", target, *words)
    assert done.returncode == 1
    (record,) = verdicts.values()
    assert (record["property"], record["verdict"]) == ("zero-rows", "ERROR")
    assert record["message"].startswith("worker 'gw0' crashed while running ")


def test_what_does_not_apply_is_skipped_with_the_reason(wrong_kernel):
    skipped = [record for record in wrong_kernel[0].values() if record["test"].startswith("test_contracts")]
    assert len(skipped) > 20
    assert {record["verdict"] for record in skipped} == {"UNSUPPORTED"}
    assert {record["message"] for record in skipped} == {
        "needs our own kernel, whose stages, plans and entry points it is about: name no kernel"
    }


def test_a_kernel_that_refuses_everything_is_skipped_with_its_words(tmp_path):
    (tmp_path / "mine.py").write_text(WRONG)
    target = "mxassay.properties.test_special_values::test_the_ends_of_the_scale_table"
    words = ("--mx-kernel", "mine.py:refuses", "--mx-multiples", "1,32,256", "--mx-device", "emulated")
    verdicts, done = suite(tmp_path, "--pyargs", target, *words)
    (record,) = verdicts.values()
    assert done.returncode == 0
    assert record["verdict"] == "UNSUPPORTED"
    assert record["message"].endswith("at last: this kernel must have a card, not none")


PLAIN = """
from mxassay.reference import RCEIL, matmul, quantize

MXASSAY = {"dialect": "rceil", "multiples": (2, 32, 256), "weights": "ROW_MAJOR", "scales": "ROW_MAJOR"}

def fn(a, b, scales):
    assert a.shape[0] % 2 == b.shape[0] % 32 == a.shape[1] % 256 == 0
    return matmul(*quantize(a, RCEIL), b, scales)
"""


def test_a_kernel_is_held_to_what_it_declares_and_what_does_not_apply_is_skipped(tmp_path):
    """In its dialect, at its sizes, its weights and scales in its order; the maps of the other orders don't apply."""
    (tmp_path / "mine.py").write_text(PLAIN)
    targets = ("test_gemm::test_certified_outputs_are_exact", "test_gemm::test_sharp_blocks", "test_layouts")
    targets = [
        f"mxassay.properties.{target}" for target in (*targets, "test_padding::test_padding_bytes_change_no_bit")
    ]
    verdicts, done = suite(tmp_path, "--pyargs", *targets, "--mx-kernel", "mine.py:fn", "--mx-device", "emulated")
    assert done.returncode == 0, done.stdout
    found = {record["property"]: record for record in verdicts.values()}
    assert found["gemm-certified"]["verdict"] == found["gemm-sharp-blocks"]["verdict"] == "PASS"
    skipped = {name: record["message"] for name, record in found.items() if record["verdict"] == "UNSUPPORTED"}
    weights = "needs a kernel that takes weights in WEIGHT_PRESHUFFLE; this one says that it takes another order"
    scales = "needs a kernel that takes scales in SCALE_SHUFFLE; this one says that it takes another order"
    assert skipped == {"weight-map": weights, "scale-map": scales, "padding-bytes": scales}


def test_an_option_overrides_what_a_kernel_declares(tmp_path):
    (tmp_path / "mine.py").write_text(PLAIN)
    target = "mxassay.properties.test_fused_quantizer::test_activations_come_back_quantized"
    words = ("--mx-kernel", "mine.py:fn", "--mx-dialect", "even", "--mx-device", "emulated")
    verdicts, done = suite(tmp_path, "--pyargs", target, *words)
    (record,) = verdicts.values()
    assert (record["verdict"], done.returncode) == ("FAIL", 1)
    assert "--mx-dialect even" in record["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mx-multiples", "1,16"), "multiples must be M,N,K with positive integers, not 1,16"),
        (("--mx-kernel", "mine.py:fn"), "MXASSAY of mine.py must be a dictionary, not 1"),
    ],
)
def test_wrong_words_about_a_kernel_are_wrong_usage(tmp_path, words, message):
    (tmp_path / "mine.py").write_text("MXASSAY = 1\n")
    words = [sys.executable, "-m", "pytest", "-p", "mxassay.pytest_plugin", "--pyargs", "mxassay.properties", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.strip()) == (4, f"ERROR: {message}")


def test_a_database_folder_keeps_failures(tmp_path):
    (tmp_path / "mine.py").write_text(WRONG)
    target = "mxassay.properties.test_gemm::test_every_scale_byte"
    words = ("--mx-kernel", "mine.py:fn", "--mx-multiples", "1,32,256", "--mx-database", str(tmp_path / "kept"))
    suite(tmp_path, "--pyargs", target, *words, "--mx-device", "emulated")
    assert any(file.is_file() for file in (tmp_path / "kept").rglob("*"))


def test_the_worst_test_decides_and_what_does_not_apply_does_not():
    def test(name, verdict, message=""):
        return {"property": name, "verdict": verdict, "examples": 2, "seconds": 0.5, "message": message}

    records = by_property(
        [
            test("gemm-certified", "PASS"),
            test("second-witness", "PASS"),
            test("second-witness", "UNSUPPORTED", "absent"),
            test("negated", "FAIL", "sign"),
            test("illegal-calls", "UNSUPPORTED", "needs"),
        ]
    )
    found = {record.property: record for record in records}
    assert list(found) == list(CATALOGUE)
    assert found["second-witness"].verdict is Verdict.PASS
    assert found["second-witness"].examples == 2
    assert (found["negated"].verdict, found["negated"].message) == (Verdict.FAIL, "sign")
    assert (found["illegal-calls"].verdict, found["illegal-calls"].message) == (Verdict.UNSUPPORTED, "needs")
    assert suite_verdict(records) is Verdict.FAIL
    assert suite_verdict([found["illegal-calls"]]) is Verdict.UNSUPPORTED
    assert found["negated"].as_json()["verdict"] == "FAIL"
    assert isinstance(found["negated"], PropertyRecord)


def test_a_suite_that_cannot_run_says_why():
    with pytest.raises(MxassayError, match=r"^the suite must run, but pytest ended with 4:\n"):
        run_suite("quick", "emulated", {"nonsense": "1"})


def test_a_failure_without_a_verdict_is_no_pass(tmp_path):
    session = _Session("quick", "emulated", {})
    session._verdicts, session._output = tmp_path / "verdicts.json", tmp_path / "output"
    session._verdicts.write_text(json.dumps([{"verdict": "PASS"}, {"verdict": "UNSUPPORTED"}]))
    session._output.write_text("ERROR at teardown")
    for code, words in ((0, None), (1, "^every failure must have a verdict, but pytest told of others:\nERROR at")):
        session._process = SimpleNamespace(wait=lambda code=code: code)
        with pytest.raises(MxassayError, match=words) if words else nullcontext():
            assert len(session.tests()) == 2


def test_a_suite_that_nobody_waits_for_ends_with_its_block():
    with _Session("quick", "emulated", {}) as session:
        assert session._process.poll() is None
    assert session._process.poll() is not None
    assert not session._output.exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_process_that_is_told_to_end_takes_its_suite_along():
    script = "with _Session('quick', 'emulated', {}) as s: print(s._process.pid, s._output, flush=True); s.tests()"
    words = [sys.executable, "-c", f"from mxassay.suite import _Session\n{script}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        pid, output = process.stdout.readline().split()
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    assert not Path(output).parent.exists()
    stat = Path("/proc", pid, "stat")
    for _ in range(100):
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"the suite must end, but runs on as process {pid}")


class Marked:
    """A test as the plugin sees it."""

    def __init__(self, name, seconds=None):
        self.name, self.seconds = name, seconds

    def get_closest_marker(self, name):
        return None if self.seconds is None else pytest.mark.mx_property(name, seconds=self.seconds).mark


def test_the_longest_tests_go_first_in_every_share():
    items = [
        Marked("a"),
        Marked("b", 0.0),
        Marked("c", 2.0),
        Marked("d", 5.0),
        Marked("e"),
        Marked("f", 3.0),
        Marked("g"),
    ]
    dealt = "".join(item.name for item in _dealt(items, 2))
    assert dealt == "dcab" + "feg"
    assert "".join(item.name for item in _dealt(items, 1)) == "dfcabeg"


def test_the_collector_is_as_before_when_properties_are_over():
    before = gc.get_threshold(), gc.get_freeze_count()
    with _seldom_collected():
        assert gc.get_freeze_count() > before[1]
        assert gc.get_threshold()[0] == 10 * before[0][0]
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before[0], 0)


def test_profiles():
    from hypothesis import settings

    before = loaded()
    try:
        for name, examples in PROFILES.items():
            load(name)
            assert (loaded(), settings.default.max_examples) == (name, examples)
    finally:
        load(before)
