"""Refuses to compile HIP and CUDA sources through torch: no HIP compiler is here. Host C++ compiles as ever."""

import os
import types
from contextlib import AbstractContextManager
from typing import Any

from mxassay.errors import UnsupportedError
from mxassay.hosting.changed_import import changed_on_import
from mxassay.hosting.refusals import refusal

MODULE = "torch.utils.cpp_extension"  # loaded late: it loads setuptools
_DEVICE_SOURCES = (".cu", ".hip")


def no_device_compiler() -> AbstractContextManager[None]:
    """Inside the block `load_inline` with device sources, and `load` of device files, are refused by name."""
    originals: dict[str, Any] = {}

    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, *args: Any, **kwargs: Any) -> Any:
        if cuda_sources:
            raise _needs_compiler(name)
        return originals["load_inline"](name, cpp_sources, cuda_sources, *args, **kwargs)

    def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
        files = [sources] if isinstance(sources, str) else list(sources)
        if any(os.fspath(file).endswith(_DEVICE_SOURCES) for file in files):
            raise _needs_compiler(name)
        return originals["load"](name, sources, *args, **kwargs)

    def change(module: types.ModuleType) -> None:
        originals.update(load_inline=module.load_inline, load=module.load)
        vars(module).update(load_inline=load_inline, load=load)

    def undo(module: types.ModuleType) -> None:
        vars(module).update(originals)

    return changed_on_import(MODULE, change, undo)


def _needs_compiler(name: str) -> UnsupportedError:
    return refusal(
        f"the extension {name} must be Triton or host C++ on the emulated card, not HIP source: no HIP compiler is here"
    )
