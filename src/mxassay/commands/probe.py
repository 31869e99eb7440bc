"""`mxassay probe`: asks a card what public sources leave open, and records the answers."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.verdicts import Document, ExitCode, Verdict, exit_code

if TYPE_CHECKING:
    from mxassay.gfx950.probe import Card, Difference, Record

_DEVICES = ("emulated", "mi355x")


def run(options: argparse.Namespace) -> int:
    """Ask every question, or those that `--only` names, write the answers to `--out`, and compare them with an older
    file. FAIL where a control is answered otherwise than is certain, or where the two files differ.
    """
    from mxassay.gfx950.probe import QUESTIONS, Record, ask, compare, contradictions, hypotheses

    if options.list:
        for question in QUESTIONS.values():
            print(f"{question.id:34}{question.status.value:10}{question.statement}")
        return ExitCode.PASS
    started = time.perf_counter()
    # Read first: the old file may be the one that is about to be written.
    old = Record.read(options.compare) if options.compare else None
    identities = _chosen(options.only)
    hidden = options.json or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task("asking", total=len(identities))
        record = ask(_card(options.device), identities, lambda identity: progress.advance(task))
    if options.out:
        record.write(options.out)
    pinned = _pinned(record, options.pins) if options.pins else []
    wrong = contradictions(record)
    differences = compare(old.chosen(set(identities) & set(old.answers)), record) if old is not None else ()
    verdict = Verdict.FAIL if wrong or differences else Verdict.PASS
    if options.json:
        extra = {
            **{key: value for key, value in record.as_json().items() if key not in ("schema_version", "environment")},
            "card": dict(record.environment), "contradictions": list(wrong), "hypotheses": dict(hypotheses(record)),
            "differences": [
                {"id": entry.id, "before": entry.before, "after": entry.after, "settles": entry.settles}
                for entry in differences
            ],
        }  # fmt: skip
        print(Document("probe", verdict, time.perf_counter() - started, environment(), extra).dumps())
        return exit_code(verdict)
    _print(record, wrong, hypotheses(record), time.perf_counter() - started)
    _print_differences(options.compare, differences)
    if options.out:
        print(f"answers written to {options.out}")
    print("\n".join(pinned), end="\n" if pinned else "")
    return exit_code(verdict)


def _card(name: str) -> "Card":
    from mxassay.gfx950.probe import EmulatedCard, HipCard

    if name not in _DEVICES:
        raise ContractError(f"device must be one of {', '.join(_DEVICES)}, not {name}")
    return EmulatedCard() if name == "emulated" else HipCard()


def _chosen(words: list[str] | None) -> list[str]:
    """Ids, and all ids that begin with a word and a dot."""
    from mxassay.gfx950.probe import QUESTIONS

    if not words:
        return list(QUESTIONS)
    for word in words:
        if not any(identity == word or identity.startswith(f"{word}.") for identity in QUESTIONS):
            raise ContractError(f"a question must be one that --list shows, or the beginning of its id, not {word}")
    return [
        identity for identity in QUESTIONS if any(identity == word or identity.startswith(f"{word}.") for word in words)
    ]


def _pinned(record: "Record", path: str) -> list[str]:
    from mxassay.gfx950.probe import pins_of

    found = pins_of(record)
    found.pins.write(path)
    return [f"pins written to {path}", *(f"  not pinned: {name}: {why}" for name, why in found.open.items())]


def _print(record: "Record", wrong: tuple[str, ...], adding: Any, seconds: float) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("question", "emulator is", "answer"):
        table.add_column(heading, no_wrap=heading != "answer")
    for identity, answer in record.answers.items():
        table.add_row(identity, answer.status, _answer(answer))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    answered = sum(answer.outputs is not None for answer in record.answers.values())
    print(
        f"\n{answered} of {len(record.answers)} questions answered by {record.environment['device']}, {seconds:.1f} s"
    )
    for instruction, names in adding.items():
        print(f"  {instruction} adds as: {'; '.join(names) or 'none of the ways known here'}")
    for identity in wrong:
        print(f"  contradicts what is certain: {identity}")


def _answer(answer: Any) -> str:
    if answer.outputs is None:
        return f"none: {answer.refused}"
    words = "; ".join(answer.readings[:2]) + ("; ..." if len(answer.readings) > 2 else "")
    shown = words or (answer.decoded[0] if answer.decoded else "")
    return shown if answer.stable else f"changes when asked again: {shown}"


def _print_differences(path: str | None, differences: "tuple[Difference, ...]") -> None:
    if path is None:
        return
    print(f"{len(differences) or 'no'} differences from {path}")
    for difference in differences:
        print(difference.text())
