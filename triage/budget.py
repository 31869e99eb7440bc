"""A limit on processor time that holds whatever is being done: an alarm that breaks a step off."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 1.0  # an alarm that comes while an object is deleted is lost, so it comes again


class TimeUp(BaseException):
    """A step's processor time is over. No Exception: nobody but who set the limit may take it for a failure."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeUp in the block once the process has spent `seconds` of processor time, in all its threads, on it.

    What is not written in Python ends first, such as one call of LLVM. Limits do not nest: inside another one, outside
    of the main thread and where there are no such alarms, a block is not interrupted.

    >>> with within(1):
    ...     sum(range(10))
    45
    """
    possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not possible or signal.getsignal(signal.SIGPROF) is _raise:
        yield
        return
    before = signal.signal(signal.SIGPROF, _raise)
    try:
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6), _AGAIN)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        signal.signal(signal.SIGPROF, before)


def _raise(number: int, frame: FrameType | None) -> None:
    raise TimeUp


class Clock:
    """Processor time that may still be spent."""

    def __init__(self, seconds: float) -> None:
        self._until = time.process_time() + seconds

    @property
    def left(self) -> float:
        """Seconds; 0 once they are over."""
        return max(self._until - time.process_time(), 0.0)

    @property
    def up(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0.0
