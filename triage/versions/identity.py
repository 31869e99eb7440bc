"""Which kernel a verdict is about: its name, the hash of its content, and the revision it belongs to."""

import sys
from dataclasses import dataclass
from pathlib import Path

from mxassay.triage.versions.digest import digest_of, files_of, package_of
from mxassay.triage.versions.repository import Repository


@dataclass(frozen=True)
class Identity:
    """Attributes as of `mxassay.triage.versions.history.Entry`."""

    kernel: str
    place: str
    kernel_hash: str
    revision: str = ""
    dirty: bool = False


def identity_of(spec: str, file: Path | None) -> Identity:
    """Of the kernel that the command line calls `spec`, once it is loaded.

    `file`: a Python file, a code object, or a folder: the kernel's package; None where nothing is known. Counted to the
    kernel are the package that holds the file, or else the file and those beside it that this process has imported.
    """
    if file is None:
        return Identity(spec, "", "")
    file = file.resolve()
    place = file if file.is_dir() or file.suffix != ".py" else package_of(file) or file
    files = files_of(place)
    if place.suffix == ".py":
        files |= _imported_beside(place)
    repository = Repository.around(place.parent)
    root = repository.root.resolve() if repository else place.parent
    where, colon, attribute = spec.partition(":")
    named_by_file = where.endswith(file.suffix) and file.is_file()
    name = f"{file.relative_to(root).as_posix()}{colon}{attribute}" if named_by_file else spec
    if repository is None:
        return Identity(name, str(root), digest_of(files))
    changed = repository.changed(place.relative_to(root).as_posix())
    return Identity(name, str(root), digest_of(files), repository.head(), changed)


def _imported_beside(file: Path) -> dict[str, str]:
    """Python files below the folder of `file` that this process has loaded; packages there count as a whole."""
    found: dict[str, str] = {}
    for module in list(sys.modules.values()):
        loaded = Path(getattr(module, "__file__", None) or "/").resolve()
        if loaded.suffix != ".py" or file.parent not in loaded.parents or loaded == file:
            continue
        if {"site-packages", "dist-packages"} & set(loaded.parts):
            continue
        if not (place := package_of(loaded)) or file.parent not in place.parents:
            place = loaded
        start = place.relative_to(file.parent).as_posix()
        for path, blob in files_of(place).items():
            found[start if place.is_file() else f"{start}/{path}"] = blob
    return found
