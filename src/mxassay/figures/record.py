"""The figures that were measured last before this version, with the machine they came from."""

import json
from importlib.resources import files
from typing import Any

from mxassay.errors import UnsupportedError

__all__ = ["last"]


def last() -> dict[str, Any]:
    """The document of `mxassay bench --record` that is committed beside this module.

    Raises UnsupportedError where there is none.
    """
    file = files("mxassay.figures") / "last.json"
    if not file.is_file():
        raise UnsupportedError("a record of figures must come with this version, not be absent; run mxassay bench")
    found: dict[str, Any] = json.loads(file.read_text())
    return found
