"""Makes an aiter checkout importable on a machine without ROCm.

Nothing in the checkout is edited. aiter runs in its Triton-only mode; an import hook adds what that mode leaves out:
names of the package (`aiter.dtypes`, `aiter.QuantType`, ...) found where the checkout defines them, `aiter.gemm_a4w4`
served by the prebuilt code objects, and for every operator that takes a compiler an error that names it.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mxassay.errors import UnsupportedError
from mxassay.hosting.aiter_compiled import UnsupportedAttributeError, compile_ops
from mxassay.hosting.aiter_moves import MOVED_NAMES, MovedModules, add_moved_names
from mxassay.hosting.aiter_names import AiterCheckout
from mxassay.hosting.changed_import import ChangedLoader
from mxassay.hosting.rocm_standin import environment_for_aiter, make_rocm_root

NOTE = "aiter runs in its Triton-only mode without ROCm; gemm_a4w4 is served by its prebuilt gfx950 code objects"

_COMPILER_FOLDER = Path("aiter") / "jit" / "utils"


class _Hook(importlib.abc.MetaPathFinder):
    """Finds aiter's modules in the checkout and changes three of them as they load."""

    def __init__(self, checkout: AiterCheckout) -> None:
        self.checkout = checkout
        self.changes: dict[str, Callable[[types.ModuleType], None]] = {
            "aiter": self._add_exports,
            **dict.fromkeys(MOVED_NAMES, add_moved_names),
        }
        self.after: dict[str, Callable[[types.ModuleType], None]] = {"aiter.jit.core": _refuse_to_compile}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "aiter.ops.gemm_op_a4w4":
            return importlib.machinery.ModuleSpec(fullname, _Served(self.checkout.path))
        if fullname not in self.changes and fullname not in self.after:
            return None
        search = [str(self.checkout.path)] if fullname == "aiter" else path
        spec = importlib.machinery.PathFinder.find_spec(fullname, search)
        if spec is not None and spec.loader is not None:
            if fullname == "aiter" and not self.checkout.has_triton_only_mode() and spec.origin is not None:
                spec.loader = _WithoutCompiledImports(fullname, spec.origin)
            spec.loader = ChangedLoader(spec.loader, self.changes.get(fullname), self.after.get(fullname))
        return spec

    def _add_exports(self, module: types.ModuleType) -> None:
        exports: dict[str, str] = {}

        def find(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module 'aiter' has no attribute {name!r}")
            exports.update(exports or self.checkout.exports())
            if name not in exports:
                raise AttributeError(f"module 'aiter' has no attribute {name!r}")
            source = exports[name]
            try:
                value = _from(source, name)
            except ImportError as error:
                raise UnsupportedAttributeError(
                    f"aiter.{name} must import from {source.rstrip(':')}, not need {error.name or error}; "
                    "install it, or leave this name out"
                ) from error
            setattr(module, name, value)
            return value

        module.__getattr__ = find  # type: ignore[method-assign]


def _from(source: str, name: str) -> Any:
    if source.endswith(":"):
        return importlib.import_module(source[:-1])
    return getattr(importlib.import_module(source), name)


def _refuse_to_compile(module: types.ModuleType) -> None:
    module.compile_ops = compile_ops  # type: ignore[attr-defined]


class _WithoutCompiledImports(importlib.machinery.SourceFileLoader):
    """Loads the package of a checkout from before the Triton-only mode: without the imports of its own modules.

    Their names are found when they are asked for. Nothing is cached, since the bytecode is not that of the file.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.level == 1)]
        return compile(tree, self.path, "exec")


class _Served(importlib.abc.Loader):
    """Loads our `aiter.ops.gemm_op_a4w4`."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        from mxassay.hosting.aiter_gemm import make_module

        return make_module(self.checkout)

    def exec_module(self, module: types.ModuleType) -> None: ...


def install_aiter(path: "str | os.PathLike[str]", root: Path | None = None) -> AiterCheckout:
    """Make the checkout at `path` this process's `aiter`. The Triton driver must already say gfx950.

    Sets environment variables, extends `sys.path` and adds an import hook, for the rest of the process. `root` is a
    stand-in that `make_rocm_root` made, or None to make one.

    Raises:
        ContractError: no checkout there.
        UnsupportedError: another aiter is already imported.
    """
    checkout = AiterCheckout(path)
    _require_no_other(checkout)
    os.environ.update(environment_for_aiter(root or make_rocm_root()))
    sys.path.insert(0, str(checkout.path))
    sys.path.append(str(checkout.path / _COMPILER_FOLDER))  # aiter's modules import their neighbours by bare names
    sys.meta_path.insert(0, _Hook(checkout))
    sys.meta_path.append(MovedModules(checkout))
    return checkout


@contextmanager
def aiter_checkout(path: "str | os.PathLike[str]") -> Iterator[AiterCheckout]:
    """Like `install_aiter`, and undone at the end: environment, search path, hook and every loaded aiter module."""
    environment, search, hooks = dict(os.environ), list(sys.path), list(sys.meta_path)
    modules = set(sys.modules)
    root = make_rocm_root()
    checkout = install_aiter(path, root)
    try:
        yield checkout
    finally:
        shutil.rmtree(root, ignore_errors=True)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:], sys.meta_path[:] = search, hooks
        for name in set(sys.modules) - modules:
            if name.split(".")[0] == "aiter" or _lies_in(sys.modules[name], checkout.path):
                del sys.modules[name]


def _require_no_other(checkout: AiterCheckout) -> None:
    loaded = sys.modules.get("aiter")
    if loaded is not None and not _lies_in(loaded, checkout.path):
        raise UnsupportedError(
            f"aiter must come from {checkout.path}, not be imported already from {loaded.__file__}; start a new process"
        )


def _lies_in(module: types.ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and folder in Path(file).resolve().parents
