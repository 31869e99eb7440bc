"""Which kernels ran, and what they executed, told from the counts that every launch keeps anyway."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mxassay.gfx950.checks.counts import CLASSES, class_of
from mxassay.gfx950.dispatch import LAUNCHED, Kernel
from mxassay.gfx950.machine import Counts

__all__ = ["Launches", "launches"]


@dataclass
class Launches:
    """The launches on the emulated card since this began, in their order. One that a fault cut short is left out."""

    ran: list[tuple[Kernel, Counts]] = field(default_factory=list)

    def instructions(self) -> dict[str, int]:
        """Wave instructions by class (`gfx950.checks.counts.CLASSES`), over all launches, those without any left out,
        and `waves` that began.

        A wave counts once for its 64 lanes. Costs nothing while kernels run: blocks are counted as ever, and looked
        into here.
        """
        found: Counter[str] = Counter()
        for kernel, counts in self.ran:
            for (pc, length), waves in counts.waves_at.items():
                found["waves"] += waves if pc == kernel.code.entry else 0
                for _ in range(length):
                    inst = kernel.program.at(pc)
                    found[class_of(inst)] += waves
                    pc = inst.next_pc
        return {name: found[name] for name in ("waves", *CLASSES) if found[name]}


@contextmanager
def launches() -> Iterator[Launches]:
    """Collect what runs on the emulated card inside the block.

    >>> with emulated(), launches() as ran:  # doctest: +SKIP
    ...     kernel[grid](x, y)
    >>> ran.instructions()["mfma"]  # doctest: +SKIP
    """
    found = Launches()

    def tell(kernel: Kernel, counts: Counts) -> None:
        found.ran.append((kernel, counts))

    LAUNCHED.append(tell)
    try:
        yield found
    finally:
        LAUNCHED.remove(tell)
