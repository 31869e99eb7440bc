"""Memory around and inside every buffer that a kernel sees holds NaN, so that stray reads and writes show."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

MARGIN = 1 << 16
"""Bytes on both sides of a buffer: a multiple of any alignment that a kernel asks for, more than a tile's row."""

POISON = 0xFF
"""Every byte 0xFF is NaN as bfloat16 and as float32, NaN as an E8M0 scale, and -6 twice as packed codes."""


class Arena:
    """A buffer with MARGIN poison bytes on both sides.

    Attributes:
        name: what the buffer is, for messages.
        tensor: the buffer, with the values, shape, dtype and strides of the tensor it was made from.
    """

    def __init__(self, name: str, source: torch.Tensor, device: str | torch.device, *, fill: bool) -> None:
        self.name = name
        whole = source.untyped_storage()
        self._size = whole.nbytes()
        self._bytes = torch.full((self._size + 2 * MARGIN,), POISON, dtype=torch.uint8, device=device)
        if fill:
            given = torch.empty(0, dtype=torch.uint8, device=source.device).set_(whole)
            self._bytes[MARGIN : MARGIN + self._size] = given.to(device)
        typed = self._bytes[MARGIN : MARGIN + self._size].view(source.dtype)
        self.tensor = typed.as_strided(source.shape, source.stride(), typed.storage_offset() + source.storage_offset())
        self._before = self._bytes.to("cpu", copy=True) if fill else None

    def overrun(self) -> bool:
        """Whether a byte around the buffer was written."""
        margins = torch.cat((self._bytes[:MARGIN], self._bytes[MARGIN + self._size :]))
        return bool((margins != POISON).any())

    def changed(self) -> bool:
        """Whether a byte in the buffer or around it was written."""
        return self._before is None or not torch.equal(self._bytes.cpu(), self._before)


class GuardedAllocations(TorchFunctionMode):
    """While active, tensors that torch makes stand in arenas: memory a kernel forgets to write stays NaN, and what it
    writes beside its own buffers stays inside the arena and is told by `overruns`.

    Covers torch.empty, zeros, ones, full, their `_like` and `Tensor.new_` forms; not memory got in other ways.
    """

    def __init__(self) -> None:
        super().__init__()
        self._arenas: list[Arena] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in _MAKERS or not isinstance(made, torch.Tensor) or made.layout != torch.strided:
            return made
        if made.device.type == "meta" or made.numel() == 0:
            return made
        name = f"{_MAKERS[func]} {tuple(made.shape)} {str(made.dtype).removeprefix('torch.')}"
        with torch._C.DisableTorchFunction():
            arena = Arena(name, made, made.device, fill="empty" not in _MAKERS[func])
        self._arenas.append(arena)
        return arena.tensor.requires_grad_(made.requires_grad)

    def overruns(self) -> list[str]:
        """Names of the allocations beside which something was written."""
        return [arena.name for arena in self._arenas if arena.overrun()]


_KINDS = ("empty", "zeros", "ones", "full")
_MAKERS: dict[Callable[..., Any], str] = {
    **{getattr(torch, kind): f"torch.{kind}" for kind in _KINDS},
    **{getattr(torch, f"{kind}_like"): f"torch.{kind}_like" for kind in _KINDS},
    **{getattr(torch.Tensor, f"new_{kind}"): f"new_{kind}" for kind in _KINDS},
    torch.empty_strided: "torch.empty_strided",
}
