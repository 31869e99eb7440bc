"""The reference's speed beside its peers: quantizing, eager and compiled, the leaderboard, the conversion sweep."""

import logging
import os
import warnings
from typing import Any

from mxassay.figures.figure import Figure, Wish
from mxassay.figures.groups import Measured
from mxassay.figures.measure import interleaved

_COMPILED_BAR_MS = 25.0
_SWEEP_BAR_S = 5.0


def measure(wish: Wish) -> Measured:
    """What `reference.benchmark` measures, and the compiled quantizer and the exhaustive sweep of conversions."""
    # torch's profiler and torchao's import both talk on standard error about themselves.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    from mxassay.reference.benchmark import figures

    rows = [Figure(group="reference", **_fields(row)) for row in figures(wish.repeats)]
    return Measured((*rows, _compiled(wish), _sweep(wish)))


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in row.items() if key != "holds"}


def _compiled(wish: Wish) -> Figure:
    import torch

    from mxassay.reference import quantize
    from mxassay.reference.benchmark import QUANTIZE_SHAPE

    x = torch.randn(*QUANTIZE_SHAPE, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = torch.compile(quantize)
        same = all(map(torch.equal, call(x), quantize(x)))
        found = interleaved({"compiled": lambda: call(x), "eager": lambda: quantize(x)}, wish.repeats)
    eager = found["eager"].median
    return Figure(
        id="quantize 4096x4096 bf16, compiled",
        group="reference",
        unit="ms",
        bar=_COMPILED_BAR_MS,
        peer=f"eager: {eager * 1e3:.0f} ms",
        ratio=found["compiled"].median / eager,
        note="torch.compile; the same bytes" if same else "OTHER BYTES than eager",
        **found["compiled"].row(1e3),
    )


def _sweep(wish: Wish) -> Figure:
    from mxassay.figures.conversion_sweep import sweep

    return Figure(
        id="every bf16 under 254 scales, emulated and compared",
        group="reference",
        unit="s",
        bar=_SWEEP_BAR_S,
        note="65,536 x 254 codes of v_cvt_scalef32_pk_fp4_bf16",
        **interleaved({"sweep": sweep}, wish.repeats)["sweep"].row(),
    )
