"""All faults on trial: controls, workers, the score."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mxassay.errors import MxassayError
from mxassay.properties.faults import processes
from mxassay.properties.faults.cache import Cache
from mxassay.properties.faults.fault import Fault
from mxassay.properties.faults.record import known_killers
from mxassay.properties.faults.tree import Tree, snapshot
from mxassay.properties.faults.trial import JUDGES, Death, Setting, Trial, run_suite, run_usual, try_fault
from mxassay.properties.faults.usual import GATES

CONTROL_LIMIT = {"quick": 1200.0, "thorough": 7200.0}
"""Seconds that the unchanged copy may take. Its time sets the limit of the faulty ones."""

_PATIENCE = 4.0  # a faulty copy may take this many times as long as the unchanged one before it counts as hanging
_LEAST_LIMIT = 180.0
# A GPU may be lent by the minute. There the unchanged copy runs the tests that killed, and at the end.
_CONTROLLED_AFTERWARDS = ("cuda",)
_ITS_LIMIT = {"quick": 300.0, "thorough": 1800.0}

Told = Callable[[str, Trial | None], None]


@dataclass(frozen=True)
class Campaign:
    """What was run, and what became of each fault, in the order in which they were given."""

    profile: str
    code: str
    trials: tuple[Trial, ...]

    def score(self) -> dict[str, Any]:
        """How many of the faults without a proof of equivalence each way of testing kills, and its share of them.

        `suite` counts faults in what the suite judges, killed by the suite; `judges` those in what judges, killed by
        the suite or by the machinery's own tests; `with_tests` is both together. The gates count all. Faults that were
        killed in spite of a proof are listed in `refuted`, since the proof or the property is wrong.
        """
        counted = [trial for trial in self.trials if not trial.fault.equivalent]
        dead = [trial for trial in counted if trial.verdict == "killed"]
        of = {
            "suite": sum(trial.fault.stage not in JUDGES for trial in counted),
            "judges": sum(trial.fault.stage in JUDGES for trial in counted),
            **dict.fromkeys(("with_tests", *GATES), len(counted)),
        }
        killed = {
            "suite": sum(trial.fault.stage not in JUDGES for trial in dead),
            "judges": sum(trial.fault.stage in JUDGES for trial in dead),
            "with_tests": len(dead),
            **{gate: sum(not trial.gates[gate] for trial in counted) for gate in GATES},
        }
        return {
            "faults": len(counted),
            "equivalent": sum(trial.verdict == "equivalent" for trial in self.trials),
            "refuted": [t.fault.id for t in self.trials if t.fault.equivalent and t.verdict == "killed"],
            "of": of,
            "killed": killed,
            "share": {name: round(count / of[name], 4) if of[name] else None for name, count in killed.items()},
        }


def _nobody(what: str, trial: Trial | None) -> None:
    pass


def run(
    faults: Sequence[Fault],
    *,
    profile: str = "quick",
    seed: int = 0,
    jobs: int = 2,
    caches: Path,
    fresh: bool = False,
    told: Told = _nobody,
) -> Campaign:
    """Put every fault on trial, `jobs` at a time.

    First the unchanged copy must pass, on every device that the faults name: otherwise a failure would mean nothing. On
    `cuda` it must pass the tests that killed a fault, at the end. A profile other than quick is for the faults that
    quick leaves alive. Crashes count as kills, and so do hangs: four times as long as the unchanged copy takes.

    Args:
        caches: where results and compiled kernels are kept between runs. A result counts again while the fault, the
            code it depends on, the profile, the seed and the versions of what is used are the same.
        fresh: run again what is kept.
        told: called with a line for people, from any thread, and with each trial as it ends, from this one.

    Raises MxassayError when the unchanged copy fails; ContractError when a fault does not fit the code.
    """
    setting = Setting(profile, seed, caches / "triton", threads=max(1, (os.cpu_count() or 1) // jobs))
    found: dict[str, Trial] = {}
    killers = known_killers()
    with tempfile.TemporaryDirectory(prefix="mxassay-faults-") as name:
        folder = Path(name).resolve()
        tree = snapshot(folder / "original")
        for fault in faults:
            tree.check_fits(fault)
        cache = Cache(caches / "results", tree, fresh=fresh)
        limits: dict[str, dict[str, float]] = {}
        for device in sorted({fault.device for fault in faults}):
            control = partial(_control, device, tree, setting, cache, folder, told)
            limits[device] = _ITS_LIMIT if device in _CONTROLLED_AFTERWARDS else Limits(control)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda known: known["quick"], limits.values()))

        def put_on_trial(fault: Fault) -> Trial:
            root = folder / fault.id
            try:
                plant = partial(_plant, tree, root)
                return try_fault(fault, plant, setting, cache, limits[fault.device], killers.get(fault.id, ""))
            finally:
                shutil.rmtree(root, ignore_errors=True)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for future in as_completed([pool.submit(put_on_trial, fault) for fault in faults]):
                    trial = future.result()
                    found[trial.fault.id] = trial
                    told("planting", trial)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                processes.stop()
                raise
        for device in limits.keys() & set(_CONTROLLED_AFTERWARDS):
            deaths = [trial.suite for trial in found.values() if trial.fault.device == device]
            _control_of([death for death in deaths if death.by is not None], device, tree, setting, folder, told)
    processes.stop()
    return Campaign(profile, cache.code, tuple(found[fault.id] for fault in faults))


def _control_of(deaths: list[Death], device: str, tree: Tree, setting: Setting, folder: Path, told: Told) -> None:
    """The unchanged copy must pass the tests that killed a fault, and the gates; all tests, where a fault died of the
    time that all took, or before any began."""
    told(f"the unchanged copy on {device}, what killed", None)
    control = tree.planted(None, folder / f"control-{device}")
    of_all = any(death.how == "timeout" or "::" not in death.test for death in deaths)
    only = [] if of_all else sorted({death.test for death in deaths})
    suite = run_suite(control, device, setting, _ITS_LIMIT[setting.profile], only=only) if deaths else Death(None)
    if suite.by is not None:
        raise MxassayError(
            f"{suite.by} must pass without a planted fault, not fail on {device} ({suite.how}): {suite.message}; mend "
            "that first, since faults counted as killed by it"
        )
    usual = run_usual(control, device, setting, _ITS_LIMIT[setting.profile])
    if not all(usual["passed"].values()):
        raise MxassayError(f"the usual tests must pass without a planted fault, not fail: {usual['message']}")


def _plant(tree: Tree, root: Path, fault: Fault | None) -> Tree:
    return tree.planted(fault, root / ("changed" if fault else "unchanged"))


class Limits(dict[str, float]):
    """Seconds after which a faulty copy hangs, by profile. The unchanged copy must pass a profile before a fault is
    tried in it, and is asked when the first one comes that far: faults that quick kills need no more of it.
    """

    def __init__(self, control: Callable[[str], float]) -> None:
        super().__init__()
        self._control = control
        self._one_at_a_time = threading.Lock()

    def __missing__(self, profile: str) -> float:
        with self._one_at_a_time:
            if profile not in self.keys():
                self[profile] = max(_LEAST_LIMIT, _PATIENCE * self._control(profile))
            return self[profile]


def _control(device: str, tree: Tree, setting: Setting, cache: Cache, folder: Path, told: Told, profile: str) -> float:
    """Seconds of the unchanged copy. Leaves the kernels that no fault touches in Triton's cache."""
    setting = replace(setting, profile=profile)
    how: dict[str, object] = {"profile": setting.profile, "seed": setting.seed, "device": device}
    seconds, passed = cache.recall("suite", None, **how), cache.recall("gates", None, device=device)
    if seconds is not None and passed:
        return float(seconds)
    told(f"the unchanged copy on {device}, {setting.profile}", None)
    control = tree.planted(None, folder / f"control-{device}-{setting.profile}")
    if seconds is None:
        suite = run_suite(control, device, setting, CONTROL_LIMIT[setting.profile])
        if suite.by is not None:
            raise MxassayError(
                f"the suite must pass without a planted fault, not fail {suite.by} on {device} ({suite.how}): "
                f"{suite.message}; mend that first, since every fault would count as killed"
            )
        seconds = suite.seconds
        cache.keep("suite", None, seconds, **how)
    if not passed:
        usual = run_usual(control, device, setting, CONTROL_LIMIT[setting.profile])
        if not all(usual["passed"].values()):
            raise MxassayError(f"the usual tests must pass without a planted fault, not fail: {usual['message']}")
        cache.keep("gates", None, True, device=device)
    return float(seconds)
