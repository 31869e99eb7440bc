"""The groups of figures that `mxassay bench` can measure, by name. Loads nothing but names."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mxassay.errors import ContractError
from mxassay.figures.figure import Figure, Wish

__all__ = ["GROUPS", "Group", "Measured", "chosen"]


@dataclass(frozen=True)
class Measured:
    """The figures of one group, and the rows of its own table, if it has one."""

    figures: tuple[Figure, ...]
    table: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class Group:
    """`module` has `measure(wish) -> Measured`."""

    name: str
    summary: str
    module: str

    def measure(self, wish: Wish) -> Measured:
        """Measure now, in this process.

        Raises UnsupportedError where this machine lacks what the group needs.
        """
        function: Callable[[Wish], Measured] = importlib.import_module(self.module).measure
        return function(wish)


GROUPS = {
    group.name: group
    for group in (
        Group("reference", "the reference beside torchao and ml_dtypes", "mxassay.figures.reference_speed"),
        Group("gfx950", "our kernels by counts and a stated model, beside others", "mxassay.figures.kernels_on_gfx950"),
        Group("emulator", "seconds, memory and scaling of the emulated card", "mxassay.figures.emulator_speed"),
        Group("suite", "seconds of the property suite's quick profile", "mxassay.figures.suite_speed"),
        Group("cli", "how soon the command line answers", "mxassay.figures.cli_speed"),
        Group("gpu", "our kernels on a CUDA GPU beside cuBLAS", "mxassay.figures.kernels_on_cuda"),
    )
}


def chosen(names: Sequence[str]) -> list[Group]:
    """The groups of these names, each once; all of them for no name.

    Raises ContractError on an unknown name.

    >>> [group.name for group in chosen(["cli", "cli"])]
    ['cli']
    """
    for name in names:
        if name not in GROUPS:
            raise ContractError(f"a group of figures must be one of {', '.join(GROUPS)}, not {name}")
    return [GROUPS[name] for name in dict.fromkeys(names or GROUPS)]
