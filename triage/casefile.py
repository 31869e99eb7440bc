"""A failure as a small JSON file: readable where few elements are not zero, compressed where many are."""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mxassay.errors import ContractError
from mxassay.properties.kernel import VIEWS, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import pack, unpack
from mxassay.triage.failure import Failure, Subject

SCHEMA_VERSION = 1
_KIND = "mxassay-case"
_DTYPES = {"bfloat16": torch.bfloat16, "uint8": torch.uint8}
# Above this many exceptions nobody reads them, and compressed bytes are shorter.
_MOST_LISTED = 96


def as_json(failure: Failure) -> dict[str, Any]:
    """The failure as plain JSON types; `from_json` undoes it bit for bit.

    A tensor is {"fill": bits, "at": [[row, column, bits], ...]} or {"zlib": base64 of its bytes}. Activations and
    outputs are bfloat16 bits in hexadecimal, W is one E2M1 code (0..15) for each element, scales are E8M0 bytes.
    """
    operands, launch = failure.operands, failure.launch
    plan = None if launch.plan is None else asdict(launch.plan)
    subject = asdict(failure.subject)
    subject["tile"] = list(failure.subject.tile) if failure.subject.tile else None
    return {
        "kind": _KIND,
        "schema_version": SCHEMA_VERSION,
        "property": failure.property,
        "error": failure.error,
        "subject": subject,
        "dialect": operands.dialect,
        "launch": {"entry": launch.entry, "plan": plan},
        "placement": {"padding": failure.placement.padding, "view": failure.placement.view},
        "shape": list(operands.shape),
        "words": operands.words,
        "a": _written(operands.a),
        "codes": _written(unpack(operands.codes)),
        "scales": _written(operands.scales),
        "out": None if failure.out is None else _written(failure.out),
    }


def from_json(document: Mapping[str, Any]) -> Failure:
    """The failure that `as_json` wrote.

    Raises ContractError on anything else, and on the schema of a later version.
    """
    if document.get("kind") != _KIND:
        raise ContractError(f"a case file must have kind {_KIND!r}, not {document.get('kind')!r}")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ContractError(
            f"a case file must have schema_version {SCHEMA_VERSION}, not {document.get('schema_version')}; "
            "use the mxassay that wrote it"
        )
    try:
        return _failure(document)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, zlib.error) as error:
        raise ContractError(
            f"a case file must be as mxassay wrote it, not damaged ({type(error).__name__}: {error})"
        ) from None


def _failure(document: Mapping[str, Any]) -> Failure:
    m, n, k = (int(size) for size in document["shape"])
    subject = dict(document["subject"])
    subject["tile"] = tuple(subject["tile"]) if subject.get("tile") else None
    view = str(document["placement"]["view"])
    if view not in VIEWS:
        raise ValueError(f"view {view!r} is unknown")
    codes = pack(_read(document["codes"], (n, k), "uint8")).contiguous()
    operands = Operands(
        a=_read(document["a"], (m, k), "bfloat16"),
        codes=codes,
        scales=_read(document["scales"], (n, k // 32), "uint8"),
        dialect=str(document["dialect"]),
        words=str(document["words"]),
    )
    out = document["out"]
    return Failure(
        subject=Subject(**subject),
        operands=operands,
        launch=Launch(_plan(document["launch"]["plan"]), str(document["launch"]["entry"])),
        placement=Placement(int(document["placement"]["padding"]), view),
        out=None if out is None else _read(out, (m, n), "bfloat16"),
        property=str(document["property"]),
        error=str(document["error"]),
    )


def _plan(fields: Mapping[str, Any] | None) -> Any:
    if fields is None:
        return None
    from mxassay.optimized import Plan

    return Plan(**fields)


def save(failure: Failure, path: str | Path) -> Path:
    """Write the case file `path` and return it. A shrunk case takes a few hundred bytes."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(dumps(failure), encoding="utf-8")
    return place


def dumps(failure: Failure) -> str:
    """The text of a case file: a line for each key."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in as_json(failure).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load(path: str | Path) -> Failure:
    """Read a case file.

    Raises ContractError where it is missing, no case file, damaged, or of a later version.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ContractError(f"a case must be a readable JSON file, not {path}: {error}") from None
    if not isinstance(document, dict):
        raise ContractError(f"a case file must hold an object, not a {type(document).__name__}: {path}")
    return from_json(document)


def _written(tensor: torch.Tensor) -> dict[str, Any]:
    raw = _raw(tensor)
    fill = int(raw.flatten().mode().values) if raw.numel() else 0
    others = (raw != fill).nonzero()
    floats = tensor.dtype == torch.bfloat16
    if len(others) > _MOST_LISTED:
        data = raw.to(torch.int16 if floats else torch.uint8).numpy().tobytes()
        return {"zlib": base64.b64encode(zlib.compress(data, 9)).decode()}

    def shown(value: int) -> int | str:
        return f"0x{value:04X}" if floats else value

    at = [[int(i), int(j), shown(int(raw[i, j]))] for i, j in others]
    return {"fill": shown(fill), "at": at}


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """int32 bits."""
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).int() & 0xFFFF
    return tensor.int()


def _read(entry: Mapping[str, Any], shape: tuple[int, int], dtype: str) -> torch.Tensor:
    floats = dtype == "bfloat16"
    if "zlib" in entry:
        data = bytearray(zlib.decompress(base64.b64decode(entry["zlib"])))
        flat = torch.frombuffer(data, dtype=torch.int16 if floats else torch.uint8)
        return (flat.view(torch.bfloat16) if floats else flat).reshape(shape).clone()
    raw = torch.full(shape, _number(entry["fill"]), dtype=torch.int32)
    for i, j, value in entry["at"]:
        raw[i, j] = _number(value)
    return raw.to(torch.int16).view(torch.bfloat16) if floats else raw.to(_DTYPES[dtype])


def _number(value: int | str) -> int:
    return int(value, 16) if isinstance(value, str) else int(value)
