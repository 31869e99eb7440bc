"""Scratch memory of a GEMM, and the one place where prepared weights may be kept between calls."""

import torch

from mxassay.optimized.prepare import PreparedWeights, prepare


class Workspace:
    """Holds what calls may share. Without one, every call makes what it needs and drops it.

    Partials are allocated at each call: torch's caching allocator knows streams and captured graphs, so two calls in
    flight can never share a buffer.

    Prepared weights are kept for the last pair of tensors. They are used again only for the very same tensor objects,
    which are kept alive so that their memory cannot be given to others, only while torch's version counters say that
    neither was written to, and only on the stream that prepared them. Tensors without a version counter (made in
    inference mode) and calls inside a graph capture are prepared each time. Writes that torch cannot see, such as those
    of a raw kernel, are not noticed: call `clear` after them.

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
        self._sources: tuple[torch.Tensor, torch.Tensor] | None = None
        self._state: tuple[object, ...] = ()
        self._prepared: PreparedWeights | None = None

    def partials(self, splits: int, m: int, n: int, device: torch.device) -> torch.Tensor:
        """A float32 (splits, m, n) buffer of undefined content, for one call."""
        return torch.empty((splits, m, n), dtype=torch.float32, device=device)

    def prepared(self, b_preshuffled: torch.Tensor, b_scales_shuffled: torch.Tensor) -> PreparedWeights:
        """`prepare(b_preshuffled, b_scales_shuffled)`, or the kept result while it is known to be the same."""
        sources = (b_preshuffled, b_scales_shuffled)
        if not all(isinstance(tensor, torch.Tensor) for tensor in sources) or not _may_be_kept(sources):
            return prepare(*sources)
        state = (_stream_of(b_preshuffled), *((t._version, t.data_ptr(), t.shape, t.dtype) for t in sources))
        known = self._sources is not None and all(a is b for a, b in zip(self._sources, sources, strict=True))
        if not known or state != self._state or self._prepared is None:
            self._prepared = prepare(*sources)
            self._sources, self._state = sources, state
        return self._prepared

    def clear(self) -> None:
        """Forget the prepared weights, and let go of the tensors they came from."""
        self._sources, self._state, self._prepared = None, (), None


def _may_be_kept(sources: tuple[torch.Tensor, ...]) -> bool:
    if any(tensor.is_inference() for tensor in sources):
        return False
    # What a capture records has not run yet, and what a graph reads must outlive it.
    return not (sources[0].device.type == "cuda" and torch.cuda.is_current_stream_capturing())


def _stream_of(tensor: torch.Tensor) -> int:
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.device.type == "cuda" else 0
