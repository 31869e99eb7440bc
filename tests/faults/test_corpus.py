"""The planted faults are what they say: one line each, in code that exists, of every class."""

import ast
import difflib
from pathlib import Path

import pytest

from mxassay.errors import ContractError
from mxassay.properties.faults import CLASSES, STAGES, Fault, divided, faults_in, planted
from mxassay.properties.faults.fault import DEVICES

ROOT = Path(__file__).resolve().parents[2]
FAULTS = planted()
GOOD = {
    "id": "a-fault",
    "class": "harness",
    "file": "layouts/memory.py",
    "stage": "layouts",
    "find": "a",
    "replace": "b",
    "why": "because",
}


def test_the_corpus_is_large_and_covers_every_class():
    assert len([fault for fault in FAULTS if not fault.equivalent]) >= 60
    assert {fault.class_ for fault in FAULTS} == set(CLASSES)


def test_no_class_is_there_for_its_name_only():
    real = [fault.class_ for fault in FAULTS if not fault.equivalent]
    assert {name for name in CLASSES if real.count(name) < 2} == set()


def test_every_stage_and_device_is_used():
    assert {fault.stage for fault in FAULTS} == set(STAGES)
    assert {fault.device for fault in FAULTS} == set(DEVICES)


def test_no_two_faults_are_the_same_change():
    changes = [(fault.file, fault.find, fault.replace) for fault in FAULTS]
    assert len(set(changes)) == len(changes)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_changes_one_line_and_still_compiles(fault):
    before = (ROOT / fault.file).read_text()
    after = fault.applied_to(before)
    lines = [line[0] for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert sorted(lines) in (["+", "-"], ["-"])
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_words_are_words(fault):
    assert fault.id == fault.id.lower()
    assert " " not in fault.id
    assert len(fault.why) > 20
    assert not fault.why.endswith(".")
    assert not fault.equivalent or len(fault.equivalent) > 60


def write(path, text):
    path.write_text(text)
    return path


def table(**changed):
    return "[[fault]]\n" + "".join(
        f'{key} = "{value}"\n' for key, value in (GOOD | changed).items() if value is not None
    )


def test_a_file_is_read_as_it_stands(tmp_path):
    (fault,) = faults_in(write(tmp_path / "f.toml", table(equivalent=" a proof ", device="interpreter")))
    assert fault == Fault(
        "a-fault", "harness", "layouts/memory.py", "layouts", "a", "b", "because", "interpreter", "a proof"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (table(**{"class": "colour"}), "class of fault a-fault must be one of scale-rule, .*, harness, not 'colour'"),
        (table(stage="nowhere"), "stage of fault a-fault must be one of .*, not 'nowhere'"),
        (table(device="moon"), "device of fault a-fault must be one of emulated, interpreter, cuda, not 'moon'"),
        (table(replace="a"), "find of fault a-fault must be text that differs from replace, not 'a'"),
        (table(find=""), "find of fault a-fault must be text that differs from replace, not ''"),
        (table(file="/etc/passwd"), "file of fault a-fault must lie in the checkout, not at /etc/passwd"),
        (table(file="layouts/../../x"), "file of fault a-fault must lie in the checkout, not at layouts/../../x"),
        (table(why=None), "fault a-fault of .* must have the keys id, class, .*, not lack why"),
        (table(reason="x"), "fault a-fault of .* must have the keys id, class, .*, not have reason"),
        (table() + "[[fault]]\nid = 3", "fault 3 of .* must have the keys id, class, .*, not lack class, file, .*"),
        (table() + "equivalent = 3", "equivalent of fault a-fault of .* must be a string, not int"),
        (table() + table(), "ids of faults must be unique, not a-fault twice"),
        ("fault = 3", r".* must hold \[\[fault\]\] tables alone, not fault"),
        ("", r".* must hold \[\[fault\]\] tables alone, not nothing"),
        ("= =", "faults must come from a readable TOML file, not .*: .*"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text, words, tmp_path):
    with pytest.raises(ContractError, match=f"(?s)^{words}$"):
        faults_in(write(tmp_path / "f.toml", text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ContractError, match="faults must come from a readable TOML file, not "):
        faults_in(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "count"), [("no", 0), ("a a", 2)])
def test_find_must_stand_once(text, count):
    fault = Fault(*[GOOD[key] for key in ("id", "class", "file", "stage", "find", "replace", "why")])
    with pytest.raises(ContractError, match=f"must stand once in layouts/memory.py, not {count} times; give more"):
        fault.applied_to(text)
    assert fault.applied_to("xay") == "xby"


def test_faults_that_need_a_gpu_are_left_out_elsewhere_by_name():
    needy = {fault.id for fault in FAULTS if fault.device == "cuda"}
    tried, rest = divided(FAULTS, "emulated")
    assert {fault.id for fault in tried} | needy == {fault.id for fault in FAULTS}
    assert rest == dict.fromkeys(needy, "needs an NVIDIA Hopper GPU: mxassay faults --device cuda")
    tried, rest = divided(FAULTS, "cuda")
    assert ({fault.id for fault in tried}, rest) == (needy, {})


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_what_needs_a_hopper_gpu_lies_in_kernels_for_it(fault):
    assert (fault.device == "cuda") == fault.file.startswith("optimized/hopper/")
