"""Counters of the workgroups that have arrived at a tile, zero between launches."""

import contextlib
import threading
from collections.abc import Iterator

import torch

APART = 32  # int32 from one counter to the next: a line of 128 bytes each, so that tiles don't wait for each other


class _Kept(threading.local):
    def __init__(self) -> None:
        self.by_stream: dict[tuple[torch.device, int], torch.Tensor] = {}


_kept = _Kept()


@contextlib.contextmanager
def counters(tiles: int, device: torch.device) -> Iterator[torch.Tensor]:
    """int32 zeros, APART for each of at least `tiles` tiles, for one launch on the current stream that leaves zeros.

    They are kept for the next launch, since to clear them is a launch too: for each thread, device and stream, so that
    launches that share them run one after another. After a launch that raised they are dropped. Not for launches that
    a graph captures: their replays could meet others.
    """
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    found = _kept.by_stream.pop((device, stream), None)
    if found is None or len(found) < tiles * APART:
        found = torch.zeros(tiles * APART, dtype=torch.int32, device=device)
    yield found
    _kept.by_stream[device, stream] = found
