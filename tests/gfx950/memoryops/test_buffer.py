"""MUBUF: addresses, range checks by the byte and by the record, swizzling, halves of registers, loads into LDS."""

import numpy as np
import pytest

from mxassay.gfx950.faults import MemoryFault

LANE = np.arange(64)


@pytest.fixture
def words():
    return (np.arange(1024, dtype=np.uint32) * 0x01010101) ^ np.uint32(0x00C0FFEE)


def test_offset_index_and_scalar_offset_add_up(bench, words):
    card = bench()
    base = card.map("x", words)
    card.resource(8, base, 256, stride=16)
    card.v[0], card.v[1], card.s[4] = LANE % 7, 4 * (LANE % 3), 32
    card.run("buffer_load_dword v5, v[0:1], s[8:11], s4 idxen offen offset:64")
    want = words[(64 + 32 + 16 * (LANE % 7) + 4 * (LANE % 3)) // 4]
    assert (card.v[5, 0] == want).all()


def test_a_raw_buffer_is_checked_byte_by_byte(bench, words):
    card = bench()
    card.resource(8, card.map("x", words), 40)
    card.v[0] = 4 * LANE
    card.run("buffer_load_dword v5, v0, s[8:11], 0 offen offset:4")
    assert card.v[5, 0].tolist() == [*words[1:10].tolist(), *[0] * 55]


@pytest.mark.parametrize(("idxen", "rows"), [(False, 10), (True, 40)])
def test_a_stride_makes_records_only_with_an_index(bench, words, idxen, rows):
    """Without IDXEN, NUM_RECORDS counts bytes even beside a stride."""
    card = bench()
    card.resource(8, card.map("x", words), 40, stride=4)
    card.v[0] = LANE if idxen else 4 * LANE
    card.run(f"buffer_load_dword v5, v0, s[8:11], 0 {'idxen' if idxen else 'offen'}")
    assert card.v[5, 0].tolist() == [*words[:rows].tolist(), *[0] * (64 - rows)]


def test_the_scalar_offset_counts_against_the_range(bench, words):
    card = bench()
    card.resource(8, card.map("x", words), 64)
    card.v[0], card.s[4] = 0, 60
    card.run("buffer_load_dword v5, v0, s[8:11], s4 offen", "buffer_load_dword v6, v0, s[8:11], s4 offen offset:4")
    assert (card.v[5, 0] == words[15]).all()
    assert (card.v[6, 0] == 0).all()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_wide_loads_and_stores_are_checked_dword_by_dword(bench, words, count):
    card = bench()
    card.resource(8, card.map("x", words), 24)
    card.v[0] = np.minimum(4 * LANE, 28)
    card.run(f"buffer_load_dwordx{count} v[4:{3 + count}], v0, s[8:11], 0 offen")
    for lane in (0, 1, 2, 3, 4, 5, 6, 63):
        start = min(lane, 7)
        want = [int(words[start + word]) if start + word < 6 else 0 for word in range(count)]
        assert card.v[4 : 4 + count, 0, lane].tolist() == want
    out = np.zeros(64, np.uint32)
    card = bench()
    card.resource(8, card.map("out", out), 24)
    card.v[0], card.v[4:8] = 16, np.array([1, 2, 3, 4])[:, None, None]
    card.run(f"buffer_store_dwordx{count} v[4:{3 + count}], v0, s[8:11], 0 offen")
    assert out.tolist() == [0, 0, 0, 0, 1, 2, *[0] * 58]


def test_out_of_range_bytes_and_shorts_are_zero_and_keep_the_other_half(bench, words):
    card = bench()
    card.resource(8, card.map("x", words), 3)
    octets = words.view(np.uint8)
    card.v[0] = LANE
    card.run(
        "buffer_load_ubyte v4, v0, s[8:11], 0 offen",
        "buffer_load_short_d16_hi v5, v0, s[8:11], 0 offen",
        "buffer_load_sbyte_d16 v6, v0, s[8:11], 0 offen",
    )
    assert card.v[4, 0, :4].tolist() == [*octets[:3].tolist(), 0]
    short = int(octets[1]) | int(octets[2]) << 8
    assert card.v[5, 0, 1] == short << 16 | 0xA5A5
    assert card.v[5, 0, 2] == 0xA5A5  # the second byte is out of range
    signed = int(octets[2].view(np.int8)) & 0xFFFF
    assert card.v[6, 0, 2:4].tolist() == [0xA5A50000 | signed, 0xA5A50000]


def test_a_swizzled_buffer_interleaves_neighbours(bench):
    """INDEX_STRIDE 8 (code 0): dword e of record r lies at (r / 8 * stride + 4 e) * 8 + r % 8 * 4."""
    words = np.arange(1024, dtype=np.uint32)
    card = bench()
    card.resource(8, card.map("x", words), 64, stride=16, swizzle=1)
    card.v[0], card.v[1] = LANE, 8
    card.run("buffer_load_dword v5, v[0:1], s[8:11], 0 idxen offen")
    assert (card.v[5, 0] == ((LANE // 8 * 16 + 8) * 8 + LANE % 8 * 4) // 4).all()


def test_add_tid_adds_the_lane_to_the_index(bench):
    words = np.arange(1024, dtype=np.uint32)
    card = bench()
    card.resource(8, card.map("x", words), 4096, stride=12, word3=1 << 23)
    card.run("buffer_load_dword v5, off, s[8:11], 0 offset:4")
    assert (card.v[5, 0] == (12 * LANE + 4) // 4).all()


def test_lanes_that_are_off_touch_nothing(bench, words):
    card = bench()
    card.resource(8, card.map("x", words), 4096)
    card.v[0] = np.where(LANE < 2, 4 * LANE, 1 << 30)
    card.cohort.set_exec(np.array([3], np.uint64))
    card.run("buffer_load_dword v5, v0, s[8:11], 0 offen")
    assert card.v[5, 0].tolist() == [*words[:2].tolist(), *[0xA5A5A5A5] * 62]


def test_an_address_in_range_but_outside_the_allocation_faults(bench, words):
    card = bench()
    card.resource(8, card.map("x", words), 8192)
    card.v[0] = 4 * LANE + 4000
    with pytest.raises(MemoryFault, match="0 bytes past the end of x of 4096 bytes"):
        card.run("buffer_load_dword v5, v0, s[8:11], 0 offen")


@pytest.mark.parametrize(("suffix", "size"), [("dword", 4), ("dwordx3", 12), ("dwordx4", 16)])
def test_loads_into_lds_go_lane_after_lane_from_m0_and_zero_what_is_out_of_range(bench, words, suffix, size):
    card = bench(lds=4096)
    card.lds()[:] = 0xEE
    card.resource(8, card.map("x", words), 8 * size + 4)
    card.v[0], card.s[124] = size * LANE, 256
    card.run(f"buffer_load_{suffix} v0, s[8:11], 0 offen offset:8 lds")
    got = card.lds()[264 : 264 + 64 * size].view(np.uint32)
    want = words[2 : 2 + 64 * size // 4].copy()
    want[(8 * size + 4 - 8) // 4 :] = 0
    assert got.tolist() == want.tolist()
    assert (card.lds()[:264] == 0xEE).all()
    assert (card.lds()[264 + 64 * size :] == 0xEE).all()


@pytest.mark.parametrize(("suffix", "dtype"), [("ubyte", np.uint8), ("ushort", np.uint16)])
def test_narrow_loads_into_lds_fill_a_dword_a_lane(bench, words, suffix, dtype):
    card = bench(lds=1024)
    card.map("x", words, 2)
    card.v[0], card.s[124] = LANE * np.dtype(dtype).itemsize, 0
    card.run(f"global_load_lds_{suffix} v0, s[2:3] offset:16")
    want = words.view(dtype)[16 // np.dtype(dtype).itemsize :][:64]
    assert card.lds()[16 : 16 + 256].view(np.uint32).tolist() == want.astype(np.uint32).tolist()


def test_loads_into_lds_leave_the_place_of_a_lane_that_is_off(bench, words):
    card = bench(lds=1024)
    card.map("x", words, 2)
    card.lds()[:] = 0xEE
    card.v[0], card.s[124] = 16 * LANE, 0
    card.cohort.set_exec(np.array([0b101], np.uint64))
    card.run("global_load_lds_dwordx4 v0, s[2:3]")
    got = card.lds().view(np.uint32).reshape(-1, 4)
    assert got[0].tolist() == words[:4].tolist()
    assert got[2].tolist() == words[8:12].tolist()
    assert (got[[1, 3]] == 0xEEEEEEEE).all()
