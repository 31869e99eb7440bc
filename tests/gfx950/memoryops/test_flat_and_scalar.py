"""GLOBAL, FLAT, SCRATCH and SMEM: addresses, widths, halves, ranges."""

import numpy as np
import pytest

from mxassay.gfx950.faults import MemoryFault

LANE = np.arange(64)
WIDTHS = {
    "ubyte": (np.uint8, 0), "sbyte": (np.int8, 0), "ushort": (np.uint16, 0), "sshort": (np.int16, 0),
    "ubyte_d16": (np.uint8, 1), "sbyte_d16": (np.int8, 1), "short_d16": (np.uint16, 1),
    "ubyte_d16_hi": (np.uint8, 2), "sbyte_d16_hi": (np.int8, 2), "short_d16_hi": (np.uint16, 2),
}  # fmt: skip


@pytest.fixture
def octets():
    return np.random.default_rng(0).integers(0, 256, 4096).astype(np.uint8)


def widened(octets, start, dtype, half, old=0xA5A5A5A5):
    value = int(octets[start : start + np.dtype(dtype).itemsize].view(dtype)[0])
    if half == 0:
        return value & 0xFFFFFFFF
    value &= 0xFFFF
    return value << 16 | old & 0xFFFF if half == 2 else value | old & 0xFFFF0000


@pytest.mark.parametrize("suffix", WIDTHS)
@pytest.mark.parametrize("space", ["global", "flat", "scratch"])
def test_narrow_loads(bench, octets, space, suffix):
    dtype, half = WIDTHS[suffix]
    card = bench(scratch=128)
    base = card.map("x", octets)
    address = base + 2 * LANE
    card.v[0], card.v[1] = address & 0xFFFFFFFF, address >> 32
    if space == "scratch":
        lanes = card.batch.scratch.data.reshape(64, -1)
        lanes[:] = np.resize(octets, lanes.shape)
        card.v[0] = 2 * (LANE % 8)
        card.run(f"scratch_load_{suffix} v5, v0, off offset:6")
        want = [widened(lanes[lane], 2 * (lane % 8) + 6, dtype, half) for lane in range(64)]
    else:
        off = ", off" if space == "global" else ""
        card.run(f"{space}_load_{suffix} v5, v[0:1]{off} offset:6")
        want = [widened(octets, 2 * lane + 6, dtype, half) for lane in range(64)]
    assert card.v[5, 0].tolist() == want


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_wide_loads_and_stores_at_any_alignment(bench, octets, count, shift):
    card = bench()
    base = card.map("x", octets)
    out = np.zeros(4096, np.uint8)
    to = card.map("out", out)
    size = 4 * count
    for register, start in ((0, base), (2, to)):
        address = start + shift + size * LANE
        card.v[register], card.v[register + 1] = address & 0xFFFFFFFF, address >> 32
    suffix = f"x{count}" if count > 1 else ""
    span = f"v[8:{7 + count}]" if count > 1 else "v8"
    card.run(f"global_load_dword{suffix} {span}, v[0:1], off", f"global_store_dword{suffix} v[2:3], {span}, off")
    assert (out[shift : shift + 64 * size] == octets[shift : shift + 64 * size]).all()
    assert not out[:shift].any()
    assert not out[shift + 64 * size :].any()


@pytest.mark.parametrize(("suffix", "mask", "low"), [
    ("byte", 0xFF, 0), ("short", 0xFFFF, 0), ("byte_d16_hi", 0xFF, 16), ("short_d16_hi", 0xFFFF, 16),
])  # fmt: skip
@pytest.mark.parametrize("space", ["global", "scratch"])
def test_narrow_stores(bench, suffix, mask, low, space):
    out = np.zeros(1024, np.uint8)
    card = bench(scratch=16)
    base = card.map("out", out, 2)
    card.v[0] = 4 * LANE if space == "global" else 4
    card.v[1] = LANE * 0x01234567
    card.run(f"global_store_{suffix} v0, v1, s[2:3]" if space == "global" else f"scratch_store_{suffix} v0, v1, off")
    data = out if space == "global" else card.batch.scratch.data.reshape(64, -1)[:, 4:8].ravel()
    got = data.view(np.uint32)[:64]
    assert got.tolist() == [(lane * 0x01234567 >> low) & mask for lane in range(64)]
    assert base


def test_global_addresses_take_a_scalar_base_and_a_signed_offset(bench, octets):
    card, words = bench(), octets.view(np.uint32)
    card.map("x", octets, 2)
    card.v[0] = 64 + 4 * LANE
    card.run("global_load_dword v5, v0, s[2:3] offset:-64", "global_load_dword v6, v0, s[2:3] offset:3720")
    assert (card.v[5, 0] == words[:64]).all()
    assert (card.v[6, 0] == words[946 : 946 + 64]).all()


def test_scratch_is_private_to_its_lane_and_bounded(bench):
    card = bench(waves=2, scratch=32)
    card.v[0], card.v[1], card.s[4] = 8, card.cohort.wave[:, None] * 64 + LANE, 4
    card.run("scratch_store_dword v0, v1, s4 offset:4", "scratch_load_dword v5, off, s4 offset:12")
    assert (card.v[5] == card.cohort.wave[:, None] * 64 + LANE).all()
    with pytest.raises(MemoryFault, match="must stay inside 32 bytes a lane"):
        card.run("scratch_load_dword v5, v0, off offset:21")


@pytest.mark.parametrize(("suffix", "count"), [("", 1), ("x2", 2), ("x4", 4), ("x8", 8), ("x16", 16)])
def test_scalar_loads_of_all_widths(bench, octets, suffix, count):
    card = bench(waves=2)
    card.map("x", octets, 2)
    card.s[4] = [8, 16]
    span = f"s[16:{15 + count}]" if count > 1 else "s16"
    card.run(f"s_load_dword{suffix} {span}, s[2:3], s4 offset:0x20")
    words = octets.view(np.uint32)
    for wave, start in enumerate((10, 12)):
        assert card.s[16 : 16 + count, wave].tolist() == words[start : start + count].tolist()


def test_scalar_loads_take_their_offset_from_a_register_alone(bench, octets):
    card = bench()
    card.map("x", octets, 2)
    card.s[5] = 12
    card.run("s_load_dwordx2 s[16:17], s[2:3], s5", "s_load_dword s18, s[2:3], 0x7c", "s_load_dword s2, s[2:3], 0")
    words = octets.view(np.uint32)
    assert card.s[16:19, 0].tolist() == [*words[3:5].tolist(), words[31]]
    assert card.s[2, 0] == words[0]


def test_scalar_buffer_loads_return_zero_past_the_end(bench, octets):
    card = bench()
    card.resource(8, card.map("x", octets), 24)
    card.run("s_buffer_load_dwordx4 s[16:19], s[8:11], 0x10")
    assert card.s[16:20, 0].tolist() == [*octets.view(np.uint32)[4:6].tolist(), 0, 0]
    card.resource(8, card.map("y", octets), 3, stride=8)
    card.run("s_buffer_load_dwordx4 s[16:19], s[8:11], 0x10")
    assert card.s[16:20, 0].tolist() == [*octets.view(np.uint32)[4:6].tolist(), 0, 0]


def test_time_goes_on_for_every_wave(bench):
    card = bench(waves=2)
    card.run("s_memtime s[16:17]", "s_memrealtime s[18:19]", "s_memtime s[20:21]")
    assert (card.cohort.pair(16) < card.cohort.pair(18)).all()
    assert (card.cohort.pair(18) < card.cohort.pair(20)).all()
