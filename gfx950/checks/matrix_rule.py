"""Undefined bits through a matrix instruction.

Layout of dense R x R results (AMD CDNA4 ISA, "Matrix arithmetic instructions"): row m of A and column n of B lie in
lanes of that number modulo R; D[i, j] lies in lane j + R*(i/4 mod 64/R), VGPR 4*(i/(4*64/R)) + i%4. Sparse, float64 and
many-block forms are taken as if every element of a wave went into each result.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from mxassay.gfx950.checks.effects import AGPRS, REGISTERS, SGPRS, Effects
from mxassay.gfx950.checks.rules import spread
from mxassay.gfx950.checks.run import rows_of
from mxassay.gfx950.checks.shadow import ALL, Shadow, Word
from mxassay.gfx950.instruction import Instruction, Operand
from mxassay.gfx950.wave import LANES, Cohort

__all__ = ["latest", "matrix_result"]

ZERO = np.uint32(0)
_BASE = {"v": 0, "a": AGPRS, "s": SGPRS}
_MFMA = re.compile(r"v_s?mfmac?_(?:scale_)?(f32|i32)_(16x16|32x32)x(\d+)_?(.*)")


def matrix_result(inst: Instruction, effects: Effects, shadow: Shadow, cohort: Cohort) -> Iterator[Word]:
    """A row of A, a column of B or an element of C undefined makes that row, column or element of D undefined."""
    rows, shape = rows_of(cohort), cohort.mask.shape
    target = inst.dst[0]
    sources: dict[str, tuple[Any, Any]] = {}
    for operand in inst.src:
        if operand.is_register and operand.role != "src2":
            numbers = [n for n in range(_BASE[operand.file] + operand.index, REGISTERS) if n in effects.reads]
            numbers = numbers[: _count(operand, inst)]
            words = [shadow.read(number, rows) for number in numbers]
            if operand.role.startswith("scale_"):
                n = int(operand.role[-1])
                byte = np.uint32(8 * ((inst["op_sel_hi"] >> n & 1) << 1 | (inst["op_sel"] >> n & 1)))
                words = [(bits >> byte & np.uint32(0xFF), origin) for bits, origin in words]
            bits = np.broadcast_to(spread(*(bits for bits, _ in words)), shape)
            sources[operand.role] = bits != 0, np.broadcast_to(latest(words), shape)
    origin = np.zeros(cohort.count, np.uint32)
    for hit, where in sources.values():
        origin = np.maximum(origin, np.where(hit, where, ZERO).max(axis=1))
    none = np.zeros(shape, np.bool_)
    a = sources.get("src0", (none, 0))[0] | sources.get("scale_src0", (none, 0))[0]
    b = sources.get("src1", (none, 0))[0] | sources.get("scale_src1", (none, 0))[0]
    dims = _MFMA.fullmatch(inst.op)
    simple = dims is not None and "b_" not in dims[4] and not inst.op.startswith("v_smfmac")
    if inst.op.startswith("v_smfmac"):
        a = a | np.broadcast_to(spread(shadow.read(_BASE["v"] + inst.src[2].index, rows)[0]) != 0, shape)
    size = int(dims[2].split("x")[0]) if simple and dims else 0
    accumulator = inst.dst[0] if inst.op.startswith("v_smfmac") else inst.src[2]
    lane = np.arange(LANES)
    for word in range(target.count):
        if simple:
            row = a.reshape(-1, LANES // size, size).any(axis=1)
            column = b.reshape(-1, LANES // size, size).any(axis=1)
            i = word // 4 * 4 * (LANES // size) + 4 * (lane // size) + word % 4
            hit = row[:, i] | column[:, lane % size]
        else:
            hit = np.broadcast_to((a | b).any(axis=1, keepdims=True), shape)
        c, c_origin = ZERO, ZERO
        if accumulator.is_register:
            c, c_origin = shadow.read(_BASE[accumulator.file] + accumulator.index + word, rows)
        bits = np.where(hit, ALL, spread(c))
        yield bits, np.where(hit, origin[:, None], c_origin)


def _count(operand: Operand, inst: Instruction) -> int:
    if inst.op.endswith("_f8f6f4") and operand.role in ("src0", "src1"):
        return {0: 8, 1: 8, 2: 6, 3: 6, 4: 4}.get(inst["cbsz" if operand.role == "src0" else "blgp"], operand.count)
    return operand.count


def latest(words: Any) -> Any:
    """The origin of what is undefined, where something is: the youngest of several."""
    latest: Any = ZERO
    for bits, origin in words:
        latest = np.maximum(latest, np.where(bits, origin, ZERO))
    return latest
