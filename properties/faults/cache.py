"""Results of earlier runs, by a hash of everything they depend on."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mxassay.properties.catalogue import CATALOGUE
from mxassay.properties.faults.fault import Fault
from mxassay.properties.faults.tree import Tree

_ALWAYS_OUT = ("properties/faults/", "src/mxassay/commands/", "docs/", "README.md", "conftest.py", "pyproject.toml")
# What a result of each kind does not depend on.
_LEFT_OUT = {
    "suite": (*_ALWAYS_OUT, "tests/", "triage/", "src/mxassay/figures/", "gfx950/probe/", "gfx950/timing/"),
    "tests": ("properties/faults/", "docs/", "README.md"),
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
    """Results under `folder`: of kind `suite`, `tests` or `gates`, for one snapshot of the code.

    What a test of the suite killed stays killed while that test's chapter, its property and the code under all chapters
    stay the same: a result that names its `test` does not depend on the other chapters.
    """

    def __init__(self, folder: Path, tree: Tree, *, fresh: bool) -> None:
        self._folder = folder
        self._fresh = fresh
        self._tree = tree
        self._code = {kind: tree.digest(without=without) for kind, without in _LEFT_OUT.items()}
        gates = (tree.root / "properties" / "faults" / "usual.py").read_bytes()
        self._code["gates"] += hashlib.sha256(gates).hexdigest()
        self._versions = [platform.python_version(), *(version(package) for package in _PACKAGES)]
        self._chapters = {file.name: "" for file in sorted((tree.root / "properties").glob("test_*.py"))}

    @property
    def code(self) -> str:
        """The hash of the code that the suite's results depend on."""
        return self._code["suite"]

    def recall(self, kind: str, what: Fault | None, **asked: object) -> Any:
        """What was kept for a fault (None: the unchanged copy) and further words, or None."""
        if self._fresh:
            return None
        place = self._place(self._code[kind], kind, what, asked)
        if place.exists():
            return json.loads(place.read_text(encoding="utf-8"))
        for chapter in self._chapters if kind == "suite" and what is not None else ():
            place = self._place(self._below(chapter), kind, what, asked)
            if place.exists():
                found = json.loads(place.read_text(encoding="utf-8"))
                if found.pop("entry") == _entry(found["by"]):
                    return found
        return None

    def keep(self, kind: str, what: Fault | None, result: Any, **asked: object) -> None:
        """Keep a result that is plain JSON."""
        code = self._code[kind]
        if kind == "suite" and what is not None:
            chapter = result.get("test", "").partition("::")[0]
            if chapter in self._chapters:
                code, result = self._below(chapter), {**result, "entry": _entry(result["by"])}
        place = self._place(code, kind, what, asked)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(result), encoding="utf-8")

    def _below(self, chapter: str) -> str:
        """The hash of the code without the other chapters and the list of properties."""
        if not self._chapters[chapter]:
            others = [f"properties/{name}" for name in self._chapters if name != chapter]
            without = (*_LEFT_OUT["suite"], "properties/catalogue.toml", *others)
            self._chapters[chapter] = self._tree.digest(without=without)
        return self._chapters[chapter]

    def _place(self, code: str, kind: str, what: Fault | None, asked: dict[str, object]) -> Path:
        change = None if what is None else [what.file, what.find, what.replace]
        key = json.dumps([kind, change, sorted(asked.items()), code, self._versions])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _entry(name: str) -> str:
    return repr(CATALOGUE.get(name))
