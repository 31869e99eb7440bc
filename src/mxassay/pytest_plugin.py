"""pytest options, fixtures and verdicts. Loaded with every pytest run, so it imports neither torch nor triton."""

import gc
import importlib
import json
import os
import shlex
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis.errors import Flaky, Unsatisfiable

from mxassay.declaration import ROW_MAJOR, Declaration, multiples_of, settled
from mxassay.devices import DEVICES, Device, device
from mxassay.errors import MxassayError, UnsupportedError
from mxassay.kernels import Shape
from mxassay.profiles import SEED, load, loaded, seed_in_force, settle_seed

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

_MARKED = {
    "mi355x": "needs a real MI355X (gfx950)",
    "cuda": "needs a CUDA GPU",
}
_PROPERTY = "mx_property"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The kernel under test, where it runs, and how much; like the options of `mxassay check`."""
    group = parser.getgroup("mxassay")
    add = group.addoption
    add("--mx-kernel", help="kernel under test: module:attr, path.py:attr, path.py or path.co (default: our own)")
    add("--mx-abi", help="its ABI: mxfp4-gemm, gpumode or aiter-a4w4 (default: told from the name)")
    add("--mx-dialect", help="quantization dialect it implements (default: what it declares, else even)")
    add("--mx-multiples", help="M,N,K: it takes multiples of these (default: what it declares, else 1,16,64)")
    add("--mx-aiter", metavar="PATH", help="root of an aiter checkout, for kernels that import aiter")
    add("--mx-tile", metavar="MxN", help="tile of a code object whose name does not say it")
    add("--mx-device", default="auto", help=f"device to run kernels on: auto, {', '.join(DEVICES)} (default: auto)")
    add("--mx-profile", choices=("quick", "thorough", "nightly"), help="how many examples (default: quick)")
    add("--mx-seed", type=int, help="what examples are drawn from (default: fixed for quick, else drawn and printed)")
    add("--mx-database", metavar="PLACE", help="failing examples: a folder (default: .hypothesis) or redis://HOST/DB")
    add("--mx-save", metavar="DIR", help="write a case file for each property that fails, for `mxassay triage`")
    add("--mx-verdicts", metavar="FILE", help="write what became of each property as JSON")
    add("--mx-history", metavar="FILE", help="keep the verdicts here (default: MXASSAY_HISTORY, or the user's)")
    add("--mx-no-history", action="store_true", help="keep no verdicts")


def pytest_configure(config: pytest.Config) -> None:
    """Markers; the profile; torch's threads wait without spinning."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers are the parallelism
    for name, need in _MARKED.items():
        config.addinivalue_line("markers", f"{name}: {need}; skipped elsewhere, with the reason")
    words = "the property of mxassay.properties.catalogue that it claims, and roughly what it takes"
    config.addinivalue_line("markers", f"{_PROPERTY}(id, seconds=0): {words}")
    profile, database = config.getoption("--mx-profile"), config.getoption("--mx-database")
    try:
        if profile or database:
            load(profile or loaded(), database)
        _told(config)
        if config.getoption("--mx-history"):  # who names a file wants to know at once
            from mxassay.triage.versions.history import History

            History(Path(config.getoption("--mx-history"))).close()
    except MxassayError as error:
        raise pytest.UsageError(str(error)) from error
    if not hasattr(config, "workerinput"):  # workers find it in their environment
        seed, other = config.getoption("--mx-seed"), str(config.getoption("--hypothesis-seed", None))
        settle_seed(int(other) if seed is None and loaded() != "quick" and other.isdigit() else seed)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Verdicts(config), "mxassay-verdicts")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the chosen device can't run."""
    chosen = config.getoption("--mx-device")
    for item in items:
        for name, need in _MARKED.items():
            if item.get_closest_marker(name) and chosen != name:
                item.add_marker(pytest.mark.skip(reason=f"{need}: run with --mx-device {name}"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = _dealt(items, workers)


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in shares, one behind the other, as pytest-xdist deals them when they are stolen later: in each the
    longest first, so that no worker is left with one at the end, then neighbours, which share compiled kernels."""

    def seconds(item: pytest.Item) -> float:
        marker = item.get_closest_marker(_PROPERTY)
        return float(marker.kwargs.get("seconds", 0)) if marker else 0.0

    long = sorted(filter(seconds, items), key=seconds, reverse=True)
    rest = [item for item in items if not seconds(item)]
    ends = [len(rest) * share // workers for share in range(workers + 1)]
    return [item for share in range(workers) for item in (*long[share::workers], *rest[ends[share] : ends[share + 1]])]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """What the properties among the tests are drawn from, to repeat the run."""
    count = sum(_claimed(item) is not None for item in items)
    words = f"mxassay: {count} tests of properties, profile {loaded()}, --mx-seed {seed_in_force()}"
    return [words] if count else []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip properties that don't apply to the kernel under test, with the reason."""
    name = _claimed(item)
    if name is None:
        return
    from mxassay.properties.catalogue import CATALOGUE, NEEDS

    # Outside the root folder a node id has no file in it.
    item.user_properties += [(_PROPERTY, name), ("mx_test", f"{item.path.name}::{item.nodeid.split('::', 1)[-1]}")]
    lacking = [need for need in CATALOGUE[name].needs if need not in _features(item.config)]
    if lacking:
        pytest.skip("; ".join(f"needs {NEEDS[need]}" for need in lacking))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Tell the checks which property runs, and count its examples."""
    name = _claimed(item)
    if name is None:
        return (yield)
    from mxassay.properties.catalogue import CATALOGUE
    from mxassay.properties.claims import Running, running

    vars(running).update(vars(Running(CATALOGUE[name], 0, _replay(item))))
    try:
        return (yield)
    except Unsatisfiable:
        if not running.refusal:
            raise
        pytest.skip(f"the kernel refuses every shape that was drawn; at last: {running.refusal}")
    except Flaky as error:
        from mxassay.properties.checks import unrepeatable

        raise unrepeatable() or error from error
    finally:
        item.user_properties.append(("mx_examples", max(running.examples, 1)))
        if _keeps_history(item.config):
            item.user_properties.append(("mx_kernel", _identity(item.config)))
        running.property = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Keep what a property that failed says, write its last call as a case file, and say so beside the failure."""
    report: pytest.TestReport = yield
    folder = item.config.getoption("--mx-save")
    name = _claimed(item)
    if name is None or not report.failed or call.excinfo is None:
        return report
    report.user_properties.append(("mx_message", _said(call.excinfo.value)))
    if folder and report.when == "call":
        from mxassay.triaging import save_property

        place = save_property(name, call.excinfo.value, item.config.getoption, Path(folder))
        report.sections.append(("mxassay", f"case in {place}; find the cause with `mxassay triage {place}`"))
    return report


def _claimed(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker(_PROPERTY)
    return marker.args[0] if marker else None


def _told(config: pytest.Config) -> Declaration:
    """What holds for the kernel: options first, then what it declares."""
    multiples = config.getoption("--mx-multiples")
    return settled(
        config.getoption("--mx-kernel"),
        config.getoption("--mx-dialect"),
        multiples_of(multiples) if multiples else None,
    )


def _features(config: pytest.Config) -> frozenset[str]:
    """What the session offers, in the words of `mxassay.properties.catalogue.NEEDS`."""
    name = config.getoption("--mx-device")
    if name == "auto":
        name = device("auto").name
    abi = config.getoption("--mx-abi") or _abi_of(config.getoption("--mx-kernel"))
    found = {"own"} if config.getoption("--mx-kernel") is None and abi == "mxfp4-gemm" else set()
    if name == "emulated":
        found |= {"emulated", "fpsan"} if _has_fpsan() else {"emulated"}
    if name in ("emulated", "mi355x"):
        found.add("scaled-mfma")
    if name == "cuda" and _is_hopper():
        found.add("hopper")
    if abi != "gpumode" or name != "emulated":
        found.add("same-process")
    if abi != "aiter-a4w4":
        found.add("quantizes")
    told = _told(config)
    found |= {layout for layout in (told.weights, told.scales) if layout != ROW_MAJOR}
    return frozenset(found)


def _abi_of(spec: str | None) -> str:
    from mxassay.loading import abi_of

    return abi_of(spec)


def _has_fpsan() -> bool:
    from triton import knobs

    return hasattr(knobs.compilation, "instrumentation_mode")


def _is_hopper() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def _replay(item: pytest.Item) -> str:
    where = f"mxassay.properties.{item.path.stem}::{'::'.join(item.nodeid.split('::')[1:])}"
    words = ["pytest", "--pyargs", where]
    for option in ("kernel", "abi", "dialect", "multiples", "aiter", "tile", "device", "profile"):
        value = item.config.getoption(f"--mx-{option}")
        if value:
            words += [f"--mx-{option}", value]
    if loaded() != "quick" or seed_in_force() != SEED:
        words += ["--mx-seed", str(seed_in_force())]
    return shlex.join(words)


@pytest.fixture(scope="session")
def mx_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device under test, open for the whole session. Ask for it before importing any kernel."""
    try:
        chosen = device(request.config.getoption("--mx-device"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with chosen.open():
        yield chosen


@pytest.fixture(scope="session")
def mx_kernel(request: pytest.FixtureRequest, mx_device: Device) -> "Iterator[KernelUnderTest]":
    """The kernel under test: a `mxassay.properties.kernel.KernelUnderTest`."""
    from mxassay.loading import Request, open_kernels
    from mxassay.properties.kernel import Contract, KernelUnderTest, put_under_test
    from mxassay.reference import dialect_named

    if mx_device.name == "emulated":
        # Raises the recursion limit when it is first imported; Hypothesis warns of that inside a test.
        importlib.import_module("tinygrad.renderer.amd")
    option = request.config.getoption
    tile = tuple(int(size) for size in option("--mx-tile").split("x")) if option("--mx-tile") else None
    wanted = Request(
        spec=option("--mx-kernel"),
        abi=option("--mx-abi"),
        dialect=dialect_named(str(_told(request.config).dialect)).name,
        device=mx_device.name,
        aiter=option("--mx-aiter"),
        tile=tile,  # type: ignore[arg-type]
    )
    with open_kernels(wanted) as kernels:
        if len(kernels) != 1:
            raise MxassayError(
                f"--mx-kernel must name one kernel, not {len(kernels)}; give the path of one code object"
            )
        found = KernelUnderTest(
            kernels[0],
            mx_device.name,
            mx_device.tensors_on,
            Contract(*_told(request.config).takes, shapes=_told(request.config).shapes or _apart(kernels[0].abi)),
            own="own" in _features(request.config),
        )
        put_under_test(found)
        with _seldom_collected():
            yield found


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Inside the block the garbage collector leaves alone what is loaded by now, torch and Triton above all, and looks
    at the rest a tenth as often: decoding kernels makes many objects that stay, and it took a sixth of the time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(10 * before[0], *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _apart(abi: str) -> tuple[Shape, ...]:
    """The shapes that a kernel of this ABI may well treat apart: the contest's, of a contest file."""
    from mxassay.optimized import LEADERBOARD, TEST_SHAPES

    return (*LEADERBOARD, *TEST_SHAPES) if abi == "gpumode" else ()


def _keeps_history(config: pytest.Config) -> bool:
    """Planted faults are run by pytest too, and must leave no trace among the verdicts on our kernels."""
    return not config.getoption("--mx-no-history") and "MXASSAY_WITNESS" not in os.environ


_IDENTITY = pytest.StashKey[dict[str, Any]]()


def _identity(config: pytest.Config) -> dict[str, Any]:
    """Who the kernel is, which only a process that has loaded it can tell, and where it ran; found once."""
    if _IDENTITY not in config.stash:
        from mxassay.recording import file_of
        from mxassay.triage.versions.identity import identity_of

        spec = config.getoption("--mx-kernel")
        who = identity_of(spec or "mxassay.optimized:matmul", file_of(spec))
        config.stash[_IDENTITY] = vars(who) | {"device": device(config.getoption("--mx-device")).name}
    return config.stash[_IDENTITY]


class _Verdicts:
    """Collects what became of each property; when the session ends it goes into the history, and as JSON into a file
    where one is named. Registered in one process, which with xdist is the one that sees all reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, dict[str, Any]] = {}
        self._begun: dict[str, dict[str, Any]] = {}  # what setups told, by node id
        self._kernel: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Where a worker of pytest-xdist died in a test, its report says no more than that.
        known: dict[str, Any] = dict(report.user_properties) or self._begun.get(report.nodeid, {})
        self._kernel = known.get("mx_kernel", self._kernel)
        if _PROPERTY not in known or report.when == "teardown":
            return
        if report.when == "setup" and report.passed:
            self._begun[report.nodeid] = known
            return
        verdict = {"passed": "PASS", "skipped": "UNSUPPORTED"}.get(report.outcome) or (
            "FAIL" if report.when == "call" and "PropertyError" in str(report.longrepr) else "ERROR"
        )
        self._records[str(known["mx_test"])] = {
            "property": known[_PROPERTY],
            "test": known["mx_test"],
            "verdict": verdict,
            "examples": known.get("mx_examples", 0),
            "seconds": round(report.duration, 3),
            "message": _message(report),
        }

    def pytest_sessionfinish(self) -> None:
        named = self._config.getoption("--mx-verdicts")
        if named:
            Path(named).write_text(json.dumps(list(self._records.values()), indent=2))
        if self._kernel and _keeps_history(self._config):
            from mxassay.recording import keep_properties

            keep_properties(
                list(self._records.values()),
                self._kernel,
                str(_told(self._config).dialect),
                loaded(),
                self._config.getoption("--mx-history"),
            )


def _message(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(dict(report.user_properties).get("mx_message") or str(report.longrepr)[-4000:])


def _said(error: BaseException) -> str:
    """What an error says, with its notes; of a group, what each of its errors says."""
    if isinstance(error, BaseExceptionGroup):
        return "\n\n".join(map(_said, error.exceptions))
    return "".join(traceback.format_exception_only(error)).rstrip()
