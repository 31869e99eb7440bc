"""Verdicts, exit codes and the JSON document."""

import json
import math

import pytest

from mxassay.verdicts import CaseRecord, Document, ExitCode, Verdict, WrongElement, exit_code, worst


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], Verdict.UNSUPPORTED),
        ([Verdict.PASS], Verdict.PASS),
        ([Verdict.PASS, Verdict.UNSUPPORTED], Verdict.UNSUPPORTED),
        ([Verdict.UNSUPPORTED, Verdict.ERROR, Verdict.PASS], Verdict.ERROR),
        ([Verdict.ERROR, Verdict.FAIL], Verdict.FAIL),
    ],
)
def test_the_worst_case_decides(verdicts, expected):
    assert worst(verdicts) is expected


def test_exit_codes():
    assert {verdict: exit_code(verdict) for verdict in Verdict} == {
        Verdict.PASS: 0,
        Verdict.FAIL: 1,
        Verdict.ERROR: 1,
        Verdict.UNSUPPORTED: 3,
    }
    assert (ExitCode.USAGE, ExitCode.INTERNAL, ExitCode.UNTESTABLE) == (2, 4, 125)


def test_a_document_is_strict_json_even_with_nan():
    wrong = WrongElement((0, 1), math.nan, "0x7FC0", -math.inf, "0xFF80", "0xFF80", "0xFF80", certified=True)
    case = CaseRecord((1, 16, 64), "k", "interpreter", "gemm-agreement", "own", Verdict.FAIL, first_wrong=wrong)
    text = Document("check", Verdict.FAIL, 1.25, {"python": "3"}, {"cases": [case.as_json()]}).dumps()
    document = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert document["schema_version"] == 1
    assert document["verdict"] == "FAIL"
    (only,) = document["cases"]
    assert only["verdict"] == "FAIL"
    assert only["shape"] == [1, 16, 64]
    assert only["first_wrong"]["got"] == "nan"
    assert only["first_wrong"]["expected"] == "-inf"
    assert {"plan", "outputs", "certified", "bit_differences", "seconds", "compile_seconds"} <= set(only)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(99_999, 100_000, "99.9 %"), (7, 7, "100 %"), (0, 7, "0 %"), (1, 100_000, "0.1 %"), (1, 2, "50.0 %")],
)
def test_a_share_says_100_only_when_it_is_all(part, whole, text):
    from mxassay.terminal import share

    assert share(part, whole) == text
