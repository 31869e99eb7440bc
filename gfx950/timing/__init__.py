"""A stated model of how long a launch takes on the card, from what is executed on the emulated one.

`WorkObserver` watches launches, `modelled` turns each one's work into bounds of time, `CARD` holds every number that
this takes for granted, with its source. Counts are facts; times are a model's.
"""

from mxassay.gfx950.timing.assumptions import CARD, NOT_MODELLED, Assumption, Card
from mxassay.gfx950.timing.model import LaunchTime, modelled
from mxassay.gfx950.timing.watch import LaunchWork, WorkObserver

__all__ = ["CARD", "NOT_MODELLED", "Assumption", "Card", "LaunchTime", "LaunchWork", "WorkObserver", "modelled"]
