"""The kept record of the last campaign of triage, and the page docs/named-causes.md that is made of it.

mxassay faults --triage --record properties/faults/causes.json
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("causes.json")
"""Ships with the suite: `facts` of the campaign, `faults` what triage made of each, by id."""


def read(path: Path = RECORD) -> dict[str, Any]:
    """The record. Raises OSError where there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, facts: dict[str, Any], faults: Sequence[dict[str, Any]]) -> None:
    """Put a campaign over shipped faults into `path`. `faults`: `mxassay.triage_campaign.Triaged.as_json()`."""
    kept = {fault["id"]: {name: value for name, value in fault.items() if name != "id"} for fault in faults}
    document = {"facts": facts, "faults": dict(sorted(kept.items()))}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def page(record: dict[str, Any] | None = None) -> str:
    """Markdown: the four figures, and each fault whose cause was not named. Without a `record`, from the kept one."""
    record = record or read()
    facts, faults = record["facts"], record["faults"]
    every, kernels = facts["score"]["all"], facts["score"]["kernels"]
    wrong = {name: one for name, one in faults.items() if not _named(one)}
    small = f"smallest case of one tile and at most four nonzero elements, of {every['products']} wrong products"
    rows = (
        ("faults", str(every["faults"]), str(kernels["faults"]), ""),
        ("right class ranked first", _percent(every["class"]), _percent(kernels["class"]), "at least 90 %"),
        ("right stage", _percent(every["stage"]), _percent(kernels["stage"]), "at least 95 %"),
        (small, _percent(every["small"]), _percent(kernels["small"]), "at least 80 %"),
        ("median time from failure to diagnosis", _seconds(every), _seconds(kernels), "at most 10 s"),
    )
    ran = f"{every['faults']} of them, {facts['jobs']} at a time, in {facts['seconds'] / 60:.0f} minutes"
    lines = [
        "# Named causes",
        "",
        f"`mxassay faults --triage` plants each of our {facts['shipped']} faults that has no proof of equivalence and",
        "needs no GPU in a copy of the code, lets triage look for a failing call there, and asks it for the cause. The",
        "process that looks is told neither what was planted nor where.",
        "",
        f"On {facts['date']} it was asked about {ran}, and found a failure in {every['found']}.",
        "",
        "| figure | all | without faults in what judges | must be |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "A fault for which no failure was found counts as wrong in class and stage. The smallest case counts where a",
        "product is wrong. Time of the clock is followed by time of the processor.",
        "",
        "## What was wrong",
        "",
        "Not every fault gives a wrong output. A refusal that is missing gives none at all, a judge's wrong answer",
        "leaves the kernel right, and some stages are asked by themselves: there triage names what it saw there.",
        "",
        "| evidence | faults | right class | right stage | median time |",
        "|---|---|---|---|---|",
        *(_row(what, some) for what, some in facts["score"]["evidence"].items()),
        "",
        f"## Not named: {len(wrong)}",
        "",
        *([] if wrong else ["Every cause was named."]),
        *(["| fault | class, stage | said | what triage says |", "|---|---|---|---|"] if wrong else []),
        *(f"| `{name}` | {_place(one, '')} | {_place(one, 'said_')} | {_cell(one)} |" for name, one in wrong.items()),
    ]
    large = {
        name: one for name, one in faults.items() if one["product"] and one["class"] != "harness" and not _small(one)
    }
    lines += [
        "",
        f"## Cases that stayed larger: {len(large)}",
        "",
        *([] if large else ["None."]),
        *(["| fault | tiles | elements |", "|---|---|---|"] if large else []),
        *(f"| `{name}` | {one['tiles']} | {one['elements']} |" for name, one in large.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(what: str, some: dict[str, Any]) -> str:
    return f"| {what} | {some['faults']} | {_percent(some['class'])} | {_percent(some['stage'])} | {_seconds(some)} |"


def _named(one: dict[str, Any]) -> bool:
    return (one["class"], one["stage"]) == (one["said_class"], one["said_stage"])


def _small(one: dict[str, Any]) -> bool:
    return bool(one["tiles"] <= 1 and one["elements"] <= 4)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _seconds(score: dict[str, Any]) -> str:
    return "-" if score["seconds"] is None else f"{score['seconds']:.1f} s ({score['processor']:.1f} s)"


def _place(one: dict[str, Any], which: str) -> str:
    class_, stage = one[f"{which}class"], one[f"{which}stage"]
    return f"{class_}, {stage}" if class_ or stage else "nothing"


def _cell(one: dict[str, Any]) -> str:
    return " ".join(str(one["sentence"]).split()).replace("|", "\\|")
