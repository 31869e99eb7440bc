"""10,000 damaged files: each gives a code object that keeps its promises or a CodeObjectError, at little cost."""

import contextlib
import random
import struct
import time
import tracemalloc

import pytest
from sample_metadata import METADATA

from mxassay.gfx950.codeobject import CodeObjectError, load_code_object
from mxassay.gfx950.elf import MAX_IMAGE_BYTES
from mxassay.gfx950.hazards import hazards_of
from mxassay.gfx950.static import report_of

FILES = 10_000
SHARP = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


def _flip(rng, data, tables):
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng, data, tables):
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)


def _truncate(rng, data, tables):
    del data[rng.randrange(len(data)) :]


def _remove(rng, data, tables):
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 64)]


def _splice(rng, data, tables):
    size = rng.randint(1, 256)
    source, target = rng.randrange(len(data)), rng.randrange(len(data))
    data[target : target + size] = data[source : source + size]


def _field(rng, data, tables):
    """A length, offset, count or address of a header or table set to a sharp value, or one near the file's size."""
    for _ in range(rng.randint(1, 3)):
        at = rng.choice(tables)
        form = rng.choice("BHIQ")
        value = rng.choice((*SHARP, len(data), len(data) - 1, rng.randrange(2 * len(data)))) & (
            256 ** struct.calcsize(form) - 1
        )
        if at + struct.calcsize(form) <= len(data):
            struct.pack_into("<" + form, data, at, value)


DAMAGE = (_flip, _overwrite, _truncate, _remove, _splice, _field, _field)


def _tables(data):
    """Offsets inside the ELF header, the program and section headers, the symbols, the descriptors and the note."""
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum, shnum = struct.unpack_from("<H", data, 56)[0], struct.unpack_from("<H", data, 60)[0]
    offsets = [*range(64), *range(phoff, phoff + 56 * phnum, 4), *range(shoff, shoff + 64 * shnum, 4)]
    for index in range(shnum):
        _, kind, _, _, at, size, *_ = struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * index)
        if kind in (2, 4, 7, 11) or 0 < size <= 64:
            offsets += range(at, at + size, 4)
    return [offset for offset in offsets if offset < len(data)]


@pytest.fixture(scope="module")
def originals(compiled, assemble):
    table = '\n.section .data.rel.ro,"aw",@progbits\n.p2align 3\n.globl t\nt: .quad t, probe\n'
    rich = assemble("s_nop 0\ns_endpgm", metadata=METADATA + table)
    return [rich, *(compiled[name].binary for name in ("add", "cast_fp8", "softmax"))]


def _use(found, deep):
    """What a caller may do with a code object without running it."""
    assert found.kernels
    assert sum(len(segment.data) for segment in found.segments) <= MAX_IMAGE_BYTES
    for kernel in found.kernels.values():
        assert 0 < kernel.code_size <= len(kernel.text)
        assert len(kernel.code) == kernel.code_size
        assert all(0 <= a.offset <= a.offset + a.size for a in kernel.args)
        if deep:
            found.line_of(kernel.entry)
            report_of(kernel)
            hazards_of(kernel, found)
    if deep and sum(segment.memory_size for segment in found.segments) < 1 << 20:
        found.image(0x10000)


def test_ten_thousand_damaged_files(originals):
    outcomes = {"loaded": 0, "refused": 0}
    messages = set()
    tables = [_tables(data) for data in originals]
    slowest = 0.0
    for seed in range(FILES):
        rng = random.Random(seed)
        which = seed % len(originals)
        data = bytearray(originals[which])
        rng.choice(DAMAGE)(rng, data, tables[which])
        began = time.process_time()
        try:
            _use(load_code_object(bytes(data)), deep=seed % 4 == 0)
            outcomes["loaded"] += 1
        except CodeObjectError as error:
            outcomes["refused"] += 1
            messages.add(str(error))
        slowest = max(slowest, time.process_time() - began)
    # Neither outcome may be a rarity, or the test would look at one of them only.
    assert min(outcomes.values()) > FILES // 20, outcomes
    assert len({message.split(" must ")[0] for message in messages}) > 30, messages
    assert all("\n" not in message and len(message) < 400 for message in messages)
    assert slowest < 2.0, "seconds of CPU for the slowest file"


def test_damaged_files_take_little_memory(originals):
    tables = [_tables(data) for data in originals]
    tracemalloc.start()
    try:
        for seed in range(400):
            rng = random.Random(-1 - seed)
            which = seed % len(originals)
            data = bytearray(originals[which])
            _field(rng, data, tables[which])
            with contextlib.suppress(CodeObjectError):
                load_code_object(bytes(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
