"""A hash of a kernel's content: the same for equal files, wherever they lie and whichever commit holds them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_LEFT_OUT = ("__pycache__", ".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache")


def blob_name(data: bytes) -> str:
    """What git calls a file with this content.

    >>> blob_name(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def digest_of(files: Mapping[str, str]) -> str:
    """A hash of blob names by path. Where the files lie together does not count, what they are called does."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path}\0{files[path]}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def package_of(file: Path) -> Path | None:
    """The folder of the outermost package that holds a Python file, or None."""
    folder, found = file.parent, None
    while (folder / "__init__.py").is_file():
        folder, found = folder.parent, folder
    return found


def package_among(paths: Mapping[str, str], file: str) -> str | None:
    """`package_of`, among the paths of a commit."""
    folder, found = PurePosixPath(file).parent, None
    while (folder / "__init__.py").as_posix() in paths:
        folder, found = folder.parent, folder.as_posix()
    return found


def files_of(place: Path) -> dict[str, str]:
    """Blob names by path relative to `place`, a folder; of a file, its own by its name."""
    if place.is_file():
        return {place.name: blob_name(place.read_bytes())}
    return {
        path.relative_to(place).as_posix(): blob_name(path.read_bytes())
        for path in place.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not set(_LEFT_OUT) & set(path.relative_to(place).parts)
    }


def files_within(files: Mapping[str, str], place: str) -> dict[str, str]:
    """`files_of`, among the files of a commit by path inside the repository."""
    if place in files:
        return {PurePosixPath(place).name: files[place]}
    start = f"{place}/" if place not in ("", ".") else ""
    return {path.removeprefix(start): blob for path, blob in files.items() if path.startswith(start)}
