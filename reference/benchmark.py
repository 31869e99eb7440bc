"""The speed of the reference beside its peers, measured in one run."""

import importlib
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from mxassay.reference.exactness import expectation
from mxassay.reference.quantizer import Quantized, quantize

# (M, N, K) of the GPU MODE amd-mxfp4-mm leaderboard.
LEADERBOARD = (
    (4, 2880, 512),
    (16, 2112, 7168),
    (32, 4096, 512),
    (32, 2880, 512),
    (64, 7168, 2048),
    (256, 3072, 1536),
)

QUANTIZE_SHAPE = (4096, 4096)

_QUANTIZE_BAR_MS = 60.0
_LEADERBOARD_BAR_S = 3.0
_TEMPORARIES_BAR = 10.0


def figures(repeats: int = 5) -> list[dict[str, Any]]:
    """Measure, in this process, on the threads that torch has. Not for use while other threads run torch.

    On a busy machine torch's threads wait for each other longer than they work: there the figure of one thread tells
    more, and OMP_WAIT_POLICY=passive, set before torch is imported, helps the others.

    Returns one dict per figure: `id`, `value` (the median of `repeats` runs after one to warm up), `low` and `high` (of
    the runs), `unit`, `bar` (the most that we promise on two idle cores) and `holds`; and one for each peer of the
    quantizer, which runs in turn with it: `value` (ours), `peer` (its name, version and median) and `ratio` (its time
    over ours). A peer that is not installed has ratio None.

    Figures: quantizing 4096x4096 bfloat16, on all threads and on one; the six leaderboard references together (quantize
    A, then exact product, certificate and bound), in seconds; the peak of memory in MB per MB of input for both,
    outputs included.
    """
    x = torch.randn(*QUANTIZE_SHAPE, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    prepared = {
        name: _prepared(name, prepare, x) for name, prepare in (("torchao", _torchao), ("ml_dtypes", _ml_dtypes))
    }
    calls = {"ours": lambda: quantize(x)} | {name: call for name, call in prepared.items() if call is not None}
    seconds = _in_turn(calls, repeats)
    rows = [_figure("quantize 4096x4096 bf16", seconds["ours"], 1e3, "ms", _QUANTIZE_BAR_MS)]
    rows += [_peer_row(name, seconds["ours"], seconds.get(name)) for name in prepared]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = _in_turn({"ours": calls["ours"]}, repeats)["ours"]
    finally:
        torch.set_num_threads(threads)
    rows.append(_figure("quantize 4096x4096 bf16, one thread", alone, 1e3, "ms", None))
    problems = [_problem(*shape) for shape in LEADERBOARD]
    whole = _in_turn({"all": lambda: [_reference(*problem) for problem in problems]}, repeats)["all"]
    rows.append(_figure("six leaderboard references", whole, 1.0, "s", _LEADERBOARD_BAR_S))
    temporaries = [_peak(lambda: quantize(x)) / x.nbytes]
    rows.append(_figure("quantize, temporaries", temporaries, 1.0, "MB/MB", _TEMPORARIES_BAR))
    worst = [max(_peak(partial(_reference, *problem)) / _bytes(*problem) for problem in problems)]
    rows.append(_figure("leaderboard reference, temporaries", worst, 1.0, "MB/MB", _TEMPORARIES_BAR))
    return rows


def _figure(name: str, runs: list[float], scale: float, unit: str, bar: float | None) -> dict[str, Any]:
    value = statistics.median(runs) * scale
    row = {"id": name, "value": value, "unit": unit, "repeats": len(runs)}
    if len(runs) > 1:
        row |= {"low": min(runs) * scale, "high": max(runs) * scale}
    return row if bar is None else row | {"bar": bar, "holds": value <= bar}


def _prepared(
    name: str, prepare: Callable[[torch.Tensor], Callable[[], object]], x: torch.Tensor
) -> Callable[[], object] | None:
    """The peer's call, or None where it is not installed."""
    try:
        version(name)
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            return prepare(x)
    except (PackageNotFoundError, ImportError):
        return None


def _peer_row(name: str, ours: list[float], theirs: list[float] | None) -> dict[str, Any]:
    row = _figure(f"quantize 4096x4096 bf16, beside {name}", ours, 1e3, "ms", None)
    if theirs is None:
        return row | {"peer": f"{name}: not installed", "ratio": None}
    median = statistics.median(theirs)
    return row | {"peer": f"{name} {version(name)}: {median * 1e3:.0f} ms", "ratio": median / statistics.median(ours)}


def _torchao(x: torch.Tensor) -> Callable[[], object]:
    """torchao's eager EVEN quantizer: the same bytes."""
    mx = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    return lambda: mx.to_mx(x, torch.float4_e2m1fn_x2, 32, scaling_mode=mx.ScaleCalculationMode.EVEN)


def _ml_dtypes(x: torch.Tensor) -> Callable[[], object]:
    """ml_dtypes has the element conversion alone; amax, scale, division and packing around it are numpy's."""
    ml_dtypes = importlib.import_module("ml_dtypes")
    np = importlib.import_module("numpy")
    blocks = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16).reshape(-1, 32)

    def call() -> object:
        values = blocks.astype(np.float32)
        amax = np.abs(values).max(axis=1).view(np.int32)
        field = np.maximum((amax + 0x200000 >> 23) - 2, 1)
        values *= ((254 - field) << 23).astype(np.int32).view(np.float32)[:, None]
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
        return codes[:, 0::2] | codes[:, 1::2] << 4, field.astype(np.uint8)

    return call


def _problem(m: int, n: int, k: int) -> tuple[torch.Tensor, Quantized]:
    generator = torch.Generator().manual_seed(m * n + k)
    a = torch.randn(m, k, generator=generator).to(torch.bfloat16)
    return a, quantize(torch.randn(n, k, generator=generator).to(torch.bfloat16))


def _reference(a: torch.Tensor, weights: Quantized) -> object:
    return expectation(*quantize(a), *weights)


def _bytes(a: torch.Tensor, weights: Quantized) -> int:
    return a.nbytes + weights.packed.nbytes + weights.scales.nbytes


def _in_turn(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every call, once to warm up and then all in turn, so that a drifting machine is fair to all."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def _peak(call: Callable[[], object]) -> int:
    """The most bytes that torch's CPU allocator held at once for `call`, by the profiler's own record."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    sizes = sorted((e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]")
    held = peak = 0
    for _, size in sizes:
        held += size
        peak = max(peak, held)
    return peak
