"""What can be asked: the emulated card here, a real one in `mxassay.gfx950.probe.hip`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.codeobject import CodeObject, load_code_object
from mxassay.gfx950.dispatch import Kernel, Options
from mxassay.gfx950.launcher import launch

__all__ = ["Card", "EmulatedCard"]

Array = NDArray[np.uint32]


class Card(Protocol):
    """A device that runs gfx950 code objects. `kind` is "emulated" or "mi355x"; `environment` says what it is."""

    kind: str

    def environment(self) -> Mapping[str, str]: ...

    def run(self, code: bytes, kernel: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Array]) -> None:
        """Run `kernel` of the code object on copies of `args` (contiguous, one pointer argument each), and bring what
        it wrote back into them.

        Raises:
            MxassayError: it could not be run, or faulted.
        """
        ...


class EmulatedCard:
    """This package's own card."""

    kind = "emulated"

    def __init__(self, options: Options | None = None) -> None:
        self.options = options
        self._loaded: tuple[bytes, CodeObject] | None = None

    def environment(self) -> Mapping[str, str]:
        return {"device": "emulated gfx950"}

    def run(self, code: bytes, kernel: str, grid: Sequence[int], block: Sequence[int], args: Sequence[Array]) -> None:
        if self._loaded is None or self._loaded[0] is not code:
            self._loaded = code, load_code_object(code)
        launch(Kernel(self._loaded[1], kernel), grid, block, list(args), options=self.options)
