"""Every verdict, kept: a SQLite file that many processes write at once, and that survives a kill.

Write-ahead logging lets readers and one writer work side by side, and a process that is killed leaves either all of a
transaction or nothing. Shared memory is needed for that, so the file must lie on a disk of this machine, not on a
network's.
"""

import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from mxassay.errors import ContractError, UnsupportedError

SCHEMA = 1
CAMPAIGN = "campaign, seed "
"""How the profile of a campaign's verdict begins: its plans and seeds are chosen, not the kernel's own."""
_PATIENCE = 30.0  # seconds that a writer waits for others

_TABLES = (
    """CREATE TABLE IF NOT EXISTS environments (
        id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, versions TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS verdicts (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, command TEXT NOT NULL,
        kernel TEXT NOT NULL, place TEXT NOT NULL, kernel_hash TEXT NOT NULL, revision TEXT NOT NULL,
        dirty INTEGER NOT NULL, device TEXT NOT NULL, profile TEXT NOT NULL,
        environment INTEGER NOT NULL REFERENCES environments (id), property TEXT NOT NULL, shape TEXT NOT NULL,
        plan TEXT NOT NULL, dialect TEXT NOT NULL, result TEXT NOT NULL, outputs INTEGER NOT NULL,
        wrong INTEGER NOT NULL, counts TEXT NOT NULL, seconds REAL NOT NULL, message TEXT NOT NULL,
        UNIQUE (run, number))""",
    "CREATE INDEX IF NOT EXISTS verdicts_by_kernel ON verdicts (kernel, property, at)",
)
_COLUMNS = (
    "at", "command", "kernel", "place", "kernel_hash", "revision", "dirty", "device", "profile", "property", "shape",
    "plan", "dialect", "result", "outputs", "wrong", "counts", "seconds", "message",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One verdict.

    Attributes:
        command: check, pytest, faults, triage, bisect or campaign.
        kernel: its name: the path in its repository and the function, where a repository holds it.
        property: id of a property, or what was compared.
        result: a verdict, or the change that was found.
        place: the root of the repository or the folder that holds the kernel.
        kernel_hash: of the kernel's content (`mxassay.triage.versions.digest`).
        revision, dirty: of the repository, and whether the kernel differs from it; "" where there is none.
        shape: "M,N,K", or "" where a property has many.
        outputs, wrong: how many there were, and how many were wrong.
        counts: wave instructions by class, where they are known.
        seconds: how long it took. at: when it was found, in seconds since 1970, UTC.
    """

    command: str
    kernel: str
    property: str
    result: str
    place: str = ""
    kernel_hash: str = ""
    revision: str = ""
    dirty: bool = False
    device: str = ""
    profile: str = ""
    shape: str = ""
    plan: str = ""
    dialect: str = ""
    outputs: int = 0
    wrong: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    message: str = ""
    at: float = field(default_factory=time.time)
    environment: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {name: getattr(self, name) for name in (*_COLUMNS, "environment")}


def default_path() -> Path:
    """MXASSAY_HISTORY, or history.sqlite in the user's data folder."""
    if named := os.environ.get("MXASSAY_HISTORY"):
        return Path(named)
    return data_folder() / "history.sqlite"


def data_folder() -> Path:
    """Where mxassay keeps what a user may want again."""
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "mxassay"


class History:
    """The verdicts in one file. A context manager; one process and one thread may use an object, any number the file.

    Raises UnsupportedError where the file can't be made or written, ContractError where it is something else.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._run, self._number = uuid.uuid4().hex, 0
        if create:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UnsupportedError(_unusable(path, error)) from error
        elif not path.is_file():
            raise ContractError(f"the history must be an existing file, not {path}; `mxassay check` makes it")
        try:
            self._database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise
        except sqlite3.DatabaseError as error:
            raise _said(path, error) from error

    def _prepare(self) -> None:
        self._log_ahead()
        # A commit waits for no disk: a kill loses nothing that is committed; a power failure may lose the latest.
        self._database.execute("PRAGMA synchronous = NORMAL")
        version = self._schema()
        if version == 0:
            with self._transaction():
                if self._schema() == 0:
                    for table in _TABLES:
                        self._database.execute(table)
                    self._database.execute(f"PRAGMA user_version = {SCHEMA}")
            version = self._schema()
        if version != SCHEMA:
            raise UnsupportedError(
                f"the history must have schema {SCHEMA}, not {version}: {self.path}; use the mxassay that wrote it, or "
                "name another file with --history"
            )

    def _schema(self) -> int:
        return int(self._database.execute("PRAGMA user_version").fetchone()[0])

    def _log_ahead(self) -> None:
        """SQLite does not wait for others when the journal's mode changes, so this does."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                if self._database.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal":
                    return
                raise UnsupportedError(
                    f"the history must lie on a disk of this machine, not where SQLite can't log ahead: {self.path}"
                )
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def add(self, entries: Iterable[Entry]) -> None:
        """Keep all of `entries`, or, where the process is killed, none of them."""
        try:
            with self._transaction():
                for entry in entries:
                    self._number += 1
                    values = [getattr(entry, name) for name in _COLUMNS]
                    values[_COLUMNS.index("counts")] = json.dumps(entry.counts)
                    names = ", ".join((*_COLUMNS, "run", "number", "environment"))
                    marks = ", ".join("?" * (len(_COLUMNS) + 3))
                    self._database.execute(
                        f"INSERT INTO verdicts ({names}) VALUES ({marks})",
                        (*values, self._run, self._number, self._environment(entry.environment)),
                    )
        except sqlite3.DatabaseError as error:
            raise _said(self.path, error) from error

    def _environment(self, versions: dict[str, str]) -> int:
        text = json.dumps(versions, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._database.execute(
            "INSERT INTO environments (digest, versions) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING", (digest, text)
        )
        found = self._database.execute("SELECT id FROM environments WHERE digest = ?", (digest,)).fetchone()
        return int(found[0])

    def entries(self, kernel: str | None = None, property_: str | None = None) -> list[Entry]:
        """In the order of their times. `kernel`: those whose name or place holds this text."""
        names = ", ".join(f"verdicts.{name}" for name in _COLUMNS)
        wanted, values = ["1"], []
        if kernel is not None:
            wanted.append("(instr(verdicts.kernel, ?) OR instr(verdicts.place || '/' || verdicts.kernel, ?))")
            values += [kernel, kernel]
        if property_ is not None:
            wanted.append("verdicts.property = ?")
            values.append(property_)
        try:
            rows = self._database.execute(
                f"SELECT {names}, environments.versions FROM verdicts JOIN environments "
                f"ON environments.id = verdicts.environment WHERE {' AND '.join(wanted)} "
                "ORDER BY verdicts.at, verdicts.id",
                values,
            ).fetchall()
        except sqlite3.DatabaseError as error:
            raise _said(self.path, error) from error
        found = []
        for row in rows:
            fields = dict(zip(_COLUMNS, row[:-1], strict=True))
            fields |= {"counts": json.loads(fields["counts"]), "dirty": bool(fields["dirty"])}
            found.append(Entry(**fields, environment=json.loads(row[-1])))
        return found

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "History":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _said(path: Path, error: sqlite3.DatabaseError) -> Exception:
    if isinstance(error, sqlite3.OperationalError):
        return UnsupportedError(_unusable(path, error))
    return ContractError(f"the history must be a SQLite file that mxassay wrote, not {path} ({error}); name another")


def _unusable(path: Path, error: Exception) -> str:
    return f"the history must be a file that can be written, not {path} ({error}); name another with --history FILE"
