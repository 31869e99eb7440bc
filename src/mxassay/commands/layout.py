"""`mxassay layout`: where each byte lies."""

import argparse
import time

from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.verdicts import Document, ExitCode, Verdict


def run(options: argparse.Namespace) -> int:
    """List the layouts, describe one, or explain where one element of it lies."""
    started = time.perf_counter()
    text = _text(options)
    if options.json:
        seconds = time.perf_counter() - started
        print(Document("layout", Verdict.PASS, seconds, environment(), {"text": text}).dumps())
    else:
        print(text)
    return ExitCode.PASS


def _text(options: argparse.Namespace) -> str:
    from mxassay.layouts import LAYOUTS, describe, explain, explain_element

    if options.name is None:
        return "\n".join(f"{name:22} {layout.purpose}" for name, layout in LAYOUTS.items())
    name = options.name.upper().replace("-", "_")
    if name not in LAYOUTS:
        raise ContractError(f"layout must be one of {', '.join(LAYOUTS)}, not {options.name}")
    if options.at is None:
        return describe(LAYOUTS[name])
    if options.matrix is None:
        return explain(LAYOUTS[name], options.shape, options.at)
    if len(options.at) != 2:
        raise ContractError(f"--at must be row,k where --matrix is given, not {','.join(map(str, options.at))}")
    return explain_element(LAYOUTS[name], options.matrix, options.at)
