"""Which results of a kernel's instructions anybody reads."""

from collections import deque

from mxassay.gfx950.codeobject import KernelCode
from mxassay.gfx950.flow import flow_of
from mxassay.gfx950.footprint import NOTHING, Footprint, Registers, footprint_of

__all__ = ["unread_results"]


def unread_results(kernel: KernelCode) -> frozenset[int]:
    """The pcs of reachable vector instructions, memory aside, whose every result is overwritten or dropped unread.

    Compilers leave such instructions where text that they can't see into, inline assembly, works on more registers than
    there are values: the rest is undefined on both sides. A write counts as overwriting whatever EXEC is: lanes that
    are off keep what they held, and in compiled code do not read it. Nothing is said of kernels with indirect jumps.
    """
    flow = flow_of(kernel)
    if flow.indirect or flow.undecodable:
        return frozenset()
    steps = {pc: footprint_of(inst) for pc, inst in flow.instructions.items()}
    before: dict[int, list[int]] = {pc: [] for pc in steps}
    for pc, following in flow.successors.items():
        for target in following:
            if target in before:
                before[target].append(pc)
    live_after: dict[int, Registers] = dict.fromkeys(steps, NOTHING)
    pending = deque(sorted(steps, reverse=True))
    waiting = set(pending)
    while pending:
        pc = pending.popleft()
        waiting.discard(pc)
        step = steps[pc]
        live = (live_after[pc] - (step.vector_writes - step.partial_writes)) | step.vector_reads
        for earlier in before[pc]:
            if not live <= live_after[earlier]:
                live_after[earlier] |= live
                if earlier not in waiting:
                    waiting.add(earlier)
                    pending.append(earlier)
    return frozenset(
        pc for pc, step in steps.items() if _only_computes(step) and not step.vector_writes & live_after[pc]
    )


def _only_computes(step: Footprint) -> bool:
    return step.valu and bool(step.vector_writes) and not step.scalar_writes and not step.matrix
