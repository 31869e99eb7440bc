"""Lets code written for `device="cuda"` run on this machine's memory, unchanged.

The emulated card's memory is host memory. A torch function mode turns requests for the card into requests for the host,
and remembers which tensors the program put on the card: those say `device == cuda:0` and `is_cuda`, and copies between
card and host are copies. `torch.cuda` answers for one emulated MI355X.

Not emulated: errors for mixing host and card tensors; asynchronous work; a card's random numbers (they are the CPU
generator's); graphs and `torch.cuda.*Tensor` types (refused by name); threads that the program starts itself (the mode
belongs to the thread that opened it).
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_map_only

from mxassay.hosting.emulated_card import (
    HIP_VERSION,
    accelerator_functions,
    cuda_functions,
    generator_type,
    names_the_card,
)
from mxassay.hosting.residence import Residence, storage_key, tensors_in

NOTE = 'device="cuda" is this machine\'s memory: the card is emulated, and its times say nothing about a real one'


class CudaOnHost(TorchFunctionMode):
    """The mode. Use `cuda_on_host()`, which opens it together with the rest of the stand-in."""

    def __init__(self) -> None:
        super().__init__()
        self.residence = Residence()
        self.default_is_card = False
        self.is_open = False

    def on_card(self, tensor: torch.Tensor) -> bool:
        """True if the program put this tensor on the card."""
        with torch._C.DisableTorchFunction():
            return self.residence.holds(tensor)

    def put_on_card(self, tensor: torch.Tensor) -> torch.Tensor:
        """Declare a host tensor to be on the card, without copying it. Returns it."""
        with torch._C.DisableTorchFunction():
            self.residence.take(tensor)
        return tensor

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _ON_CARD and self.residence.holds(args[0]):
            return _ON_CARD[func]
        if func in _MOVES:
            args, kwargs, to_card = _MOVES[func](self.residence, args, kwargs)
            func = torch.Tensor.to
        else:
            to_card = _translate_device(kwargs)
            if self.default_is_card and "device" not in kwargs and func in _device_constructors():
                to_card = True
        return self._placed(func(*args, **kwargs), args, kwargs, to_card)

    def _placed(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], to_card: bool | None) -> Any:
        """Note where the results are: where the call said, else on the card if an argument is."""
        single = isinstance(result, torch.Tensor)
        outputs = tensors_in((result,))
        if not outputs:
            return result
        holds = self.residence.holds
        inputs = tensors_in(args) + tensors_in(kwargs.values())
        if to_card is None:
            if any(holds(tensor) for tensor in inputs):
                keys = {storage_key(tensor) for tensor in inputs}
                for output in outputs:
                    if storage_key(output) not in keys:
                        self.residence.take(output)
        elif single:
            if holds(result) != to_card and storage_key(result) in {storage_key(tensor) for tensor in inputs}:
                result = result.clone()
            if to_card:
                self.residence.take(result)
        return result


def _translate_device(kwargs: dict[str, Any]) -> bool | None:
    """Turn the card into the host in a call's keyword arguments. True: the card was asked for; False: the host was."""
    kwargs.pop("pin_memory", None)
    device = kwargs.get("device")
    if device is None:
        return None
    if names_the_card(device):
        kwargs["device"] = "cpu"
        return True
    return False


def _move_to(
    residence: Residence, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool | None]:
    """`Tensor.to` in all its forms: device, dtype, device and dtype, or another tensor."""
    to_card = _translate_device(kwargs)
    translated = list(args)
    if len(args) > 1:
        target = args[1]
        if isinstance(target, torch.Tensor):
            to_card = residence.holds(target)
        elif isinstance(target, str | torch.device | int) and not isinstance(target, bool):
            to_card = names_the_card(target)
            translated[1] = "cpu" if to_card else target
    if isinstance(other := kwargs.get("other"), torch.Tensor):
        to_card = residence.holds(other)
    return tuple(translated), kwargs, to_card


def _move_to_card(
    residence: Residence, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool | None]:
    device = kwargs.get("device", args[1] if len(args) > 1 else None)
    return _move_to(residence, (args[0], "cuda" if device is None else device), {})


def _move_to_host(
    residence: Residence, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool | None]:
    return (args[0], "cpu"), {}, False


def _getter(name: str) -> Any:
    """What torch hands a mode when an attribute of a tensor is read."""
    return vars(torch._C.TensorBase)[name].__get__


# What a tensor on the card says of itself. One on the host answers for itself.
_ON_CARD: dict[Any, Any] = {
    _getter("device"): torch.device("cuda", 0),
    _getter("is_cuda"): True,
    _getter("is_cpu"): False,
    torch.Tensor.get_device: 0,
    torch.get_device: 0,
}

_MOVES: dict[Any, Callable[..., tuple[tuple[Any, ...], dict[str, Any], bool | None]]] = {
    torch.Tensor.to: _move_to,
    torch.Tensor.cuda: _move_to_card,
    torch.Tensor.cpu: _move_to_host,
    torch.Tensor.pin_memory: _move_to_host,
}


def _library_impl(mode: CudaOnHost) -> Callable[..., Any]:
    """`Library.impl` whose Python implementations run with the mode on: torch turns it off around a custom operator."""
    original = torch.library.Library.impl

    @functools.wraps(original)
    def impl(library: Any, op_name: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        @functools.wraps(fn)
        def hosted(*fn_args: Any, **fn_kwargs: Any) -> Any:
            with mode if mode.is_open else nullcontext():
                return fn(*fn_args, **fn_kwargs)

        return original(library, op_name, hosted, *args, **kwargs)  # type: ignore[no-untyped-call]

    return impl


def _load(mode: CudaOnHost) -> Callable[..., Any]:
    """`torch.load` that knows the card as a `map_location`, and loads what was saved on a card."""
    original = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if callable(map_location) or isinstance(map_location, dict):
            return original(f, map_location, *args, **kwargs)
        to_card = map_location is not None and names_the_card(map_location)
        loaded = original(f, "cpu" if to_card or map_location is None else map_location, *args, **kwargs)
        return tree_map_only(torch.Tensor, mode.put_on_card, loaded) if to_card else loaded

    return load


def _default_device(mode: CudaOnHost) -> dict[str, Callable[..., Any]]:
    """`torch.set_default_device` and its question: torch applies its own after every other mode, too late for this."""
    set_original, get_original = torch.set_default_device, torch.get_default_device

    @functools.wraps(set_original)
    def set_default_device(device: Any) -> None:
        mode.default_is_card = device is not None and names_the_card(device)
        set_original(None if mode.default_is_card else device)

    @functools.wraps(get_original)
    def get_default_device() -> torch.device:
        return torch.device("cuda", 0) if mode.default_is_card else get_original()

    return {"set_default_device": set_default_device, "get_default_device": get_default_device}


@contextmanager
def _replaced(owner: Any, names: dict[str, Any]) -> Iterator[None]:
    """Set attributes of a module, and put back what was there."""
    missing = object()
    before = {name: vars(owner).get(name, missing) for name in names}
    for name, value in names.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def _stand_in(mode: CudaOnHost) -> AbstractContextManager[Any]:
    stack = ExitStack()
    stack.enter_context(_replaced(torch.cuda, cuda_functions()))
    stack.enter_context(_replaced(torch.version, {"hip": HIP_VERSION, "cuda": None}))
    stack.enter_context(_replaced(torch.library.Library, {"impl": _library_impl(mode)}))
    stack.enter_context(_replaced(torch, {"Generator": generator_type(), "load": _load(mode), **_default_device(mode)}))
    # torch checks the stream's type before a mode gets to see the call.
    stack.enter_context(_replaced(torch.Tensor, {"record_stream": lambda tensor, stream: None}))
    if hasattr(torch, "accelerator"):
        stack.enter_context(_replaced(torch.accelerator, accelerator_functions()))
    stack.enter_context(mode)
    stack.callback(setattr, mode, "is_open", False)
    mode.is_open = True
    return stack


@contextmanager
def cuda_on_host() -> Iterator[CudaOnHost]:
    """Run the body with `device="cuda"` meaning host memory, and `torch.cuda` answering for an emulated MI355X.

    Yields the mode, whose `on_card(tensor)` and `put_on_card(tensor)` tell and set where a tensor is. Everything is
    put back at the end. Print `NOTE` to the user. Opening it twice in one thread is an error of the caller's.

    >>> with cuda_on_host():
    ...     torch.ones(2, device="cuda").device
    device(type='cuda', index=0)
    """
    mode = CudaOnHost()
    with _stand_in(mode):
        yield mode


def install() -> CudaOnHost:
    """Like `cuda_on_host`, for the rest of the process."""
    mode = CudaOnHost()
    _stand_in(mode).__enter__()
    return mode
