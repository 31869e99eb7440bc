"""Questions on LDS, buffers and atomics."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxassay.gfx950.probe.lanewise import columns, each
from mxassay.gfx950.probe.question import REFUSED, Program, Question, Reading, Words
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN, Fidelity

__all__ = ["QUESTIONS"]

_ISA = "AMD CDNA4 ISA"
# Every lane fills 16 bytes of the first 1,024: each word holds its address.
_FILL = """
v_lshlrev_b32_e32 v4, 4, v0
v_add_u32_e32 v6, 0xc0de0000, v4
v_add_u32_e32 v7, 4, v6
v_add_u32_e32 v8, 8, v6
v_add_u32_e32 v9, 12, v6
s_mov_b32 m0, -1
ds_write_b64 v4, v[6:7]
ds_write_b64 v4, v[8:9] offset:8
s_waitcnt lgkmcnt(0)
"""
_BYTES = 1024


def _filled(address: Any) -> Any:
    """The word at any byte address of the filled part, 0 where it is not wholly inside."""
    contents = (0xC0DE0000 + 4 * np.arange(_BYTES // 4, dtype=np.uint32)).view(np.uint8)
    where = np.asarray(address, np.int64)
    inside = where + 4 <= _BYTES
    parts = [contents[np.where(inside, where, 0) + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(4)]
    return np.where(inside, parts[0] | parts[1] | parts[2] | parts[3], 0).astype(np.uint32)


_OUTSIDE = np.array([1024, 1028, 1276, 1280, 2048, 2556, 2560, 4096, 65532, 65536, 131072, 163836, 163840, 1 << 20,
                     0x7FFFFFFC, 0xFFFFFFFC], np.uint32)  # fmt: skip


def _lds(name: str, statement: str, matters: str, sources: str, policy: str, status: Fidelity, text: str,
         inputs: Callable[[], Words], out_words: int, readings: Mapping[str, Reading]) -> Question:  # fmt: skip
    program = Program(_FILL + text, inputs, out_words, settings={"lds_bytes": _BYTES})
    return Question(f"lds.{name}", statement, matters, sources, policy, status, program, readings)


_LDS = (
    _lds(
        "outside", "What does a load past the workgroup's LDS give, and from which address on?",
        "A kernel that reads too far gets zeros, or another workgroup's data.",
        f'{_ISA}, "Data share": out of range loads give 0; how allocation is rounded up is open.', REFUSED, UNKNOWN,
        "ds_read_b32 v64, v16", columns(_OUTSIDE), 1, {"0 everywhere": each(lambda address: np.uint32(0))},
    ),
    _lds(
        "straddle", "What does a load give that begins inside the LDS and ends outside?", "As above.",
        f'{_ISA}, "Data share".', REFUSED, UNKNOWN, "ds_read_b64 v[64:65], v16", columns([1020, 1016, 1008, 0]), 2,
        {"0 as a whole": each(
            lambda address: np.where(address + 8 <= _BYTES, _filled(address), 0),
            lambda address: np.where(address + 8 <= _BYTES, _filled(address + np.uint32(4)), 0)),
         "word by word": each(_filled, lambda address: _filled(address + np.uint32(4)))},
    ),
    _lds(
        "unaligned", "Does an unaligned load give the bytes as they lie?", "Packed FP6 and odd offsets.",
        f'{_ISA}, "Data share": depends on SH_MEM_CONFIG, which the driver sets.', "as they lie", INFERRED,
        "ds_read_b32 v64, v16", columns([0, 1, 2, 3, 5, 6, 7, 9, 509, 510, 511, 1018, 1019]), 1,
        {"as they lie": each(_filled), "aligned down": each(lambda address: _filled(address & np.uint32(0xFFFFFFFC)))},
    ),
    _lds(
        "m0", "Does M0 = 0 keep a load from reading LDS?", "Older cards needed M0 as a limit.",
        "LLVM AMDGPUUsage, gfx9: DS instructions don't use M0.", "no", CERTAIN,
        "s_mov_b32 m0, 0\ns_nop 4\nds_read_b32 v64, v16", columns(4 * np.arange(64)), 1,
        {"no": each(_filled), "yes": each(lambda address: np.uint32(0))},
    ),
)  # fmt: skip

_M0_TEXT = """
v_lshlrev_b32_e32 v3, 2, v0
v_add_u32_e32 v4, 0x20000, v3
v_mov_b32_e32 v5, 0x11111111
s_mov_b32 m0, -1
ds_write_b32 v3, v5
ds_write_b32 v4, v5
s_waitcnt lgkmcnt(0)
s_mov_b32 m0, 0x20000
s_nop 4
global_load_lds_dword v1, s[4:5]
s_waitcnt vmcnt(0)
s_mov_b32 m0, -1
ds_read_b32 v64, v4
ds_read_b32 v65, v3
"""
_OLD = np.uint32(0x11111111)
_M0 = Question(
    "lds.m0_width", "How many bits of M0 does global_load_lds take as its LDS base?",
    "Kernels use 160 KiB of LDS; with 16 bits the upper part is never reached.",
    "Confirmed by running AMD's prebuilt kernels against a reference: 18 are needed.", "18", INFERRED,
    Program(_M0_TEXT, columns(0xABC00000 + np.arange(64)), 2, settings={"lds_bytes": 160 * 1024}),
    {"18": each(lambda word: word, lambda word: _OLD), "16 or 17": each(lambda word: _OLD, lambda word: word)},
)  # fmt: skip


def _transposed(bits: int, size: int) -> Reading:
    """What 16 lanes load is a row-major tile of 16 columns; lane i gets column i."""
    count = 8 * size // bits

    def outputs(words: Words) -> Words:
        flat = words[..., : size // 4].astype("<u4").view(np.uint8)
        stream = np.unpackbits(flat, axis=-1, bitorder="little").reshape(len(words), 4, 16 * count, bits)
        moved = np.empty_like(stream).reshape(len(words), 4, 16, count, bits)
        for lane in range(16):
            for element in range(count):
                moved[:, :, lane, element] = stream[:, :, 16 * element + lane]
        packed = np.packbits(moved.reshape(len(words), 64, -1), axis=-1, bitorder="little")
        return np.ascontiguousarray(packed).view("<u4").astype(np.uint32)

    return outputs


def _untouched(size: int) -> Reading:
    return lambda words: words[..., : size // 4]


def _numbered(bits: int, size: int) -> Callable[[], Words]:
    """Element i holds bits of i, `bits` of them a wave, until all 10 are shown."""
    count = 8 * size // bits

    def inputs() -> Words:
        index = np.arange(64 * count)
        waves = []
        for low in range(0, 10, bits):
            item = (index >> low & (1 << bits) - 1)[:, None] >> np.arange(bits) & 1
            packed = np.packbits(item.astype(np.uint8).reshape(64, -1), axis=-1, bitorder="little")
            waves.append(packed.view("<u4"))
        return np.stack(waves).astype(np.uint32)

    return inputs


def _transpose(name: str, bits: int, size: int) -> Question:
    words, stride = size // 4, 8 if size == 8 else 12
    stores = "\n".join(f"ds_write_b32 v4, v{16 + word} offset:{4 * word}" for word in range(words))
    text = (
        f"s_mov_b32 m0, -1\nv_mul_u32_u24_e32 v4, {stride}, v0\n{stores}\ns_waitcnt lgkmcnt(0)\n"
        f"ds_read_{name} v[64:{63 + words}], v4"
    )
    return Question(
        f"lds.{name}", f"Which element does each lane get from ds_read_{name}?",
        "Triton reads matrix operands with it.", f"{_ISA} names it; Triton's operand layouts imply the exchange.",
        "a row-major tile of 16 columns becomes columns", INFERRED,
        Program(text, _numbered(bits, size), words, settings={"lds_bytes": 64 * 12}),
        {"a row-major tile of 16 columns becomes columns": _transposed(bits, size), "no exchange": _untouched(size)},
    )  # fmt: skip


_RESOURCE = """
s_mov_b32 s20, s4
s_and_b32 s21, s5, 0xffff
s_movk_i32 s22, 40
s_mov_b32 s23, 0x27000
s_nop 4
"""


def _buffer(offset: Any, per_part: int) -> list[Any]:
    """Four words of a 40-byte buffer whose words hold 0xb0ff0000 + their offset, cut in parts of `per_part` bytes."""
    found = []
    for word in range(4):
        where = offset.astype(np.int64) + 4 * word
        part = where if per_part == 4 else offset.astype(np.int64)
        inside = part + per_part <= 40
        found.append(np.where(inside, 0xB0FF0000 + where, 0))
    return found


def _buffer_reading(per_part: int) -> Reading:
    return lambda words: np.stack(_buffer(words[..., 1], per_part), axis=2).astype(np.uint32)


def _buffer_inputs() -> Words:
    """Word 0 of the lanes makes the buffer: lane l's lies at 8 l, so both words of a lane belong to it."""
    words = np.zeros((1, 64, 2), np.uint32)
    words[0, :, 0] = 0xB0FF0000 + 8 * np.arange(64)
    words[0, :, 1] = 0xB0FF0004 + 8 * np.arange(64)
    return words


def _lane_offsets(reading: Reading) -> Reading:
    """The offsets come from the lane number, not from the inputs: 4 times lane modulo 16."""

    def outputs(words: Words) -> Words:
        offsets = np.broadcast_to(4 * (np.arange(64, dtype=np.uint32) % 16), words.shape[:2])
        return reading(np.stack([offsets, offsets], axis=2))

    return outputs


_PARTLY = Question(
    "buffer.partly_outside", "Is a 16-byte load that is partly beyond NUM_RECORDS cut word by word?",
    "Masked tails of rows are made of it.", f'{_ISA}, "Buffer range checking": raw buffers, dword by dword.',
    "word by word", INFERRED,
    Program(
        _RESOURCE + "v_and_b32_e32 v3, 15, v0\nv_lshlrev_b32_e32 v3, 2, v3\n"
        "buffer_load_dwordx4 v[64:67], v3, s[20:23], 0 offen",
        _buffer_inputs, 4,
    ),
    {"word by word": _lane_offsets(_buffer_reading(4)), "0 as a whole": _lane_offsets(_buffer_reading(16))},
)  # fmt: skip

QUESTIONS: tuple[Question, ...] = (
    *_LDS, _M0, _transpose("b64_tr_b16", 16, 8), _transpose("b64_tr_b8", 8, 8), _transpose("b64_tr_b4", 4, 8),
    _transpose("b96_tr_b6", 6, 12), _PARTLY,
)  # fmt: skip
