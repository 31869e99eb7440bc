"""Emulated memory: addresses, guard bands, gathers and scatters against bytes taken one by one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.gfx950.memory import GUARD_BYTES, AddressSpace, Segment

ITEM = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def bytes_at(data: np.ndarray, offsets: np.ndarray, size: int) -> np.ndarray:
    return np.array([data[o : o + size] for o in offsets.ravel()]).reshape(*offsets.shape, size)


@st.composite
def segments_and_offsets(draw):
    skew = draw(st.integers(0, 15), label="bytes from a 64-byte boundary to the buffer")
    length = draw(st.integers(16, 200), label="length")
    size = draw(st.sampled_from(sorted(ITEM)), label="item size")
    step = draw(st.sampled_from((1, size)), label="offset granule")
    offsets = draw(st.lists(st.integers(0, (length - size) // step), min_size=1, max_size=20), label="offsets")
    return skew, length, size, np.array(offsets, np.int64) * step


def segment_of(skew: int, length: int) -> Segment:
    room = np.empty(length + 192, np.uint8)
    start = -room.ctypes.data % 64 + skew
    data = room[start : start + length]
    data[:] = np.random.default_rng(length).integers(0, 256, length)
    return AddressSpace().add("buffer", data)


def aligned(segment: Segment, offsets: np.ndarray, size: int) -> bool:
    return not ((segment.base + offsets) % size).any()


@given(segments_and_offsets())
@example((1, 40, 16, np.array([15, 0, 24], np.int64)))
@example((8, 40, 16, np.array([8, 24], np.int64)))
def test_a_gather_reads_the_bytes_at_each_offset(case):
    skew, length, size, offsets = case
    segment = segment_of(skew, length)
    got = segment.gather(offsets, size, aligned(segment, offsets, size))
    assert got.dtype == ITEM[size]
    assert (got[..., None].view(np.uint8) == bytes_at(segment.data, offsets, size)).all()


@given(segments_and_offsets())
@example((1, 40, 4, np.array([1, 0, 1], np.int64)))
def test_a_scatter_writes_in_order_so_that_the_last_lane_wins(case):
    skew, length, size, offsets = case
    segment = segment_of(skew, length)
    values = np.random.default_rng(1).integers(0, 256, (len(offsets), size), np.uint8)
    want = segment.data.copy()
    for offset, value in zip(offsets, values, strict=True):
        want[offset : offset + size] = value
    segment.scatter(offsets, size, aligned(segment, offsets, size), values.copy().view(ITEM[size])[:, 0])
    assert (segment.data == want).all()


def test_buffers_lie_apart_and_keep_the_hosts_alignment():
    space, room = AddressSpace(), np.zeros(512, np.uint8)
    start = -room.ctypes.data % 64
    first, second = space.add("a", room[start : start + 100]), space.add("b", room[start + 104 : start + 204])
    assert first.base % 64 == 0
    assert second.base % 64 == 104 % 64
    assert second.base - first.end >= GUARD_BYTES


def test_memory_is_shared_with_the_host_and_not_copied():
    host = np.zeros(64, np.uint8)
    segment = AddressSpace().add("x", host)
    segment.scatter(np.array([3]), 1, True, np.array([7], np.uint8))
    assert host[3] == 7


def test_addresses_are_the_same_in_every_run():
    def bases():
        space = AddressSpace()
        room = np.zeros(4096 + 64, np.uint8)
        start = -room.ctypes.data % 64
        return [space.add(name, room[start : start + 4096]).base for name in "ab"]

    assert bases() == bases()


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (-1, "1 bytes before x of 10 bytes"),
        (9, "inside x at byte 9 of 10"),
        (10, "0 bytes past the end of x of 10 bytes"),
    ],
)
def test_nearest_says_where_an_address_lies(shift, words):
    space = AddressSpace()
    segment = space.add("x", np.zeros(10, np.uint8))
    assert space.nearest(segment.base + shift).startswith(words)


def test_only_contiguous_bytes_can_be_mapped():
    with pytest.raises(ContractError, match=r"the memory of x must be 1-D contiguous uint8, not float32 \(4,\)"):
        AddressSpace().add("x", np.zeros(4, np.float32))
    with pytest.raises(ContractError, match=r"must be 1-D contiguous uint8"):
        AddressSpace().add("x", np.zeros(8, np.uint8)[::2])
