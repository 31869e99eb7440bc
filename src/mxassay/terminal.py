"""What a person sees: the verdict table, and a report of every failure that stands alone."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from mxassay.checking import STATEMENT
from mxassay.suite import PropertyRecord
from mxassay.verdicts import CaseRecord, Verdict, worst

_STYLE = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold red",
    Verdict.UNSUPPORTED: "yellow",
}


def verdict_table(records: list[CaseRecord]) -> Table:
    """One row a case: shape, plan, device, certified share, bit differences, verdict, seconds."""
    several = len({record.kernel for record in records}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    if several:
        table.add_column("kernel")
    for heading in ("M,N,K", "plan", "device", "certified", "bit differences", "verdict", "run s", "compile s"):
        right = heading not in ("plan", "device", "verdict")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for record in records:
        ran = record.outputs > 0
        table.add_row(
            *([record.kernel] if several else []),
            ",".join(map(str, record.shape)) + ("*" if record.reduced_from else ""),
            record.plan,
            record.device,
            share(record.certified, record.outputs) if ran else "-",
            f"{record.bit_differences} of {record.outputs}" if ran else "-",
            f"[{_STYLE[record.verdict]}]{record.verdict.value}[/]",
            f"{record.seconds:.2f}",
            f"{record.compile_seconds:.2f}",
        )
    return table


def share(part: int, whole: int) -> str:
    """A percentage that says 100 only when it is all, and 0 only when it is none.

    >>> share(99_999, 100_000), share(7, 7), share(1, 100_000)
    ('99.9 %', '100 %', '0.1 %')
    """
    if part in (0, whole):
        return f"{100 * part // whole} %"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def failure_report(record: CaseRecord) -> str:
    """All one needs to understand and repeat a case that did not pass, as plain text."""
    m, n, k = record.shape
    lines = [
        f"{record.verdict.value}: {record.kernel}",
        f"  property   {record.property}",
        *(f"             {line}" for line in STATEMENT),
        f"  case       M={m}, N={n}, K={k}, dialect {record.dialect}, seed {record.seed}, device {record.device}",
        f"  plan       {record.plan}",
    ]
    if record.reduced_from:
        full = "M={}, N={}, K={}".format(*record.reduced_from)
        lines.append(f"  reduced    from {full}: this device is slow")
    if record.bit_differences:
        wrong_share = share(record.bit_differences, record.outputs)
        lines.append(f"  wrong      {record.bit_differences} of {record.outputs} outputs ({wrong_share})")
    if wrong := record.first_wrong:
        i, j = wrong.index
        lines += [
            f"  first      out[{i}, {j}] is {wrong.got:g} ({wrong.got_hex})",
            f"             must be {wrong.expected:g} ({wrong.expected_hex})",
        ]
        if wrong.certified:
            lines.append("  because    certified: every order of summation gives these bits")
        else:
            lines.append(
                f"  because    the error bound admits {wrong.lower_hex} to {wrong.upper_hex} "
                "(any order of float32 sums, then one rounding)"
            )
    if record.message:
        lines += ["  message    " + record.message.strip().replace("\n", "\n             ")]
    lines.append(f"  replay     {record.replay}")
    return "\n".join(lines)


def print_check(console: Console, records: list[CaseRecord], seconds: float) -> None:
    """The table, the failures, and one closing line with the verdict."""
    console.print(verdict_table(records))
    if any(record.reduced_from for record in records):
        console.print("* M and N reduced to two tiles and a part of a third, because this device is slow.", style="dim")
    for record in _not_passed(records):
        console.print()
        console.print(failure_report(record), markup=False, highlight=False, soft_wrap=True)
    verdict = worst([record.verdict for record in records])
    passed = sum(record.verdict is Verdict.PASS for record in records)
    outputs = sum(record.outputs for record in records)
    differences = sum(record.bit_differences for record in records)
    console.print(
        f"\n[{_STYLE[verdict]}]{verdict.value}[/]  {passed} of {len(records)} cases passed, "
        f"{differences} of {outputs:,} outputs wrong, {seconds:.1f} s",
        highlight=False,
    )
    if why := _why(records):
        console.print(f"Why: {why}", markup=False, highlight=False, soft_wrap=True)


def _why(records: list[CaseRecord]) -> str:
    """The command that looks for the cause of the first failure; empty where none failed or none can say."""
    for record in records:
        if record.verdict in (Verdict.FAIL, Verdict.ERROR) and record.replay.startswith("mxassay check"):
            kernel = record.replay.removeprefix("mxassay check").partition(" --shapes")[0]
            elsewhere = "" if record.device == "emulated" else f" --device {record.device}"
            return f"mxassay triage{kernel}{elsewhere}, or the replay with --report FILE.html"
    return ""


def print_properties(console: Console, records: list[PropertyRecord]) -> None:
    """A row for each property, the failures below, and a line with the count."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("chapter", "property", "verdict", "examples", "s"):
        table.add_column(heading, justify="right" if heading in ("examples", "s") else "left", no_wrap=True)
    for record in records:
        applies = record.verdict is not Verdict.UNSUPPORTED
        table.add_row(
            record.chapter,
            record.property,
            f"[{_STYLE[record.verdict]}]{record.verdict.value if applies else 'skipped'}[/]",
            str(record.examples) if applies else "-",
            f"{record.seconds:.1f}" if applies else "-",
        )
    console.print(table)
    for record in records:
        if record.verdict in (Verdict.FAIL, Verdict.ERROR):
            console.print(f"\n{record.verdict.value}: {record.message}", markup=False, highlight=False, soft_wrap=True)
    skipped: dict[str, list[str]] = {}
    for record in records:
        if record.verdict is Verdict.UNSUPPORTED:
            skipped.setdefault(record.message, []).append(record.property)
    for reason, names in skipped.items():
        console.print(f"\nskipped, {reason}: {', '.join(names)}", markup=False, highlight=False, soft_wrap=True)
    ran = [record for record in records if record.verdict is not Verdict.UNSUPPORTED]
    passed = sum(record.verdict is Verdict.PASS for record in ran)
    examples = sum(record.examples for record in ran)
    console.print(f"\n{passed} of {len(ran)} properties hold, {examples:,} examples\n", highlight=False)


def _not_passed(records: list[CaseRecord]) -> Iterable[CaseRecord]:
    return (record for record in records if record.verdict is not Verdict.PASS)
