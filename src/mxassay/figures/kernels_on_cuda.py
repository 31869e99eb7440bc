"""Our kernels on a CUDA GPU beside cuBLAS: captured graphs, a cold second-level cache, medians of turns."""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mxassay.errors import UnsupportedError
from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured

if TYPE_CHECKING:
    import torch

__all__ = ["in_turn", "measure"]

_EACH_BAR, _MEAN_BAR = 1.2, 0.8  # of cuBLAS bf16's time
_FLUSH_BYTES = 1 << 28  # more than any GPU's second-level cache
_TURNS = 20  # for each repeat that the user wants
# Bytes a second of device memory, by name: NVIDIA's data sheets of H100 SXM, H200 SXM and A100 80 GB.
_MEMORY = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.04e12}


def measure(wish: Wish) -> Measured:
    """For each leaderboard shape: `matmul` from bfloat16 activations and MXFP4 weights over bfloat16 cuBLAS, by
    microseconds of a graph's replay, in turn, after a flush of the cache; and the share of the memory's peak rate that
    ours reaches.

    Raises UnsupportedError without a CUDA GPU.
    """
    from mxassay.devices import DEVICES

    if reason := DEVICES["cuda"].unavailable():
        raise UnsupportedError(f"the gpu figures must have a CUDA GPU, not none: {reason}")
    import torch

    from mxassay.optimized import LEADERBOARD

    name = torch.cuda.get_device_name()
    figures, ratios = [], []
    for shape in LEADERBOARD:
        figure, share = _one(shape, wish.repeats * _TURNS, name)
        assert figure.ratio is not None
        ratios.append(figure.ratio)
        figures += [figure, *share]
    figures.append(
        Figure(
            id="time over cuBLAS bf16, six shapes",
            group="gpu",
            value=_mean(ratios),
            unit="",
            bar=_MEAN_BAR,
            low=min(ratios),
            high=max(ratios),
            note=f"geometric mean; {name}",
        )
    )
    return Measured(tuple(figures))


def _one(shape: tuple[int, int, int], turns: int, gpu: str) -> tuple[Figure, list[Figure]]:
    import torch

    from mxassay.cases import Case, build
    from mxassay.optimized import matmul

    problem = build(Case(shape), "cuda")
    x = problem.arguments
    wrong = int(problem.expectation.wrong(matmul(x.a, x.b_preshuffled, x.b_scales_shuffled).cpu()).sum())
    weights = x.b.t().contiguous().t()  # as torch.nn.Linear holds them
    one = torch.zeros(1, device="cuda")
    ours, blas, least = in_turn(
        {
            "ours": lambda: matmul(x.a, x.b_preshuffled, x.b_scales_shuffled),
            "blas": lambda: torch.nn.functional.linear(x.a, weights),
            "least": lambda: one.add_(1),
        },
        turns,
    )
    named = ",".join(map(str, shape))
    ratio = statistics.median(ours) / statistics.median(blas)
    figure = Figure(
        id=f"{named} time over cuBLAS bf16",
        group="gpu",
        value=ratio,
        unit="",
        bar=_EACH_BAR,
        low=min(ours) / statistics.median(blas),
        high=max(ours) / statistics.median(blas),
        repeats=turns,
        peer=f"cuBLAS {statistics.median(blas):.1f} us, ours {statistics.median(ours):.1f} us, adding 1 to a number "
        f"{statistics.median(least):.1f} us",
        ratio=ratio,
        note=f"{wrong} wrong outputs; {gpu}",
    )
    m, n, k = shape
    moved = 2 * m * k + n * k / 2 + n * k / 32 + 2 * m * n
    peak = next((rate for key, rate in _MEMORY.items() if key in gpu), None)
    share = []
    if peak:
        share.append(
            Figure(
                id=f"{named} share of the memory's peak",
                group="gpu",
                value=moved / (statistics.median(ours) * 1e-6) / peak,
                unit="",
            )
        )
    return figure, share


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def in_turn(calls: Mapping[str, Callable[[], Any]], turns: int) -> list[list[float]]:
    """Microseconds of each call's captured graph, one after the other, each after a flush."""
    import torch

    graphs = [_captured(call) for call in calls.values()]
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for graph, times in zip(graphs, found, strict=True):
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
    return found


def _captured(call: Callable[[], Any]) -> "torch.cuda.CUDAGraph":
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph
