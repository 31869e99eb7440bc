"""Scratch memory of a GEMM, and the one place where prepared weights may be kept between calls."""

import torch

from mxassay.optimized.contracts import check_preshuffled_pair
from mxassay.optimized.prepare import PreparedWeights, prepare


class Workspace:
    """Holds what calls may share. Without one, every call makes what it needs and drops it.

    Partials are allocated at each call: torch's caching allocator knows streams and captured graphs, so two calls in
    flight can never share a buffer.

    Prepared weights are kept for the last pair of tensors, with a copy of the bytes they were made from, and are used
    again only for equal bytes: whoever wrote them, by whatever means, and wherever they lie. Comparing reads both once,
    which is a fifth of the work of preparing; `prepare` with `matmul_prepared` saves that too. Calls inside a graph
    capture are prepared each time.

    >>> workspace = Workspace()
    >>> weights, scales = torch.zeros((16, 32), dtype=torch.uint8), torch.zeros((256, 8), dtype=torch.uint8)
    >>> first = workspace.prepared(weights, scales)
    >>> workspace.prepared(weights, scales) is first
    True
    >>> _ = weights.fill_(0x22)
    >>> workspace.prepared(weights, scales) is first
    False
    """

    def __init__(self) -> None:
        self._sources: tuple[torch.Tensor, ...] = ()
        self._prepared: PreparedWeights | None = None

    def partials(self, splits: int, m: int, n: int, device: torch.device) -> torch.Tensor:
        """A float32 (splits, m, n) buffer of undefined content, for one call."""
        return torch.empty((splits, m, n), dtype=torch.float32, device=device)

    def prepared(self, b_preshuffled: torch.Tensor, b_scales_shuffled: torch.Tensor) -> PreparedWeights:
        """`prepare(b_preshuffled, b_scales_shuffled)`, or the kept result while the bytes are the same."""
        b, scales = check_preshuffled_pair(b_preshuffled, b_scales_shuffled)
        # What a capture records has not run yet, and what a graph reads must outlive it.
        if b.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return prepare(b, scales)
        sources = (b, scales)
        if self._prepared is None or not all(map(_equal, self._sources, sources)):
            self._sources, self._prepared = tuple(tensor.clone() for tensor in sources), prepare(b, scales)
        return self._prepared

    def clear(self) -> None:
        """Forget the prepared weights and the bytes they came from."""
        self._sources, self._prepared = (), None


def _equal(kept: torch.Tensor, given: torch.Tensor) -> bool:
    return kept.device == given.device and torch.equal(kept, given)
