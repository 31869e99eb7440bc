"""`mxassay check`: the verdict on a kernel."""

import argparse
import sys
import time

from rich.console import Console
from rich.progress import track

from mxassay.cases import EDGES, Shape, cases
from mxassay.checking import check_case
from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.kernels import load_kernel
from mxassay.terminal import print_check
from mxassay.verdicts import Document, exit_code, worst


def shapes_named(words: list[str | Shape]) -> list[Shape]:
    """The shapes that `words` name, each once, in order: group names and M,N,K triples."""
    from mxassay.optimized import LEADERBOARD, TEST_SHAPES

    groups = {"leaderboard": LEADERBOARD, "tests": TEST_SHAPES, "edges": EDGES}
    groups["all"] = (*LEADERBOARD, *TEST_SHAPES, *EDGES)
    found: list[Shape] = []
    for word in words:
        found += groups[word] if isinstance(word, str) else [word]
    return list(dict.fromkeys(found))


def run(options: argparse.Namespace) -> int:
    """Check a kernel and print the table, or JSON."""
    chosen = device(options.device)
    started = time.perf_counter()
    with chosen.open():
        from mxassay.reference import DIALECTS

        if options.dialect not in DIALECTS:
            raise ContractError(f"dialect must be one of {', '.join(DIALECTS)}, not {options.dialect}")
        kernel = load_kernel(options.kernel, options.abi, options.dialect)
        todo = cases(kernel, shapes_named(options.shapes), full_size=chosen.full_size, seed=options.seed)
        watched = track(
            todo,
            description=f"checking {kernel.name} on {chosen.name}",
            console=Console(stderr=True),
            disable=options.json or not sys.stderr.isatty(),
            transient=True,
        )
        words = " ".join(filter(None, [options.kernel, f"--abi {options.abi}" if options.abi else None]))
        records = [check_case(kernel, case, chosen, words) for case in watched]
    seconds = time.perf_counter() - started
    verdict = worst([record.verdict for record in records])
    if options.json:
        extra = {"cases": [record.as_json() for record in records]}
        print(Document("check", verdict, seconds, environment(), extra).dumps())
    else:
        # A pipe has no width; a table cut to 80 columns there helps nobody.
        print_check(Console(width=None if sys.stdout.isatty() else 140), records, seconds)
    return exit_code(verdict)
