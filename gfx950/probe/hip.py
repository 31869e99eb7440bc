"""A real MI355X through HIP, by ctypes: no ROCm headers, no torch.

Written against AMD's HIP runtime API reference ("Module management", "Execution control") and tested with a stand-in
library; never yet run on a card.
"""

import ctypes
import ctypes.util
from collections.abc import Mapping, Sequence
from typing import Any

from mxassay.errors import MxassayError, UnsupportedError
from mxassay.gfx950.probe.cards import Array

__all__ = ["HipCard", "HipError", "why_no_card"]

# hip_runtime_api.h: HIP_LAUNCH_PARAM_*, hipMemcpyKind and hipError_t.
_BUFFER_AT, _BUFFER_SIZE, _END = 1, 2, 3
_TO_DEVICE, _TO_HOST = 1, 2
_NO_BINARY_FOR_GPU = 209
_NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
_INT, _UINT, _SIZE = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_PROTOTYPES: dict[str, list[Any]] = {
    "hipInit": [_UINT],
    "hipGetDeviceCount": [ctypes.POINTER(_INT)],
    "hipSetDevice": [_INT],
    "hipDeviceGetName": [ctypes.c_char_p, _INT, _INT],
    "hipRuntimeGetVersion": [ctypes.POINTER(_INT)],
    "hipDriverGetVersion": [ctypes.POINTER(_INT)],
    "hipMalloc": [ctypes.POINTER(ctypes.c_void_p), _SIZE],
    "hipFree": [ctypes.c_void_p],
    "hipMemcpy": [ctypes.c_void_p, ctypes.c_void_p, _SIZE, _INT],
    "hipDeviceSynchronize": [],
    "hipModuleLoadData": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p],
    "hipModuleUnload": [ctypes.c_void_p],
    "hipModuleGetFunction": [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_char_p],
    "hipModuleLaunchKernel": [
        ctypes.c_void_p,
        *[_UINT] * 7,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_void_p),
    ],
}


class HipError(MxassayError):
    """A HIP call failed. Carries `code`, hipError_t."""

    def __init__(self, call: str, code: int) -> None:
        self.code = code
        super().__init__(f"{call} must return hipSuccess, not hipError_t {code}")


def _library() -> Any:
    for name in (*_NAMES, ctypes.util.find_library("amdhip64")):
        if name is None:
            continue
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise UnsupportedError("libamdhip64.so must be on the loader's path, not missing; install the ROCm runtime")


def why_no_card() -> str | None:
    """Why no card can be asked here, or None."""
    try:
        HipCard()
    except MxassayError as error:
        return str(error)
    return None


class HipCard:
    """Device `index` of the HIP runtime. A code object for another processor is refused when the first one is loaded.

    library: a loaded libamdhip64, or anything with its functions.

    Raises:
        UnsupportedError: no runtime, no device. HipError: the runtime fails.
    """

    kind = "mi355x"

    def __init__(self, index: int = 0, library: Any = None) -> None:
        self.index = index
        self._hip = _library() if library is None else library
        for name, arguments in _PROTOTYPES.items():
            function = getattr(self._hip, name)
            function.argtypes, function.restype = arguments, _INT
        self._call("hipInit", 0)
        count = _INT(0)
        self._call("hipGetDeviceCount", ctypes.byref(count))
        if not 0 <= index < count.value:
            raise UnsupportedError(f"the HIP device must be one of {count.value}, not number {index}")
        self._call("hipSetDevice", index)
        self._module: tuple[bytes, ctypes.c_void_p] | None = None

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._hip, name)(*arguments)
        if code:
            raise HipError(name, code)

    def environment(self) -> Mapping[str, str]:
        name, runtime, driver = ctypes.create_string_buffer(256), _INT(0), _INT(0)
        self._call("hipDeviceGetName", name, len(name), self.index)
        self._call("hipRuntimeGetVersion", ctypes.byref(runtime))
        self._call("hipDriverGetVersion", ctypes.byref(driver))
        return {
            "device": name.value.decode(errors="replace"), "hip_runtime": str(runtime.value),
            "hip_driver": str(driver.value),
        }  # fmt: skip

    def _function(self, code: bytes, kernel: str) -> ctypes.c_void_p:
        if self._module is None or self._module[0] is not code:
            module = ctypes.c_void_p()
            try:
                self._call("hipModuleLoadData", ctypes.byref(module), code)
            except HipError as error:
                if error.code == _NO_BINARY_FOR_GPU:
                    raise UnsupportedError("the card must be a gfx950, not one that refuses its code") from error
                raise
            if self._module is not None:
                self._call("hipModuleUnload", self._module[1])
            self._module = code, module
        function = ctypes.c_void_p()
        self._call("hipModuleGetFunction", ctypes.byref(function), self._module[1], kernel.encode())
        return function

    def run(self, code: bytes, kernel: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Array]) -> None:
        function = self._function(code, kernel)
        buffers: list[ctypes.c_void_p] = []
        try:
            for array in args:
                buffer = ctypes.c_void_p()
                self._call("hipMalloc", ctypes.byref(buffer), max(array.nbytes, 1))
                buffers.append(buffer)
                self._call("hipMemcpy", buffer, array.ctypes.data, array.nbytes, _TO_DEVICE)
            self._launch(function, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], buffers)
            self._call("hipDeviceSynchronize")
            for array, buffer in zip(args, buffers, strict=True):
                if array.flags.writeable:
                    self._call("hipMemcpy", array.ctypes.data, buffer, array.nbytes, _TO_HOST)
        finally:
            for buffer in buffers:
                # Not checked: after a fault every call fails, and the fault is what must be told.
                self._hip.hipFree(buffer)

    def _launch(
        self, function: ctypes.c_void_p, grid: Sequence[int], block: Sequence[int], buffers: Sequence[ctypes.c_void_p]
    ) -> None:
        kernarg = (ctypes.c_uint64 * len(buffers))(*(buffer.value or 0 for buffer in buffers))
        size = _SIZE(ctypes.sizeof(kernarg))
        extra = (ctypes.c_void_p * 5)(_BUFFER_AT, ctypes.addressof(kernarg), _BUFFER_SIZE, ctypes.addressof(size), _END)
        self._call("hipModuleLaunchKernel", function, *grid, *block, 0, None, None, extra)
