"""The mutation of reference/ and layouts/ mutates what it should, and tells the killed from the survivors."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mutmut")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import campaign_of_mutants  # noqa: E402
from mutant_reasons import Kind, Reasons  # noqa: E402
from mutant_scores import score  # noqa: E402
from mutant_source import Mutant, mutants_of  # noqa: E402
from mutant_swaps import _changed_functions  # noqa: E402

SOURCE = '''"""A docstring stays."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LEFT_ALONE = 1

TABLE = (7,)


class Record:
    """Stays too."""

    name: str = "a"

    @property
    def size(self) -> "int | None":
        return TABLE[0] + 2


def refuse(x: int, low: int = 3) -> None:
    if x < low:
        raise ValueError(f"x must be {low} or more, not {x}")
'''


def test_tables_properties_defaults_and_messages_are_mutated_but_not_what_nobody_runs():
    found = {mutant.diff for mutant in mutants_of(SOURCE)}
    assert {
        "-TABLE = (7,)\n+TABLE = (8,)",
        "-TABLE = (7,)\n+TABLE = None",
        '-name: str = "a"\n+name: str = "XXaXX"',
        "-return TABLE[0] + 2\n+return TABLE[0] - 2",
        "-return TABLE[0] + 2\n+return TABLE[1] + 2",
        "-def refuse(x: int, low: int = 3) -> None:\n+def refuse(x: int, low: int = 4) -> None:",
        "-if x < low:\n+if x <= low:",
        '-raise ValueError(f"x must be {low} or more, not {x}")\n+raise ValueError(None)',
    } <= found
    assert not [diff for diff in found if "LEFT_ALONE" in diff or "stays" in diff.lower()]
    assert not [diff for diff in found if "int | None" in diff and "return" not in diff]


def test_each_mutant_compiles_differs_in_one_place_and_keeps_its_name_when_lines_move():
    mutants = list(mutants_of(SOURCE))
    assert len({mutant.ident for mutant in mutants}) == len({mutant.source for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        compile(mutant.source, "mutant", "exec")
        lines = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        assert sum(old != new for old, new in lines) == 1
        assert SOURCE.splitlines()[mutant.line - 1] != mutant.source.splitlines()[mutant.line - 1]
    moved = SOURCE.replace("TABLE = (7,)", "# a comment\n\nTABLE = (7,)")
    assert [mutant.ident for mutant in mutants_of(moved)] == [mutant.ident for mutant in mutants]


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("return TABLE[0] + 2", "return TABLE[0] - 2", ["Record.size"]),
        ("if x < low", "if x <= low", ["refuse"]),
        ("TABLE = (7,)", "TABLE = (8,)", None),
        ("low: int = 3", "low: int = 4", None),
        ("    @property\n", "", None),
        ('name: str = "a"', 'name: str = "b"', None),
    ],
)
def test_only_changes_inside_functions_can_be_put_in_place(old, new, names):
    before, after = (compile(text, "f", "exec", dont_inherit=True) for text in (SOURCE, SOURCE.replace(old, new)))
    changed = _changed_functions(before, after)
    assert (changed and [name for name, _, _ in changed]) == names


SUBJECT = """
STEP = 2

def step(x):
    return x + STEP

def untested(x):
    return x * 3

TABLE = [step(1)]
"""
TESTS = """
import subject_of_mutants as subject

def test_step():
    assert subject.step(5) == 7

def test_table():
    assert subject.TABLE == [3]
"""
DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = [{here!r}, {folder!r}]
from mutant_source import mutants_of
from mutant_swaps import Collected
from mutant_trials import Order, Ready, Trial, in_a_child, outcomes

folder = Path({folder!r})
file, tests = folder / "subject_of_mutants.py", (folder / "test_subject.py",)
mutants = list(mutants_of(file.read_text()))
trials = [Trial("subject_of_mutants", file, mutant.source, tests) for mutant in mutants]
rows = []

def swap(collected):
    calls = [(index, collected.swapped(trial)) for index, trial in enumerate(trials)]
    for index, outcome in outcomes([pair for pair in calls if pair[1]], 2):
        rows.append({{"index": index, "by": outcome.by, "how": "swapped"}})

def collect():
    Collected(folder / "subject_of_mutants.py", tests, Order(), swap)
    return rows

def import_anew():
    def during(ready):
        for index, outcome in outcomes([(i, ready.imported_anew(t)) for i, t in enumerate(trials) if i not in done], 2):
            rows.append({{"index": index, "by": outcome.by, "how": "imported"}})

    rows = []
    Ready(folder, Order(), during)
    return rows

rows = in_a_child(collect)
done = {{row["index"] for row in rows}}
rows += in_a_child(import_anew)
for row in sorted(rows, key=lambda row: row["index"]):
    by = row["by"] and row["by"].rpartition("::")[2]
    print(mutants[row["index"]].diff.splitlines()[-1], row["how"], by, sep=" | ")
"""


def test_the_killed_and_the_survivors_of_a_small_module(tmp_path):
    (tmp_path / "subject_of_mutants.py").write_text(SUBJECT)
    (tmp_path / "test_subject.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    driver = DRIVER.format(here=str(HERE), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True, cwd=tmp_path, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("+")]
    assert lines == [
        "+STEP = None | imported | import",
        "+STEP = 3 | imported | test_step",
        "+return x - STEP | imported | test_step",  # importing calls it, so that TABLE has to be made anew
        "+return x / 3 | swapped | None",
        "+return x * 4 | swapped | None",
        "+TABLE = None | imported | test_table",
        "+TABLE = [step(None)] | imported | import",
        "+TABLE = [step(2)] | imported | test_table",
    ], done.stdout + done.stderr


def test_every_file_has_tests_and_what_is_explained_is_in_a_file():
    files = campaign_of_mutants.files()
    assert {"reference/formats.py", "layouts/mfma.py"} <= set(files)
    for file in files:
        tests = campaign_of_mutants.tests_of(file)
        assert len(tests) > 5
        assert all(test.is_file() for test in tests), tests
    reasons = Reasons.read(campaign_of_mutants.SURVIVORS)
    assert {file for file, _ in reasons.single} <= set(files)
    assert all(len(reason) > 20 for reason in (*reasons.single.values(), *(kind.reason for kind in reasons.kinds)))


def test_a_part_is_held_by_a_larger_part_and_takes_of_every_file_alike():
    mutants = {name: [Mutant(f"{name}{i}", i, "", "") for i in range(count)] for name, count in (("a", 40), ("b", 7))}
    parts = {
        part: {name: campaign_of_mutants.Plan(part=part).drawn(name, every) for name, every in mutants.items()}
        for part in (10, 50, 100)
    }
    assert [len(drawn) for part in parts.values() for drawn in part.values()] == [4, 1, 20, 4, 40, 7]
    for name, every in mutants.items():
        whole = parts[100][name]
        assert (sorted(whole, key=lambda m: m.line), whole != every) == (every, True)
        assert [parts[part][name] for part in (10, 50)] == [whole[: len(parts[part][name])] for part in (10, 50)]


def test_a_tally_takes_the_last_word_of_the_journal_on_what_is_still_there(tmp_path):
    name = "reference/rounding.py"
    mutants = list(mutants_of((campaign_of_mutants.ROOT / name).read_text(encoding="utf-8")))
    reasons = Reasons.read(campaign_of_mutants.SURVIVORS)
    known = next(mutant for mutant in mutants if (name, mutant.ident) in reasons.single)
    others = [mutant for mutant in mutants if (name, mutant.ident) not in reasons.single][:3]
    plan = campaign_of_mutants.Plan(journal=tmp_path / "journal.jsonl", tally=True)
    for ident, by in (
        (known.ident, None),
        (others[0].ident, None),
        (others[0].ident, "a test"),  # written since
        (others[1].ident, None),
        (others[2].ident, "import"),
        ("gone", "a test"),
    ):
        plan.tell({"file": name, "id": ident, "by": by})
    (tried,) = campaign_of_mutants.campaign([name], plan)
    assert tried.figures(reasons) == {"mutants": len(mutants), "tried": 4, "killed": 2, "explained": 1}
    (question,) = tried.questions(reasons)
    assert question == f"survived: {name}:{others[1].line}, id {others[1].ident}\n{others[1].diff}"
    assert score([tried], reasons).startswith(
        "2 of 4 tried were killed, 50.0%; 2 survived, 1 of them for a known reason"
    )
    plan.tell({"file": name, "id": known.ident, "by": "a test"})
    (tried,) = campaign_of_mutants.campaign([name], plan)
    assert f"explained, but killed by a test: {name}:{known.line}, id {known.ident}\n{known.diff}" in tried.questions(
        reasons
    )


def test_every_kind_has_mutants_and_takes_no_others():
    """A change of what is nowhere in the sources explains nothing."""
    root, files = campaign_of_mutants.ROOT, campaign_of_mutants.files()
    texts = {file: (root / file).read_text(encoding="utf-8") for file in files}
    for kind in Reasons.read(campaign_of_mutants.SURVIVORS).kinds:
        for old, _ in kind.changes:
            assert any(old in texts[file] for file in kind.files or files), f"{kind.name}: {old}"
        file = next(file for file in kind.files or files if kind.changes[0][0] in texts[file])
        diffs = [mutant.diff for mutant in mutants_of(texts[file])]
        assert 0 < sum(kind.holds(file, diff) for diff in diffs) < len(diffs) / 4, kind.name


def test_a_kind_is_one_change_at_one_place():
    kind = Kind("slack", ((", strict=True)", ", strict=None)"),), "because", ("a.py",))

    def holds(old, new, file="a.py"):
        return kind.holds(file, f"-{old}\n+{new}")

    assert holds("x = zip(a, b, strict=True)", "x = zip(a, b, strict=None)")
    assert not holds("x = zip(a, b, strict=True)", "x = zip(a, b, strict=None)", "b.py")
    assert not holds("x = zip(a, b, strict=True)", "x = zip(a, None, strict=True)")
    assert holds("f(zip(a, strict=True), zip(b, strict=True))", "f(zip(a, strict=True), zip(b, strict=None))")
    assert not holds("f(zip(a, strict=True), zip(b, strict=True))", "f(zip(a, strict=None), zip(b, strict=None))")
