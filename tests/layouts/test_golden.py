"""golden.json is what the formulas give, by two roads: the declarations, and the formulas written by hand."""

import hashlib
import json
import runpy
import sys

import numpy as np
import pytest

from mxassay.layouts import LAYOUTS, golden

COMMITTED = json.loads(golden.GOLDEN.read_text(encoding="utf-8"))


def test_committed_file_is_up_to_date():
    assert golden.GOLDEN.read_text(encoding="utf-8") == golden.text()
    assert golden.vectors() == COMMITTED


def test_every_layout_has_golden_vectors():
    assert list(COMMITTED["layouts"]) == list(LAYOUTS)


def test_hashes_and_tables_agree_with_the_formulas_by_hand(by_hand):
    for name, entry in COMMITTED["layouts"].items():
        assert entry["hashes"]
        for vector in entry["hashes"]:
            case = by_hand(name, tuple(vector["shape"]), tuple(vector["padded_shape"]))
            little_endian = case.offsets().astype("<i8").tobytes()
            assert hashlib.sha256(little_endian).hexdigest() == vector["sha256"], (name, vector["shape"])
        table = entry["table"]
        shape = tuple(table["shape"])
        case = by_hand(name, shape, LAYOUTS[name].bind(shape).padded_shape)
        for place, numbers in table["places"].items():
            whole = np.broadcast_to(case.numbers()[place], case.padded_shape)
            assert np.array_equal(whole[np.ix_(*table["at"].values())], numbers)


def test_tables_hold_both_ends_of_every_axis():
    for name, entry in COMMITTED["layouts"].items():
        padded = LAYOUTS[name].bind(entry["table"]["shape"]).padded_shape
        for indices, extent, end in zip(entry["table"]["at"].values(), entry["table"]["shape"], padded, strict=True):
            assert {0, extent - 1, end - 1} <= set(indices)


@pytest.mark.parametrize(("spoil", "status"), [(False, 0), (True, 1)])
def test_the_script_reports_a_stale_file(monkeypatch, tmp_path, capsys, spoil, status):
    copy = tmp_path / "golden.json"
    text = golden.GOLDEN.read_text(encoding="utf-8")
    copy.write_text(text.replace("512", "513", 1) if spoil else text, encoding="utf-8")
    monkeypatch.setattr(golden, "GOLDEN", copy)
    monkeypatch.setattr(sys, "argv", ["golden"])
    assert golden.main() == status
    words = "golden.json must match the address formulas; run: python -m mxassay.layouts.golden --write\n"
    assert capsys.readouterr().err == (words if spoil else "")
    monkeypatch.setattr(sys, "argv", ["golden", "--write"])
    assert golden.main() == 0
    assert copy.read_text(encoding="utf-8") == text


def test_the_script_says_what_it_is_for(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["golden", "--help"])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        golden.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == (
        "usage: golden [-h] [--write]\n\n"
        "Golden vectors: what the address formula gives, as hashes at named shapes and as small tables.\n\n"
        "options:\n  -h, --help  show this help message and exit\n"
        "  --write     write golden.json instead of comparing with it\n"
    )


def test_the_module_is_a_script(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["golden"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(golden.__file__, run_name="__main__")
    assert ended.value.code == 0
    assert "main" in runpy.run_path(golden.__file__, run_name="another")
