"""How examples read in Hypothesis' reports."""

from typing import Any


class ReadsWell:
    """Shown by its own repr. Without this, Hypothesis spells out every field of a dataclass, tensors included."""

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))
