"""Planted faults: one wrong line at a time in our own code, and the score of the suite that has to see it.

    mxassay faults
    mxassay faults --from theirs.toml --only wrong-nibble

The faults stand in the TOML files of this folder. Importing this package loads neither torch nor triton.
"""

from mxassay.properties.faults.campaign import Campaign, run
from mxassay.properties.faults.fault import CLASSES, STAGES, Fault, divided, faults_in, planted, unique
from mxassay.properties.faults.trial import Death, Setting, Trial

__all__ = [
    "CLASSES",
    "STAGES",
    "Campaign",
    "Death",
    "Fault",
    "Setting",
    "Trial",
    "divided",
    "faults_in",
    "planted",
    "run",
    "unique",
]
