"""A copy of mxassay that faults can be planted in, shaped like a checkout whether or not it comes from one."""

import compileall
import hashlib
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

import mxassay
from mxassay.errors import ContractError
from mxassay.properties.faults.fault import Fault

PACKAGES = ("layouts", "reference", "optimized", "gfx950", "properties", "triage")
"""What stands at a checkout's root, beside src/mxassay; a package that does not exist is left out."""

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")


@dataclass(frozen=True)
class Tree:
    """A snapshot of the code at `root`: later changes of the original don't reach it."""

    root: Path

    def digest(self, *, without: tuple[str, ...] = ()) -> str:
        """A hash of the code, but for files whose path begins with one of `without`."""
        found = hashlib.sha256()
        for file in sorted(self.root.rglob("*")):
            name = file.relative_to(self.root).as_posix()
            if file.is_file() and "__pycache__" not in name and not name.startswith(without):
                found.update(f"{name}\0{file.stat().st_size}\0".encode())
                found.update(file.read_bytes())
        return found.hexdigest()

    def check_fits(self, fault: Fault) -> str:
        """The text of the fault's file with the fault in it.

        Raises ContractError when the file does not exist or `find` does not stand in it exactly once.
        """
        file = self.root / fault.file
        if not file.is_file():
            raise ContractError(f"file of fault {fault.id} must exist, not be missing: {fault.file}")
        return fault.applied_to(file.read_text(encoding="utf-8"))

    def planted(self, fault: Fault | None, root: Path) -> "Tree":
        """A copy at `root`, a new folder, with `fault` in it. Raises as `check_fits` does."""
        changed = None if fault is None else self.check_fits(fault)
        shutil.copytree(self.root, root, ignore=shutil.ignore_patterns(".hypothesis"))
        if fault is not None and changed is not None:
            (root / fault.file).write_text(changed, encoding="utf-8")
        return Tree(root)


def snapshot(root: Path) -> Tree:
    """Copy the mxassay that this process imports to the new folder `root`."""
    front = Path(mxassay.__file__).parent
    shutil.copytree(front, root / "src" / "mxassay", ignore=lambda at, names: _ignored(front, at, names))
    for name in PACKAGES:
        spec = importlib.util.find_spec(f"mxassay.{name}")
        if spec is not None and spec.submodule_search_locations:
            shutil.copytree(spec.submodule_search_locations[0], root / name, ignore=_LEFT_OUT)
    checkout = Path(mxassay.__file__).resolve().parents[2]  # an editable install may consist of links
    if (checkout / "pyproject.toml").is_file() and (checkout / "layouts").is_dir():
        for file in ("pyproject.toml", "conftest.py", "README.md"):
            if (checkout / file).is_file():
                shutil.copy(checkout / file, root)
        for name in ("tests", "docs"):  # the pages too, which tests compare
            if (checkout / name).is_dir():
                shutil.copytree(checkout / name, root / name, ignore=_LEFT_OUT)
    else:
        # mxassay/__init__.py takes the folder above src for a checkout when it finds this file.
        (root / "pyproject.toml").write_text("", encoding="utf-8")
    # Copies keep the times of files, by which Python knows what it has compiled: only the faulty file is compiled anew.
    compileall.compile_dir(root, quiet=2)
    return Tree(root)


def _ignored(front: Path, at: str, names: list[str]) -> set[str]:
    left_out: set[str] = set(_LEFT_OUT(at, names))
    return left_out | (set(PACKAGES) & set(names)) if Path(at) == front else left_out
