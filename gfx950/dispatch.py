"""A launch: kernarg segment, initial registers, workgroups in batches, and the run.

Initial state: LLVM AMDGPUUsage, "Initial Kernel Execution State", "Kernarg Segment", "Code Object V5 Metadata"
(hidden arguments).
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mxassay.errors import ContractError
from mxassay.gfx950.accumulate import Differences
from mxassay.gfx950.batch import LDS_BYTES, Batch
from mxassay.gfx950.codeobject import CodeObject, KernelCode
from mxassay.gfx950.decode import Program
from mxassay.gfx950.descriptor import Descriptor
from mxassay.gfx950.machine import Counts, Machine
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.observe import Launch, Observer
from mxassay.gfx950.pins import Pins
from mxassay.gfx950.program import Steps, Threaded
from mxassay.gfx950.registry import Context, Mode
from mxassay.gfx950.wave import Cohort

__all__ = ["CODE_BASE", "LAUNCHED", "Kernel", "Options", "hidden_arguments"]

# Declared policies: where code objects are loaded, and a batch's size, chosen so that a few registers of all its
# waves fit into a second-level cache of 1 MiB.
CODE_BASE = 0x4000_0000_0000
WAVES_PER_BATCH = 256
STEP_BUDGET = 100_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. `fill`: what uninitialised VGPRs, AGPRs, SGPRs, LDS and scratch hold, a 32-bit pattern.

    `waves_per_batch`: how many waves run together. `budget`: steps (instructions of one cohort) before a launch
    counts as endless. `observer`: who watches; None costs nothing.

    `accumulation`: how matrix instructions add up, one of `accumulate.MODELS`. `compare_accumulation`: run all of them
    and count the results that depend on the choice, in `Counts.matrix_results` (slow). `pins`: behaviours of a real
    card in place of declared policies.
    """

    fill: int = 0
    waves_per_batch: int = WAVES_PER_BATCH
    budget: int = STEP_BUDGET
    observer: Observer | None = None
    accumulation: str = "exact"
    compare_accumulation: bool = False
    pins: Pins | None = None


LAUNCHED: list[Callable[["Kernel", Counts], None]] = []
"""Who is told of each launch that ended well (see `gfx950.launches`)."""

_card_options = [Options()]


def card_options() -> Options:
    """The options of the card that is active now; they apply to launches of prebuilt kernels that bring none."""
    return _card_options[0]


def set_card_options(options: Options | None) -> None:
    """Make these the active card's; None restores the defaults."""
    _card_options[0] = options or Options()


@dataclass
class Kernel:
    """One kernel of a code object, ready to run again and again: its blocks stay built between launches.

    >>> Kernel(load_code_object(data), "add").run(memory, (4, 1, 1), (256, 1, 1), kernarg)  # doctest: +SKIP
    """

    code_object: CodeObject
    name: str | None = None
    code: KernelCode = field(init=False)
    _threaded: dict[tuple[int, str, bool, Pins | None], Threaded] = field(init=False, default_factory=dict)
    _steps: dict[tuple[str, bool, Pins | None], Steps] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.code = self.code_object.kernel(self.name)
        self.program = Program(self.code.text, self.code.text_address)
        registers = {"v": 1, "a": 0}
        descriptor = self.code.descriptor
        for inst in self.program.walk(self.code.entry, self.code.code_size):
            if inst.op == "s_set_gpr_idx_on":  # may reach any register of the allocation
                registers["v"] = max(registers["v"], descriptor.accum_offset)
                registers["a"] = max(registers["a"], descriptor.total_vgprs - descriptor.accum_offset)
            for operand in (*inst.dst, *inst.src):
                if operand.file in registers:
                    registers[operand.file] = max(registers[operand.file], operand.index + operand.count)
        self.vgprs, self.agprs = registers["v"], registers["a"]

    @cached_property
    def _image(self) -> tuple[tuple[int, bytes], ...]:
        return self.code_object.image(CODE_BASE)

    def threaded(self, options: Options) -> Threaded:
        """The kernel's steps for these options, with the observer woven in."""
        observer = options.observer
        key = (id(observer), options.accumulation, options.compare_accumulation, options.pins)
        found = self._threaded.get(key)
        if found is None or found.context.observer is not observer:
            context = Context(
                self.code.name, Mode.of(self.code.descriptor), observer, CODE_BASE, options.accumulation,
                Differences() if options.compare_accumulation else None, options.pins,
            )  # fmt: skip
            # Steps that count differences do so for their own context.
            steps = None if options.compare_accumulation else self._steps.setdefault(key[1:], {})
            found = self._threaded[key] = Threaded(self.program, self.code.entry, self.code.code_size, context, steps)
        return found

    def run(
        self,
        memory: AddressSpace,
        grid: Sequence[int],
        block: Sequence[int],
        kernarg: bytes,
        *,
        dynamic_lds: int = 0,
        options: Options | None = None,
    ) -> Counts:
        """Run a grid of `grid` workgroups (x, y, z) of `block` work-items (x, y, z) with these kernel arguments.

        memory: the buffers the kernel may reach; code and kernarg are added to it here. `dynamic_lds` bytes come on
        top of the kernel's own LDS.

        Raises:
            ContractError: a grid or block that no card takes, or kernarg bytes of another length.
            UnsupportedInstruction, KernelFault and its kin: what the kernel did.
        """
        options = options or Options()
        descriptor = self.code.descriptor
        items = _checked(grid, block, self.code)
        lds = self.code.lds_bytes + dynamic_lds
        if lds > LDS_BYTES:
            raise ContractError(f"a workgroup's LDS must fit into {LDS_BYTES} bytes, not {lds}")
        for address, data in self._image:
            memory.add_at("the code object", address, np.frombuffer(data, np.uint8))
        kernarg = kernarg.ljust(-(-self.code.kernarg_size // 64) * 64 + 64, b"\0")
        arguments = memory.add("the kernel arguments", np.frombuffer(kernarg, np.uint8), writable=False)
        packet = np.frombuffer(_dispatch_packet(grid, block, self.code.scratch_bytes, lds, arguments.base), np.uint8)
        packet_address = memory.add("the dispatch packet", packet, writable=False).base
        initial = _Initial(
            self, descriptor, arguments.base, packet_address, kernarg, tuple(grid), tuple(block), items, options.fill
        )
        machine = Machine(self.threaded(options), initial.cohort, options.budget)
        batches = _batches(memory, tuple(grid), initial.waves, lds, self.code.scratch_bytes, options)
        observer = options.observer
        if observer is None:
            machine.run(batches)
            return self._ended(machine.counts)
        observer.begin(Launch(self.code, self.code_object, memory, tuple(grid), tuple(block), lds))
        try:
            machine.run(batches)
        except Exception as error:
            observer.end(error)
            raise
        observer.end(None)
        return self._ended(machine.counts)

    def _ended(self, counts: Counts) -> Counts:
        for tell in LAUNCHED:
            tell(self, counts)
        return counts


def _checked(grid: Sequence[int], block: Sequence[int], code: KernelCode) -> int:
    if len(grid) != 3 or len(block) != 3 or min(grid) < 0 or min(block) < 1:
        raise ContractError(f"grid and block must be three sizes each, not {tuple(grid)} and {tuple(block)}")
    items = block[0] * block[1] * block[2]
    if items > code.max_flat_workgroup_size:
        raise ContractError(
            f"a workgroup of {code.name} must have at most {code.max_flat_workgroup_size} work-items, not {items}"
        )
    return items


def _batches(
    memory: AddressSpace, grid: tuple[int, ...], waves: int, lds: int, scratch: int, options: Options
) -> Iterator[Batch]:
    total = grid[0] * grid[1] * grid[2]
    size = max(1, options.waves_per_batch // waves)
    for first in range(0, total, size):
        yield Batch(
            memory, first, min(size, total - first), waves, lds_bytes=lds, scratch_bytes=scratch, fill=options.fill,
            observer=options.observer,
        )  # fmt: skip


@dataclass
class _Initial:
    """The state before the first instruction."""

    kernel: Kernel
    descriptor: Descriptor
    kernarg_address: int
    packet_address: int
    kernarg: bytes
    grid: tuple[int, ...]
    block: tuple[int, ...]
    items: int
    fill: int

    def __post_init__(self) -> None:
        self.waves = -(-self.items // 64)

    def cohort(self, batch: Batch) -> Cohort:
        slots = np.arange(batch.groups * batch.waves_per_group)
        cohort = Cohort(batch, slots, self.kernel.code.entry, self.kernel.vgprs, self.kernel.agprs, self.fill)
        self._scalars(cohort)
        item = (cohort.slot % batch.waves_per_group)[:, None] * 64 + np.arange(64)
        x = item % self.block[0]
        y = item // self.block[0] % self.block[1]
        z = item // (self.block[0] * self.block[1])
        # gfx90a and later pack the work-item ids into v0, 10 bits each.
        cohort.v[0] = x | y << 10 | z << 20
        cohort.set_exec(np.packbits(item < self.items, axis=1, bitorder="little").view("<u8")[:, 0])
        return cohort

    def _scalars(self, cohort: Cohort) -> None:
        for entry in self.descriptor.user_sgprs:
            if entry.name in ("kernarg_segment_ptr", "dispatch_ptr"):
                address = self.kernarg_address if entry.name == "kernarg_segment_ptr" else self.packet_address
                words = [address & 0xFFFFFFFF, address >> 32]
            elif entry.name == "kernarg_preload":
                start = 4 * self.descriptor.kernarg_preload_offset
                words = list(
                    struct.unpack_from(f"<{entry.count}I", self.kernarg.ljust(start + 4 * entry.count, b"\0"), start)
                )
            else:
                # The queue and scratch set-up have no counterpart here: a kernel that follows such a pointer faults.
                words = [0] * entry.count
            for offset, word in enumerate(words):
                cohort.s[entry.first + offset] = word
        group = cohort.group + cohort.batch.first_group
        gx, gy, _ = self.grid
        ids = {"workgroup_id_x": group % gx, "workgroup_id_y": group // gx % gy, "workgroup_id_z": group // (gx * gy)}
        for entry in self.descriptor.system_sgprs:
            cohort.s[entry.first] = ids.get(entry.name, 0)
        cohort.s[124] = 0xFFFFFFFF if not self.fill else self.fill


def _dispatch_packet(grid: Sequence[int], block: Sequence[int], scratch: int, lds: int, kernarg: int) -> bytes:
    """The AQL kernel dispatch packet (HSA Platform System Architecture 1.2, 2.9.6)."""
    items = [groups * size for groups, size in zip(grid, block, strict=True)]
    return struct.pack("<HHHHHHIIIIIQQQQ", 2, 3, *block, 0, *items, scratch, lds, 0, kernarg, 0, 0)


def hidden_arguments(
    kernarg: bytearray, code: KernelCode, grid: Sequence[int], block: Sequence[int], dynamic_lds: int
) -> None:
    """Fill in the hidden arguments that a runtime provides; what has no meaning here stays zero."""
    values = {
        **{f"hidden_block_count_{axis}": grid[i] for i, axis in enumerate("xyz")},
        **{f"hidden_group_size_{axis}": block[i] for i, axis in enumerate("xyz")},
        **{f"hidden_remainder_{axis}": 0 for axis in "xyz"},
        "hidden_grid_dims": 3 if grid[2] > 1 else 2 if grid[1] > 1 else 1,
        "hidden_dynamic_lds_size": dynamic_lds,
    }
    for argument in code.args:
        if argument.value_kind in values:
            value = values[argument.value_kind]
            kernarg[argument.offset : argument.offset + argument.size] = value.to_bytes(argument.size, "little")
