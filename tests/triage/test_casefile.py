"""Case files give a failure back bit for bit, stay small and readable, and say what is wrong with a damaged one."""

import json

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.optimized import Plan
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.triage.casefile import as_json, dumps, from_json, load, save
from mxassay.triage.failure import Failure, Subject


def bits(words):
    return torch.tensor(words, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def small():
    a = torch.zeros(1, 64, dtype=torch.bfloat16)
    a[0, 37] = 1
    codes = torch.zeros(16, 32, dtype=torch.uint8)
    codes[5, 18] = 0x20
    out = torch.zeros(1, 16, dtype=torch.bfloat16)
    operands = Operands(a, codes, torch.full((16, 2), 127, dtype=torch.uint8), "even", "one times one")
    plan = Plan(tile_m=16, tile_n=32, tile_k=256, splits=2, linear=True)
    return Failure(Subject(tile=(32, 128)), operands, Launch(plan, "matmul"), Placement(0x7F, "transposed"), out)


def large():
    generator = torch.Generator().manual_seed(0)
    a = bits(torch.randint(0, 0x10000, (17, 320), generator=generator).tolist())
    codes = torch.randint(0, 256, (48, 160), generator=generator).to(torch.uint8)
    scales = torch.randint(0, 256, (48, 10), generator=generator).to(torch.uint8)
    out = bits(torch.randint(0, 0x10000, (17, 48), generator=generator).tolist())
    subject = Subject("kernel.py:fn", "gpumode", "cuda", "/aiter")
    return Failure(subject, Operands(a, codes, scales, "rceil"), Launch(), Placement(), out, "repeats", "not the same")


def same(one, other):
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("make", [small, large])
def test_what_is_written_comes_back(make, tmp_path):
    failure = make()
    back = load(save(failure, tmp_path / "deep" / "case.json"))
    for name in ("a", "codes", "scales"):
        assert same(getattr(back.operands, name), getattr(failure.operands, name)), name
    assert same(back.out, failure.out)
    for name in ("subject", "launch", "placement", "property", "error"):
        assert getattr(back, name) == getattr(failure, name), name
    assert (back.operands.dialect, back.operands.words) == (failure.operands.dialect, failure.operands.words)


def test_a_call_that_raised_has_no_output(tmp_path):
    failure = Failure(Subject(), small().operands, Launch(), Placement(), None, "illegal-calls", "it raised")
    back = load(save(failure, tmp_path / "case.json"))
    assert back.out is None
    assert back.error == "it raised"


def test_a_small_case_is_short_and_readable():
    text = dumps(small())
    assert len(text) < 1000
    assert '"a": {"fill": "0x0000", "at": [[0, 37, "0x3F80"]]}' in text
    assert '"codes": {"fill": 0, "at": [[5, 37, 2]]}' in text
    assert '"scales": {"fill": 127, "at": []}' in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d | {"kind": "other"}, "a case file must have kind 'mxassay-case', not 'other'"),
        (lambda d: d | {"schema_version": 2}, "a case file must have schema_version 1, not 2"),
        (lambda d: d | {"shape": [1, 16]}, "must be as mxassay wrote it, not damaged"),
        (lambda d: d | {"a": {"zlib": "AAAA"}}, "must be as mxassay wrote it, not damaged"),
        (lambda d: d | {"codes": {"fill": 0, "at": [[99, 0, 1]]}}, "must be as mxassay wrote it, not damaged"),
        (
            lambda d: d | {"placement": {"padding": 0, "view": "upside down"}},
            "must be as mxassay wrote it, not damaged",
        ),
        (lambda d: {key: value for key, value in d.items() if key != "launch"}, "not damaged"),
    ],
)
def test_damage_is_told(change, words):
    with pytest.raises(ContractError, match=words):
        from_json(change(json.loads(dumps(small()))))


def test_what_is_no_case_is_told(tmp_path):
    for name, text in (("missing.json", None), ("text.json", "no"), ("list.json", "[]")):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(ContractError, match="a case"):
            load(tmp_path / name)


def test_plain_json_alone():
    assert json.loads(json.dumps(as_json(small()))) == as_json(small())
