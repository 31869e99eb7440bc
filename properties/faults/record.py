"""The kept record of the last campaigns: what killed each fault, and the scores that documents cite.

    mxassay faults --record properties/faults/score.json
    mxassay faults --device cuda --record properties/faults/hopper.json

The test that killed a fault last time is also where its next trial begins, which changes what is waited for, not what
is seen.
"""

import json
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("score.json")
"""Ships with the suite; `profiles` holds a campaign each, `faults` what came of each fault in them, by id."""

HOPPER_RECORD = Path(__file__).with_name("hopper.json")
"""The same of the faults that only an NVIDIA Hopper GPU runs, where that was done."""

_KEPT = ("verdict", "killed_by", "test", "profile", "how", "by", "examples", "seconds")
_GATES = ("usual_test", "ratio_gate", "cosine_gate")


def read(path: Path = RECORD) -> dict[str, Any]:
    """The record; one of nothing where there is none."""
    if not path.is_file():
        return {"profiles": {}, "faults": {}}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def known_killers(path: Path = RECORD) -> dict[str, str]:
    """The tests of the suite that killed each fault in the last campaigns, with commas, by the fault's id."""
    killers = {}
    entries = read(path)["faults"] | (read(HOPPER_RECORD)["faults"] if path == RECORD else {})
    for name, entry in entries.items():
        tests = [entry.get(profile, {}).get("test", "").split("[")[0] for profile in ("quick", "thorough")]
        killers[name] = ",".join(filter(None, dict.fromkeys(tests)))
    return killers


def write(path: Path, profile: str, facts: dict[str, Any], trials: list[dict[str, Any]]) -> None:
    """Put a campaign over all shipped faults into the record at `path`, beside those of other profiles.

    `facts` are its date, code, seconds, environment and score; `trials` are `Trial.as_json()`. Others are dropped.
    """
    before = read(path)
    faults = {}
    for trial in trials:
        entry = dict(before["faults"].get(trial["id"], {}))
        entry |= {"class": trial["class"], "equivalent": bool(trial["equivalent"])}
        entry |= {"gates": {gate: trial[gate] for gate in _GATES}, profile: {key: trial[key] for key in _KEPT}}
        faults[trial["id"]] = entry
    document = {"profiles": before["profiles"] | {profile: facts}, "faults": dict(sorted(faults.items()))}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
