"""LDS: loads and stores of all widths, pairs, lane exchanges, transposing loads; each against lane-by-lane loops."""

import numpy as np
import pytest

from mxassay.gfx950.faults import MemoryFault, UnsupportedInstruction

LANE = np.arange(64)
OLD = 0xA5A5A5A5


@pytest.fixture
def card(bench):
    card = bench(waves=2, groups=2, lds=8192)
    rng = np.random.default_rng(0)
    for group in range(2):
        card.lds(group)[:] = rng.integers(0, 256, 8192)
    return card


def group_of(wave):
    return wave // 2


@pytest.mark.parametrize(("suffix", "dtype", "half"), [
    ("u8", np.uint8, 0), ("i8", np.int8, 0), ("u16", np.uint16, 0), ("i16", np.int16, 0), ("u8_d16", np.uint8, 1),
    ("u8_d16_hi", np.uint8, 2), ("i8_d16", np.int8, 1), ("i8_d16_hi", np.int8, 2), ("u16_d16", np.uint16, 1),
    ("u16_d16_hi", np.uint16, 2),
])  # fmt: skip
def test_narrow_loads(card, suffix, dtype, half):
    card.v[0] = 2 * LANE
    card.run(f"ds_read_{suffix} v5, v0 offset:512")
    for wave in (0, 3):
        for lane in (0, 1, 63):
            start = 512 + 2 * lane
            raw = card.lds(group_of(wave))[start : start + np.dtype(dtype).itemsize].view(dtype)
            value = int(raw[0]) & (0xFFFFFFFF if half == 0 else 0xFFFF)
            want = {0: value, 1: OLD & 0xFFFF0000 | value, 2: OLD & 0xFFFF | value << 16}[half]
            assert card.v[5, wave, lane] == want


@pytest.mark.parametrize(("suffix", "count"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_wide_loads_and_stores(card, suffix, count):
    card.v[0] = 4 * count * LANE
    span = f"v[4:{3 + count}]" if count > 1 else "v4"
    before = [card.lds(group).copy() for group in range(2)]
    card.v[1] = card.v[0] + np.uint32(4096)
    card.run(f"ds_read_{suffix} {span}, v0 offset:16", f"ds_write_{suffix} v1, {span}")
    for group in range(2):
        assert (card.lds(group)[4096 : 4096 + 256 * count] == before[group][16 : 16 + 256 * count]).all()
        assert (card.lds(group)[:4096] == before[group][:4096]).all()


@pytest.mark.parametrize(("suffix", "count"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_an_offset_brings_a_negative_base_back(card, suffix, count):
    """As a compiler writes `base - 4064 + 8192`: half of the lanes begin below zero."""
    card.v[0] = (4 * count * LANE - 128 * count).astype(np.uint32)
    span = f"v[4:{3 + count}]" if count > 1 else "v4"
    before = card.lds().copy()
    card.v[1] = card.v[0] - np.uint32(4096)
    card.run(f"ds_read_{suffix} {span}, v0 offset:2048", f"ds_write_{suffix} v1, {span} offset:8192")
    read, written = 2048 - 128 * count, 4096 - 128 * count
    assert (card.lds()[written : written + 256 * count] == before[read : read + 256 * count]).all()


@pytest.mark.parametrize("base", [-8, 8192 - 4], ids=["below", "above"])
def test_a_sum_outside_stays_outside(card, base):
    card.v[0] = np.full(64, base).astype(np.uint32)
    with pytest.raises(MemoryFault, match="an LDS store must stay inside 8192 bytes"):
        card.run("ds_write_b32 v0, v1 offset:4")


@pytest.mark.parametrize(("suffix", "low"), [("b8", 0), ("b16", 0), ("b8_d16_hi", 16), ("b16_d16_hi", 16)])
def test_narrow_stores(card, suffix, low):
    bits = 8 if "b8" in suffix else 16
    before = card.lds().copy()
    card.cohort.set_exec(np.array([1, 0, 0, 0], np.uint64))
    card.v[0], card.v[1] = 100, 0x89ABCDEF
    card.run(f"ds_write_{suffix} v0, v1 offset:2")
    value = (0x89ABCDEF >> low & (1 << bits) - 1).to_bytes(bits // 8, "little")
    assert card.lds()[102 : 102 + bits // 8].tobytes() == value
    assert (np.delete(card.lds(), range(102, 102 + bits // 8)) == np.delete(before, range(102, 102 + bits // 8))).all()


@pytest.mark.parametrize(("suffix", "size"), [("b32", 4), ("b64", 8)])
@pytest.mark.parametrize(("st64", "factor"), [("", 1), ("st64", 64)])
def test_pairs_scale_their_offsets(card, suffix, size, st64, factor):
    card.v[0] = size * (LANE % 4)
    words = size // 4
    card.run(f"ds_read2{st64}_{suffix} v[4:{3 + 2 * words}], v0 offset0:1 offset1:3")
    lds = card.lds().view(np.uint32)
    for lane in range(5):
        for part, offset in enumerate((1, 3)):
            start = (size * (lane % 4) + offset * size * factor) // 4
            got = card.v[4 + part * words : 4 + (part + 1) * words, 0, lane]
            assert got.tolist() == lds[start : start + words].tolist()
    low, high = ("v[4:5]", "v[6:7]") if words > 1 else ("v4", "v5")
    second = 2 if st64 else 1  # so that no two lanes meet
    card.v[0] = 2 * size * LANE if not st64 else size * LANE
    card.run(f"ds_write2{st64}_{suffix} v0, {high}, {low} offset1:{second}")
    step = 2 * words if not st64 else words
    for lane in (0, 1, 63):
        for start, first in ((lane * step, 4 + words), (lane * step + second * factor * words, 4)):
            # Two waves of a workgroup write the same places; the later one stays.
            assert lds[start : start + words].tolist() == card.v[first : first + words, 1, lane].tolist()


def test_a_pair_may_overwrite_its_address(card):
    card.v[0] = 4 * LANE
    card.run("ds_read2_b32 v[0:1], v0 offset1:1")
    lds = card.lds().view(np.uint32)
    assert (card.v[0, 0] == lds[:64]).all()
    assert (card.v[1, 0] == lds[1:65]).all()


def test_an_access_past_the_workgroups_lds_faults(card):
    card.v[0] = 8192 - 4 + 4 * (LANE == 7)
    with pytest.raises(MemoryFault, match="an LDS load must stay inside 8192 bytes"):
        card.run("ds_read_b32 v5, v0")


def test_addresses_by_the_lane_number(card):
    card.s[124] = 64
    card.run("ds_read_addtid_b32 v5 offset:8")
    assert (card.v[5, 2] == card.lds(1).view(np.uint32)[18:82]).all()
    card.run("ds_write_addtid_b32 v5 offset:4000")
    assert (card.lds(1)[4064 : 4064 + 256].view(np.uint32) == card.v[5, 2]).all()


def test_bpermute_pulls_from_lanes_that_are_on(card):
    rng = np.random.default_rng(1)
    card.v[0], card.v[1] = rng.integers(0, 1 << 32, (2, 4, 64))
    on = (1 << 64) - 1 - 0xFF00
    card.cohort.set_exec(np.full(4, on, np.uint64))
    card.run("ds_bpermute_b32 v5, v0, v1 offset:12")
    for wave in range(4):
        for lane in range(64):
            source = (int(card.v[0, wave, lane]) + 12) // 4 % 64
            want = int(card.v[1, wave, source]) if on >> source & 1 else 0
            assert card.v[5, wave, lane] == (want if on >> lane & 1 else OLD)


def test_permute_pushes_and_the_highest_lane_wins(card):
    rng = np.random.default_rng(2)
    card.v[0], card.v[1] = rng.integers(0, 1 << 32, (2, 4, 64))
    on = (1 << 64) - 1 - 0xF0
    card.cohort.set_exec(np.full(4, on, np.uint64))
    card.run("ds_permute_b32 v5, v0, v1 offset:4")
    for wave in range(4):
        want = [0] * 64
        for lane in range(64):
            if on >> lane & 1:
                want[(int(card.v[0, wave, lane]) + 4) // 4 % 64] = int(card.v[1, wave, lane])
        assert card.v[5, wave].tolist() == [want[lane] if on >> lane & 1 else OLD for lane in range(64)]


def swizzled(offset, lane):
    """AMD CDNA4 ISA, DS_SWIZZLE_B32, by cases."""
    low, half = lane & 31, lane & 32
    if offset >= 0xE000:
        mask = offset & 31
        reverse = int(f"{low:05b}"[::-1], 2)
        return reverse >> bin(mask).count("1") | low & mask | half
    if offset >= 0xC000:
        turn = (offset >> 5 & 31) * (-1 if offset & 0x400 else 1)
        mask = offset & 31
        return low & mask | (low + turn) & 31 & ~mask | half
    if offset & 0x8000:
        return lane & ~3 | offset >> 2 * (lane & 3) & 3
    return ((low & offset & 31 | offset >> 5 & 31) ^ offset >> 10 & 31) | half


# Reversal of 32, broadcast of a lane, halves swapped, a quad permutation, rotations both ways, FFT of 32 and of 16.
@pytest.mark.parametrize(
    "offset", [0x7C1F, 0x0060, 0x401F, 0x801B, 0x80FF, 0xC020, 0xC460, 0xC0A8, 0xE000, 0xE010, 0xE01F]
)
def test_swizzle(card, offset):
    card.v[1] = card.cohort.wave[:, None] * 1000 + LANE
    card.cohort.set_exec(np.full(4, (1 << 64) - 1 - 2, np.uint64))
    card.run(f"ds_swizzle_b32 v5, v1 offset:{offset:#x}")
    sources = [swizzled(offset, lane) for lane in range(64)]
    want = [0 if source == 1 else 2000 + source for source in sources]
    assert card.v[5, 2].tolist() == [OLD if lane == 1 else value for lane, value in enumerate(want)]


# AMD CDNA4 ISA, DS_SWIZZLE_B32: the table for FFT mode, swizzles 0x00 and 0x10, counted from 1.
def test_the_fft_table_of_the_manual(card):
    manual = {
        0x00: "1,11,9,19,5,15,d,1d,3,13,b,1b,7,17,f,1f,2,12,a,1a,6,16,e,1e,4,14,c,1c,8,18,10,20",
        0x10: "1,9,5,d,3,b,7,f,2,a,6,e,4,c,8,10,11,19,15,1d,13,1b,17,1f,12,1a,16,1e,14,1c,18,20",
    }
    card.v[1] = LANE
    for code, row in manual.items():
        card.run(f"ds_swizzle_b32 v5, v1 offset:{0xE000 | code:#x}")
        assert card.v[5, 0, :32].tolist() == [int(place, 16) - 1 for place in row.split(",")]


@pytest.mark.parametrize(("suffix", "bits", "items", "size"), [
    ("b64_tr_b16", 16, 4, 8), ("b64_tr_b8", 8, 8, 8), ("b64_tr_b4", 4, 16, 8), ("b96_tr_b6", 6, 16, 12),
])  # fmt: skip
def test_transposing_loads_make_columns_of_rows(card, suffix, bits, items, size):
    """16 lanes hold a matrix row by row, 16 / items lanes a row; lane i gets column i."""
    card.v[0] = size * LANE
    card.run(f"ds_read_{suffix} v[4:{3 + size // 4}], v0 offset:{size}")
    lds = card.lds().tobytes()
    for group in range(4):
        rows = []
        for lane in range(16 * group, 16 * group + 16):
            whole = int.from_bytes(lds[size * (lane + 1) : size * (lane + 2)], "little")
            rows += [whole >> bits * item & (1 << bits) - 1 for item in range(items)]
        matrix = np.array(rows).reshape(items, 16)
        for column in range(16):
            want = sum(int(value) << bits * item for item, value in enumerate(matrix[:, column]))
            got = sum(int(card.v[4 + word, 0, 16 * group + column]) << 32 * word for word in range(size // 4))
            assert got == want


def test_a_transposing_load_with_lanes_off_is_refused(card):
    card.v[0] = 8 * LANE
    card.cohort.set_exec(np.full(4, 1, np.uint64))
    with pytest.raises(UnsupportedInstruction, match="a transposing load with lanes off"):
        card.run("ds_read_b64_tr_b16 v[4:5], v0")
