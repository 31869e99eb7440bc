"""What a campaign found, file by file, beside the reasons that are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mutant_reasons import Reasons
    from mutant_source import Mutant


@dataclass(frozen=True)
class Tried:
    """`rows`, from the journal: those of the `mutants` of `file` that were tried; `by` is None in a survivor's."""

    file: str
    mutants: Sequence[Mutant]
    rows: Sequence[dict[str, Any]]

    @property
    def killed(self) -> int:
        return sum(row["by"] is not None for row in self.rows)

    def explained(self, reasons: Reasons) -> int:
        """How many survivors have a reason."""
        return sum(row["by"] is None and self._reason(row, reasons) is not None for row in self.rows)

    def figures(self, reasons: Reasons) -> dict[str, int]:
        """The row of scores.json."""
        return {
            "mutants": len(self.mutants),
            "tried": len(self.rows),
            "killed": self.killed,
            "explained": self.explained(reasons),
        }

    def questions(self, reasons: Reasons) -> Iterator[str]:
        """Survivors without a reason, reasons whose mutants are dead or gone."""
        for row in sorted(self.rows, key=lambda row: (row["line"], row["id"])):
            reason = self._reason(row, reasons)
            if row["by"] is None and reason is None:
                yield f"survived: {self.file}:{row['line']}, id {row['id']}\n{row['diff']}"
            if row["by"] is not None and reason is not None:
                yield f"explained, but killed by {row['by']}: {self.file}:{row['line']}, id {row['id']}\n{row['diff']}"
        there = {mutant.ident for mutant in self.mutants}
        for file, ident in reasons.single:
            if file == self.file and ident not in there:
                yield f"explained, but gone: {file}, id {ident}"

    def _reason(self, row: dict[str, Any], reasons: Reasons) -> str | None:
        return reasons.of(self.file, row["id"], row["diff"])


def score(found: Sequence[Tried], reasons: Reasons) -> str:
    """One sentence."""
    tried, killed, explained = (
        sum(len(each.rows) for each in found),
        sum(each.killed for each in found),
        sum(each.explained(reasons) for each in found),
    )
    alive = tried - killed
    return (
        f"{killed} of {tried} tried were killed, {killed / max(tried, 1):.1%}; {alive} survived, {explained} of them "
        f"for a known reason; {sum(len(each.mutants) for each in found)} mutants in all"
    )


def spoken(figures: Mapping[str, Mapping[str, int]]) -> str:
    """What CONTRIBUTING.md says of scores.json."""

    def total(what: str, folder: str = "") -> int:
        return sum(row[what] for file, row in figures.items() if file.startswith(folder))

    def killed(folder: str) -> str:
        count, of = total("killed", folder), total("tried", folder)
        return f"{count} of {of} were killed in `{folder}` ({count / max(of, 1):.0%})"

    alive = total("tried") - total("killed")
    survivors = f"{total('explained')} of the {alive} survivors have a reason" if alive else "none survived"
    return (
        f"Of {total('mutants'):,} such changes {total('tried'):,} were tried when this was last written, a fair "
        f"sample of each file: {killed('layouts/')}, {killed('reference/')}, and {survivors}."
    )
