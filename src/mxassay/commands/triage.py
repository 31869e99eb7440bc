"""`mxassay triage`: from a failure to its cause."""

import argparse

from mxassay.errors import ContractError


def run(options: argparse.Namespace) -> int:
    """Two versions are compared (`mxassay.commands.compare`)."""
    if len(options.subject) == 2:
        from mxassay.commands import compare

        return compare.run(options)
    raise ContractError(f"BASE and CANDIDATE must be given, not {len(options.subject)} words")
