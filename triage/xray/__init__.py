"""X-ray: what the failing case looks like at each point of its way through the code object.

The case runs once on the emulated card under an observer, and then some probes of the same shape, whose values say
where they lie (`probes`). Since addresses and lanes don't depend on values, the probes tell for each byte that a matrix
instruction reads which element it is; so each point is judged by itself, given what reached it, and the first one
that is wrong is the stage.
"""

from collections.abc import Callable, Iterator

from mxassay.triage.diagnosis import Checkpoint, XRay
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import Run
from mxassay.triage.xray.activations import watch_activations, watch_loads, watch_places
from mxassay.triage.xray.conversions import watch_conversions, watch_waits
from mxassay.triage.xray.faulting import watch_faults
from mxassay.triage.xray.loop import watch_loop
from mxassay.triage.xray.reduction import watch_reduction
from mxassay.triage.xray.session import Session, session_of
from mxassay.triage.xray.storing import watch_stores
from mxassay.triage.xray.sums import watch_sums
from mxassay.triage.xray.tiles import watch_tiles
from mxassay.triage.xray.weights import watch_preparation, watch_weights

__all__ = ["WATCHERS", "xray"]

Watcher = Callable[[Session], Iterator[Checkpoint]]
WATCHERS: tuple[Watcher, ...] = (
    watch_faults,
    watch_preparation,
    watch_loads,
    watch_places,
    watch_conversions,
    watch_waits,
    watch_activations,
    watch_weights,
    watch_tiles,
    watch_loop,
    watch_sums,
    watch_stores,
    watch_reduction,
)
"""In the order of the data's way."""


def xray(failure: Failure, run: Run) -> XRay:
    """Trace `failure` through the code objects that `run` launches on the emulated card, which must be open.

    `run` is called about twenty times, with operands of the failure's shape, and may raise: what ran before counts.
    Nothing is shrunk here; a case of few tiles takes a second or less. Where launches cannot be seen (another device,
    another process) there are no checkpoints, and `notes` say so.
    """
    session = session_of(failure, run)
    checkpoints = tuple(point for watch in WATCHERS for point in watch(session))
    if not any(point.differing for point in checkpoints) and checkpoints:
        session.notes.append("every point looked at is right")
    return XRay(checkpoints, tuple(session.notes))
