"""The bits of a NaN don't depend on what other lanes of the same instruction do."""

import numpy as np

from mxassay.gfx950.floating import canonical


def test_a_lane_keeps_its_bits_whatever_its_neighbours_do():
    quiet, signalling, one = 0xFFC00000, 0x7F800001, 0x3F800000
    alone = np.array([[quiet, one]], np.uint32).view(np.float32)
    beside = np.array([[quiet, signalling]], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        first, second = canonical(alone + np.float32(1)), canonical(beside + np.float32(1))
    assert first.view(np.uint32)[0, 0] == second.view(np.uint32)[0, 0] == 0x7FC00000


def test_other_nans_pass_through():
    bits = np.array([0x7FC00000, 0xFFC00001, 0x7FFFFFFF, 0x7F800000, 0x80000000], np.uint32)
    assert canonical(bits.copy().view(np.float32)).view(np.uint32).tolist() == bits.tolist()
