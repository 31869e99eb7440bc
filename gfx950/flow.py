"""Control flow of a kernel: which instructions can be reached from its entry, and along which edges."""

from dataclasses import dataclass

from mxassay.gfx950.codeobject import KernelCode
from mxassay.gfx950.decode import Program, UndecodableError
from mxassay.gfx950.instruction import Instruction

# Instructions after which the next one in memory does not follow (AMD CDNA4 ISA, "SOPP", "SOP1").
_ENDS = frozenset({"s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
_INDIRECT = frozenset({"s_setpc_b64", "s_swappc_b64", "s_call_b64", "s_rfe_b64", "s_cbranch_g_fork", "s_cbranch_join"})


@dataclass(frozen=True)
class Flow:
    """The reachable instructions of a kernel by pc, in ascending order, and each one's successors.

    `indirect` holds the pcs of jumps whose target is data: what lies behind them is not seen. `undecodable` holds the
    pcs that are reached but hold no instruction the decoder knows.
    """

    instructions: dict[int, Instruction]
    successors: dict[int, tuple[int, ...]]
    indirect: tuple[int, ...]
    undecodable: tuple[int, ...]

    def leaders(self, entry: int) -> list[int]:
        """First pcs of basic blocks: the entry, branch targets, and what follows a branch."""
        found = {entry}
        for pc, following in self.successors.items():
            if following != (self.instructions[pc].next_pc,):
                found.update(following)
        return sorted(found & self.instructions.keys())


def flow_of(kernel: KernelCode) -> Flow:
    """Follow every direct branch from the kernel's entry. Nothing is executed; both sides of a condition are taken."""
    program = Program(kernel.text, kernel.text_address)
    found: dict[int, Instruction] = {}
    successors: dict[int, tuple[int, ...]] = {}
    indirect, undecodable = [], []
    pending = [kernel.entry]
    while pending:
        pc = pending.pop()
        while pc not in found:
            try:
                inst = program.at(pc)
            except UndecodableError:
                undecodable.append(pc)
                break
            found[pc] = inst
            successors[pc] = following = _successors(inst)
            if inst.op in _INDIRECT:
                indirect.append(pc)
            if not following:
                break
            pending.extend(following[1:])
            pc = following[0]
    return Flow(dict(sorted(found.items())), successors, tuple(sorted(set(indirect))), tuple(sorted(set(undecodable))))


def _successors(inst: Instruction) -> tuple[int, ...]:
    if inst.op in _ENDS or inst.op == "s_setpc_b64" or inst.op == "s_rfe_b64":
        return ()
    if inst.op == "s_branch":
        return (inst.target,)
    if inst.op.startswith("s_cbranch_") and inst.op not in _INDIRECT:
        return (inst.next_pc, inst.target)
    return (inst.next_pc,)
