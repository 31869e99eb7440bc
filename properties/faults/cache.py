"""Results of earlier runs, by a hash of everything they depend on."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mxassay.properties.faults.fault import Fault
from mxassay.properties.faults.tree import Tree

_ALWAYS_OUT = ("properties/faults/", "src/mxassay/commands/", "README.md", "conftest.py", "pyproject.toml")
# What a result of each kind does not depend on.
_LEFT_OUT = {
    "suite": (*_ALWAYS_OUT, "tests/", "triage/", "src/mxassay/figures/", "gfx950/probe/", "gfx950/timing/"),
    "tests": ("properties/faults/",),
    "gates": (
        *_ALWAYS_OUT,
        "tests/",
        "properties/",
        "src/",
        "triage/",
        "gfx950/probe/",
        "gfx950/checks/",
        "gfx950/timing/",
    ),
}
_PACKAGES = ("torch", "triton", "numpy", "hypothesis", "pytest")


class Cache:
    """Results under `folder`: of kind `suite`, `tests` or `gates`, for one snapshot of the code."""

    def __init__(self, folder: Path, tree: Tree, *, fresh: bool) -> None:
        self._folder = folder
        self._fresh = fresh
        self._code = {kind: tree.digest(without=without) for kind, without in _LEFT_OUT.items()}
        self._versions = [platform.python_version(), *(version(package) for package in _PACKAGES)]

    @property
    def code(self) -> str:
        """The hash of the code that the suite's results depend on."""
        return self._code["suite"]

    def recall(self, kind: str, what: Fault | None, **asked: object) -> Any:
        """What was kept for a fault (None: the unchanged copy) and further words, or None."""
        place = self._place(kind, what, asked)
        return json.loads(place.read_text(encoding="utf-8")) if place.exists() and not self._fresh else None

    def keep(self, kind: str, what: Fault | None, result: Any, **asked: object) -> None:
        """Keep a result that is plain JSON."""
        place = self._place(kind, what, asked)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(result), encoding="utf-8")

    def _place(self, kind: str, what: Fault | None, asked: dict[str, object]) -> Path:
        change = None if what is None else [what.file, what.find, what.replace]
        key = json.dumps([kind, change, sorted(asked.items()), self._code[kind], self._versions])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
