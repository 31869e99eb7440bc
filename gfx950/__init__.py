"""An emulated MI355X: gfx950 code objects run on the CPU, bit for bit, with no GPU and no ROCm.

Two ways in: `activate()` or `emulated()` make the card Triton's device, so that `kernel[grid](...)` works on CPU
tensors; `launch(code_object, grid, block, args)` runs a prebuilt kernel. `survey(kernel)` says before a run what is
known how surely.

Importing this package loads neither torch nor triton; the first two names load them when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mxassay.gfx950.codeobject import CodeObject, CodeObjectError, load_code_object
    from mxassay.gfx950.dispatch import Kernel, Options
    from mxassay.gfx950.driver import EmulatedDriver, activate, emulated
    from mxassay.gfx950.faults import EndlessLoop, KernelFault, MemoryFault, UnsupportedInstruction
    from mxassay.gfx950.fidelity import Executed, Surveyed, survey
    from mxassay.gfx950.launcher import launch
    from mxassay.gfx950.machine import Counts
    from mxassay.gfx950.registry import Fidelity

__all__ = [
    "CodeObject", "CodeObjectError", "Counts", "EmulatedDriver", "EndlessLoop", "Executed", "Fidelity", "Kernel",
    "KernelFault", "MemoryFault", "Options", "Surveyed", "UnsupportedInstruction", "activate", "emulated",
    "launch", "load_code_object", "survey",
]  # fmt: skip

_HOME = {
    "codeobject": ("CodeObject", "CodeObjectError", "load_code_object"),
    "dispatch": ("Kernel", "Options"),
    "driver": ("EmulatedDriver", "activate", "emulated"),
    "faults": ("EndlessLoop", "KernelFault", "MemoryFault", "UnsupportedInstruction"),
    "launcher": ("launch",),
    "machine": ("Counts",),
    "registry": ("Fidelity",),
    "fidelity": ("Executed", "Surveyed", "survey"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
