"""Which tensors are on the card: a set of storages, so that views, parameters and detached copies follow along."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_PRUNE_EVERY = 4096


class Residence:
    """The storages that live on the emulated card. All lie in host memory; this remembers where the program put them.

    A weak reference keeps a dead storage's address from being taken again, so an address is a safe key.
    """

    def __init__(self) -> None:
        self._on_card: dict[int, StorageWeakRef] = {}
        self._until_prune = _PRUNE_EVERY

    def holds(self, tensor: torch.Tensor) -> bool:
        """True if the tensor's storage is on the card."""
        key = storage_key(tensor)
        return key is not None and key in self._on_card

    def take(self, tensor: torch.Tensor) -> None:
        """Put the tensor's storage on the card."""
        key = storage_key(tensor)
        if key is None or key in self._on_card:
            return
        self._on_card[key] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._until_prune -= 1
        if not self._until_prune:
            self._prune()

    def __len__(self) -> int:
        self._prune()
        return len(self._on_card)

    def _prune(self) -> None:
        dead = [key for key, reference in self._on_card.items() if reference.expired()]  # type: ignore[no-untyped-call]
        for key in dead:
            del self._on_card[key]
        self._until_prune = _PRUNE_EVERY


def storage_key(tensor: torch.Tensor) -> int | None:
    """The address of a tensor's storage record; None for tensors that have none (sparse, functional)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors among arguments or results, two levels deep, as torch's own functions nest them."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found
