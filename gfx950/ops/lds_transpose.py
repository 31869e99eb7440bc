"""Transposing loads of LDS: DS_READ_B64_TR_B16, _TR_B8, _TR_B4 and DS_READ_B96_TR_B6.

Each lane loads its 64 (96) bits; then each 16 lanes exchange elements, so that rows become columns. With n elements a
lane and c = 16 / n lanes a row, lane i's element e comes from lane c * e + i / n, element i % n. EXEC is taken as on in
all lanes: the exchange with lanes off is refused.

Source: AMD CDNA4 ISA names them; the exchange is what makes the operands right that Triton reads this way for 16-bit,
8-bit and 4-bit elements; 6 bits by the same rule.
"""

from typing import Any

import numpy as np

from mxassay.gfx950.access import fetch, to_registers
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.ops.lds import LdsPort, lds_offset
from mxassay.gfx950.registry import INFERRED, Build, Context, Step, define
from mxassay.gfx950.wave import Cohort

_GROUP = 16


def _exchanged(items: Any) -> Any:
    """(waves, 64, n) elements as each lane receives them."""
    waves, lanes, count = items.shape
    rows = items.reshape(waves, lanes // _GROUP, count, _GROUP)  # c lanes of n elements are a row of 16
    return rows.transpose(0, 1, 3, 2).reshape(waves, lanes, count)


def _nibbles(words: Any) -> Any:
    """(waves, 64, registers) of 4-bit elements, transposed."""
    octets = words.view(np.uint8)
    items = np.empty((*octets.shape, 2), np.uint8)
    items[..., 0], items[..., 1] = octets & np.uint8(15), octets >> np.uint8(4)
    moved = _exchanged(items.reshape(*octets.shape[:2], -1)).reshape(items.shape)
    return (moved[..., 0] | moved[..., 1] << np.uint8(4)).view(np.uint32)


def _sixes(words: Any) -> Any:
    """(waves, 64, 3) of 6-bit elements, transposed; 16 of them lie end to end."""
    bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").reshape(*words.shape[:2], 16, 6)
    moved = bits.reshape(words.shape[0], 4, 16, 16, 6).transpose(0, 1, 3, 2, 4).reshape(*words.shape[:2], 96)
    return np.packbits(moved, axis=-1, bitorder="little").view(np.uint32)


def _whole(dtype: Any) -> Any:
    return lambda words: np.ascontiguousarray(_exchanged(words.view(dtype))).view(np.uint32)


def _build(size: int, transpose: Any) -> Build:
    def build(inst: Instruction, context: Context) -> Step:
        port, offset = LdsPort(inst, context, "load", size), np.int64(lds_offset(inst))
        addr, file, index = inst.src[0].index, inst.dst[0].file, inst.dst[0].index

        def step(wv: Cohort) -> None:
            if not wv.full:
                context.refuse(inst, "a transposing load with lanes off (no source says what is exchanged)")
            for spot in port.spots(wv, wv.v[addr] + offset, None):
                words = np.stack(fetch(spot, size), axis=-1)
                moved = transpose(words)
                to_registers(wv, file, index, [moved[..., word] for word in range(size // 4)], None)

        return step

    return build


for _name, _size, _transpose in (
    ("b64_tr_b16", 8, _whole(np.uint16)), ("b64_tr_b8", 8, _whole(np.uint8)), ("b64_tr_b4", 8, _nibbles),
    ("b96_tr_b6", 12, _sixes),
):  # fmt: skip
    define(f"ds_read_{_name}", _build(_size, _transpose), INFERRED, "AMD CDNA4 ISA; exchange: Triton's operands")
