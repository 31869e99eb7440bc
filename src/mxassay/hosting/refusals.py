"""Every refusal of a name, kept: a program may catch the error and take another path, and its user must know."""

from mxassay.errors import UnsupportedError

_REFUSED: list[str] = []


def refusal(message: str) -> UnsupportedError:
    """The error to raise, noted down."""
    if message not in _REFUSED:
        _REFUSED.append(message)
    return UnsupportedError(message)


def refused_so_far() -> tuple[str, ...]:
    """Every refusal of this process, each once."""
    return tuple(_REFUSED)
