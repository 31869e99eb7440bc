"""`mxassay isa`: what a gfx950 code object needs, how surely each instruction is known, and its missing wait states."""

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mxassay.environment import environment
from mxassay.verdicts import Document, Verdict, exit_code, worst

if TYPE_CHECKING:
    from mxassay.gfx950.codeobject import CodeObject


def run(options: argparse.Namespace) -> int:
    """Report on the kernels of a file before anything runs. UNSUPPORTED where the emulator lacks an instruction, FAIL
    where `--hazards` finds one.
    """
    from mxassay.gfx950.codeobject import load_code_object

    started = time.perf_counter()
    code = load_code_object(options.file)
    names = [options.kernel] if options.kernel else list(code.kernels)
    found = [_kernel(code, name, hazards=options.hazards) for name in names]
    verdict = worst([Verdict(record["verdict"]) for record in found])
    if options.json:
        seconds = time.perf_counter() - started
        print(Document("isa", verdict, seconds, environment(), {"kernels": found}).dumps())
    else:
        print("\n\n".join(record["text"] for record in found))
    return exit_code(verdict)


def _kernel(code: "CodeObject", name: str, *, hazards: bool) -> dict[str, Any]:
    from mxassay.gfx950.dispatch import Kernel
    from mxassay.gfx950.fidelity import survey
    from mxassay.gfx950.hazards import hazards_of
    from mxassay.gfx950.registry import supported
    from mxassay.gfx950.static import report_of

    kernel = code.kernel(name)
    report = report_of(kernel, supported)
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
