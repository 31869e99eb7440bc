"""The whole host in one context: Triton and `device="cuda"` on the emulated card, and perhaps an aiter checkout."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mxassay.gfx950.driver import emulated
from mxassay.hosting.aiter_checkout import NOTE as AITER_NOTE
from mxassay.hosting.aiter_checkout import aiter_checkout
from mxassay.hosting.cuda_on_host import NOTE, CudaOnHost, cuda_on_host
from mxassay.hosting.launch_log import LaunchLog, recorded
from mxassay.hosting.no_compiler import no_device_compiler

if TYPE_CHECKING:
    from mxassay.gfx950 import EmulatedDriver, Options


@dataclass(frozen=True)
class Host:
    """An open host: the function mode, the driver, the log of launches, and what to tell the user."""

    cuda: CudaOnHost
    driver: "EmulatedDriver"
    log: LaunchLog
    notes: tuple[str, ...]


@contextmanager
def emulated_host(checkout: "str | os.PathLike[str] | None" = None, options: "Options | None" = None) -> Iterator[Host]:
    """Run code written for a card: Triton kernels and prebuilt code objects execute on the emulated MI355X.

    Args:
        checkout: root of an aiter checkout to import as `aiter`.
        options: of every launch; see `mxassay.gfx950.Options`.

    Raises:
        ContractError, UnsupportedError: from the checkout.
    """
    with ExitStack() as stack:
        driver = stack.enter_context(_emulated_card(options))
        log = stack.enter_context(recorded(LaunchLog()))
        cuda = stack.enter_context(cuda_on_host())
        stack.enter_context(no_device_compiler())
        notes = [NOTE]
        if checkout is not None:
            stack.enter_context(aiter_checkout(checkout))
            notes.append(AITER_NOTE)
        yield Host(cuda, driver, log, tuple(notes))


@contextmanager
def _emulated_card(options: "Options | None") -> Iterator["EmulatedDriver"]:
    """The emulated card as Triton's device, telling programs that ask that it is the one their tensors are on."""
    with emulated(options) as driver:
        driver.get_active_torch_device = lambda: torch.device("cuda", 0)  # type: ignore[method-assign]
        driver.get_device_interface = lambda: torch.cuda  # type: ignore[method-assign]
        yield driver
