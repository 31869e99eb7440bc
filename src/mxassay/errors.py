"""The one exception family. Every message reads "X must be Y, not Z" and says how to mend it."""


class MxassayError(Exception):
    """Base of every error that mxassay raises on purpose."""


class ContractError(MxassayError, ValueError):
    """An argument lies outside the declared contract of what was called."""


class UnsupportedError(MxassayError):
    """The request is legal, but names something that nobody taught us (an instruction, an ABI, a dialect)."""
