"""Host arguments as emulated memory: torch CPU tensors, numpy arrays, and what only has a data pointer.

A tensor is mapped with its whole storage, as an allocation on a card would be, so views of one storage share their
buffer. torch is looked at only when a tensor comes along.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.errors import ContractError
from mxassay.gfx950.memory import AddressSpace, Segment, View

__all__ = ["HostMemory"]


class HostMemory:
    """The buffers of one launch. `address_of(name, value)` maps what it meets for the first time."""

    def __init__(self) -> None:
        self.space = AddressSpace()
        self._by_pointer: dict[tuple[int, int], Segment] = {}
        self._kept: list[Any] = []

    def address_of(self, name: str, value: Any) -> int:
        """The emulated address of the first byte of a tensor or array; None is 0, an integer is itself.

        Raises:
            ContractError: not in CPU memory, or nothing that has memory.
        """
        if value is None:
            return 0
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, np.ndarray):
            return self._array(name, value)
        if hasattr(value, "untyped_storage"):
            import torch

            # Function modes may say that the tensor lies on a card; here counts where its bytes are.
            with torch._C.DisableTorchFunction():
                return self._tensor(name, value)
        inner = getattr(value, "base", None)  # triton.TensorWrapper and tensor descriptors
        if inner is not None:
            return self.address_of(name, inner)
        raise ContractError(
            f"{name} must be a CPU tensor, a numpy array, an address or None, not {type(value).__name__}"
        )

    def _tensor(self, name: str, tensor: Any) -> int:
        import torch

        if tensor.device.type != "cpu":
            raise ContractError(
                f"{name} must be a CPU tensor, not one on {tensor.device}; the emulated card reads host memory"
            )
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return self._mapped(name, np.empty(0, np.uint8), (0, 0)).base
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        segment = self._mapped(name, whole.detach().numpy(), (storage.data_ptr(), storage.nbytes()))
        address = segment.base + int(tensor.data_ptr() - storage.data_ptr())
        item = tensor.element_size()
        self.space.views.append(
            View(name, address, tuple(tensor.shape), tuple(item * stride for stride in tensor.stride()), item)
        )
        return address

    def _array(self, name: str, array: NDArray[Any]) -> int:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if not owner.flags.c_contiguous:
            if not owner.flags.f_contiguous:
                raise ContractError(f"{name} must lie in a contiguous array, not in a strided one without an owner")
            owner = owner.T
        data = owner.reshape(-1).view(np.uint8)
        pointer = owner.ctypes.data
        segment = self._mapped(name, data, (pointer, owner.nbytes), owner.flags.writeable)
        address = segment.base + int(array.ctypes.data - pointer)
        self.space.views.append(View(name, address, array.shape, array.strides, array.itemsize))
        return address

    def _mapped(self, name: str, data: NDArray[np.uint8], key: tuple[int, int], writable: bool = True) -> Segment:
        found = self._by_pointer.get(key)
        if found is None:
            found = self._by_pointer[key] = self.space.add(name, data, writable=writable)
            self._kept.append(data)
        return found
