"""The one exception family. Every message reads "X must be Y, not Z" and says how to mend it."""

import traceback


class MxassayError(Exception):
    """Base of every error that mxassay raises on purpose."""


class ContractError(MxassayError, ValueError):
    """An argument lies outside the declared contract of what was called."""


class UnsupportedError(MxassayError):
    """The request is legal, but names something that nobody taught us (an instruction, an ABI, a dialect)."""


def called_from(error: BaseException) -> str:
    """The lines of the kernel's own files through which an error came, as a traceback has them; the last four of any
    files where there are none."""
    steps = list(traceback.walk_tb(error.__traceback__))
    others = ("mxassay", "triton", "torch", "importlib")

    def package(names: dict[str, object]) -> str:  # of a module that is run as a program, too
        return str(names.get("__package__") or names.get("__name__", "")).partition(".")[0]

    own = [step for step in steps if package(step[0].f_globals) not in others]
    return "".join(traceback.StackSummary.extract(iter(own or steps[-4:])).format())
