"""A failing product: everything that is needed to compute it again, anywhere."""

from dataclasses import dataclass

import torch

from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands


@dataclass(frozen=True)
class Subject:
    """How to open the kernel, in the words of the command line.

    Attributes:
        spec: `module:attr`, `path.py:attr`, `path.py` or `path.co`; None for our own kernel.
        abi: as `mxassay check --abi`.
        device: name of the device it failed on.
        aiter: root of an aiter checkout, or None.
        tile: (tile_m, tile_n) of a code object whose name does not say it, or None.
    """

    spec: str | None = None
    abi: str = "mxfp4-gemm"
    device: str = "emulated"
    aiter: str | None = None
    tile: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Failure:
    """One call that gave a wrong output.

    Attributes:
        subject: the kernel and the device.
        operands: activations, weights and dialect, in linear form.
        launch: entry point and plan.
        placement: padding bytes and strides.
        out: bfloat16 (M, N), what came out; None where the kernel raised.
        property: id of the property that failed.
        error: what the kernel raised, or what else than the outputs is wrong; "" otherwise.
    """

    subject: Subject
    operands: Operands
    launch: Launch
    placement: Placement
    out: torch.Tensor | None
    property: str = "gemm-agreement"
    error: str = ""


def is_call(failure: Failure) -> bool:
    """Whether there is a product to make again; False where a stage by itself, or a judge, gave the wrong answer."""
    return failure.out is not None or bool(failure.operands.a.any()) or bool(failure.operands.codes.any())
