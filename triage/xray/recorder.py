"""Everything that an x-ray looks at, taken down while the code object runs: what each FP4 matrix instruction reads and
writes, what is converted, loaded and stored, and what the buffers hold afterwards."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.memory import View
from mxassay.gfx950.observe import Access, Launch
from mxassay.gfx950.wave import Cohort

FP4 = 4  # CBSZ and BLGP of E2M1 operands
_CONVERSION = "v_cvt_scalef32_pk_fp4_"
_MATRIX = "_f8f6f4"
_BLOCK_REGISTERS = 4


@dataclass
class _Event:
    """One instruction of the waves that ran it together. `wave`: their numbers in the launch."""

    inst: Instruction
    wave: NDArray[np.int64]


@dataclass
class Matrix(_Event):
    """One FP4 matrix instruction.

    codes: uint8 (2, waves, 64, 16), packed bytes of the first and the second operand in the order of k; scales: uint8
    (2, waves, 64); before, after: uint32 (registers, waves, 64), the accumulator.
    """

    seq: NDArray[np.int64]
    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    before: NDArray[np.uint32]
    after: NDArray[np.uint32]


@dataclass
class Conversion(_Event):
    """One conversion to FP4: `pair` and `scale` uint32 (waves, 64), `byte` the result, uint8 (waves, 64)."""

    seq: NDArray[np.int64]
    mask: NDArray[np.bool_]
    pair: NDArray[np.uint32]
    scale: NDArray[np.uint32]
    byte: NDArray[np.uint8]


@dataclass
class Move(_Event):
    """One load or store of global memory. `address` int64 (waves, 64); `words` is what a store stores, else None."""

    kind: str
    address: NDArray[np.int64]
    mask: NDArray[np.bool_]
    size: int
    words: NDArray[np.uint32] | None


@dataclass
class Record:
    """One launch. `error` is what stopped it; `after` holds the bytes of the views that it stored to, (*shape,
    itemsize); `outside` counts matrix instructions that are no FP4 ones."""

    launch: Launch
    views: list[View]
    matrices: list[Matrix] = field(default_factory=list)
    conversions: list[Conversion] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    before: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    after: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    others: int = 0
    error: Exception | None = None

    @property
    def waves_per_group(self) -> int:
        x, y, z = self.launch.block
        return -(-(x * y * z) // 64)

    @property
    def groups(self) -> int:
        x, y, z = self.launch.grid
        return x * y * z

    def source(self, inst: Instruction | None) -> tuple[str, int] | None:
        return None if inst is None else self.launch.code_object.line_of(inst.pc)

    def pc(self, inst: Instruction) -> int:
        """From the kernel's start."""
        return inst.pc - self.launch.code.entry


class Recorder:
    """An observer of `mxassay.gfx950`. `moves`: whether loads and stores are taken down too; stores always are."""

    def __init__(self, *, loads: bool = True) -> None:
        self.records: list[Record] = []
        self.loads = loads

    def begin(self, launch: Launch) -> None:
        self._now = Record(launch, list(launch.memory.views))
        self.records.append(self._now)
        self._now.before = {index: elements(launch, view) for index, view in enumerate(self._now.views)}
        waves = self._now.waves_per_group * self._now.groups
        self._seq = np.zeros(waves, np.int64)

    def end(self, error: Exception | None) -> None:
        self._now.error = error
        launch = self._now.launch
        for index, view in enumerate(self._now.views):
            content = elements(launch, view)
            if not np.array_equal(content, self._now.before[index]):
                self._now.after[index] = content

    def before(self, cohort: Cohort, instruction: Instruction) -> None:
        op = instruction.op
        if op.startswith(("v_mfma", "v_smfmac")):
            if op.endswith(_MATRIX) and instruction["cbsz"] == FP4 and instruction["blgp"] == FP4:
                self._matrix(cohort, instruction)
            else:
                self._now.others += cohort.count
        elif op.startswith(_CONVERSION):
            sources = instruction.src
            pair = _words(cohort, sources[0], 1)[0].copy()
            scale = _words(cohort, sources[-1], 1)[0].copy()
            seq = self._seq[cohort.wave].copy()
            empty = np.empty(0, np.uint8)
            self._now.conversions.append(
                Conversion(instruction, cohort.wave.copy(), seq, cohort.mask.copy(), pair, scale, empty)
            )

    def _matrix(self, cohort: Cohort, inst: Instruction) -> None:
        seq = self._seq[cohort.wave].copy()
        self._seq[cohort.wave] += 1
        codes = [_words(cohort, inst.src[side], _BLOCK_REGISTERS) for side in (0, 1)]
        packed = np.stack([np.ascontiguousarray(part.transpose(1, 2, 0)).view(np.uint8) for part in codes])
        scales = np.stack([_scale_bytes(cohort, inst, side) for side in (0, 1)])
        count = inst.dst[0].count
        self._now.matrices.append(
            Matrix(
                inst, cohort.wave.copy(), seq, packed.reshape(2, cohort.count, 64, 16), scales,
                _words(cohort, inst.src[2], count).copy(), np.empty(0, np.uint32),
            )
        )  # fmt: skip

    def after(self, cohort: Cohort, instruction: Instruction) -> None:
        op = instruction.op
        if op.endswith(_MATRIX) and instruction["cbsz"] == FP4 and instruction["blgp"] == FP4:
            target = instruction.dst[0]
            self._now.matrices[-1].after = _words(cohort, target, target.count).copy()
        elif op.startswith(_CONVERSION):
            byte = instruction["op_sel"] >> 2 & 3
            register = _words(cohort, instruction.dst[0], 1)[0]
            self._now.conversions[-1].byte = (register >> np.uint32(8 * byte) & np.uint32(0xFF)).astype(np.uint8)

    def access(self, cohort: Cohort, instruction: Instruction, access: Access) -> None:
        if access.space != "global" or (access.kind == "load" and not self.loads):
            return
        words = None
        data = instruction.operand("vdata") or instruction.operand("data")
        if access.kind == "store" and data is not None and data.file in ("v", "a"):
            words = _words(cohort, data, max(1, access.size // 4)).copy()
            if "d16_hi" in instruction.op:
                words >>= np.uint32(16)
        self._now.moves.append(
            Move(
                instruction, cohort.wave.copy(), access.kind, access.address.copy(), access.mask.copy(), access.size,
                words,
            )
        )  # fmt: skip

    def barrier(self, groups: NDArray[np.int64]) -> None:
        """Workgroups go through a barrier."""


def elements(launch: Launch, view: View) -> NDArray[np.uint8]:
    """A copy of an argument's elements, uint8 (*shape, itemsize)."""
    segment = launch.memory.find(view.address)
    if segment is None or not all(view.shape):
        return np.empty((*view.shape, view.itemsize), np.uint8)
    start = segment.data[view.address - segment.base :]
    return np.lib.stride_tricks.as_strided(start, (*view.shape, view.itemsize), (*view.strides, 1)).copy()


def _words(cohort: Cohort, operand: Operand, count: int) -> NDArray[np.uint32]:
    """uint32 (count, waves, 64) of a register operand; zeros for anything else, such as the constant 0 as addend."""
    if operand.file in ("v", "a"):
        file = cohort.v if operand.file == "v" else cohort.a
        words: NDArray[np.uint32] = file[operand.index : operand.index + count]
        return words
    if operand.file == "s":
        word = cohort.s[operand.index : operand.index + count, :, None]
        return np.broadcast_to(word, (len(word), cohort.count, 64))
    value: Any = operand.value
    bits = np.float32(value).view(np.uint32) if operand.file == "float" else np.uint32(int(value or 0) & 0xFFFFFFFF)
    return np.full((count, cohort.count, 64), bits, np.uint32)


def _scale_bytes(cohort: Cohort, inst: Instruction, side: int) -> NDArray[np.uint8]:
    """uint8 (waves, 64): the byte that OP_SEL picks of the scale register; 127, which is 1, where there is none."""
    if len(inst.src) < 5:
        return np.full((cohort.count, 64), 127, np.uint8)
    byte = (inst["op_sel_hi"] >> side & 1) << 1 | (inst["op_sel"] >> side & 1)
    word = _words(cohort, inst.src[3 + side], 1)[0]
    scales: NDArray[np.uint8] = (word >> np.uint32(8 * byte) & np.uint32(0xFF)).astype(np.uint8)
    return scales
