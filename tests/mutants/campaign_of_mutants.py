"""Mutates reference/ and layouts/ and counts what their own tests kill: `make mutants`.

    python tests/mutants/campaign_of_mutants.py [FILE ...] [--jobs 2] [--part 10] [--write]

Prints the score of each file and every survivor. Survivors that survivors.toml explains are marked; one that it does
not explain, or an explanation whose mutant is dead or gone, makes the exit status 1. `--write` puts the figures into
scores.json. Needs mutmut for its operators (`pip install 'mxassay[mutants]'`).

A whole campaign takes hours. `--part P` tries a share of the mutants, the same for every file and fairly drawn: a
larger share holds the smaller one, and with `--journal` it goes on from there. `--tally` tries nothing and counts what
the journal says.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutant_reasons import Reasons
from mutant_scores import Tried, score
from mutant_source import Mutant, mutants_of
from mutant_swaps import Collected
from mutant_trials import Order, Ready, Trial, in_a_child, outcomes, preload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = ("layouts", "reference")
SURVIVORS = HERE / "survivors.toml"
SCORES = HERE / "scores.json"

# It takes as long as all others together, and compiles; where nothing else kills, it is asked about these alone.
_SLOW = {
    "test_quantizer_compiled.py::test_compiled_whole_and_wherever_the_input_lies": (
        "reference/quantizer.py",
        "reference/quantizer_compiled.py",
    )
}


def files() -> list[str]:
    """The files under mutation, relative to the root."""
    return [file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in sorted((ROOT / folder).glob("*.py"))]


def tests_of(file: str) -> tuple[Path, ...]:
    """The tests that must kill the mutants of `file`."""
    return tuple(sorted((ROOT / "tests" / Path(file).parent).glob("test_*.py")))


@dataclass(frozen=True)
class Plan:
    """How to try. `part`: percent of each file's mutants. `limit`: seconds of the processor for one, see `Trial`.

    `journal`: a file of JSON lines, one for each trial. What it says is dead is not tried again, and, if `new`, what it
    says has survived is not either.
    """

    jobs: int = 1
    part: float = 100.0
    limit: float = math.inf
    journal: Path | None = None
    new: bool = False
    tally: bool = False

    def told(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The journal's last word on each mutant, by file and id."""
        if self.journal is None or not self.journal.exists():
            return {}
        rows = [json.loads(line) for line in self.journal.read_text(encoding="utf-8").splitlines()]
        return {(row["file"], row["id"]): row for row in rows}

    def tell(self, row: dict[str, Any]) -> None:
        if self.journal is not None:
            with self.journal.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")

    def drawn(self, file: str, mutants: Sequence[Mutant]) -> list[Mutant]:
        """The part of a file's mutants, in the order in which to try them."""
        ranked = sorted(mutants, key=lambda mutant: _rank(file, mutant))
        return ranked[: math.ceil(len(ranked) * self.part / 100)]


def _rank(file: str, mutant: Mutant) -> str:
    return hashlib.sha256(f"{file} {mutant.ident}".encode()).hexdigest()


def campaign(names: Sequence[str], plan: Plan) -> list[Tried]:
    """What became of the mutants of the files `names`, as far as they were tried."""
    found: list[Tried] = []
    if not plan.tally:
        preload()
    for folder in FOLDERS:
        own = [name for name in names if name.startswith(f"{folder}/")]
        mutants = {name: list(mutants_of((ROOT / name).read_text(encoding="utf-8"))) for name in own}
        rows = _tried(folder, mutants, plan) if own else []
        found += [Tried(name, mutants[name], [row for row in rows if row["file"] == name]) for name in own]
    return found


def _tried(folder: str, mutants: dict[str, list[Mutant]], plan: Plan) -> list[dict[str, Any]]:
    """What became of each of `mutants`, by file of one folder, that was tried now or earlier."""
    told = plan.told()
    rows, trials, order = [], [], Order()
    for name, every in mutants.items():
        module = "mxassay." + name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        spared = tuple(test for test, asked in _SLOW.items() if name not in asked)
        for mutant in every if plan.tally else plan.drawn(name, every):
            row = told.get((name, mutant.ident))
            if row is not None and (plan.tally or plan.new or row["by"] is not None):
                rows.append(row | {"line": mutant.line, "diff": mutant.diff})
                order.kills[str(ROOT / name)][row["by"]] += 1
            elif not plan.tally:
                trial = Trial(module, ROOT / name, mutant.source, tests_of(name), spared, plan.limit)
                trials.append((_rank(name, mutant), name, mutant, trial))
    trials.sort(key=lambda each: each[0])

    def ended(calls: Iterable[Any]) -> list[dict[str, Any]]:
        done = []
        for index, outcome in outcomes(((index, call) for index, call in calls if call is not None), plan.jobs):
            _, name, mutant, _ = trials[index]
            row = {"file": name, "id": mutant.ident, "line": mutant.line, "diff": mutant.diff}
            row |= {"by": outcome.by, "seconds": round(outcome.seconds, 2)}
            order.kills[str(ROOT / name)][str(outcome.by)] += 1
            plan.tell(row)
            done.append(row | {"index": index})
        return done

    def swap() -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []

        def during(collected: Collected) -> None:
            done.extend(ended((index, collected.swapped(trial)) for index, (*_, trial) in enumerate(trials)))

        tests = sorted((ROOT / "tests" / folder).glob("test_*.py"))
        memory = plan.journal and plan.journal.with_suffix(f".{folder}.json")
        Collected(ROOT / folder, tests, order, during, tuple(_SLOW), memory)
        return [{"seconds": order.seconds}, *done]

    def import_anew() -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []

        def during(ready: Ready) -> None:
            done.extend(ended((index, ready.imported_anew(trials[index][-1])) for index in left))

        Ready(ROOT / "tests" / "conftest.py", order, during)
        return done

    if not trials:
        return rows
    (learned, *swapped) = in_a_child(swap)
    order.seconds |= learned["seconds"]
    for row in swapped:
        order.kills[str(ROOT / row["file"])][str(row["by"])] += 1
    left = sorted(set(range(len(trials))) - {row["index"] for row in swapped})
    return rows + swapped + in_a_child(import_anew)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", help="files under layouts/ or reference/ (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time (default: 1)")
    parser.add_argument("--part", type=float, default=100.0, help="percent of each file's mutants (default: 100)")
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="seconds of the processor, after which a mutant has survived"
    )
    parser.add_argument(
        "--journal",
        type=Path,
        help="append what became of each mutant as JSON lines; what it says is dead is not tried again",
    )
    parser.add_argument("--new", action="store_true", help="nor what the journal says has survived")
    parser.add_argument("--tally", action="store_true", help="try nothing, count what the journal says")
    parser.add_argument("--write", action="store_true", help=f"put the figures into {SCORES.name}")
    chosen = parser.parse_args(words)
    if chosen.journal is not None:
        chosen.journal.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan(chosen.jobs, chosen.part, chosen.limit, chosen.journal, chosen.new, chosen.tally)
    found = campaign(chosen.files or files(), plan)
    reasons = Reasons.read(SURVIVORS)
    for tried in found:
        print(f"{tried.file:32} {tried.killed:5} of {len(tried.rows):5} killed")
    open_questions = [question for tried in found for question in tried.questions(reasons)]
    print(*open_questions, score(found, reasons), sep="\n\n")
    if chosen.write:
        figures = {tried.file: tried.figures(reasons) for tried in found}
        SCORES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return bool(open_questions)


if __name__ == "__main__":
    raise SystemExit(main())
