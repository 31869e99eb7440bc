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
    from mxassay.layouts import LAYOUTS, describe, explain

    if options.name is None:
        return "\n".join(f"{name:22} {layout.purpose}" for name, layout in LAYOUTS.items())
    name = options.name.upper().replace("-", "_")
    if name not in LAYOUTS:
        raise ContractError(f"layout must be one of {', '.join(LAYOUTS)}, not {options.name}")
    if options.at is None:
        return describe(LAYOUTS[name])
    return explain(LAYOUTS[name], options.shape, options.at)
