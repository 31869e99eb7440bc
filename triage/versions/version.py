"""What BASE and CANDIDATE mean: words on the command line, resolved to a kernel that a process can open."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from mxassay.errors import ContractError, UnsupportedError
from mxassay.triage.versions.digest import digest_of, files_of, files_within, package_among, package_of
from mxassay.triage.versions.repository import Repository

OWN_FOLDER = "optimized"
OWN_NAME = "mxassay.optimized:matmul"
_CODE = (".py", ".co", ".hsaco")


@dataclass(frozen=True)
class Version:
    """One version of a kernel.

    Attributes:
        words: as on the command line.
        name: the kernel's name in the history: its path in the repository and the function, or OWN_NAME.
        place: the repository, or the folder of a kernel that lies in none.
        spec: what to open, a path or `module:attr`; None for our own kernel.
        own: the folder of our own kernel's package in this version; None for other kernels.
        tree: the folder that the version's files lie below; None for a module.
        base: the digest of the kernel's file or package, without what it imports from elsewhere.
        covers: the path of that file or package inside `tree`.
        files: blob names of the whole tree of a revision, by path; None where the kernel is a path.
        commit, subject: of a revision; "" for a path.
    """

    words: str
    name: str
    place: str
    spec: str | None
    own: Path | None
    tree: Path | None
    base: str
    covers: str = ""
    files: dict[str, str] | None = None
    commit: str = ""
    subject: str = ""
    dirty: bool = False

    def elsewhere(self, read: tuple[str, ...]) -> dict[str, str]:
        """Blob names of those of the files `read` that `base` does not cover, by path inside the tree."""
        if self.own is not None or self.tree is None:
            return {}
        outside = [path for path in read if path != self.covers and not path.startswith(f"{self.covers}/")]
        if self.files is not None:
            return {path: self.files[path] for path in outside if path in self.files}
        return {
            path: next(iter(files_of(self.tree / path).values())) for path in outside if (self.tree / path).is_file()
        }

    def holds(self, elsewhere: dict[str, str]) -> bool:
        """Whether its tree holds these files, as another version's `elsewhere` names them."""
        return self.elsewhere(tuple(elsewhere)) == elsewhere

    def digest(self, read: tuple[str, ...]) -> str:
        """The kernel hash: of its file or package, and of what else of its tree it was seen to read."""
        found = self.elsewhere(read)
        return digest_of(found | {"": self.base}) if found else self.base


class Versions:
    """Resolves versions and holds what it exports of revisions in a temporary folder, gone when the block ends.

    kernel: the kernel's path inside the repository, with ":function" where it has one; None for our own.
    """

    def __init__(self, repository: Repository | None, kernel: str | None) -> None:
        self.repository, self.kernel = repository, kernel
        self._folder = Path(tempfile.mkdtemp(prefix="mxassay-versions-"))

    def __enter__(self) -> "Versions":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def named(self, words: str) -> Version:
        """The version that `words` mean: a file, a folder that holds a tree, a git revision, or `module:attr`.

        Raises ContractError where they mean nothing, UnsupportedError where a revision does not hold the kernel.
        """
        where = words.partition(":")[0]
        if where.endswith(_CODE) and Path(where).is_file():
            return self._file(words)
        if Path(words).is_dir():
            return self._folder_tree(words)
        if self.repository is not None:
            try:
                commit = self.repository.commit(words)
            except ContractError:
                if ":" not in words or where.endswith(_CODE):
                    raise
            else:
                return replace(self.revision(commit), words=words)
        if ":" in words and not where.endswith(_CODE):
            return Version(words, words, "", words, None, None, digest_of({words: ""}))
        raise ContractError(
            f"a version must be a git revision, a path or module:attr, not {words}; is it mistyped, or --repo missing?"
        )

    def _file(self, words: str) -> Version:
        where, colon, attribute = words.partition(":")
        file = Path(where).resolve()
        place = package_of(file) or file
        top = place.parent
        repository = Repository.around(file.parent)
        root = repository.root.resolve() if repository else file.parent
        dirty = repository.changed(place.relative_to(root).as_posix()) if repository else False
        return Version(
            words,
            file.relative_to(root).as_posix() + colon + attribute,
            str(root),
            f"{file}{colon}{attribute}",
            None,
            top,
            digest_of(files_of(place)),
            place.relative_to(top).as_posix(),
            commit=repository.head() if repository else "",
            dirty=dirty,
        )

    def _folder_tree(self, words: str) -> Version:
        root = Path(words).resolve()
        if self.kernel is not None:
            where, colon, attribute = self.kernel.partition(":")
            if not (root / where).is_file():
                raise UnsupportedError(f"the kernel must be a file of {root}, not missing: {where}")
            found = self._file(f"{root / where}{colon}{attribute}")
            covers = (found.tree or root).joinpath(found.covers).relative_to(root).as_posix()
            return replace(found, words=words, tree=root, covers=covers)
        _must_be_ours(OWN_FOLDER if (root / OWN_FOLDER / "gemm.py").is_file() else "", words)
        repository = Repository.around(root)
        own = root / OWN_FOLDER
        return Version(
            words, OWN_NAME, str(root), None, own, own, digest_of(files_of(own)),
            commit=repository.head() if repository else "", dirty=bool(repository and repository.changed(OWN_FOLDER)),
        )  # fmt: skip

    def revision(self, commit: str) -> Version:
        """The kernel as `commit` holds it; nothing is exported yet (`ready`).

        Raises UnsupportedError where the commit does not hold the kernel.
        """
        assert self.repository is not None
        files = self.repository.files(commit)
        root, subject = self.repository.root, self.repository.subject(commit)
        tree = self._folder / commit
        if self.kernel is None:
            _must_be_ours(OWN_FOLDER if f"{OWN_FOLDER}/gemm.py" in files else "", commit[:10])
            base = digest_of(files_within(files, OWN_FOLDER))
            own = tree / OWN_FOLDER
            return Version(commit[:10], OWN_NAME, str(root), None, own, own, base, commit=commit, subject=subject)
        where, colon, attribute = self.kernel.partition(":")
        if where not in files:
            raise UnsupportedError(f"the kernel must be a file of {commit[:10]}, not missing: {where}")
        covers = package_among(files, where) or where
        base = digest_of(files_within(files, covers))
        spec = f"{tree / where}{colon}{attribute}"
        return Version(commit[:10], self.kernel, str(root), spec, None, tree, base, covers, files, commit, subject)

    def ready(self, version: Version) -> Version:
        """The same, once its files lie where it says: those of a revision are exported here, once."""
        if version.commit and version.tree is not None and self._folder in version.tree.parents:
            tree = self._folder / version.commit
            if not tree.exists():
                assert self.repository is not None
                self.repository.export(version.commit, tree, [OWN_FOLDER] if version.spec is None else [])
        return version


def _must_be_ours(found: str, words: str) -> None:
    if not found:
        raise ContractError(
            f"--kernel PATH:FN must say which kernel of {words} is meant, unless it is mxassay's own repository"
        )
