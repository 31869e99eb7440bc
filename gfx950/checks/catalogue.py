"""The checks by name: what each one states, and what it costs."""

from dataclasses import dataclass

from mxassay.errors import ContractError

__all__ = ["CHECKS", "CheckInfo", "chosen"]


@dataclass(frozen=True, slots=True)
class CheckInfo:
    """`statement`: what a kernel must do. `counts`: the check counts and never fails. `always`: it is the memory model
    or the machine itself and can't be switched off."""

    name: str
    statement: str
    default: bool = True
    counts: bool = False
    always: bool = False


CHECKS: dict[str, CheckInfo] = {
    info.name: info
    for info in (
        CheckInfo("bounds", "every access stays inside a buffer", always=True),
        CheckInfo("endless", "every wave ends within the step budget", always=True),
        CheckInfo("views", "an access stays inside the elements of an argument, not only inside its storage"),
        CheckInfo("uninit-registers", "a register is written before its value matters"),
        CheckInfo("uninit-lds", "LDS is written before its value matters"),
        CheckInfo("uninit-memory", "memory and scratch are written before their value matters"),
        CheckInfo("lds-races", "waves of a workgroup share bytes of LDS only across a barrier"),
        CheckInfo(
            "lds-latency",
            "a read of LDS is waited for before the barrier after which memory overwrites it",
            default=False,
        ),
        CheckInfo("waitcnt", "a load's result is touched only after the s_waitcnt that covers it"),
        CheckInfo("alignment", "an address is a multiple of what its access needs"),
        CheckInfo("bank-conflicts", "LDS cycles beyond the least, by pc", default=False, counts=True),
        CheckInfo("coalescing", "lines of memory beyond the least, by pc", default=False, counts=True),
        CheckInfo("counts", "instructions by class, bytes by buffer", default=False, counts=True),
    )
}
_GROUPS = {
    "all": tuple(CHECKS),
    "default": tuple(name for name, info in CHECKS.items() if info.default),
    "races": ("lds-races",),
    "uninit": ("uninit-registers", "uninit-lds", "uninit-memory"),
}


def chosen(spec: str) -> frozenset[str]:
    """The checks of a comma-separated list: names, "all", "default", "races", "uninit"; a leading "-" takes away.

    Raises:
        ContractError: an unknown name.

    >>> sorted(chosen("races,waitcnt"))
    ['bounds', 'endless', 'lds-races', 'waitcnt']
    """
    names: set[str] = set()
    for word in filter(None, (part.strip() for part in spec.split(","))):
        bare = word.removeprefix("-")
        group = _GROUPS.get(bare, (bare,))
        if not CHECKS.keys() >= set(group):
            raise ContractError(f"a check must be one of {', '.join((*CHECKS, *_GROUPS))}, not {bare}")
        names = names - set(group) if word.startswith("-") else names | set(group)
    return frozenset(names | {name for name, info in CHECKS.items() if info.always})
