"""Launch a kernel of a code object on host arrays: the way in for prebuilt kernels, and the driver's own."""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from mxassay.errors import ContractError
from mxassay.gfx950.codeobject import Argument, CodeObject, load_code_object
from mxassay.gfx950.dispatch import Kernel, Options, card_options, hidden_arguments
from mxassay.gfx950.hostmemory import HostMemory
from mxassay.gfx950.machine import Counts

__all__ = ["launch", "pack_kernarg"]

_FLOATS = {"half": "e", "float": "f", "double": "d"}


def launch(
    code_object: "CodeObject | Kernel | str | PathLike[str] | bytes",
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any] | Mapping[str, Any] | bytes,
    *,
    kernel: str | None = None,
    dynamic_lds: int = 0,
    options: Options | None = None,
) -> Counts:
    """Run a kernel of a gfx950 code object on the emulated card. Results are in the arguments when it returns.

    grid, block: workgroups and work-items by x, y, z; missing sizes are 1. args: one value for each visible argument
    of the kernel's metadata, in order or by name (then arguments that share a name, such as padding, are zero): torch
    CPU tensors or numpy arrays (changed in place) for buffers, ints and floats for values. A code object without
    argument metadata takes (offset, value, size) triples, where a tensor or array stands for its address. bytes: the
    kernarg segment itself.

    Not checked: whether arrays are as long as the kernel expects (an access past an allocation raises, when it
    happens).

    Raises:
        ContractError: arguments that don't fit the metadata, a grid or block that no card takes.
        UnsupportedInstruction: an instruction nobody taught the emulator. MemoryFault, KernelFault: what the kernel
        did.

    >>> import numpy as np
    >>> out = np.zeros(256, np.float32)
    >>> launch("scale.hsaco", (1,), (256,), [out, 2.0])  # doctest: +SKIP
    """
    ready = code_object if isinstance(code_object, Kernel) else Kernel(_loaded(code_object), kernel)
    grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    memory = HostMemory()
    kernarg = args if isinstance(args, bytes) else pack_kernarg(ready, args, memory, grid, block, dynamic_lds)
    options = options or card_options()
    return ready.run(memory.space, grid, block, bytes(kernarg), dynamic_lds=dynamic_lds, options=options)


def _loaded(source: Any) -> CodeObject:
    return source if isinstance(source, CodeObject) else load_code_object(source)


def pack_kernarg(
    kernel: Kernel,
    args: Sequence[Any] | Mapping[str, Any],
    memory: HostMemory,
    grid: Sequence[int],
    block: Sequence[int],
    dynamic_lds: int,
) -> bytes:
    """The kernarg segment for these values; buffers are mapped into `memory`."""
    code = kernel.code
    kernarg = bytearray(code.kernarg_size)
    if not code.args:
        for position, entry in enumerate(args):
            offset, value, size = entry
            _put(kernarg, offset, size, value, f"argument {position}", memory, "by_value", "")
        return bytes(kernarg)
    visible = [argument for argument in code.args if not argument.hidden]
    if isinstance(args, Mapping):
        args = _ordered(args, visible, code.name)
    if len(args) != len(visible):
        raise ContractError(
            f"the arguments of {code.name} must be {len(visible)} ({_listed(visible)}), not {len(args)}"
        )
    for position, (argument, value) in enumerate(zip(visible, args, strict=True)):
        name = argument.name or f"argument {position}"
        _put(kernarg, argument.offset, argument.size, value, name, memory, argument.value_kind, argument.type_name)
    hidden_arguments(kernarg, code, grid, block, dynamic_lds)
    return bytes(kernarg)


def _ordered(args: Mapping[str, Any], visible: Sequence[Argument], kernel: str) -> list[Any]:
    times = Counter(argument.name for argument in visible)
    single = {name for name, count in times.items() if count == 1}
    if set(args) != single:
        wrong = sorted(single ^ set(args))
        raise ContractError(
            f"the arguments of {kernel} must be named {', '.join(sorted(single))}; see {', '.join(wrong)}"
        )
    return [args.get(argument.name, 0) for argument in visible]


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join(argument.name or f"{argument.size} bytes at {argument.offset}" for argument in arguments)


def _put(
    kernarg: bytearray, offset: int, size: int, value: Any, name: str, memory: HostMemory, kind: str, type_name: str
) -> None:
    if isinstance(value, float):
        form = _FLOATS.get(type_name) or {2: "e", 4: "f", 8: "d"}.get(size)
        if form is None or struct.calcsize(form) != size:
            raise ContractError(f"{name} must be {size} bytes of integer, not the float {value}")
        data = struct.pack(f"<{form}", value)
    elif isinstance(value, (bool, int)) and kind == "by_value":
        data = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    else:
        data = memory.address_of(name, value).to_bytes(8, "little")
        if size != 8:
            raise ContractError(f"{name} must be a value of {size} bytes, not the buffer {type(value).__name__}")
    kernarg[offset : offset + size] = data
