"""A git repository as triage reads it: revisions and what they hold. The user's checkout is left alone."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mxassay.errors import ContractError, UnsupportedError

# What would lead git elsewhere than to the folder it is asked about, as inside a hook.
_LEADS_AWAY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


class GitError(ContractError):
    """git refused what it was asked; its own words are in the message."""


def git(folder: Path, *words: str) -> str:
    """What git prints, run in `folder`, without the last line's end.

    Raises GitError where it fails, UnsupportedError where there is no git.
    """
    return _git(folder, words).decode("utf-8", "surrogateescape").rstrip("\n")


def environment_of_git() -> dict[str, str]:
    """This process's environment, without what would lead git to another repository; messages in English."""
    return {name: value for name, value in os.environ.items() if name not in _LEADS_AWAY} | {"LC_ALL": "C"}


def _git(folder: Path, words: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, env=environment_of_git(), capture_output=True, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise ContractError(f"the repository must be an existing folder, not {folder}") from error
        raise UnsupportedError("git must be installed to read revisions, not missing") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise GitError(f"git {words[0]} must succeed, not fail in {folder}: {said}")
    return done.stdout


@dataclass(frozen=True)
class Repository:
    """The repository whose work tree begins at `root`."""

    root: Path

    @staticmethod
    def around(folder: Path) -> "Repository | None":
        """The one that holds `folder`, or None."""
        try:
            return Repository(Path(git(folder, "rev-parse", "--show-toplevel")))
        except (GitError, UnsupportedError, ContractError):
            return None

    def commit(self, revision: str) -> str:
        """The full name of the commit that `revision` means.

        Raises ContractError where there is none.
        """
        try:
            return git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError as error:
            raise ContractError(
                f"a revision must be one that {self.root} knows, not {revision}; fetch it, or give another --repo"
            ) from error

    def subject(self, commit: str) -> str:
        """The first line of its message."""
        return git(self.root, "log", "-1", "--format=%s", commit)

    def parent(self, commit: str) -> str | None:
        """The first parent, or None of a commit without any."""
        found = git(self.root, "rev-list", "--parents", "-n", "1", commit).split()
        return found[1] if len(found) > 1 else None

    def files(self, commit: str, path: str = "") -> dict[str, str]:
        """Blob name of each file under `path`, a file or a folder, by its path inside the repository."""
        listed = git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit, *([path] if path else []))
        found = {}
        for line in filter(None, listed.split("\0")):
            about, _, name = line.partition("\t")
            found[name] = about.split()[2]
        return found

    def changed(self, path: str) -> bool:
        """Whether the work tree differs from HEAD under `path`, new files included."""
        return bool(git(self.root, "status", "--porcelain", "--untracked-files=all", "--", path or "."))

    def head(self) -> str:
        """The commit that is checked out, or "" before the first."""
        try:
            return git(self.root, "rev-parse", "--verify", "--quiet", "HEAD")
        except GitError:
            return ""

    def export(self, commit: str, folder: Path, paths: Sequence[str] = ()) -> None:
        """Write the files of `commit`, or those under `paths`, into `folder`, a new one. Submodules stay empty."""
        packed = _git(self.root, ["archive", "--format=tar", commit, *paths])
        folder.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")

    def borrowed(self, folder: Path) -> "Repository":
        """A bare-bones repository in `folder`, a new one, that reads this one's objects and shares nothing else:
        HEAD, refs and bisections of the two don't know each other.
        """
        git(self.root, "init", "--quiet", str(folder))
        objects = Path(git(self.root, "rev-parse", "--git-path", "objects"))
        (folder / ".git" / "objects" / "info").mkdir(exist_ok=True)
        (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{(self.root / objects).resolve()}\n")
        shallow = self.root / git(self.root, "rev-parse", "--git-path", "shallow")
        if shallow.is_file():
            shutil.copy(shallow, folder / ".git" / "shallow")
        return Repository(folder)
