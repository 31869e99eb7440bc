"""Hypothesis profiles: `HYPOTHESIS_PROFILE` picks one of `mxassay.profiles.PROFILES`; the default is `quick`."""

from mxassay.profiles import load, loaded

load(loaded())
