"""A Triton driver for the emulated card: `kernel[grid](...)` on CPU tensors, with Triton's own compiler, cache and
autotuner.

Importing this file loads triton and torch. Time is not modelled: the autotuner compiles every configuration, runs
none, and takes the first that compiles (declared policy).
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from mxassay.errors import UnsupportedError
from mxassay.gfx950.batch import LDS_BYTES
from mxassay.gfx950.codeobject import load_code_object
from mxassay.gfx950.dispatch import Kernel, Options, hidden_arguments, set_card_options
from mxassay.gfx950.hostmemory import HostMemory
from mxassay.gfx950.machine import Counts

__all__ = ["EmulatedDriver", "activate", "emulated"]

# A number no real device has, so that kernels cached for a real card and for this one never meet.
DEVICE = 950
_PACK = {
    "i1": "b", "i8": "b", "u1": "B", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "fp16": "e", "fp32": "f", "f32": "f", "fp64": "d",
}  # fmt: skip


class _Utils:
    """What Triton asks of a runtime when it loads a code object."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Kernel, int, int, int]:
        kernel = Kernel(load_code_object(binary), name)
        spills = kernel.code.metadata.vgpr_spill_count if kernel.code.metadata else 0
        return binary, kernel, kernel.vgprs, spills or 0, kernel.code.max_flat_workgroup_size

    def unload_module(self, module: Any) -> None:
        """Nothing to give back."""

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """What HIP's hipDeviceProp_t would say. AMD Instinct MI355X data sheet: 256 compute units, 160 KiB of LDS each;
        AMD CDNA4 ISA: 4 SIMDs of 8 waves. Registers a block without the accumulation half, as Triton's kernels for
        CDNA assume (inferred). Clocks in kHz."""
        return {
            "max_shared_mem": LDS_BYTES, "max_num_regs": 65536, "multiprocessor_count": 256, "warpSize": 64,
            "arch": "gfx950", "sm_clock_rate": 2_400_000, "mem_clock_rate": 2_000_000, "mem_bus_width": 8192,
            "max_threads_per_sm": 4 * 8 * 64, "cooperativeLaunch": 1,
        }  # fmt: skip


class _Launcher:
    """Made by Triton for each compiled kernel: turns the call's arguments into a kernarg segment and runs it."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = list(src.signature.items())
        self.metadata = metadata

    def __call__(
        self, gx: int, gy: int, gz: int, stream: Any, kernel: Kernel, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        driver = triton.runtime.driver.active
        if not isinstance(driver, EmulatedDriver) or driver.compiles_only:
            return
        if enter is not None:
            enter(launch_metadata)
        memory = HostMemory()
        values = list(_flattened([kind for _, kind in self.signature], args, [name for name, _ in self.signature]))
        grid, block = (gx, gy, gz), (self.metadata.num_warps * self.metadata.warp_size, 1, 1)
        kernarg = self._kernarg(kernel, values, memory, grid, block)
        shared = self.metadata.shared
        driver.last = kernel.run(memory.space, grid, block, kernarg, dynamic_lds=shared, options=driver.options)
        if leave is not None:
            leave(launch_metadata)

    def _kernarg(
        self,
        kernel: Kernel,
        values: list[tuple[str, str, Any]],
        memory: HostMemory,
        grid: Sequence[int],
        block: Sequence[int],
    ) -> bytes:
        code = kernel.code
        kernarg = bytearray(code.kernarg_size)
        visible = [argument for argument in code.args if not argument.hidden]
        for (name, kind, value), argument in zip(values, visible, strict=False):
            kernarg[argument.offset : argument.offset + argument.size] = _packed(
                name, kind, value, memory, argument.size
            )
        # Triton adds pointers to global and profiling scratch after the kernel's own arguments.
        sizes = (getattr(self.metadata, "global_scratch_size", 0), getattr(self.metadata, "profile_scratch_size", 0))
        for argument, size in zip(visible[len(values) :], sizes, strict=False):
            if size:
                scratch = torch.zeros(size * grid[0] * grid[1] * grid[2], dtype=torch.uint8)
                address = memory.address_of("Triton's scratch", scratch)
                kernarg[argument.offset : argument.offset + 8] = address.to_bytes(8, "little")
        hidden_arguments(kernarg, code, grid, block, self.metadata.shared)
        return bytes(kernarg)


def _flattened(kinds: Sequence[Any], values: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Name, type and value of each argument that is passed at run time; tuples are laid out in order."""
    for kind, value, name in zip(kinds, values, names, strict=True):
        if isinstance(kind, tuple):
            yield from _flattened(kind, value, [f"{name}[{index}]" for index in range(len(kind))])
        elif kind.startswith("tensordesc"):
            raise UnsupportedError(f"an argument must be a tensor or a value, not the tensor descriptor {name}")
        elif kind != "constexpr":
            yield name, kind, value


def _packed(name: str, kind: str, value: Any, memory: HostMemory, size: int) -> bytes:
    if kind.startswith("*"):
        return memory.address_of(name, value).to_bytes(8, "little")
    if kind == "bf16":
        data = torch.tensor(value, dtype=torch.bfloat16).view(torch.int16).item()
        return struct.pack("<h", int(data))
    form = _PACK.get(kind)
    if form is None:
        raise UnsupportedError(
            f"an argument's type must be one of {', '.join(_PACK)} or a pointer, not {kind} ({name})"
        )
    if form in "bBhHiIqQ":
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return struct.pack(f"<{form}", value)


class EmulatedDriver(DriverBase):  # type: ignore[misc]
    """The emulated MI355X as a Triton driver. `options` apply to every launch; `last` holds the counts of the latest
    one."""

    def __init__(self, options: Options | None = None) -> None:
        super().__init__()
        self.options = options or Options()
        self.utils = _Utils()
        self.launcher_cls = _Launcher
        self.last: Counts | None = None
        self.compiles_only = False

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("hip", "gfx950", 64)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return DEVICE

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_interface(self) -> Any:
        raise UnsupportedError("a benchmark must run on a real card, not on the emulated one: time is not modelled")

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """There is none."""

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        def compile_only(
            call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: Any
        ) -> Sequence[float]:
            self.compiles_only = True
            try:
                call()
            finally:
                self.compiles_only = False
            return [1.0] * len(quantiles or (0.5,))

        return compile_only


class _Restored:
    """What stands for "no driver chosen yet" after the emulated card: Triton's own choice, made when it is asked for.

    Kernels compiled for the emulated card ask for `utils` when they die, where a machine without a GPU has no driver.
    """

    utils = _Utils()

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getattr__(self, name: str) -> Any:
        self._config.reset_active()
        return getattr(self._config.active, name)


def activate(options: Options | None = None) -> EmulatedDriver:
    """Make the emulated card Triton's device from now on.

    Sets TRITON_DEFAULT_FP_FUSION=1 unless the environment has it (Triton 3.9's default, which later versions change).
    """
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    driver = EmulatedDriver(options)
    set_card_options(driver.options)
    triton.runtime.driver.set_active(driver)
    return driver


@contextmanager
def emulated(options: Options | None = None) -> Iterator[EmulatedDriver]:
    """The emulated card as Triton's device inside the block; the driver from before comes back after it.

    >>> with emulated():  # doctest: +SKIP
    ...     add[(4,)](x, y, out, n, BLOCK=256)
    """
    config = triton.runtime.driver
    before = config._active
    try:
        yield activate(options)
    finally:
        config.set_active(before or _Restored(config))
        set_card_options(before.options if isinstance(before, EmulatedDriver) else None)
