"""The page of other people's quantizers: where their answers differ from ours, from a record of what they said."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from chapters.statement import table
from mxassay.properties.witnesses import WITNESSES, Found, Witness, quietly

RECORD = Path(__file__).with_suffix(".json")

# float32 bits of the first element of a block whose other elements are zeros, under scale 1.
ELEMENTS: dict[str, int] = {
    **{f"{value:g}, a tie": struct.unpack("<I", struct.pack("<f", value))[0] for value in (0.25, 0.75, 1.25, 1.75)},
    **{f"{value:g}, a tie": struct.unpack("<I", struct.pack("<f", value))[0] for value in (2.5, 3.5, 5.0)},
    "next above 0.25": 0x3E800001,
    "6": 0x40C00000,
    "7": 0x40E00000,
    "8": 0x41000000,
    "largest float32": 0x7F7FFFFF,
    "Inf": 0x7F800000,
    "-Inf": 0xFF800000,
    "NaN": 0x7FC00000,
    "-NaN": 0xFFC00000,
    "-0": 0x80000000,
    "2^-149": 0x00000001,
    "-2^-149": 0x80000001,
}
# float32 bits of the largest element of a block and of a second one; the others are zeros.
BLOCKS: dict[str, tuple[int, int]] = {
    "zeros": (0, 0),
    "zeros, one -0": (0x80000000, 0),
    "2^-149": (0x00000001, 0),
    "2^-148 and 2^-149": (0x00000002, 0x00000001),
    "2^-127 and 2^-128": (0x00400000, 0x00200000),
    "2^-126 and 2^-127": (0x00800000, 0x00400000),
    "1 and 0.3": (0x3F800000, 0x3E99999A),
    "last below 1.75, and 0.3": (0x3FDFFFFF, 0x3E99999A),
    "1.75 and 0.3": (0x3FE00000, 0x3E99999A),
    "7.99 under FLOOR saturates": (0x40FFAE14, 0x3E99999A),
    "6 * 2^100, one ulp more": (0x72C00001, 0x72000000),
    "1.75 * 2^127 and 2^126": (0x7F600000, 0x7E800000),
    "largest float32 and 2^126": (0x7F7FFFFF, 0x7E800000),
    "Inf and 2^126": (0x7F800000, 0x7E800000),
    "-Inf and 2^126": (0xFF800000, 0x7E800000),
    "NaN and 1": (0x7FC00000, 0x3F800000),
    "NaN of all ones, and 1": (0x7FFFFFFF, 0x3F800000),
}


def answers(witness: Witness, call: Callable[[torch.Tensor], Found]) -> dict[str, str]:
    """What `call` says to each probe of the kind that `witness` takes, by the probe's name."""
    probes = ELEMENTS if witness.dialect is None else BLOCKS
    return {name: _answer(call, bits if isinstance(bits, tuple) else (bits,)) for name, bits in probes.items()}


def _answer(call: Callable[[torch.Tensor], Found], bits: tuple[int, ...]) -> str:
    block = torch.zeros(1, 32, dtype=torch.int64)
    block[0, : len(bits)] = torch.tensor(bits)
    try:
        found = call(block.to(torch.int32).view(torch.float32))
    except Exception as error:  # a library's own refusal is an answer
        return f"raises {type(error).__name__}"
    values = ", ".join(f"{value:.9g}" for value in found.values[0, : len(bits)].tolist())
    if found.scales is None:
        return values
    return f"byte {int(found.scales[0])}: {values}"


def asked() -> dict[str, Any]:
    """The answers of all libraries that are installed here; of the others what the record holds, if anything."""
    before = recorded()
    found = {}
    for name, witness in WITNESSES.items():
        try:
            quietly(witness.module)
            found[name] = {"version": version(witness.package), "answers": answers(witness, witness.call)}
        except (ImportError, PackageNotFoundError):
            if name in before:
                found[name] = before[name]
    return found


def recorded() -> dict[str, Any]:
    """The answers as they were last asked."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
    return found


def page() -> str:
    """The page, from the record and our own answers as they are now."""
    record = recorded()
    lines = [
        "# Second witnesses",
        "",
        "Other people's quantizers, asked the same as our reference. On every normal bfloat16 as the largest of a",
        "block, and for elements alone on every bfloat16 up to 7, they give our bits: the property",
        "[second-witness](../properties.md) compares them where they are installed. Here are the edges, and where they",
        "differ.",
        "**Bold** differs from ours. A block is answered by its scale byte and the values of its first elements.",
        "",
        "Recorded: " + "; ".join(f"{name} {record[name]['version']}" for name in WITNESSES if name in record) + ".",
    ]
    silent = [name for name in WITNESSES if name not in record]
    if silent:
        lines.append(f"Not recorded, since not installed where the others were asked: {', '.join(silent)}.")
    lines += ["", "## Elements alone, at scale 1", ""]
    lines += _section([name for name, witness in WITNESSES.items() if witness.dialect is None and name in record])
    for name, witness in WITNESSES.items():
        if witness.dialect is not None and name in record:
            plain = witness.dialect.removesuffix("-torchao")
            for dialect in dict.fromkeys((witness.dialect, plain)):
                lines += ["", f"## {name} and our `{dialect}`", "", *_section([name], dialect)]
    return "\n".join(lines) + "\n"


def _section(names: list[str], dialect: str | None = None) -> list[str]:
    witness = replace(WITNESSES[names[0]], dialect=dialect)
    ours = answers(witness, witness.ours)
    theirs = [recorded()[name]["answers"] for name in names]
    rows = [
        (probe, answer, *(said[probe] if said[probe] == answer else f"**{said[probe]}**" for said in theirs))
        for probe, answer in ours.items()
    ]
    different = [row for row in rows if any(cell.startswith("**") for cell in row[2:])]
    if not different:
        return [f"All {len(rows)} agree: {'; '.join(ours)}."]
    same = [row[0] for row in rows if row not in different]
    return [*table(("input", "ours", *names), different), "", f"The same: {'; '.join(same)}."]
