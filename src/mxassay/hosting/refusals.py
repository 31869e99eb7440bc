"""Every refusal of a name, kept: a program may catch the error and take another path, and its user must know."""

from mxassay.errors import UnsupportedError

_REFUSED: list[str] = []


def refusal(message: str) -> UnsupportedError:
    """The error to raise, noted down."""
    _REFUSED.append(message)
    return UnsupportedError(message)


def refusals_so_far() -> int:
    """How many refusals this process has seen; a mark for `refused_since`."""
    return len(_REFUSED)


def refused_since(mark: int) -> tuple[str, ...]:
    """The refusals after a mark, each once, in order."""
    return tuple(dict.fromkeys(_REFUSED[mark:]))
