"""The page docs/planted-faults.md and the README's sentence, from the kept records of the last campaigns.

python -m mxassay.properties.faults.scorecard            # print the page
python -m mxassay.properties.faults.scorecard sentence   # print the sentence
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from mxassay.properties.faults.fault import CLASSES, DEVICES, Fault, planted
from mxassay.properties.faults.record import HOPPER_RECORD, read
from mxassay.properties.faults.trial import JUDGES

_GATES = {
    "usual_test": "usual test: `randn`, `allclose(rtol=1e-2, atol=1e-2)`",
    "ratio_gate": "95 % gate: that many outputs within 1e-2",
    "cosine_gate": "cosine gate: at least 0.99",
}
_HEADINGS = {"usual_test": "usual test", "ratio_gate": "95 % gate", "cosine_gate": "cosine gate"}
_PROFILES = ("quick", "thorough")
# The two kernels that the usual tests run, and the functions they are made of.
_KERNELS = tuple(
    f"optimized/{name}.py"
    for name in (
        "direct_gemm", "direct_join", "direct_layouts", "fused_gemm", "operands", "pack", "reduce", "rounding",
        "split_k", "tile_map",
    )
)  # fmt: skip
_ENDS = {"import": "does not import", "timeout": "hangs", "crash": "crashes"}

_WHAT_RAN = {
    True: (
        "The three tests run the contest's test shapes twice: with the plans chosen for them, which take the kernel",
        "whose layouts are chosen by hand, `optimized/direct_gemm.py`, and with these plans on the kernel that takes",
        "every launch, `optimized/fused_gemm.py`, which leaves splits to `optimized/reduce.py`. They kill where either",
        "run fails. They have no ragged K, no strided activation and no second call, as such tests have none: some",
        "faults pass because the tests don't look there, others because of their data and their tolerance.",
    ),
    False: (
        "The three tests ran the contest's shapes with the plans chosen for them alone, which is one kernel,",
        "`optimized/direct_gemm.py`. Elsewhere faults passed because these tests don't look; there, because of their",
        "data and their tolerance.",
    ),
}


def sentence(record: dict[str, Any]) -> str:
    """The scores in one sentence, for documents: faults in what the suite judges, without those proved equivalent."""
    faults = [fault for fault in _counted(record) if fault.stage not in JUDGES]
    run = [fault for fault in faults if fault.file in _KERNELS]
    suite = " and ".join(f"{_share(faults, record, profile)} at `{profile}`" for profile in record["profiles"])
    both = " and both kernels that run them" if _ran_both(record) else ""
    return (
        f"Of {len(faults)} faults planted in our kernels, one line at a time, the suite kills {suite}; the usual test, "
        f"`randn` through `allclose(rtol=1e-2, atol=1e-2)` on the contest's shapes{both}, kills "
        f"{_share(faults, record, 'usual_test')} on the same copies, {_killed(run, record, 'usual_test')} of the "
        f"{len(run)} inside our two kernels."
    )


def _ran_both(record: dict[str, Any]) -> bool:
    """Whether the gates of every campaign ran both kernels; before, they ran the contest's alone."""
    return all(len(facts.get("gates_ran", ())) > 1 for facts in record["profiles"].values())


def in_readme(text: str) -> str:
    """The text of README.md with the sentence of the kept record in it, where one stands already."""
    paragraph = re.compile(r"(?<=\n)\*\*A measured suite\.\*\* Of .*?(?=\n\n)", re.DOTALL)
    found = " ".join(paragraph.findall(text)[0].split())
    head, _, tail = found.partition(" Of ")
    words = f"{head} {sentence(read())} {tail[tail.index('[Every fault]') :]}".replace(
        "[Every fault]", "[Every\0fault]"
    )
    filled = textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False).replace("\0", " ")
    return paragraph.sub(lambda _: filled, text)


def page(record: dict[str, Any] | None = None, hopper: dict[str, Any] | None = None) -> str:
    """Markdown: the scores, by class and by fault. Without a record, from the kept one; `hopper` is that of faults that
    only such a GPU runs.
    """
    record = record or read()
    hopper = hopper or read(HOPPER_RECORD)
    profiles = record["profiles"]
    counted = _counted(record)
    judged, judges = ([f for f in counted if (f.stage in JUDGES) == judging] for judging in (False, True))
    kernels = [fault for fault in judged if fault.file in _KERNELS]
    groups = (judged, kernels, judges)
    columns = (
        f"kills, of {len(judged)} faults in what is judged",
        f"of these, of {len(kernels)} inside the two kernels",
        f"of {len(judges)} in what judges",
    )
    lines = [
        "# Planted faults",
        "",
        sentence(record),
        "",
        "A fault is one line of our own code, made wrong in a copy. The suite runs on the copy; so do three tests that",
        "kernels usually get, on the contest's shapes, against a careful reference. A test that fails kills the fault.",
        "",
        f"| way of testing | {' | '.join(columns)} |",
        "|---|---|---|---|",
        *(_line(f"this suite, `{name}`", name, groups, record) for name in profiles),
        *(_line(words, gate, groups, record) for gate, words in _GATES.items()),
        "",
        *_WHAT_RAN[_ran_both(record)],
        "",
        "What is judged: kernels, quantizer, reading of layouts, plans, launches, workspace. What judges: the",
        "reference, the certificate, the declared layouts, the checks, the emulated card. A right kernel passes a",
        "judge that accepts too much, so there a fault also counts as killed where the judge's own tests see it; a",
        "test that fails without the fault too kills nothing.",
        "",
        *(f"`{name}`: measured on {facts['date']}, {_machine(facts)}." for name, facts in profiles.items()),
        *(facts["note"] for facts in profiles.values() if "note" in facts),
        "Every profile begins with the examples of `quick`, in `mxassay check` as well as here, and so kills what",
        "`quick` kills.",
        "`mxassay faults` measures it anew; `mxassay faults --only ID` shows one.",
        "",
        "## By class",
        "",
        "Classes are those of faults that shipped in MXFP4 and block-scaled GEMM stacks.",
        "",
        f"| class | what | faults | {' | '.join((*profiles, *_HEADINGS.values()))} |",
        f"|---|---|{'---|' * (1 + len(profiles) + len(_HEADINGS))}",
    ]
    for name, what in CLASSES.items():
        mine = [fault for fault in counted if fault.class_ == name]
        counts = [len(mine), *(_killed(mine, record, way) for way in (*profiles, *_GATES))]
        lines.append(f"| {name} | {what} | {' | '.join(map(str, counts))} |")
    lines += ["", "## What stays alive", ""]
    alive = [fault for fault in counted if not _is_killed(fault, record, [*profiles][-1])]
    lines += [f"- `{fault.id}`: {fault.why}." for fault in alive] or ["No fault that changes something."]
    lines += ["", "## Changes that change nothing", ""]
    proved = [fault for fault in planted() if fault.equivalent and fault.id in record["faults"]]
    lines += [f"{len(proved)} changes are proved to be no faults, and must survive:", ""]
    lines += [f"- `{fault.id}` (`{fault.file}`): {' '.join(fault.equivalent.split())}" for fault in proved]
    lines += ["", "## By fault", ""]
    lines += ["Examples are those of the test that failed, up to the first that did.", ""]
    lines += [
        f"| fault | class | killed by | examples | {' | '.join(_HEADINGS.values())} |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(fault, record["faults"][fault.id]) for fault in counted]
    return "\n".join([*lines, *_on_hopper(hopper)]) + "\n"


def _on_hopper(record: dict[str, Any]) -> list[str]:
    """The section on faults that need a GPU."""
    faults = [fault for fault in planted() if fault.device == "cuda" and not fault.equivalent]
    tried = [fault for fault in faults if fault.id in record["faults"]]
    lines = ["", f"## On {DEVICES['cuda']}", ""]
    lines += [f"{len(faults)} faults sit in kernels that only such a GPU runs. They are not counted above."]
    for name, facts in record["profiles"].items():
        gate = f"the usual test, on these kernels and on the usual one, {_share(tried, record, 'usual_test')}"
        lines += ["", f"Of {len(tried)} the suite kills {_share(tried, record, name)} at `{name}`,", f"{gate}:"]
        lines += [f"measured on {facts['date']}, {_machine(facts)}."]
    if tried:
        lines += ["", f"| fault | class | killed by | examples | {' | '.join(_HEADINGS.values())} |"]
        lines += ["|---|---|---|---|---|---|---|", *(_row(fault, record["faults"][fault.id]) for fault in tried)]
    rest = [fault for fault in faults if fault not in tried]
    if rest:
        lines += ["", f"Not tried, since that needs {DEVICES['cuda']} (`mxassay faults --device cuda`):", ""]
        lines += [f"- `{fault.id}`, {fault.class_}: {fault.why}." for fault in rest]
    return lines


def _counted(record: dict[str, Any]) -> list[Fault]:
    """The shipped faults that the record holds and nobody proved equivalent."""
    return [fault for fault in planted() if not fault.equivalent and fault.id in record["faults"]]


def _is_killed(fault: Fault, record: dict[str, Any], way: str) -> bool:
    """`way`: a profile of the suite, or a gate."""
    entry = record["faults"][fault.id]
    return bool((entry["gates"][way] if way in _GATES else entry.get(way, {}).get("verdict")) == "killed")


def _killed(faults: Sequence[Fault], record: dict[str, Any], way: str) -> int:
    return sum(_is_killed(fault, record, way) for fault in faults)


def _share(faults: Sequence[Fault], record: dict[str, Any], way: str) -> str:
    count = _killed(faults, record, way)
    return f"{count} ({100 * count / max(len(faults), 1):.1f} %)"


def _line(words: str, way: str, groups: Sequence[Sequence[Fault]], record: dict[str, Any]) -> str:
    return f"| {words} | {' | '.join(_share(faults, record, way) for faults in groups)} |"


def _machine(facts: dict[str, Any]) -> str:
    versions = facts["environment"]
    return ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "triton", "hypothesis"))


def _row(fault: Fault, entry: dict[str, Any]) -> str:
    found = [entry[profile] for profile in _PROFILES if profile in entry]
    death = next((one for one in found if one["verdict"] == "killed"), found[0])
    by = "nothing"
    if death["killed_by"]:
        notes = [
            *(["own tests"] if death["by"] == "tests" else []),
            *(["thorough"] if death["profile"] == "thorough" else []),
            *(words for how, words in _ENDS.items() if death["how"].startswith(how)),
        ]
        by = f"`{death['killed_by']}`" + (f" ({', '.join(notes)})" if notes else "")
    gates = " | ".join("killed" if entry["gates"][gate] == "killed" else "passed" for gate in _GATES)
    return f"| `{fault.id}` | {fault.class_} | {by} | {death['examples'] or ''} | {gates} |"


if __name__ == "__main__":
    print(sentence(read()) if sys.argv[1:] == ["sentence"] else page(), end="\n" if sys.argv[1:] else "")
