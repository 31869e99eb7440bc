"""One fault on trial: the suite, where needed the machinery's own tests, and the usual tests, each in a process."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mxassay.errors import MxassayError
from mxassay.properties.faults import processes
from mxassay.properties.faults.cache import Cache
from mxassay.properties.faults.fault import Fault
from mxassay.properties.faults.tree import Tree
from mxassay.properties.faults.usual import GATES
from mxassay.properties.faults.witness import FIRST, JOURNAL

JUDGES = ("layouts", "reference", "certificate", "checker")
"""Faults of these stages sit in what judges. The suite may be unable to see them; the tests of that folder must."""

# A judge that accepts too much passes every right kernel: here those tests are asked first, and the suite only if they
# see nothing.
_TESTS_FIRST = ("certificate", "checker")
_TESTS = {
    "layouts": "layouts",
    "reference": "reference",
    "src": "front",
    "gfx950": "gfx950/core",
    "properties": "properties",
}

# The tests most likely to see a fault of a stage. They go first, which changes what is waited for, not what is seen.
_TAILS = "test_memory.py::test_tails_reach_nothing_beside_the_arguments"
_JOINED_TAILS = "test_memory.py::test_tails_of_joined_sums_reach_nothing_beside_the_arguments"
_FAR = "test_memory.py::test_rows_that_lie_far_apart,test_memory.py::test_stages_whose_rows_lie_far_apart"
_BLOCKS = "test_blocks.py::test_any_block,test_blocks"
_PRODUCT = "test_gemm.py::test_certified_outputs_are_exact"
_PLANS = "test_results.py::test_partials_of_two_calls_lie_apart,test_split_k.py::test_each_k_is_counted_once"
_SPLITS = f"{_PLANS},test_split_k.py::test_partials_are_exact_and_add_up"
_FIRST = {
    "activations": "test_blocks.py::test_any_block,test_padding.py::test_strides_change_no_bit,"
    f"{_TAILS},{_FAR},test_blocks",
    "quantizer.scale": _BLOCKS,
    "quantizer.element": f"test_blocks.py::test_any_block,test_machine_code,{_BLOCKS},test_fused_quantizer",
    "pack": _BLOCKS,
    "weights.layout": f"{_PLANS},{_TAILS},test_layouts.py::test_the_weights_that_the_kernel_reads,{_PRODUCT}",
    "scales.layout": f"{_PLANS},test_special_values.py::test_scale_255_makes_a_column_nan,"
    "test_layouts.py::test_the_scales_that_the_kernel_reads,test_special_values.py::test_the_ends_of_the_scale_table,"
    f"test_gemm.py::test_every_scale_byte,test_padding.py::test_padding_bytes_change_no_bit,{_SPLITS},{_PRODUCT}",
    "k-loop": f"{_SPLITS},{_TAILS},{_PRODUCT}",
    "accumulate": f"{_PRODUCT},test_gemm",
    "store": f"test_split_k.py::test_the_reduce_kernel,{_PLANS},{_BLOCKS},{_PRODUCT},test_special_values,{_FAR}",
    "split-k": f"test_split_k.py::test_every_k_lies_in_one_split,{_SPLITS},{_TAILS}",
    "reduce": f"test_split_k.py::test_the_reduce_kernel,{_SPLITS},{_FAR},test_padding,{_PRODUCT}",
    "plan": f"test_contracts.py::test_every_shape_has_its_plan,{_SPLITS}",
    "launch": f"{_PLANS},{_BLOCKS},{_PRODUCT}",
    "tile-map": f"test_tile_map,{_PLANS}",
    "workspace": "test_results,test_state",
    "prepare": "test_results",
    "contract": "test_contracts,test_padding",
    "layouts": "test_layouts,test_formats",
    "reference": f"test_formats,{_BLOCKS},test_special_values.py::test_scale_255_makes_a_column_nan,test_gemm",
    "certificate": "test_gemm",
    "checker": "test_gemm,test_determinism",
}
_FIRST_IN = {
    "optimized/arrivals.py": "test_joined_sums",
    "optimized/direct_join.py": "test_joined_sums",
    "optimized/direct_gemm.py": f"test_gemm.py::test_layouts_by_hand,test_joined_sums,{_JOINED_TAILS}",
}
_FIRST_ON = {"cuda": "test_hopper"}


@dataclass(frozen=True)
class Setting:
    """What all trials of a campaign share.

    Attributes:
        profile: quick or thorough.
        seed: for Hypothesis, where the profile leaves it open.
        compiled: Triton's cache, by a hash of a kernel's source: a faulty kernel never meets another one's code.
        threads: OMP_NUM_THREADS of a trial.
    """

    profile: str
    seed: int
    compiled: Path
    threads: int


@dataclass(frozen=True)
class Death:
    """How a run of tests ended a fault, or that it did not.

    Attributes:
        by: the property, or the test where it claims none; None where all passed.
        how: failure, import, crash, timeout, or "".
        examples: of the test that failed, up to the first failing one.
        seconds: of the run up to the failure, with the tests first that killed it last time or suit its stage.
        message: first words of the failure.
        test: the test that failed, such as `test_gemm.py::test_signs`.
        profile: the one whose examples killed it, where that is another than was asked for.
    """

    by: str | None
    how: str = ""
    examples: int = 0
    seconds: float = 0.0
    message: str = ""
    test: str = ""
    profile: str = ""


@dataclass(frozen=True)
class Trial:
    """A fault and what became of it.

    Attributes:
        suite: what the suite made of it, where it was asked. tests: what the machinery's own tests did, likewise.
        gates: for each of GATES whether it would have let the fault pass. gates_message: what it saw first.
    """

    fault: Fault
    suite: Death
    tests: Death | None
    gates: dict[str, bool]
    gates_message: str = ""

    @property
    def death(self) -> Death:
        """The suite's, or where that survived, the tests'."""
        return self.tests if self.suite.by is None and self.tests is not None else self.suite

    @property
    def verdict(self) -> str:
        """killed, survived, or equivalent: a fault with a proof, which survived. One that was killed in spite of its
        proof is killed, and the proof or the property is wrong.
        """
        if self.death.by is not None:
            return "killed"
        return "equivalent" if self.fault.equivalent else "survived"

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        fault, death = self.fault, self.death
        return {
            "id": fault.id,
            "class": fault.class_,
            "file": fault.file,
            "stage": fault.stage,
            "device": fault.device,
            "why": fault.why,
            "verdict": self.verdict,
            "killed_by": death.by,
            "test": death.test,
            "profile": death.profile,
            "how": death.how,
            "by": "suite" if self.suite.by else "tests" if death.by else None,
            "examples": death.examples,
            "seconds": round(death.seconds, 1),
            "message": death.message,
            **{gate: "survived" if self.gates[gate] else "killed" for gate in GATES},
            "gates_message": self.gates_message,
            "equivalent": fault.equivalent or None,
        }


def try_fault(
    fault: Fault,
    plant: Callable[[Fault | None], Tree],
    setting: Setting,
    cache: Cache,
    limit: dict[str, float],
    first: str = "",
) -> Trial:
    """Put `fault` on trial. `plant` makes a copy with the fault in it, or without one, where something is not kept.

    The quick profile's examples come first in every profile, as in `mxassay check --profile`. A run longer than
    `limit` seconds, by profile, counts as hanging. `first` names tests to begin with, with commas.

    Raises MxassayError where one of the machinery's own tests sees the fault, and fails without it too.
    """
    planted: list[Tree] = []

    def tree() -> Tree:
        if not planted:
            planted.append(plant(fault))
        return planted[0]

    suite, tests = asdict(Death(None)), None
    if fault.stage in _TESTS_FIRST:
        tests = _tests(fault, tree, plant, setting, cache, limit["quick"])
    # What is proved to change nothing is tried once, in case the proof is wrong.
    for profile in dict.fromkeys(("quick", "quick" if fault.equivalent else setting.profile)):
        if suite["by"] is None and (tests is None or tests["by"] is None):
            suite = _suite(fault, tree, replace(setting, profile=profile), cache, limit[profile], first)
            suite["profile"] = profile if suite["by"] else ""
    if suite["by"] is None and tests is None and fault.stage in JUDGES:
        tests = _tests(fault, tree, plant, setting, cache, limit["quick"])
    gates = cache.recall("gates", fault, device=fault.device)
    if gates is None:
        gates = run_usual(tree(), fault.device, setting, limit[setting.profile])
        cache.keep("gates", fault, gates, device=fault.device)
    return Trial(fault, Death(**suite), Death(**tests) if tests else None, gates["passed"], gates["message"])


def _suite(
    fault: Fault, tree: Callable[[], Tree], setting: Setting, cache: Cache, limit: float, first: str
) -> dict[str, Any]:
    how: dict[str, object] = {"profile": setting.profile, "seed": setting.seed, "device": fault.device}
    known = cache.recall("suite", fault, **how)
    if known is None:
        likely = (first, _FIRST_ON.get(fault.device, ""), _FIRST_IN.get(fault.file, ""), _FIRST[fault.stage])
        order = ",".join(filter(None, likely))
        known = asdict(run_suite(tree(), fault.device, setting, limit, order))
        cache.keep("suite", fault, known, **how)
    return dict(known)


def _tests(
    fault: Fault,
    tree: Callable[[], Tree],
    plant: Callable[[Fault | None], Tree],
    setting: Setting,
    cache: Cache,
    limit: float,
) -> dict[str, Any]:
    known = cache.recall("tests", fault, device=fault.device)
    if known is None:
        known = asdict(run_tests(fault, tree(), setting, limit))
        if known["by"] is not None:
            without = run_tests(fault, plant(None), setting, limit, only=known["by"])
            if without.by is not None:
                raise MxassayError(
                    f"{known['by']} must pass without a planted fault, not fail ({without.how}): {without.message}; "
                    f"mend that first, since {fault.id} would count as killed"
                )
        cache.keep("tests", fault, known, device=fault.device)
    return dict(known)


def run_suite(
    tree: Tree, device: str, setting: Setting, limit: float, first: str = "", only: Sequence[str] = ()
) -> Death:
    """The suite on the copy's own kernel, up to the first failure.

    `first`: tests and chapters to begin with, with commas. `only`: no other tests than these, as `Death.test` names
    them.
    """
    asked = [f"mxassay.properties.{test.replace('.py::', '::', 1)}" for test in only] or ["mxassay.properties"]
    words = ["--pyargs", *asked, "--mx-device", device, "--mx-profile", setting.profile]
    return _pytest(tree, [*words, f"--hypothesis-seed={setting.seed}"], setting, limit, {FIRST: first})


def run_tests(fault: Fault, tree: Tree, setting: Setting, limit: float, only: str = "") -> Death:
    """The tests of the folder that the fault lies in, up to the first failure. An absent folder finds nothing.

    `only`: the one test, or what else failed of a session, as `Death.by` names it.
    """
    folder = tree.root / "tests" / _TESTS.get(fault.file.split("/")[0], "-")
    if not folder.is_dir():
        return Death(None)
    asked = [str(tree.root / only)] if "::" in only or only.endswith(".py") else [str(folder)]
    asked += ["--collect-only"] if only == "session" else []
    return _pytest(tree, [*asked, "--mx-device", fault.device], setting, limit, {})


def run_usual(tree: Tree, device: str, setting: Setting, limit: float) -> dict[str, Any]:
    """What `mxassay.properties.faults.usual.measure` returns in the copy. A crash and a hang pass no gate."""
    words = ["-m", "mxassay.properties.faults.usual", "--device", device]
    code, stdout, _ = _run(words, tree, setting, limit, {})
    try:
        found: dict[str, Any] = json.loads(stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"passed": dict.fromkeys(GATES, False), "message": "timeout" if code is None else f"exit code {code}"}
    return found


def _pytest(tree: Tree, words: list[str], setting: Setting, limit: float, extra: dict[str, str]) -> Death:
    journal = tree.root / "journal.jsonl"
    journal.unlink(missing_ok=True)
    command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "mxassay.pytest_plugin"]
    command += ["-p", "no:unraisableexception", "-p", "no:threadexception"]  # they collect all garbage at the end
    command += ["-p", "mxassay.properties.faults.witness", "-W", "ignore::pytest.PytestAssertRewriteWarning", *words]
    started = time.perf_counter()
    code, stdout, stderr = _run(command, tree, setting, limit, {JOURNAL: str(journal), **extra})
    seconds = time.perf_counter() - started
    if code == 0:
        return Death(None, seconds=seconds)
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    records = [json.loads(line) for line in lines]
    failed = next((r for r in records if r["event"] == "end" and r["outcome"] == "failed"), None)
    if failed is not None:
        how = "import" if failed["when"] == "collect" else "failure"
        return Death(_words(failed), how, failed["examples"], seconds, failed["message"], _test(failed))
    running = records[-1] if records and records[-1]["event"] == "start" else None
    if code is None or code < 0:
        how = "timeout" if code is None else f"crash: {signal.Signals(-code).name}"
        test = _test(running) if running else ""
        return Death(_words(running) if running else "session", how, 0, seconds, f"after {seconds:.0f} s", test)
    if running is not None:
        return Death(_words(running), "crash", 0, seconds, f"the process ended with code {code}", _test(running))
    if "Error" in stderr:  # a plugin or a conftest.py could not be imported
        return Death("session", "import", 0, seconds, stderr.strip().splitlines()[-1])
    raise MxassayError(f"pytest must run tests, not end with code {code}:\n{stdout[-2000:]}\n{stderr[-2000:]}")


def _words(record: dict[str, Any]) -> str:
    """The property's id, or the test's name from its folder on."""
    return str(record["property"] or str(record["test"]).removeprefix("properties/"))


def _test(record: dict[str, Any]) -> str:
    """The test's file and name, wherever pytest is rooted."""
    file, colons, name = str(record["test"]).partition("::")
    return Path(file).name + colons + name


def _run(
    words: list[str], tree: Tree, setting: Setting, limit: float, extra: dict[str, str]
) -> tuple[int | None, str, str]:
    """Exit code (None: killed after `limit` seconds), standard output and error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "HYPOTHESIS_"))}
    environment |= {
        "PYTHONPATH": str(tree.root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": str(setting.compiled),
        "OMP_NUM_THREADS": str(setting.threads),
        "PYTEST_ADDOPTS": "",
        **extra,
    }
    return processes.run(words, tree.root, environment, limit)
