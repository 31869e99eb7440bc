"""The matrix instructions of one product launch, put side by side: what the failing case holds, and which element of
which operand each byte is, found out by probes.

Every operand is brought into the axes (instruction, block, row): a lane of an MFMA with R rows holds block lane // R of
row lane % R (layouts MFMA_16X16X128_A, MFMA_32X32X64_A and their kin).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.instruction import Instruction
from mxassay.layouts import MFMA_16X16X128_D, MFMA_32X32X64_D
from mxassay.triage.xray.probes import BLOCK, MASK, MIXED, OUTSIDE, Probes
from mxassay.triage.xray.recorder import Matrix, Record

Index = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]


@dataclass
class Side:
    """One operand of every matrix instruction, axes (instruction, block, row).

    codes: uint8 (..., 16) packed; scales: uint8, of the failing case. parts: index of the element (A, 32 of them) or of
    the packed byte (W, 16) that stands at each place; block, scale: index row * K/32 + block of the codes and of the
    scale byte. Instead of an index: MASK, MIXED, OUTSIDE.
    """

    codes: Bytes
    scales: Bytes
    parts: Index
    block: Index
    scale: Index


@dataclass
class Trace:
    """insts, wave: of each matrix instruction. before, after: the accumulator as (instruction, row of A, row of W),
    uint32 bits of float32; `sums` the same for each probe of sums, (run, before/after, ...). previous: the instruction
    whose sum this one goes on with, -1 where it starts from zero; `torn` where the sum was changed in between even in
    the probes. chain: number of the sum that it belongs to; last: the last instruction of each chain."""

    record: Record
    probes: Probes
    insts: list[Instruction]
    wave: Index
    rows: int
    swapped: bool
    a: Side
    w: Side
    before: Words
    after: Words
    sums: Words
    previous: Index
    torn: NDArray[np.bool_]
    chain: Index
    last: Index

    @property
    def blocks(self) -> int:
        """Blocks along K of the product."""
        return self.probes.blocks

    def place(self, event: int, side: str, block: int, row: int) -> tuple[int, str]:
        """Lane and registers of an operand's block."""
        inst = self.insts[event]
        slot = (side == "w") != self.swapped
        return row + self.rows * block, str(inst.src[int(slot)])


def sizes(record: Record) -> set[int]:
    """Rows of the FP4 matrix instructions that a launch ran: 16 or 32."""
    return {int(matrix.inst.op.split("f32_")[1].split("x")[0]) for matrix in record.matrices}


def same_course(records: Sequence[Record]) -> bool:
    """Whether all ran the same matrix instructions and stores in the same waves."""
    first = [(m.inst.pc, m.wave.tobytes()) for m in records[0].matrices]
    return all([(m.inst.pc, m.wave.tobytes()) for m in record.matrices] == first for record in records)


def trace_of(case: Record, probed: dict[str, list[Record]], probes: Probes) -> Trace:
    """Put the failing case's product launch and its probes side by side. `same_course` must hold for all of them."""
    rows = next(iter(sizes(case)))
    bands = 64 // rows
    ours = case.matrices
    insts = [matrix.inst for matrix in ours for _ in matrix.wave]
    wave = np.concatenate([matrix.wave for matrix in ours])
    codes = {kind: np.stack([_codes(r.matrices) for r in found]) for kind, found in probed.items() if kind != "sums"}
    scales = {kind: np.stack([_scales(r.matrices) for r in found]) for kind, found in probed.items() if kind != "sums"}
    readings = [_readings(probes, codes, scales, side) for side in (0, 1)]
    swapped = _score(readings[1], readings[0]) > _score(readings[0], readings[1])
    order = (1, 0) if swapped else (0, 1)
    mine, my_scales = _codes(ours), _scales(ours)

    def side(slot: int, kind: int) -> Side:
        parts, scale = readings[slot][kind]
        width = parts.shape[-1]

        def shaped(x: NDArray[np.generic], *tail: int) -> NDArray[np.generic]:
            return x.reshape(len(wave), bands, rows, *tail)

        return Side(
            shaped(mine[slot], 16), shaped(my_scales[slot]), shaped(parts, width),  # type: ignore[arg-type]
            shaped(_block_of(parts, width)), shaped(scale),  # type: ignore[arg-type]
        )  # fmt: skip

    a, w = side(order[0], 0), side(order[1], 1)
    sums = np.stack([_sums(record.matrices, rows, swapped) for record in probed["sums"]])
    own = _sums(ours, rows, swapped)
    previous, torn = _links(insts, wave, sums)
    chain, last = _chains(previous)
    return Trace(
        case, probes, insts, wave, rows, swapped, a, w, own[0], own[1], sums, previous, torn, chain,
        last,
    )  # fmt: skip


def _codes(matrices: Sequence[Matrix]) -> Bytes:
    return np.concatenate([matrix.codes for matrix in matrices], axis=1)


def _scales(matrices: Sequence[Matrix]) -> Bytes:
    return np.concatenate([matrix.scales for matrix in matrices], axis=1)


def _sums(matrices: Sequence[Matrix], rows: int, swapped: bool) -> Words:
    """uint32 (2, instructions, rows of A, rows of W): the accumulator before and after."""
    layout = (MFMA_16X16X128_D if rows == 16 else MFMA_32X32X64_D).bind((rows, rows))
    lane, vgpr = layout.offsets("lane").numpy(), layout.offsets("vgpr").numpy()
    both = []
    for name in ("before", "after"):
        whole = np.concatenate([getattr(matrix, name) for matrix in matrices], axis=1)
        placed = whole.transpose(1, 0, 2)[:, vgpr, lane]
        both.append(placed.transpose(0, 2, 1) if swapped else placed)
    return np.stack(both)


def nibbles(packed: Bytes) -> Bytes:
    """Codes (..., 2 * bytes), the low nibble first."""
    return np.stack((packed & 15, packed >> 4), axis=-1).reshape(*packed.shape[:-1], -1)


Reading = tuple[Index, Index]


def _readings(probes: Probes, codes: dict[str, Bytes], scales: dict[str, Bytes], side: int) -> tuple[Reading, Reading]:
    """What a side's codes and scales are if it is A, and if it is W."""
    everything, all_scales = (
        np.concatenate([part[kind][:, side] for kind in ("codes", "scales")]) for part in (codes, scales)
    )
    as_a = probes.read_elements(nibbles(codes["codes"][:, side])), probes.read_a_scales(scales["scales"][:, side])
    return as_a, (probes.read_w(everything), probes.read_w_scales(all_scales))


def _score(a: tuple[Reading, Reading], w: tuple[Reading, Reading]) -> float:
    """How well the first side reads as A and the second as W."""
    return sum(float((x >= 0).mean()) for x in (*a[0], *w[1]))


def _block_of(parts: Index, width: int) -> Index:
    """The block that all parts belong to."""
    first = parts[..., 0]
    one = (parts == first[..., None]).all(axis=-1) & (first < 0)
    block = parts // width
    whole = (parts >= 0).all(axis=-1) & (block == block[..., :1]).all(axis=-1)
    return np.where(whole, block[..., 0], np.where(one, first, MIXED))


def _links(insts: Sequence[Instruction], wave: Index, sums: Words) -> tuple[Index, NDArray[np.bool_]]:
    """Which earlier instruction of the wave left the sum that each one starts from: the same bits in every probe, or
    else, torn, the latest that left its sum in those registers."""
    before, after = (np.ascontiguousarray(sums[:, part].swapaxes(0, 1)).reshape(len(wave), -1) for part in (0, 1))
    empty = (before == 0).all(axis=1)
    latest: dict[tuple[int, bytes], int] = {}
    registers: dict[tuple[int, str], int] = {}
    previous, torn = np.full(len(wave), -1, np.int64), np.zeros(len(wave), np.bool_)
    for event, inst in enumerate(insts):
        mine = int(wave[event])
        if not empty[event]:
            found = latest.get((mine, before[event].tobytes()))
            torn[event] = found is None
            previous[event] = registers.get((mine, str(inst.src[2])), -1) if found is None else found
        latest[mine, after[event].tobytes()] = registers[mine, str(inst.dst[0])] = event
    return previous, torn


def _chains(previous: Index) -> tuple[Index, Index]:
    chain = np.zeros(len(previous), np.int64)
    last: list[int] = []
    for event, link in enumerate(previous):
        if link < 0:
            chain[event] = len(last)
            last.append(event)
        else:
            chain[event] = chain[link]
            last[chain[link]] = event
    return chain, np.array(last, np.int64)


__all__ = ["BLOCK", "MASK", "MIXED", "OUTSIDE", "Side", "Trace", "nibbles", "same_course", "sizes", "trace_of"]
