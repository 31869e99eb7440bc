"""Triage put to the test: each planted fault is diagnosed in a process of its own, which knows nothing of the fault."""

import hashlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mxassay.properties.faults import Fault, processes
from mxassay.properties.faults.tree import Tree, snapshot

LIMIT = 600.0
"""Seconds for one fault: finding a failing call, and the diagnosis."""

BARS = {"class": 0.90, "stage": 0.95, "small": 0.80, "seconds": 10.0}
"""What is promised: the right class first, the right stage, the small cases, the median time."""

_JUDGES = "harness"
# Not Triton: the process waits with a twin that calls Triton's interpreter, and Triton decides on import what it is.
_LOADED = ("torch", "numpy", "hypothesis", "pytest", "tinygrad.renderer.amd")

EVIDENCE = (
    "a product is wrong",
    "a call raises, or reaches outside of its buffers",
    "a call is taken that must be refused",
    "a stage by itself is wrong",
    "a judge answers wrongly",
    "no failure was found",
)
"""What was wrong, that triage was to explain. Only a product has a case to make small; a refusal that is missing gives
no output at all, and a judge's wrong answer leaves the kernel's right."""


@dataclass(frozen=True)
class Triaged:
    """What triage made of one fault.

    Attributes:
        id, class_, stage: of the fault.
        found: whether a failing call or exam was found at all.
        said_class, said_stage: what the diagnosis ranks first, or None.
        product: whether a product failed, so that there is a case to make small.
        failing: the property or judge that did; error: how, where no product is wrong.
        tiles, elements: of the smallest case, as `mxassay.triage.shrink.size_of` counts.
        seconds, processor: from the failure to the diagnosis, of the clock and of the processor.
        sentence: the diagnosis in words, or why there is none.
    """

    id: str
    class_: str
    stage: str
    found: bool
    said_class: str | None = None
    said_stage: str | None = None
    product: bool = False
    tiles: int = 0
    elements: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    sentence: str = ""
    failing: str = ""
    error: str = ""

    @property
    def evidence(self) -> str:
        """One of EVIDENCE."""
        product, raises, refused, stage, judge, none = EVIDENCE
        if not self.found:
            return none
        if self.class_ == _JUDGES or self.failing.startswith("judge:"):
            return judge
        if self.product:
            return product
        if self.failing == "gemm-agreement":
            return raises
        return refused if self.failing.startswith("illegal-") else stage

    @property
    def small(self) -> bool:
        """At most one tile and four elements that are not zero."""
        return self.tiles <= 1 and self.elements <= 4

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        fields = asdict(self)
        return {"class" if name == "class_" else name: value for name, value in fields.items()}


def score(found: Sequence[Triaged]) -> dict[str, Any]:
    """Shares and the median, over all faults, and without those of class harness.

    Faults of class harness sit in what judges: no kernel is wrong, and the evidence is that a judge gives a wrong
    answer to a question whose answer was worked out by hand. A fault for which no failure was found counts as wrong in
    class and stage. `small` counts only faults that make a product wrong; others, such as a refusal that is missing
    or a judge that gives the wrong answer, have no case to make small. `evidence`: the same by what was wrong.
    """

    def of(some: Sequence[Triaged]) -> dict[str, Any]:
        products = [one for one in some if one.product and one.class_ != _JUDGES]
        times = [one for one in some if one.found]
        return {
            "faults": len(some),
            "found": sum(one.found for one in some),
            "class": _share(sum(one.said_class == one.class_ for one in some), len(some)),
            "stage": _share(sum(one.said_stage == one.stage for one in some), len(some)),
            "products": len(products),
            "small": _share(sum(one.small for one in products), len(products)),
            "seconds": round(statistics.median(one.seconds for one in times), 2) if times else None,
            "processor": round(statistics.median(one.processor for one in times), 2) if times else None,
        }

    evidence = {what: of([one for one in found if one.evidence == what]) for what in EVIDENCE}
    return {
        "all": of(found),
        "kernels": of([one for one in found if one.class_ != _JUDGES]),
        "evidence": {what: some for what, some in evidence.items() if some["faults"]},
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def holds(scores: dict[str, Any]) -> bool:
    """Whether all that is promised of triage holds."""
    every = scores["all"]
    enough = all(every[name] is None or every[name] >= BARS[name] for name in ("class", "stage", "small"))
    return enough and (every["seconds"] is None or every["seconds"] <= BARS["seconds"])


def in_fair_order(faults: Sequence[Fault]) -> list[Fault]:
    """The faults in an order that has nothing to do with their files or classes, so that the first of them stand for
    all."""
    return sorted(faults, key=lambda fault: hashlib.sha256(fault.id.encode()).digest())


def run(
    faults: Sequence[Fault],
    *,
    jobs: int,
    caches: Path,
    fresh: bool = False,
    minutes: float | None = None,
    told: Callable[[Triaged], None],
) -> list[Triaged]:
    """Plant each fault in a copy, look for a failing call there, and diagnose it, `jobs` at a time.

    A process gets the copy and the device: neither class nor stage, neither file nor line of the fault. Results count
    again while the code and the fault are the same, unless `fresh`. `told` hears each one as it ends. After `minutes`
    no fault is begun: what was not tried is missing from the answer.
    """
    found: dict[str, Triaged] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mxassay-triage-") as name:
        folder = Path(name).resolve()
        tree = snapshot(folder / "original")
        code = tree.digest(without=("tests/", "properties/faults/"))
        for fault in faults:
            tree.check_fits(fault)

        def one(fault: Fault) -> Triaged | None:
            if minutes is not None and time.monotonic() - begun > 60 * minutes:
                return None
            key = json.dumps([code, fault.file, fault.find, fault.replace, fault.device])
            kept = caches / "triage" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
            if kept.exists() and not fresh:
                return Triaged(**json.loads(kept.read_text(encoding="utf-8")))
            root = folder / kept.stem  # not the fault's name, which would be in every path
            try:
                result = _triaged(fault, tree.planted(fault, root), caches / "triton")
            finally:
                shutil.rmtree(root, ignore_errors=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(asdict(result)), encoding="utf-8")
            return result

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for future in as_completed([pool.submit(one, fault) for fault in in_fair_order(faults)]):
                    result = future.result()
                    if result is not None:
                        found[result.id] = result
                        told(result)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                processes.stop()
    return [found[fault.id] for fault in faults if fault.id in found]


def _triaged(fault: Fault, tree: Tree, compiled: Path) -> Triaged:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "HYPOTHESIS_"))}
    environment |= {
        "PYTHONPATH": str(tree.root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": str(compiled),
        "OMP_NUM_THREADS": "1",
    }
    words = ["-m", "mxassay", "triage", "--device", fault.device, "--no-history", "--json"]
    words += ["--save", str(tree.root / "case.json")]
    known = (fault.id, fault.class_, fault.stage)
    code, *said = processes.run(words, tree.root, environment, LIMIT, _LOADED)
    stdout, stderr = (text.replace(f"{tree.root}/", "") for text in said)
    if code is None:
        return Triaged(*known, False, sentence=f"no answer within {LIMIT:.0f} s")
    try:
        diagnosis = json.loads(stdout)["diagnosis"]
    except (ValueError, KeyError):
        last = stderr.strip().splitlines()
        return Triaged(*known, False, sentence=last[-1] if last else f"exit code {code}")
    if diagnosis is None:
        return Triaged(*known, False, sentence="no call that was tried fails")
    failure = diagnosis["failure"]
    return Triaged(
        *known,
        True,
        diagnosis["class"],
        diagnosis["stage"],
        failure["wrong"] is not None,
        diagnosis["size"]["tiles"],
        diagnosis["size"]["elements"],
        diagnosis["seconds_from_failure"],
        diagnosis["processor_seconds_from_failure"],
        diagnosis["sentence"],
        failure["property"],
        failure["error"],
    )
