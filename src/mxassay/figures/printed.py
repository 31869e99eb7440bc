"""Figures and their tables on a terminal."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["print_figures", "print_table"]

_RIGHT = ("value", "bar", "ratio", "spread", "cpu s")


def print_figures(console: Console, document: dict[str, Any]) -> None:
    """One row a figure, and what falls short."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("figure", "value", "unit", "bar", "holds", "spread", "cpu s", "peer", "ratio"):
        table.add_column(heading, justify="right" if heading in _RIGHT else "left", no_wrap=heading != "figure")
    for row in document["figures"]:
        table.add_row(*_cells(row))
    console.print(table)
    machine = document["machine"]
    loads = ", ".join(map(str, machine["load"]))
    console.print(
        f"\n{escape(str(machine['processor']))}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['date']}; load {loads}; {document['seconds']:.0f} s",
        highlight=False,
    )
    for name, why in document["skipped"].items():
        console.print(f"not measured: {name}: {escape(why)}", highlight=False)
    barred = [row for row in document["figures"] if "bar" in row]
    short = [row for row in barred if not row["holds"]]
    console.print(f"{len(barred) - len(short)} of {len(barred)} bars hold", highlight=False)
    for row in short:
        # Zero times a bar of zero says nothing: then the value alone does.
        by = f"{row['value'] / row['bar']:.2f} times the bar" if row["bar"] else f"{row['value']:g}, not 0"
        console.print(f"[red]falls short[/red]: {escape(row['id'])}: {by}", highlight=False)


def _cells(row: dict[str, Any]) -> list[str]:
    spread = f"{row['low']:.3g}..{row['high']:.3g}" if "low" in row else ""
    holds = "" if "holds" not in row else "[green]pass[/green]" if row["holds"] else "[red]short[/red]"
    return [
        escape(row["id"]), _number(row["value"]), row["unit"], _number(row.get("bar")), holds, spread,
        _number(row.get("cpu")), escape(row.get("peer") or ""), _number(row.get("ratio")),
    ]  # fmt: skip


def print_table(console: Console, name: str, rows: list[dict[str, Any]]) -> None:
    """A group's own rows: launches as a table, then what the model takes for granted, each with its source."""
    launches = [row for row in rows if "assumption" not in row]
    if launches:
        keys = [key for key, value in launches[0].items() if not isinstance(value, dict)]
        table = Table(title=name, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for key in keys:
            table.add_column(key.replace("_", " "))
        for row in launches:
            table.add_row(*(escape(_short(row.get(key))) for key in keys))
        console.print("")
        console.print(table)
        for row in launches:
            counts = ", ".join(f"{name} {count:,}" for name, count in row["instructions"].items() if count)
            longest = ", ".join(f"{name} {count:,}" for name, count in row["longest_wave"].items() if count)
            bounds = ", ".join(f"{name} {value:g}" for name, value in row["bounds_us"].items())
            title = f"{_short(row['shape'])} {row['kernel']} {row['launch']}"
            console.print(f"\n{escape(title)}\n  in all: {counts}\n  longest wave: {longest}\n  bounds, us: {bounds}",
                          highlight=False)  # fmt: skip
    for row in rows:
        if "how" in row:
            console.print(
                f"{row['assumption']}: {row['value']:g} {row['unit']} ({row['how']}): {escape(row['source'])}",
                highlight=False,
            )
        elif "assumption" in row:
            console.print(f"not modelled: {escape(row['source'])}", highlight=False)


def _short(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else _number(value)


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
