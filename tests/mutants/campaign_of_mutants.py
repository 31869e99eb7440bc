"""Mutates reference/ and layouts/ and counts what their own tests kill: `make mutants`.

    python tests/mutants/campaign_of_mutants.py [FILE ...] [--jobs 2] [--write]

Prints the score of each file and every survivor. Survivors that survivors.toml explains are marked; one that it does
not explain, or an explanation whose mutant is dead or gone, makes the exit status 1. `--write` puts the figures into
scores.json. Needs mutmut for its operators (`pip install 'mxassay[mutants]'`).
"""

import argparse
import json
import random
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = ("layouts", "reference")
SURVIVORS = HERE / "survivors.toml"
SCORES = HERE / "scores.json"

# The test that is likeliest to kill a file's mutants; all others of its folder follow.
_LIKELIEST = {
    "layouts/__init__.py": "test_layouts_package.py",
    "layouts/bound.py": "test_address.py",
    "layouts/memory.py": "test_address.py",
    "layouts/mfma.py": "test_address.py",
    "reference/__init__.py": "test_reference_docstrings.py",
    "reference/benchmark.py": "test_reference_benchmark.py",
    "reference/operands.py": "test_gemm.py",
    "reference/superaccumulator.py": "test_gemm.py",
}


def files() -> list[str]:
    """The files under mutation, relative to the root."""
    return [file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in sorted((ROOT / folder).glob("*.py"))]


def tests_of(file: str) -> tuple[Path, ...]:
    """The tests that must kill the mutants of `file`, the likeliest first."""
    folder = ROOT / "tests" / Path(file).parent
    first = folder / _LIKELIEST.get(file, f"test_{Path(file).name}")
    return (first, *(test for test in sorted(folder.glob("test_*.py")) if test != first))


def explained() -> dict[tuple[str, str], str]:
    """The reason of every survivor that is known to be equivalent, by file and id."""
    rows = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get("survivor", []) if SURVIVORS.exists() else []
    return {(row["file"], row["id"]): row["reason"] for row in rows}


def campaign(names: Sequence[str], jobs: int, journal: Path | None = None) -> dict[str, Any]:
    """Try every mutant of the files `names`; {file: {mutants, killed, survivors: [{id, line, diff}]}}."""
    from mutant_trials import preload

    preload()
    dead: set[tuple[str, str]] = set()
    if journal is not None and journal.exists():
        log = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        dead = {(row["file"], row["id"]) for row in log if row["by"] is not None}
    found: dict[str, Any] = {}
    for folder in FOLDERS:
        own = [name for name in names if name.startswith(f"{folder}/")]
        rows = _tried(folder, own, jobs, journal, dead) if own else []
        for name in own:
            mine = [row for row in rows if row["file"] == name]
            alive = sorted((row for row in mine if row["by"] is None), key=lambda row: (row["line"], row["id"]))
            found[name] = {"mutants": len(mine), "killed": len(mine) - len(alive), "survivors": alive}
            print(f"{name:32} {found[name]['killed']:5} of {len(mine):5} killed", flush=True)
    return found


def _tried(
    folder: str, names: Sequence[str], jobs: int, journal: Path | None, dead: set[tuple[str, str]]
) -> list[dict[str, Any]]:
    """What became of every mutant of `names`, files of one folder. `dead` are not tried again."""
    from mutant_source import mutants_of
    from mutant_swaps import Collected
    from mutant_trials import Trial, imported_anew, in_a_child, outcomes

    mutants = []
    for name in names:
        module = "mxassay." + name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        for mutant in mutants_of((ROOT / name).read_text(encoding="utf-8")):
            mutants.append((name, mutant, Trial(module, ROOT / name, mutant.source, tests_of(name))))
    random.Random(0).shuffle(mutants)  # what a run that is broken off has seen is a fair sample
    rows: list[dict[str, Any]] = []
    left = []
    for index, (name, mutant, _) in enumerate(mutants):
        if (name, mutant.ident) in dead:
            rows.append({"index": index, "file": name, "id": mutant.ident, "by": "an earlier run"})
        else:
            left.append(index)

    def ended(calls: Iterable[Any]) -> None:
        for index, outcome in outcomes(calls, jobs):
            name, mutant, _ = mutants[index]
            row = {"index": index, "file": name, "id": mutant.ident, "line": mutant.line, "diff": mutant.diff}
            rows.append(row | {"by": outcome.by, "seconds": round(outcome.seconds, 2)})
            if journal is not None:
                with journal.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(rows[-1]) + "\n")

    def swap(collected: Collected) -> None:
        calls = ((index, collected.swapped(mutants[index][2])) for index in left)
        ended((index, call) for index, call in calls if call is not None)

    def collect() -> list[dict[str, Any]]:
        Collected(ROOT / folder, sorted((ROOT / "tests" / folder).glob("test_*.py")), swap)
        return rows

    rows = in_a_child(collect)
    done = {row["index"] for row in rows}
    ended((index, imported_anew(mutants[index][2])) for index in left if index not in done)
    return rows


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", help="files under layouts/ or reference/ (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time (default: 1)")
    parser.add_argument(
        "--journal",
        type=Path,
        help="append what became of each mutant as JSON lines; what it says is dead is not tried again",
    )
    parser.add_argument("--write", action="store_true", help=f"put the figures into {SCORES.name}")
    chosen = parser.parse_args(words)
    if chosen.journal is not None:
        chosen.journal.parent.mkdir(parents=True, exist_ok=True)
    names = chosen.files or files()
    sys.path.insert(0, str(HERE))
    found = campaign(names, chosen.jobs, chosen.journal)
    reasons = explained()
    alive = {(name, row["id"]) for name, rows in found.items() for row in rows["survivors"]}
    unexplained = alive - set(reasons)
    stale = {key for key in reasons if key[0] in found} - alive
    for name, rows in found.items():
        for row in rows["survivors"]:
            if (name, row["id"]) in unexplained:
                print(f"\nsurvived: {name}:{row['line']}, id {row['id']}\n{row['diff']}")
    for name, ident in sorted(stale):
        print(f"\nexplained, but not alive: {name}, id {ident}")
    total, killed = (sum(rows[what] for rows in found.values()) for what in ("mutants", "killed"))
    if total:
        print(
            f"\n{killed} of {total} killed, {killed / total:.1%}; {len(alive)} survived, {len(unexplained)} unexplained"
        )
    if chosen.write:
        figures = {name: {what: rows[what] for what in ("mutants", "killed")} for name, rows in found.items()}
        SCORES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return bool(unexplained or stale)


if __name__ == "__main__":
    raise SystemExit(main())
