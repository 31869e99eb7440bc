"""Which row of an operand stands in each row of a sum, by what the matrix instructions of the sum read."""

import numpy as np

from mxassay.triage.xray.trace import Index, Side, Trace


def lines_of(trace: Trace, side: Side) -> tuple[Index, Index]:
    """Which row of the operand each row of each chain holds, by its codes and by its scales."""
    found = []
    size, chains = trace.rows, len(trace.last)
    key = np.broadcast_to(trace.chain[:, None, None] * size + np.arange(size), side.block.shape)
    for index in (side.block, side.scale):
        valid = index >= 0
        found.append(modes(key[valid], index[valid] // trace.blocks, chains * size).reshape(chains, size))
    return found[0], found[1]


def modes(key: Index, value: Index, count: int) -> Index:
    """The most frequent value of each key 0..count-1, -1 where there is none."""
    result = np.full(count, -1, np.int64)
    if not len(key):
        return result
    span = int(value.max()) + 1
    pairs, times = np.unique(key * span + value, return_counts=True)
    order = np.argsort(times, kind="stable")
    result[pairs[order] // span] = pairs[order] % span
    return result
