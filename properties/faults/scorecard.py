"""The page docs/planted-faults.md and the README's sentence, from the kept record of the last campaigns.

python -m mxassay.properties.faults.scorecard            # print the page
"""

from typing import Any

from mxassay.properties.faults.fault import CLASSES, Fault, planted
from mxassay.properties.faults.record import read

_GATES = {"usual_test": "usual test", "ratio_gate": "95 % gate", "cosine_gate": "cosine gate"}
_PROFILES = ("quick", "thorough")


def sentence(record: dict[str, Any]) -> str:
    """The scores in one sentence, for documents."""
    scores = {profile: facts["score"] for profile, facts in record["profiles"].items()}
    first = next(iter(scores.values()))
    suite = " and ".join(
        f"{score['killed']['with_tests']} at `{profile}` ({100 * score['share']['with_tests']:.1f} %)"
        for profile, score in scores.items()
    )
    usual = first["killed"]
    return (
        f"Of {first['faults']} planted faults that change something, the suite and its own tests kill {suite}. In the "
        f"same run the usual test (randn, allclose 1e-2) kills {usual['usual_test']}, a 95 % ratio gate "
        f"{usual['ratio_gate']}, a cosine gate {usual['cosine_gate']}."
    )


def page() -> str:
    """Markdown: the scores, by class and by fault."""
    record, faults = read(), planted()
    facts = record["profiles"]
    lines = [
        "# Planted faults",
        "",
        "How much the property suite sees is measured. One line at a time of our own kernel, its layouts, its",
        "reference or the judges is made wrong in a copy, and the suite runs on the copy. So do three tests that",
        "kernels usually get, on the contest's shapes. Generated from `properties/faults/score.json`, which",
        "`mxassay faults --record` writes.",
        "",
        sentence(record),
        "",
        *(
            f"`{name}`: measured on {fact['date']}, code {fact['code'][:12]}. {_counts(fact['score'])}"
            for name, fact in facts.items()
        ),
        "",
        "A right kernel passes a judge that accepts too much, so faults in judges are for the tests of that part too.",
        "Every profile begins with the examples of `quick`, in `mxassay check` as well as here: `thorough` sees what",
        "`quick` sees.",
        "",
        "## By class",
        "",
        f"| class | what | faults | {' | '.join((*facts, *_GATES.values()))} |",
        f"|---|---|{'---|' * (1 + len(facts) + len(_GATES))}",
    ]
    for name, what in CLASSES.items():
        mine = [
            record["faults"][f.id] for f in faults if f.class_ == name and not f.equivalent and f.id in record["faults"]
        ]
        counts = [sum(entry.get(profile, {}).get("verdict") == "killed" for entry in mine) for profile in facts]
        counts += [sum(entry["gates"][gate] == "killed" for entry in mine) for gate in _GATES]
        lines.append(f"| {name} | {what} | {len(mine)} | {' | '.join(map(str, counts))} |")
    lines += ["", "## By fault", ""]
    lines += ["Examples are those of the test that failed, up to the first that did.", ""]
    lines += [
        "| fault | class | killed by | examples | usual test | 95 % gate | cosine gate |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(fault, record["faults"][fault.id]) for fault in faults if fault.id in record["faults"]]
    proved = [fault for fault in faults if fault.equivalent]
    lines += [
        "",
        "## Changes that change nothing",
        "",
        f"{len(proved)} faults are proved to be none, and must survive:",
        "",
    ]
    lines += [f"- `{fault.id}`: {' '.join(fault.equivalent.split())}" for fault in proved]
    return "\n".join(lines) + "\n"


def _counts(score: dict[str, Any]) -> str:
    killed, of = score["killed"], score["of"]
    return (
        f"In what the suite judges it kills {killed['suite']} of {of['suite']}; in the judges, it or their own tests "
        f"kill {killed['judges']} of {of['judges']}."
    )


def _row(fault: Fault, entry: dict[str, Any]) -> str:
    found = [entry[profile] for profile in _PROFILES if profile in entry]
    death = next((one for one in found if one["verdict"] == "killed"), found[0])
    by = "proved equivalent" if fault.equivalent else "nothing"
    if death["killed_by"]:
        by = f"`{death['killed_by']}`"
        by += {"tests": " (own tests)"}.get(death["by"], "")
        by += " (thorough)" if death["profile"] == "thorough" else ""
    gates = " | ".join("killed" if entry["gates"][gate] == "killed" else "passed" for gate in _GATES)
    return f"| `{fault.id}` | {fault.class_} | {by} | {death['examples'] or ''} | {gates} |"


if __name__ == "__main__":
    print(page(), end="")
