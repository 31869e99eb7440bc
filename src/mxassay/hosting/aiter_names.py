"""An aiter checkout on disk, and the names its package exports, read from the source without importing it."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from mxassay.errors import ContractError


class AiterCheckout:
    """One checkout, and the names its package exports.

    Args:
        path: the root folder of the checkout, the one that holds `aiter/`.

    Raises:
        ContractError: no aiter package there.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = Path(path).resolve()
        if not (self.path / "aiter" / "__init__.py").is_file():
            raise ContractError(f"--aiter must be an aiter checkout, a folder with aiter/__init__.py, not {path}")

    def has_triton_only_mode(self) -> bool:
        """False for a checkout from before aiter could leave its compiled operators out."""
        return "AITER_TRITON_ONLY" in (self.path / "aiter" / "__init__.py").read_text()

    def exports(self) -> dict[str, str]:
        """Every name that the full package would bind, with its module, read from the source.

        A definition goes before a module that only passes a name on, and the later import before the earlier.
        A name that is a module itself has its own name as value, with a colon after it.
        """
        named: dict[str, str] = {}
        defined: dict[str, str] = {}
        passed_on: dict[str, str] = {}
        for node in ast.walk(ast.parse((self.path / "aiter" / "__init__.py").read_text())):
            if not isinstance(node, ast.ImportFrom) or node.level != 1:
                continue
            module = f"aiter.{node.module}" if node.module else "aiter"
            for alias in node.names:
                if alias.name != "*":
                    is_module = self._file_of(f"{module}.{alias.name}")
                    named[alias.asname or alias.name] = f"{module}.{alias.name}:" if is_module else module
                    continue
                for name, is_definition in self._bound_by(module):
                    (defined if is_definition else passed_on)[name] = module
        return {**passed_on, **defined, **named}

    def _file_of(self, module: str) -> Path | None:
        base = self.path.joinpath(*module.split("."))
        candidates = (base.with_suffix(".py"), base / "__init__.py")
        return next((file for file in candidates if file.is_file()), None)

    def _bound_by(self, module: str) -> Iterator[tuple[str, bool]]:
        """Names that a module binds at its top level, and whether it defines them or only imports them."""
        file = self._file_of(module)
        if file is None:
            return
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name, True
            elif isinstance(node, ast.Assign):
                yield from ((target.id, True) for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.ImportFrom):
                yield from ((alias.asname or alias.name, False) for alias in node.names if alias.name != "*")
