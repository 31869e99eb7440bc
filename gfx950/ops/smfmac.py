"""Sparse matrix multiply: V_SMFMAC_*, D += A * B where of every four k at most two of A are not zero.

A lane holds half of its k of A; for each held item two bits of the index register (SRC2) say which of its four k it is:
bits 2i+1:2i for item i, starting at set ABID of the register (set 0 where CBSZ is not 0). B, C and D lie as in the
dense instructions. Source: AMD matrix instruction calculator, "CDNA3"; the shapes that gfx950 adds by the same rule.
Adding: as for dense instructions. Two held items that name one k: the later one counts (declared).
"""

import re

import numpy as np

from mxassay.gfx950.accumulate import Groups, accumulation
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.operand_matrices import ELEMENTS, Shape, columns
from mxassay.gfx950.ops.mfma import GROUPS, integers, registers_of
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_CHUNK = 64


def _build(shape: Shape, kind_a: str, kind_b: str) -> Build:
    element_a, element_b = ELEMENTS[kind_a], ELEMENTS[kind_b]
    held = shape.items // 2
    place = np.arange(held)

    def build(inst: Instruction, context: Context) -> Step:
        sets = 16 // held
        chosen = 0 if inst["cbsz"] else inst["abid"]
        if chosen >= sets or inst["blgp"]:
            context.refuse(inst, f"ABID {inst['abid']} with {sets} sets of indices, or BLGP")
        read_a, read_b, read_index = (registers_of(operand) for operand in inst.src)
        result = registers_of(inst.dst[0])
        shifts = (2 * (place + held * chosen)).astype(np.uint32)
        groups = Groups(*GROUPS[element_a.bits], (element_a.least, element_b.least)) if kind_a != "i8" else None
        add = accumulation(context.accumulation, context.differences)

        def step(wv: Cohort) -> None:
            a, b, index, d = read_a(wv), read_b(wv), read_index(wv)[0], result(wv)
            for start in range(0, wv.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                items = element_a.unpack(columns(a[:, part]))
                which = (index[part, :, None] >> shifts & np.uint32(3)).astype(np.intp) + 4 * (place // 2)
                dense = np.zeros((*items.shape[:2], shape.items), items.dtype)
                np.put_along_axis(dense, which, items, axis=2)
                left, right = shape.operand(dense), shape.operand(element_b.unpack(columns(b[:, part])))
                if groups is None:
                    total = integers(left, right) + shape.results_of(d[:, part], np.int32)
                else:
                    total = add(left, right, shape.results_of(d[:, part], np.float32), groups)
                d[:, part] = shape.registers_of(total)

        return step

    return build


_EIGHTS = ("fp8", "bf8")
_OPERATIONS = [
    *(f"f32_{shape}_{kind}" for kind in ("f16", "bf16") for shape in ("16x16x32", "32x32x16", "16x16x64", "32x32x32")),
    *(f"i32_{shape}_i8" for shape in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")),
    *(
        f"f32_{shape}_{a}_{b}"
        for shape in ("16x16x64", "32x32x32", "16x16x128", "32x32x64")
        for a in _EIGHTS
        for b in _EIGHTS
    ),
]

for _operation in _OPERATIONS:
    _found = re.fullmatch(r"[fi]32_(\d+)x\1x(\d+)_(\w+)", _operation)
    assert _found is not None
    _kind_a, _, _kind_b = _found[3].partition("_")
    define(
        f"v_smfmac_{_operation}", _build(Shape(int(_found[1]), int(_found[2])), _kind_a, _kind_b or _kind_a), INFERRED,
        "AMD matrix instruction calculator, CDNA3; accumulation: declared model", reads_dst=True,
    )  # fmt: skip
