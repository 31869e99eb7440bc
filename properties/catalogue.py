"""Every property: what it states, who says so, and what a kernel must have for it to apply.

    python -m mxassay.properties.catalogue            # print docs/properties.md

The properties are the table catalogue.toml. Loads neither torch nor triton.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mxassay.errors import ContractError

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

NEEDS: dict[str, str] = _TABLE.pop("needs")
"""What a property may need of a session, as the end of a sentence that begins with "needs"."""


@dataclass(frozen=True)
class Property:
    """One property. `statement` is one sentence, `source` says where it comes from, `needs` are keys of NEEDS."""

    id: str
    chapter: str
    statement: str
    source: str
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for need in self.needs:
            if need not in NEEDS:
                raise ContractError(f"a property's needs must be among {', '.join(NEEDS)}, not {need}")


CATALOGUE: dict[str, Property] = {
    name: Property(name, chapter, row["statement"], row["source"], tuple(row.get("needs", ())))
    for chapter, rows in _TABLE.items()
    for name, row in rows.items()
}
"""Every property, by id."""

CHAPTERS = tuple(_TABLE)


def markdown() -> str:
    """The page docs/properties.md."""
    lines = [
        "# Properties",
        "",
        f"What `mxassay check --profile` asks of a kernel: {len(CATALOGUE)} properties in {len(CHAPTERS)} chapters.",
        "Generated from `mxassay.properties.catalogue`. A property that does not apply to a kernel or a device is",
        "skipped with the reason; what the short words under *needs* mean stands at the end.",
    ]
    for chapter in CHAPTERS:
        lines += ["", f"## {chapter[0].upper()}{chapter[1:]}", ""]
        for entry in CATALOGUE.values():
            if entry.chapter == chapter:
                needs = f" *Needs: {', '.join(entry.needs)}.*" if entry.needs else ""
                lines += [f"`{entry.id}`", f": {entry.statement} *Source: {entry.source}.*{needs}", ""]
        lines.pop()
    lines += ["", "## What a property may need", ""]
    lines += [f"- *{need}*: {meaning}." for need, meaning in NEEDS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
