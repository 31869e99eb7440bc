"""The tests that most kernels get, for comparison: randn through allclose, a ratio gate, a cosine gate.

    python -m mxassay.properties.faults.usual --device emulated    # one JSON object

On the contest's test shapes: through the contest's entry point, with the plans chosen for them, and where such a plan
takes a kernel of its own, once more with that plan on the usual kernel, so that no fault goes unseen only because its
kernel never ran. The expected outputs are a float32 product of the dequantized operands, which the reference quantizes:
what a careful author of such a test does.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError

if TYPE_CHECKING:
    import torch

GATES = ("usual_test", "ratio_gate", "cosine_gate")
"""allclose(rtol=1e-2, atol=1e-2) of all outputs; at least 95 % of outputs within that; cosine of at least 0.99."""

RUNS = ("with its own plan", "with that plan on the usual kernel")
"""What is run on a shape."""

_TOLERANCE = 1e-2
_RATIO = 0.95
_COSINE = 0.99
# Triton's interpreter takes minutes for a contest shape: two tiles of the tallest plan and a part of a third.
_INTERPRETED = (33, 272)


def measure(device: str) -> dict[str, Any]:
    """Run the three gates. Returns `passed`, a bool for each of GATES, and `message`: the first thing that was wrong.

    A gate passes where it passes every run. A kernel that raises fails all three. Stops at the first run after which
    no gate can pass.
    """
    passed, message = dict.fromkeys(GATES, True), ""
    try:
        with _opened(device):
            from mxassay.optimized import TEST_SHAPES

            for m, n, k in TEST_SHAPES:
                shape = (min(m, _INTERPRETED[0]), min(n, _INTERPRETED[1]), k) if device == "interpreter" else (m, n, k)
                for words, found in _runs(*shape, "cuda" if device == "cuda" else "cpu"):
                    if not message and not all(found.values()):
                        message = f"M,N,K = {shape} {words}"
                    passed = {gate: passed[gate] and found[gate] for gate in GATES}
                    if not any(passed.values()):
                        return {"passed": passed, "message": message}
    except Exception as error:
        passed, message = dict.fromkeys(GATES, False), f"{type(error).__name__}: {str(error)[:300]}"
    return {"passed": passed, "message": message}


def _runs(m: int, n: int, k: int, where: str = "cpu") -> Iterator[tuple[str, dict[str, bool]]]:
    """Of each run on a shape what was run and which gates pass, on one set of operands: the contest's entry point, and
    where it takes a kernel made for some launches, the one that takes all.
    """
    import torch

    from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
    from mxassay.optimized import custom_kernel, matmul, plan_for
    from mxassay.reference import dequantize, quantize

    generator = torch.Generator().manual_seed(m * n + k)
    a = torch.randn(m, k, generator=generator).to(torch.bfloat16)
    b = torch.randn(n, k, generator=generator).to(torch.bfloat16)
    weights = quantize(b)
    data = (a, b, weights.packed, WEIGHT_PRESHUFFLE.apply(weights.packed), SCALE_SHUFFLE.apply(weights.scales))
    expected = dequantize(*quantize(a)) @ dequantize(*weights).T
    x, y, packed, shuffled, scales = (tensor.to(where) for tensor in data)
    yield RUNS[0], _gates(custom_kernel((x, y, packed, shuffled, scales)), expected)
    plan = plan_for(m, n, k)
    if plan.direct:
        out = matmul(x, shuffled, scales, plan=replace(plan, direct=False, joined=False))
        yield RUNS[1], _gates(out, expected)


def _gates(out: "torch.Tensor", expected: "torch.Tensor") -> dict[str, bool]:
    import torch

    out = out.cpu().float()
    near = (out - expected).abs() <= _TOLERANCE + _TOLERANCE * expected.abs()
    cosine = float((out.double() * expected).sum() / (out.double().norm() * expected.double().norm()))
    return {
        "usual_test": torch.allclose(out, expected, rtol=_TOLERANCE, atol=_TOLERANCE),
        "ratio_gate": float(near.double().mean()) >= _RATIO,
        "cosine_gate": not math.isnan(cosine) and cosine >= _COSINE,
    }


@contextmanager
def _opened(device: str) -> Iterator[None]:
    if device == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"
        yield
    elif device == "emulated":
        from mxassay.gfx950 import emulated

        with emulated():
            yield
    elif device == "cuda":
        yield
    else:
        raise ContractError(f"device must be emulated, interpreter or cuda, not {device}")


def main() -> int:
    """Print what `measure` returns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("emulated", "interpreter", "cuda"), default="emulated")
    print(json.dumps(measure(parser.parse_args().device)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
