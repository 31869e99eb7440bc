"""Modules that are changed as they load, wherever and whenever a program imports them."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class ChangedLoader(importlib.abc.Loader):
    """A loader that changes its module before it runs, after it ran, or both."""

    def __init__(
        self,
        loader: importlib.abc.Loader,
        before: Callable[[types.ModuleType], None] | None,
        after: Callable[[types.ModuleType], None] | None,
    ) -> None:
        self.loader, self.before, self.after = loader, before, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if self.before is not None:
            self.before(module)
        self.loader.exec_module(module)
        if self.after is not None:
            self.after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)  # get_source and the like, for tracebacks and for Triton


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, change: Callable[[types.ModuleType], None]) -> None:
        self.name, self.change = name, change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = ChangedLoader(spec.loader, None, self.change)
        return spec


@contextmanager
def changed_on_import(
    name: str, change: Callable[[types.ModuleType], None], undo: Callable[[types.ModuleType], None]
) -> Iterator[None]:
    """Change a module now if it is loaded, else when it is; undo the change at the end."""
    finder = _Finder(name, change)
    sys.meta_path.insert(0, finder)
    if name in sys.modules:
        change(sys.modules[name])
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        if name in sys.modules:
            undo(sys.modules[name])
