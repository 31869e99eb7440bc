"""`mxassay check`: the verdict on a kernel."""

import argparse
import sys
import time

from rich.console import Console
from rich.progress import track

from mxassay.cases import EDGES, cases
from mxassay.checking import check_case
from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError
from mxassay.kernels import Kernel, Shape
from mxassay.loading import Request, open_kernels
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
    """Check one kernel, or all prebuilt ones of a checkout, and print the table, or JSON."""
    chosen = device(options.device)
    started = time.perf_counter()
    with chosen.open():
        from mxassay.reference import DIALECTS

        if options.dialect not in DIALECTS:
            raise ContractError(f"dialect must be one of {', '.join(DIALECTS)}, not {options.dialect}")
        request = Request(
            spec=options.kernel,
            abi=options.abi,
            dialect=options.dialect,
            device=chosen.name,
            aiter=options.aiter,
            tile=options.tile,
            seconds=options.limit_seconds,
            memory_gib=options.limit_gib,
        )
        with open_kernels(request) as kernels:
            todo = [
                (kernel, case)
                for kernel in kernels
                for case in cases(
                    kernel, _shapes(kernel, options.shapes), full_size=chosen.full_size, seed=options.seed
                )
            ]
            watched = track(
                todo,
                description=f"checking on {chosen.name}",
                console=Console(stderr=True),
                disable=options.json or not sys.stderr.isatty(),
                transient=True,
            )
            records = [check_case(kernel, case, chosen) for kernel, case in watched]
    seconds = time.perf_counter() - started
    verdict = worst([record.verdict for record in records])
    if options.json:
        extra = {"cases": [record.as_json() for record in records]}
        print(Document("check", verdict, seconds, environment(), extra).dumps())
    else:
        # A pipe has no width; a table cut to 80 columns there helps nobody.
        print_check(Console(width=None if sys.stdout.isatty() else 140), records, seconds)
    return exit_code(verdict)


def _shapes(kernel: Kernel, words: list[str | Shape] | None) -> list[Shape]:
    if words is None and kernel.shapes is not None:
        return list(kernel.shapes)
    return shapes_named(words or ["all"])
