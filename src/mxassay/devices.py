"""The devices a kernel can be checked on, behind one interface.

A process has one device: Triton decides when a kernel is *imported* whether it will be interpreted, so a device is
opened before any kernel is loaded and stays open while it is used.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from mxassay.errors import ContractError, UnsupportedError


@dataclass(frozen=True)
class Device:
    """Where kernels run.

    Attributes:
        name: the word for it on the command line.
        summary: one line for people.
        tensors_on: the torch device that inputs must live on.
        full_size: False where shapes are cut down because the device is slow.
        unavailable: returns why the device can't be used here, or None.
        open: context manager that makes it the device of this process.
    """

    name: str
    summary: str
    tensors_on: str
    full_size: bool
    unavailable: Callable[[], str | None]
    open: Callable[[], AbstractContextManager[None]]


def _always() -> str | None:
    return None


def _no_cuda() -> str | None:
    import torch

    if torch.version.hip is not None:
        return "torch is a ROCm build; use device mi355x"
    return None if torch.cuda.is_available() else "torch sees no CUDA GPU"


def _no_mi355x() -> str | None:
    import torch

    if torch.version.hip is None:
        return "torch is not a ROCm build"
    if not torch.cuda.is_available():
        return "torch sees no GPU"
    arch = torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]
    return None if arch == "gfx950" else f"the GPU is {arch}, not gfx950"


@contextmanager
def _interpreter() -> Iterator[None]:
    if "mxassay.optimized" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise UnsupportedError(
            "device must be interpreter before kernels are imported, not after; set TRITON_INTERPRET=1 "
            "in the environment or start a new process"
        )
    os.environ["TRITON_INTERPRET"] = "1"
    yield


@contextmanager
def _emulated() -> Iterator[None]:
    _refuse_interpreted("the emulated card")
    from mxassay.gfx950 import emulated

    with emulated():
        yield


def _refuse_interpreted(what: str) -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise UnsupportedError(
            f"TRITON_INTERPRET must be unset for {what}, not 1; unset it, or choose device interpreter"
        )


@contextmanager
def _gpu() -> Iterator[None]:
    _refuse_interpreted("a GPU")
    yield


DEVICES = {
    device.name: device
    for device in (
        Device("emulated", "an emulated MI355X: gfx950 machine code run on the CPU", "cpu", True, _always, _emulated),
        Device(
            "interpreter",
            "Triton's interpreter on the CPU, reduced M and N",
            "cpu",
            False,
            _always,
            _interpreter,
        ),
        Device("cuda", "a CUDA GPU, software pack", "cuda", True, _no_cuda, _gpu),
        Device("mi355x", "a real MI355X (gfx950) through HIP", "cuda", True, _no_mi355x, _gpu),
    )
}

# What `auto` tries, in this order.
AUTO = ("mi355x", "emulated")


def device(name: str) -> Device:
    """The device called `name`; `auto` picks the first of AUTO that is usable here.

    Raises:
        ContractError: no such device.
        UnsupportedError: it can't be used on this machine; the message says why.
    """
    if name == "auto":
        name = next(candidate for candidate in AUTO if DEVICES[candidate].unavailable() is None)
    if name not in DEVICES:
        raise ContractError(f"device must be one of auto, {', '.join(DEVICES)}, not {name}")
    chosen = DEVICES[name]
    if reason := chosen.unavailable():
        raise UnsupportedError(f"device {name} must be present, not missing: {reason}; try --device auto")
    return chosen
