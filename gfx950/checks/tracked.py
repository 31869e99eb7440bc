"""Host buffers that may hold what nobody wrote: `torch.empty` and its kin, followed through launches and host code.

Inside `watching()` torch reports what it allocates without filling and what it writes; kernels' stores are added by
the check. A buffer allocated outside counts as written. torch is imported when `watching` is entered.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxassay.gfx950.memory import Segment

__all__ = ["Tracked"]

# In place, but of the tensor's shape or storage, not of its elements.
_RESHAPES = frozenset(
    ("set_", "resize_", "resize_as_", "as_strided_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_",
     "requires_grad_", "detach_", "rename_")
)  # fmt: skip
_ALLOCATES = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")


@dataclass(slots=True)
class _Buffer:
    """`bits`: per byte of the storage, 0xFF where nobody wrote. `alive`: tells whether the storage still exists."""

    bits: Any
    alive: Any


class Tracked:
    """The buffers by host address."""

    def __init__(self) -> None:
        self._buffers: dict[int, _Buffer] = {}

    def forget(self) -> None:
        """From now on everything counts as written."""
        self._buffers.clear()

    def undefined(self, tensor: Any) -> None:
        """From now on nothing of this CPU tensor's storage counts as written."""
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        if storage.nbytes():
            pointer, size = storage.data_ptr(), storage.nbytes()
            room = np.full(size + 64, 0xFF, np.uint8)
            start = (pointer - room.ctypes.data) % 64
            self._buffers[pointer] = _Buffer(room[start : start + size], StorageWeakRef(storage))  # type: ignore[no-untyped-call]

    def written(self, tensor: Any) -> None:
        """The host wrote the elements of this tensor."""
        bits = self._bits_of(tensor)
        if bits is not None:
            bits.zero_()

    def unwritten(self, tensor: Any) -> int:
        """How many elements of this tensor have a byte that nobody wrote."""
        bits = self._bits_of(tensor)
        return 0 if bits is None else int((bits != 0).any(-1).sum())

    def _bits_of(self, tensor: Any) -> Any:
        """The bits of a tensor's elements, a view with the item's bytes as last axis; None where all is written."""
        import torch

        buffer = self._at(tensor.untyped_storage().data_ptr())
        if buffer is None:
            return None
        item = tensor.element_size()
        strides = (*(item * stride for stride in tensor.stride()), 1)
        return torch.from_numpy(buffer.bits).as_strided((*tensor.shape, item), strides, item * tensor.storage_offset())

    def shadow_of(self, segment: Segment) -> Segment | None:
        """The undefined bits of a mapped buffer, at its own address; None where all is written."""
        buffer = self._at(segment.data.ctypes.data)
        if buffer is None or buffer.bits.size != segment.size:
            return None
        if not buffer.bits.any():
            return None
        return Segment(segment.name, segment.base, buffer.bits)

    def _at(self, pointer: int) -> _Buffer | None:
        found = self._buffers.get(pointer)
        if found is not None and found.alive.expired():
            del self._buffers[pointer]
            return None
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow what torch allocates and writes inside the block."""
        from torch.utils._python_dispatch import TorchDispatchMode

        tracked = self

        class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                tracked._note(func, args, kwargs or {}, out)
                return out

        with Watch():  # type: ignore[no-untyped-call]
            yield

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        schema = func._schema
        name = schema.name.split("::")[-1]
        if name in _ALLOCATES:
            if out.device.type == "cpu":
                self.undefined(out)
            return
        if name in _RESHAPES:
            return
        for argument, value in zip(schema.arguments, (*args, *(None,) * len(schema.arguments)), strict=False):
            value = kwargs.get(argument.name, value)
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    if hasattr(tensor, "untyped_storage") and tensor.device.type == "cpu":
                        self.written(tensor)
