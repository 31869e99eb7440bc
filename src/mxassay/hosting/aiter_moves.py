"""Modules and names that aiter moved since public submissions were written: old imports find them where they are today.

aiter redirects its public Triton modules itself (aiter/ops/triton/__init__.py); this adds what it leaves out.
"""

import importlib
import importlib.abc
import importlib.machinery
import types
from collections.abc import Callable, Sequence
from typing import Any

from mxassay.hosting.aiter_names import AiterCheckout


class MovedModules(importlib.abc.MetaPathFinder):
    """The last resort for a Triton module that is nowhere: the one file of its name under the same top folder."""

    def __init__(self, checkout: AiterCheckout) -> None:
        self.top = checkout.path.joinpath("aiter", "ops", "triton")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = fullname.split(".")
        if parts[:3] != ["aiter", "ops", "triton"] or len(parts) < 4:
            return None
        private = parts[3] if parts[3].startswith("_") else None
        found = [
            file.relative_to(self.top).with_suffix("")
            for file in (self.top / (private or "")).rglob(f"{parts[-1]}.py")
            if private or not file.relative_to(self.top).parts[0].startswith("_")
        ]
        if len(found) != 1:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Redirect(".".join([*parts[:3], *found[0].parts])))


class _Redirect(importlib.abc.Loader):
    """Loads a module by its present name."""

    def __init__(self, present: str) -> None:
        self.present = present

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self.present)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has just written the old name's


class _SplitReduceOfOld:
    """`_gemm_afp4wfp4_reduce_kernel[grid](...)`, which aiter 8ad7533 made `_gemm_splitk_reduce_kernel`."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        present = importlib.import_module("aiter.ops.triton._triton_kernels.common.splitk_reduce")
        launch = present._gemm_splitk_reduce_kernel[grid]

        def call(c_in: Any, c_out: Any, *sizes: Any, **options: Any) -> Any:
            return launch(
                c_in, c_out, None, *sizes, ADD_BIAS=False, activation="", use_activation=False,
                KERNEL_NAME="_gemm_afp4wfp4_reduce_kernel", **options,
            )  # fmt: skip

        return call


# Names that left their module, by module; asked for only where the module lacks them.
MOVED_NAMES: dict[str, dict[str, Callable[[], Any]]] = {
    "aiter.ops.triton._triton_kernels.gemm.basic.gemm_afp4wfp4": {"_gemm_afp4wfp4_reduce_kernel": _SplitReduceOfOld},
}


def add_moved_names(module: types.ModuleType) -> None:
    """Let a module answer for the names that left it."""
    moved = MOVED_NAMES[module.__name__]

    def find(name: str) -> Any:
        if name in moved:
            return moved[name]()
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = find  # type: ignore[method-assign]
