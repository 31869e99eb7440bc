"""Cohorts: lane masks, EXEC in all its forms, splitting and merging."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.wave import Cohort, join, lanes_of, packed

WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4)


def cohort_of(waves: int) -> Cohort:
    cohort = Cohort(Batch(AddressSpace(), 3, waves, 1, lds_bytes=100), np.arange(waves), 0x40, 2, 1)
    rng = np.random.default_rng(waves)
    for array in (cohort.v, cohort.a, cohort.s[:100]):
        array[...] = rng.integers(0, 2**32, array.shape, np.uint32)
    cohort.scc[:] = rng.integers(0, 2, waves)
    return cohort


@given(WORDS)
@example([1, 1 << 63, 0x8000_0001_0000_0002])
def test_bit_i_of_a_mask_word_is_lane_i(words):
    bits = np.array(words, np.uint64)
    lanes = lanes_of(bits)
    assert [[bool(word >> lane & 1) for lane in range(64)] for word in words] == lanes.tolist()
    assert (packed(lanes) == bits).all()


def test_join_puts_the_first_register_low():
    assert join(np.array([[2]], np.uint32), np.array([[1]], np.uint32)).tolist() == [[(1 << 32) + 2]]


@given(WORDS)
def test_exec_reads_alike_from_everywhere(words):
    cohort = cohort_of(len(words))
    cohort.set_exec(np.array(words, np.uint64))
    assert [int(low) | int(high) << 32 for low, high in zip(cohort.s[126], cohort.s[127], strict=True)] == words
    assert (packed(cohort.mask) == cohort.exec).all()
    assert cohort.full == all(word == 2**64 - 1 for word in words)


def test_writing_half_of_exec_keeps_the_other():
    cohort = cohort_of(2)
    cohort.set_sgpr(127, np.array([0, 5], np.uint32))
    assert cohort.exec.tolist() == [0xFFFFFFFF, 0x5FFFFFFFF]
    assert not cohort.full


@pytest.mark.parametrize("rows", [[0], [2, 4], [4, 1, 3]])
def test_taken_waves_bring_all_their_state_and_share_none(rows):
    cohort = cohort_of(5)
    cohort.data["index"] = np.arange(5)
    part = cohort.take(np.array(rows))
    for name, axis in (("v", 1), ("a", 1), ("s", 1), ("scc", 0), ("slot", 0), ("wave", 0), ("group", 0), ("exec", 0)):
        assert (getattr(part, name) == getattr(cohort, name).take(rows, axis)).all(), name
        assert not np.shares_memory(getattr(part, name), getattr(cohort, name))
    assert part.data["index"].tolist() == rows
    assert part.lds_base.ravel().tolist() == [row * cohort.batch.lds_stride for row in rows]
    assert part.pc == cohort.pc


def test_merged_waves_stand_in_grid_order():
    cohort = cohort_of(5)
    parts = [cohort.take(np.array(rows)) for rows in ([1, 4], [3], [0, 2])]
    merged = Cohort.merge(parts)
    assert merged.wave.tolist() == [3, 4, 5, 6, 7]
    assert (merged.v == cohort.v).all()
    assert (merged.s == cohort.s).all()
    assert merged.vf.base is merged.v or np.shares_memory(merged.vf, merged.v)
