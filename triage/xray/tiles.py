"""Watcher of tiles: whether every output is computed by somebody, and by nobody else."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mxassay.triage.diagnosis import Checkpoint
from mxassay.triage.xray.frame import counted
from mxassay.triage.xray.lines import lines_of
from mxassay.triage.xray.points import point
from mxassay.triage.xray.session import Session

UNSTORED, UNKNOWN = -1, -2


def chains_at(session: Session) -> NDArray[np.int64]:
    """(slots, M, N): the chain whose sum was stored last in each place; UNSTORED, or UNKNOWN if none can be told. The
    stores must have been followed."""
    m, n, _ = session.failure.operands.shape
    stores, origins = session.stores, session.origins
    assert stores is not None
    assert origins is not None
    at = np.full((stores.slots, m, n), UNSTORED, np.int64)
    good = stores.inside & (stores.slot < stores.slots)
    at[stores.slot[good], stores.row[good], stores.column[good]] = np.where(
        origins.chain[good] >= 0, origins.chain[good], UNKNOWN
    )
    return at


def sums_of_outputs(session: Session) -> NDArray[np.int64]:
    """(layers, M, N): the chains whose sums are stored for each output, in whatever slot, also those that others
    overwrite there; UNKNOWN where one cannot be told, UNSTORED where there are no more. Of sums over the same blocks in
    one slot one counts. Where stores were not followed, those that are multiplied for the output."""
    m, n, _ = session.failure.operands.shape
    stores, origins, trace, frame = session.stores, session.origins, session.trace, session.frame
    assert trace is not None
    assert frame is not None
    counts = counted(trace, frame)
    alike: NDArray[np.int64] = np.unique(counts, axis=0, return_inverse=True)[1].reshape(-1)
    if stores is None or origins is None:
        at = np.full((int(alike.max()) + 1, m, n), UNSTORED, np.int64)
        for each in np.flatnonzero(counts.any(axis=1)).tolist():
            rows, columns = (line[line >= 0] for line in (frame.rows[each], frame.columns[each]))
            at[alike[each]][np.ix_(rows, columns)] = each
        return at
    good = stores.inside & (stores.slot < stores.slots)
    chain = origins.chain[good]
    place = stores.row[good] * n + stores.column[good]
    keys = np.stack((place, stores.slot[good], np.where(chain >= 0, alike[chain], -1)))
    _, once = np.unique(keys, axis=1, return_index=True)
    order = once[np.argsort(place[once], kind="stable")]
    ranked = place[order]
    layer = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    layers = np.full((max(stores.slots, int(layer.max(initial=0)) + 1), m * n), UNSTORED, np.int64)
    layers[layer, ranked] = np.where(chain[order] >= 0, chain[order], UNKNOWN)
    return layers.reshape(-1, m, n)


def watch_tiles(session: Session) -> Iterator[Checkpoint]:
    """The stages launch and tile-map: tiles that no workgroup computes."""
    stores, origins, trace, frame = session.stores, session.origins, session.trace, session.frame
    if stores is None or origins is None or trace is None or frame is None or not frame.mapped:
        return
    what = "outputs that some workgroup computes"
    at = chains_at(session)
    missing = at == UNSTORED
    groups = trace.record.groups
    idle = groups - len(_products(session))
    if idle <= 0:
        # Whoever multiplies them stores them elsewhere, and a slot of nobody belongs to whoever asked for so many.
        missing &= ~_computed(session) & (at != UNSTORED).any(axis=(1, 2), keepdims=True)
    if not missing.any():
        yield point("launch", what, at.size)
        return
    slot, row, column = (int(axis) for axis in np.unravel_index(int(missing.argmax()), missing.shape))
    found = (
        f"no workgroup of {groups}: {idle} of them compute what another one does, or nothing"
        if idle > 0
        else f"no workgroup: {groups} are too few"
    )
    where = (f"split {slot}",) if stores.slots > 1 else ()
    yield point(
        "tile-map" if idle > 0 else "launch", what, at.size, int(missing.sum()), record=trace.record,
        index=(*where, f"row {row}", f"column {column}"), expected="one workgroup", found=found,
        inst=stores.insts[0] if stores.insts else None,
    )  # fmt: skip


def _computed(session: Session) -> NDArray[np.bool_]:
    """(slots, M, N): whether some chain multiplies that row by that column, wherever it puts the sum, often enough."""
    m, n, _ = session.failure.operands.shape
    stores, trace, frame = session.stores, session.trace, session.frame
    assert stores is not None
    assert trace is not None
    assert frame is not None
    rows, columns = lines_of(trace, trace.a)[0], lines_of(trace, trace.w)[0]
    counts = counted(trace, frame)
    times = np.zeros((m, n), np.int64)
    seen: dict[tuple[bytes, bytes, bytes], bool] = {}
    for chain in range(len(trace.last)):
        key = rows[chain].tobytes(), columns[chain].tobytes(), counts[chain].tobytes()
        if not seen.setdefault(key, False):
            seen[key] = True
            mine = [np.unique(line[line >= 0]) for line in (rows[chain], columns[chain])]
            times[np.ix_(*mine)] += 1
    return np.broadcast_to(times >= stores.slots, (stores.slots, m, n))


def _products(session: Session) -> set[tuple[bytes, bytes, bytes]]:
    """What workgroups compute: rows, columns and blocks of their first sum that has any."""
    trace, frame = session.trace, session.frame
    assert trace is not None
    assert frame is not None
    rows, columns = lines_of(trace, trace.a)[0], lines_of(trace, trace.w)[0]
    counts = counted(trace, frame)
    group = trace.wave[trace.last] // trace.record.waves_per_group
    found: dict[int, tuple[bytes, bytes, bytes]] = {}
    for chain, mine in enumerate(group.tolist()):
        if counts[chain].any():
            found.setdefault(mine, (rows[chain].tobytes(), columns[chain].tobytes(), counts[chain].tobytes()))
    return set(found.values())
