"""`mxassay check --report`: the run as a page."""

import json

import pytest

from mxassay import cli
from mxassay.run_report import Found, run_document
from mxassay.suite import PropertyRecord
from mxassay.triage.report.document import Mark, Table, plain
from mxassay.triage.report.page import page
from mxassay.verdicts import CaseRecord, Verdict, WrongElement

KERNEL = """
from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.reference import EVEN, matmul, quantize

def right(a, b, scales):
    n, k = b.shape[0], 2 * b.shape[1]
    codes = WEIGHT_PRESHUFFLE.invert(b, (n, k // 2))
    return matmul(*quantize(a, EVEN), codes, SCALE_SHUFFLE.invert(scales, (n, k // 32)))

def wrong(a, b, scales):
    out = right(a, b, scales)
    out[0, 5] = 3
    return out
"""


def record(verdict, shape=(4, 64, 256), **fields):
    return CaseRecord(
        shape, "k.py:gemm", "emulated", "gemm-agreement", "own", verdict, outputs=256, certified=250,
        replay="mxassay check k.py:gemm", dialect="even", **fields,
    )  # fmt: skip


def wrong_record():
    first = WrongElement((0, 16), -276.0, "0xC38A", -4224.0, "0xC584", "0xC584", "0xC584", certified=True)
    return record(Verdict.FAIL, bit_differences=127, first_wrong=first)


def test_all_pass():
    told = run_document([record(Verdict.PASS), record(Verdict.PASS, (1, 16, 64))], [], Found())
    assert (told.verdict, told.good, told.sentence) == ("PASS", True, "All 2 cases pass.")
    assert told.kernel == "k.py:gemm on emulated MI355X"
    assert [section.anchor for section in told.sections] == ["cases", "again"]


def test_some_fail():
    records = [record(Verdict.PASS), wrong_record(), record(Verdict.ERROR, message="<b>boom</b>\nline 2")]
    told = run_document(records, [], Found(why="Why not."))
    assert told.sentence == "Of 3 cases, 1 fails, 1 raises an error, 1 passes."
    assert [section.anchor for section in told.sections] == ["cases", "failures", "again"]
    table = told.sections[0].parts[0]
    assert isinstance(table, Table)
    assert [row.mark for row in table.rows] == [Mark.RIGHT, Mark.WRONG, Mark.WRONG]
    facts = {name: plain(words) for name, words in told.facts}
    assert facts["First wrong output"] == "out[0, 16] is -276 (0xC38A), must be -4224 (0xC584)"
    assert facts["Run it again"] == "mxassay check k.py:gemm"
    assert "<b>" not in page(told)
    assert "Why not." in page(told)
    assert "&lt;b&gt;boom&lt;/b&gt;\n" in page(told)


def test_properties_stand_beside_the_cases():
    failing = PropertyRecord("rows-apart", "gemm", "Rows don't mix.", Verdict.FAIL, 12, 1.0, "row 3 differs")
    skipped = PropertyRecord("splits", "split-k", "Splits don't show.", Verdict.UNSUPPORTED, 0, 0.0, "not our own")
    told = run_document([record(Verdict.PASS)], [failing, skipped], Found())
    assert (told.verdict, told.sentence) == ("FAIL", "Every case passes, but not rows-apart.")
    table = told.sections[1].parts[0]
    assert [[plain(words) for words in row.cells][2:] for row in table.rows] == [["FAIL", "12"], ["skipped", "-"]]
    assert "row 3 differs" in page(told)


@pytest.mark.parametrize(("name", "code", "verdict"), [("right", 0, "PASS"), ("wrong", 1, "FAIL")])
def test_check_writes_the_page(name, code, verdict, tmp_path, capsys):
    (tmp_path / "k.py").write_text(KERNEL)
    place = tmp_path / "run.html"
    words = ["check", f"{tmp_path / 'k.py'}:{name}", "--shapes", "4,64,256", "--json", "--no-history"]
    assert cli.main([*words, "--report", str(place)]) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["verdict"] == verdict
    assert str(place) in printed.err
    assert f"<title>{verdict}: " in place.read_text(encoding="utf-8")


def test_a_place_that_can_not_be_written_is_refused_before_anything_runs(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "missing" / "run.html"):
        assert cli.main(["check", "no_such_module:gemm", "--report", str(place)]) == 2
        assert f"--report must be a file in a folder that exists, not {place}" in capsys.readouterr().err
