"""Why some mutants survive: survivors.toml, one by one, and by kind where one reason holds for many."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """The mutants that make one of `changes`, [old, new], at one place, in `files` (all of them where empty)."""

    name: str
    changes: tuple[tuple[str, str], ...]
    reason: str
    files: tuple[str, ...] = ()

    def holds(self, file: str, diff: str) -> bool:
        """Whether the mutant of `file` that `diff` shows is of this kind."""
        if self.files and file not in self.files:
            return False
        old, new = ("\n".join(line[1:] for line in diff.splitlines() if line[0] == sign) for sign in "-+")
        return any(_bare(new) in map(_bare, _changed(old, *change)) for change in self.changes)


def _changed(text: str, old: str, new: str) -> Iterator[str]:
    """`text` with each `old` in turn replaced."""
    at = text.find(old)
    while at >= 0:
        yield text[:at] + new + text[at + len(old) :]
        at = text.find(old, at + 1)


def _bare(text: str) -> str:
    """Without the blanks at the ends of its lines, which a difference does not keep."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


@dataclass(frozen=True)
class Reasons:
    """`single`: the reason of each known survivor, by file and id. `kinds`: the reasons of many."""

    single: dict[tuple[str, str], str] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Reasons":
        """What the TOML file at `path` holds: tables `survivor` (file, id, diff, reason) and `kind`, as `Kind`."""
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        single = {(row["file"], row["id"]): row["reason"] for row in found.get("survivor", [])}
        kinds = (
            Kind(row["name"], tuple(map(tuple, row["changes"])), row["reason"], tuple(row.get("files", ())))
            for row in found.get("kind", [])
        )
        return cls(single, tuple(kinds))

    def of(self, file: str, ident: str, diff: str) -> str | None:
        """Why this mutant may survive; None where nothing says so."""
        single = self.single.get((file, ident))
        return single if single is not None else next((kind.reason for kind in self._kinds_of(file, diff)), None)

    def _kinds_of(self, file: str, diff: str) -> Iterator[Kind]:
        return (kind for kind in self.kinds if kind.holds(file, diff))
