"""Messages between a submission's process and ours: a JSON header and raw bytes. Nothing that arrives is executed.

A message is 8 bytes of header length, the header, and the blobs whose lengths the header's `blobs` lists.
"""

import json
import os
import struct
from collections.abc import Callable
from typing import Any

import torch

_LENGTH = struct.Struct("<Q")
_MAX_HEADER = 1 << 26


def send(descriptor: int, header: dict[str, Any], blobs: list[bytes] | None = None) -> None:
    """Write one message to a pipe. Raises BrokenPipeError when nobody reads."""
    blobs = blobs or []
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    for part in (_LENGTH.pack(len(text)), text, *blobs):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def receive(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message. `read(n)` gives n bytes, or raises EOFError.

    Raises:
        EOFError: the other end is gone.
        ValueError: what came is no message.
    """
    (length,) = _LENGTH.unpack(read(_LENGTH.size))
    if length > _MAX_HEADER:
        raise ValueError(f"a message's header must have at most {_MAX_HEADER} bytes, not {length}")
    header = json.loads(read(length))
    if not isinstance(header, dict):
        raise ValueError(f"a message's header must be an object, not {type(header).__name__}")
    return header, [read(size) for size in header.pop("blobs", [])]


def reader(descriptor: int) -> Callable[[int], bytes]:
    """A `read` for `receive` that waits for ever."""

    def read(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.read(descriptor, min(count - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    return read


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """The whole storage under a tensor."""
    return bytes(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy())


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """How a tensor lies in its storage, as JSON."""
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }


def rebuild(description: dict[str, Any], blob: bytes) -> torch.Tensor:
    """The tensor that `describe` and `storage_bytes` wrote down, in memory of its own.

    Raises:
        ValueError: an unknown dtype, or a shape that its bytes can't hold.
    """
    dtype = getattr(torch, description["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"a dtype must be one of torch's, not {description['dtype']}")
    storage = torch.frombuffer(bytearray(blob), dtype=torch.uint8).untyped_storage() if blob else None
    if storage is None:
        return torch.empty(description["shape"], dtype=dtype)
    shape, stride, offset = description["shape"], description["stride"], description["offset"]
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if min([offset, *shape, *stride, 0]) < 0 or (0 not in shape and (last + 1) * dtype.itemsize > len(blob)):
        raise ValueError(f"a tensor must fit into its {len(blob)} bytes, not be {description}")
    return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)
