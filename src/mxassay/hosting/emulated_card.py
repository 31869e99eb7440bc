"""What `torch.cuda` says and does while the card is emulated: one card, `cuda:0`, which ends each call before the next.

Times that events measure are times of the emulation on this machine. They say nothing about a card.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from mxassay.errors import ContractError
from mxassay.hosting.refusals import refusal

NAME = "AMD Instinct MI355X (emulated)"
ARCH = "gfx950:sramecc+:xnack-"
CAPABILITY = (9, 5)
HIP_VERSION = "7.0.0"  # declared policy: the first ROCm line that knows gfx950


def host_memory() -> int:
    """Bytes of memory in this machine: what the emulated card's allocations really come from."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class Properties:
    """What `torch.cuda.get_device_properties` returns. Source: AMD Instinct MI355X data sheet, AMD CDNA4 ISA 3.

    `total_memory` is this machine's, since allocations come from there.
    """

    name: str = NAME
    gcnArchName: str = ARCH  # noqa: N815 - torch's own spelling
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    multi_processor_count: int = 256
    warp_size: int = 64
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 131072
    shared_memory_per_block: int = 163840
    shared_memory_per_multiprocessor: int = 163840
    L2_cache_size: int = 4194304
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    total_memory: int = field(default_factory=host_memory)


class Event:
    """`torch.cuda.Event`: remembers when it was recorded. Work is done by then, since every call is synchronous."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._recorded: float | None = None

    def record(self, stream: Any = None) -> None:
        self._recorded = time.perf_counter()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds of this machine's clock between two records."""
        if self._recorded is None or end_event._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (end_event._recorded - self._recorded)

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True


class Stream:
    """`torch.cuda.Stream`: an order that every call already keeps."""

    cuda_stream = 0
    stream_id = 0
    priority = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.device_index = 0

    def synchronize(self) -> None: ...

    def wait_event(self, event: Event) -> None: ...

    def wait_stream(self, stream: "Stream") -> None: ...

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None: ...


class DeviceContext:
    """`torch.cuda.device(index)` and `torch.cuda.device_of(tensor)`: there is one card, so nothing changes."""

    def __init__(self, device: Any = None) -> None:
        if not isinstance(device, torch.Tensor):
            require_the_card(device)

    def __enter__(self) -> "DeviceContext":
        return self

    def __exit__(self, *_: object) -> None: ...


class _AnyGenerator(type):
    """Real generators are instances of the stand-in for their type."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


def generator_type() -> type:
    """A `torch.Generator` that takes `device="cuda"`. Its numbers are the CPU generator's, not a card's."""

    class Generator(metaclass=_AnyGenerator):
        def __new__(cls, device: Any = "cpu") -> Any:
            return torch._C.Generator(device="cpu" if names_the_card(device) else device)

    return Generator


def names_the_card(device: Any) -> bool:
    """True for "cuda", "cuda:0", a torch.device of that type, or an index.

    Raises:
        ContractError: it names a second card.
    """
    if isinstance(device, str):
        if not device.startswith(("cuda", "hip")):
            return False
        device = torch.device(device.replace("hip", "cuda", 1))
    if isinstance(device, torch.device):
        if device.type != "cuda":
            return False
        device = device.index or 0
    if not isinstance(device, int) or isinstance(device, bool):
        return False
    if device > 0:
        raise ContractError(f"a card must be cuda:0, not cuda:{device}; one card is emulated")
    return True


def require_the_card(device: Any) -> None:
    """Raise unless `device` is None, -1 (no change) or names the emulated card."""
    if device is not None and not names_the_card(device):
        raise ContractError(f"a card must be cuda:0, not {device}; one card is emulated")


def refused(name: str, why: str) -> Callable[..., NoReturn]:
    """A function or class stand-in that raises `UnsupportedError` when it is called."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise refusal(f"{name} must be left out on the emulated card, not called: {why}")

    return refuse


_GRAPHS = "capture and replay of graphs is not emulated; call the kernel directly"


@contextmanager
def _stream(stream: Any) -> Iterator[Any]:
    yield stream


def _nothing(*_: Any, **__: Any) -> None: ...


def _mem_get_info(device: Any = None) -> tuple[int, int]:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"), host_memory()


def _about_the_card(answer: Callable[[], Any]) -> Callable[..., Any]:
    def about(device: Any = None) -> Any:
        require_the_card(device)
        return answer()

    return about


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def cuda_functions() -> dict[str, Any]:
    """What replaces the names of `torch.cuda`."""
    stream = Stream()
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "_lazy_init": _nothing,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": require_the_card,
        "get_device_name": _about_the_card(lambda: NAME),
        "get_device_capability": _about_the_card(lambda: CAPABILITY),
        "get_device_properties": _about_the_card(Properties),
        "get_arch_list": lambda: [ARCH.split(":")[0]],
        "is_bf16_supported": lambda including_emulation=True: True,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "ipc_collect": _nothing,
        "mem_get_info": _mem_get_info,
        "memory_allocated": _about_the_card(int),
        "memory_reserved": _about_the_card(int),
        "max_memory_allocated": _about_the_card(int),
        "max_memory_reserved": _about_the_card(int),
        "memory_stats": _about_the_card(dict),
        "reset_peak_memory_stats": _nothing,
        "manual_seed": _seed,
        "manual_seed_all": _seed,
        "seed": lambda: _seed(torch.default_generator.seed()),
        "initial_seed": lambda: torch.default_generator.initial_seed(),
        "get_rng_state": lambda device=None: torch.default_generator.get_state(),
        "set_rng_state": lambda state, device=None: torch.default_generator.set_state(state),
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": Stream,
        "stream": _stream,
        "set_stream": _nothing,
        "current_stream": _about_the_card(lambda: stream),
        "default_stream": _about_the_card(lambda: stream),
        "device": DeviceContext,
        "device_of": DeviceContext,
        "is_current_stream_capturing": lambda: False,
        "CUDAGraph": refused("torch.cuda.CUDAGraph", _GRAPHS),
        "graph": refused("torch.cuda.graph", _GRAPHS),
        "make_graphed_callables": refused("torch.cuda.make_graphed_callables", _GRAPHS),
    }


def accelerator_functions() -> dict[str, Any]:
    """What replaces the names of `torch.accelerator`."""
    stream = Stream()
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": require_the_card,
        "set_device_idx": require_the_card,
        "current_stream": _about_the_card(lambda: stream),
        "synchronize": _nothing,
        "empty_cache": _nothing,
    }
