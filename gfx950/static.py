"""What a kernel needs and what it is made of, read from its code object before anything runs."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mxassay.gfx950.codeobject import KernelCode
from mxassay.gfx950.flow import flow_of
from mxassay.gfx950.footprint import footprint_of
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.occupancy import Occupancy, occupancy_of

__all__ = ["MemoryUse", "OpcodeUse", "StaticReport", "report_of"]

_MEMORY = re.compile(r"(s_buffer|s|buffer|global|flat|scratch|ds)_(load|store|read|write|atomic)(2?)(?:st64)?_?(.*)")
_WIDTH = re.compile(r"[us]?(byte|short)|(dword)(?:x(\d+))?|[buif](8|16|32|64|96|128)(?!\d)")
_FIXED = {"byte": 8, "short": 16}
_CLASSES: tuple[tuple[str, Callable[[Instruction], bool]], ...] = (
    ("matrix", lambda i: i.op.startswith(("v_mfma", "v_smfmac"))),
    ("conversion", lambda i: i.op.startswith("v_cvt_")),
    ("vector", lambda i: i.encoding.startswith("VOP")),
    ("LDS", lambda i: i.encoding == "DS"),
    ("vector memory", lambda i: i.encoding.startswith(("MUBUF", "MTBUF", "GLOBAL", "FLAT", "SCRATCH"))),
    ("scalar memory", lambda i: i.encoding == "SMEM"),
    ("branch", lambda i: i.op.startswith(("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call"))),
    ("wait", lambda i: i.op.startswith(("s_waitcnt", "s_nop", "s_sleep", "s_barrier"))),
    ("scalar", lambda i: i.encoding.startswith("SOP")),
)


@dataclass(frozen=True, slots=True)
class OpcodeUse:
    """An opcode in one encoding, how often it occurs, and why one of its uses is refused (None: none is)."""

    op: str
    encoding: str
    count: int
    why_not: str | None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory instructions of one kind: `space` buffer, global, flat, scratch, LDS or scalar; `bits` a lane."""

    space: str
    action: str
    bits: int
    into_lds: bool
    count: int


@dataclass(frozen=True)
class StaticReport:
    """The static figures of one kernel. Instruction counts are of reachable code, each instruction once.

    `vgprs`, `agprs`, `sgprs` are what the metadata says the kernel uses, else the descriptor's allocation; spills are
    registers, None where the file doesn't say. `unseen` counts jumps not followed and bytes that don't decode.
    """

    kernel: str
    instructions: int
    code_bytes: int
    classes: dict[str, int]
    memory: tuple[MemoryUse, ...]
    opcodes: tuple[OpcodeUse, ...]
    matrix_passes: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int | None
    sgpr_spills: int | None
    scratch_bytes: int
    lds_bytes: int
    kernarg_bytes: int
    occupancy: Occupancy
    unseen: int

    @property
    def unsupported(self) -> tuple[OpcodeUse, ...]:
        return tuple(use for use in self.opcodes if use.why_not)

    @property
    def supported(self) -> bool:
        """Whether every reachable instruction is supported and all code could be followed."""
        return not self.unsupported and not self.unseen

    def text(self) -> str:
        """The report as lines of name and value, for a terminal without colours."""
        spills = ["?" if count is None else str(count) for count in (self.vgpr_spills, self.sgpr_spills)]
        rows = [
            ("kernel", self.kernel),
            ("instructions", f"{self.instructions} in {self.code_bytes} bytes"),
            *((f"  {name}", str(count)) for name, count in self.classes.items()),
            ("matrix passes", str(self.matrix_passes)),
            ("registers", f"{self.vgprs} VGPR, {self.agprs} AGPR, {self.sgprs} SGPR"),
            ("spills", f"{spills[0]} VGPR, {spills[1]} SGPR, {self.scratch_bytes} scratch bytes a lane"),
            ("LDS", f"{self.lds_bytes} bytes (static)"),
            ("kernarg", f"{self.kernarg_bytes} bytes"),
            ("occupancy", str(self.occupancy)),
            *((f"  {use.space} {use.action}{' into LDS' if use.into_lds else ''}", _times(use)) for use in self.memory),
            ("unsupported", "; ".join(f"{use.op} ({use.why_not})" for use in self.unsupported) or "none"),
        ]
        if self.unseen:
            rows.append(("not followed", f"{self.unseen} jumps or stretches of bytes"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def report_of(
    kernel: KernelCode,
    why_not: Callable[[Instruction], str | None] = lambda _: None,
    *,
    workgroup_size: int | None = None,
    lds_bytes: int | None = None,
) -> StaticReport:
    """The static report of `kernel`.

    why_not: says why the emulator refuses an instruction, None when it runs it (`registry.supported` is one such).
    workgroup_size, lds_bytes: of the launch, for the occupancy; the kernel's greatest workgroup and its static LDS by
    default.
    """
    flow = flow_of(kernel)
    found = list(flow.instructions.values())
    uses = Counter((inst.op, inst.encoding) for inst in found)
    reasons = {(inst.op, inst.encoding): why for inst in found if (why := why_not(inst)) is not None}
    classes = Counter(_class(inst) for inst in found)
    memory = Counter(use for inst in found if (use := _memory(inst)) is not None)
    matrices = [matrix for inst in found if (matrix := footprint_of(inst).matrix) is not None]
    meta = kernel.metadata
    vgprs, agprs = kernel.vgprs, kernel.agprs
    if meta and meta.vgpr_count is not None and meta.agpr_count is not None:
        vgprs, agprs = meta.vgpr_count - meta.agpr_count, meta.agpr_count
    return StaticReport(
        kernel=kernel.name,
        instructions=len(found),
        code_bytes=sum(inst.size for inst in found),
        classes={name: classes[name] for name, _ in _CLASSES if classes[name]},
        memory=tuple(MemoryUse(*use, count) for use, count in sorted(memory.items())),
        opcodes=tuple(
            OpcodeUse(op, encoding, count, reasons.get((op, encoding)))
            for (op, encoding), count in sorted(uses.items())
        ),
        matrix_passes=sum(matrix.passes for matrix in matrices),
        vgprs=vgprs,
        agprs=agprs,
        sgprs=kernel.sgprs if meta is None or meta.sgpr_count is None else meta.sgpr_count,
        vgpr_spills=meta.vgpr_spill_count if meta else None,
        sgpr_spills=meta.sgpr_spill_count if meta else None,
        scratch_bytes=kernel.scratch_bytes,
        lds_bytes=kernel.lds_bytes,
        kernarg_bytes=kernel.kernarg_size,
        occupancy=occupancy_of(kernel, workgroup_size, lds_bytes),
        unseen=len(flow.indirect) + len(flow.undecodable),
    )


def _times(use: MemoryUse) -> str:
    return f"{use.count} x {use.bits} bit" if use.bits else str(use.count)


def _class(inst: Instruction) -> str:
    return next((name for name, holds in _CLASSES if holds(inst)), "other")


def _memory(inst: Instruction) -> tuple[str, str, int, bool] | None:
    parts = _MEMORY.fullmatch(inst.op)
    if parts is None:
        return None
    space = {"ds": "LDS", "s": "scalar", "s_buffer": "scalar"}.get(parts[1], parts[1])
    action = {"read": "load", "write": "store"}.get(parts[2], parts[2])
    return space, action, _bits(action, parts[4]) * (2 if parts[3] else 1), footprint_of(inst).lds_dma


def _bits(action: str, suffix: str) -> int:
    if action == "atomic" and not suffix.endswith(("32", "64")):
        return 64 if suffix.endswith("_x2") else 32
    width = _WIDTH.search(suffix)
    if width is None:
        return 0
    narrow, dword, count, bits = width.groups()
    return _FIXED[narrow] if narrow else 32 * int(count or 1) if dword else int(bits)
