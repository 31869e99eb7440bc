"""`mxassay isa`: what a gfx950 code object needs, how surely each instruction is known, and its missing wait states."""

import argparse
import math
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mxassay.environment import environment
from mxassay.errors import ContractError, UnsupportedError
from mxassay.verdicts import Document, Verdict, exit_code, worst

if TYPE_CHECKING:
    from mxassay.gfx950.codeobject import CodeObject
    from mxassay.gfx950.observe import Launch


def run(options: argparse.Namespace) -> int:
    """Report on the kernels of a file before anything runs; with `--shape`, on those that a GEMM of that shape
    launches, and on what they executed.

    UNSUPPORTED where the emulator lacks an instruction, FAIL where `--hazards` finds one.
    """
    started = time.perf_counter()
    found = _launched(options) if options.shape else _from_file(options)
    verdict = worst([Verdict(record["verdict"]) for record in found])
    if options.json:
        seconds = time.perf_counter() - started
        print(Document("isa", verdict, seconds, environment(), {"kernels": found}).dumps())
    else:
        print("\n\n".join(record["text"] for record in found))
    return exit_code(verdict)


def _from_file(options: argparse.Namespace) -> list[dict[str, Any]]:
    from mxassay.gfx950.codeobject import load_code_object

    if options.kernel is None:
        raise ContractError("a code object must be named, not left out; --shape M,N,K shows our own kernel instead")
    code = load_code_object(options.kernel)
    names = [options.name] if options.name else list(code.kernels)
    return [_kernel(code, name, hazards=options.hazards) for name in names]


def _launched(options: argparse.Namespace) -> list[dict[str, Any]]:
    from mxassay.cases import Case, build
    from mxassay.gfx950 import Options, emulated
    from mxassay.gfx950.checks import Checks
    from mxassay.gfx950.observe import Launch
    from mxassay.loading import Request, open_kernels

    class Watched(Checks):
        """Counts what runs, and keeps each launch."""

        def __init__(self) -> None:
            super().__init__("counts,bank-conflicts,coalescing")
            self.launches: list[Launch] = []

        def begin(self, launch: Launch) -> None:
            self.launches.append(launch)
            super().begin(launch)

    watched = Watched()
    request = Request(options.kernel, options.abi, "even", "emulated")
    with emulated(Options(observer=watched)), open_kernels(request) as kernels:
        if kernels[0].abi == "gpumode":
            raise UnsupportedError("a kernel must run in this process to be counted, not in that of a contest file")
        plan_for = kernels[0].plan_for
        arguments = build(Case(options.shape), "cpu").arguments
        kernels[0].call(arguments, plan_for(*options.shape) if plan_for else None)
    found = []
    for launch, counts in zip(watched.launches, watched.counts, strict=True):
        record = _kernel(launch.code_object, launch.code.name, hazards=options.hazards, launch=launch)
        places = [place for place in watched.places if place.kernel == launch.code.name and place.extra]
        worst_places = sorted(places, key=lambda place: -place.extra)[:8]
        record["executed"] = {"instructions": counts.instructions, "busiest_wave": counts.busiest_wave,
                              "loaded": counts.loaded, "stored": counts.stored, "lds_read": counts.lds_read,
                              "lds_written": counts.lds_written, "waves": counts.waves}  # fmt: skip
        lines = ["", "", "executed", *(f"  {line}" for line in counts.text().splitlines())]
        lines.append("  busiest wave: " + ", ".join(f"{name} {n:,}" for name, n in counts.busiest_wave.items() if n))
        for place in worst_places:
            what = "LDS cycles" if place.check == "bank-conflicts" else "lines of memory"
            lines.append(f"  {what} {place.cost:,}, {place.ideal:,} at best: {place.pc:#x} {place.instruction}")
        record["text"] += "\n".join(lines)
        found.append(record)
    return found


def _kernel(code: "CodeObject", name: str, *, hazards: bool, launch: "Launch | None" = None) -> dict[str, Any]:
    from mxassay.gfx950.dispatch import Kernel
    from mxassay.gfx950.fidelity import survey
    from mxassay.gfx950.hazards import hazards_of
    from mxassay.gfx950.registry import supported
    from mxassay.gfx950.static import report_of

    kernel = code.kernel(name)
    size, lds = (math.prod(launch.block), launch.lds_bytes) if launch else (None, None)
    report = report_of(kernel, supported, workgroup_size=size, lds_bytes=lds)
    surveyed = survey(Kernel(code, name))
    lint = hazards_of(kernel, code) if hazards else ()
    lines = [report.text(), "", f"{'instruction':<34}{'count':>6}  semantics"]
    for use in surveyed:
        known = use.fidelity.value if use.fidelity else f"not supported: {use.why}"
        lines.append(f"{use.op:<34}{use.count:>6}  {known:<10}{use.source if use.fidelity else ''}".rstrip())
    if hazards:
        lines += ["", f"hazards     {len(lint) or 'none'}", *(f"  {hazard}" for hazard in lint)]
    verdict = Verdict.FAIL if lint else Verdict.PASS if report.supported else Verdict.UNSUPPORTED
    return {
        "verdict": verdict.value,
        "static": asdict(report),
        "instructions": [
            {"op": use.op, "count": use.count, "fidelity": use.fidelity.value if use.fidelity else None, "why": use.why}
            for use in surveyed
        ],
        "hazards": [str(hazard) for hazard in lint],
        "text": "\n".join(lines),
    }
