"""Scratch memory of a GEMM, and the one place where prepared weights may be kept between calls."""

import torch

from mxassay.optimized.prepare import PreparedWeights, prepare


class Workspace:
    """Holds what calls may share. Without one, every call makes what it needs and drops it.

    Partials are allocated at each call: torch's caching allocator knows streams and captured graphs, so two calls in
    flight can never share a buffer.

    Prepared weights are kept for the last pair of tensors. An entry is used again only for the very same tensor objects,
    which it keeps alive so that their memory cannot be given to others, and only while torch's version counters say that
    neither was written to. Tensors without such a counter (made in inference mode) are prepared at each call. Writes
    that torch cannot see, such as those of a raw kernel, are not noticed: call `clear` after them.

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
        if any(not isinstance(tensor, torch.Tensor) or tensor.is_inference() for tensor in sources):
            return prepare(*sources)
        state = tuple((t._version, t.data_ptr(), t.shape, t.stride(), t.dtype) for t in sources)
        known = self._sources is not None and all(a is b for a, b in zip(self._sources, sources, strict=True))
        if not known or state != self._state or self._prepared is None:
            self._prepared = prepare(*sources)
            self._sources, self._state = sources, state
        return self._prepared

    def clear(self) -> None:
        """Forget the prepared weights, and let go of the tensors they came from."""
        self._sources, self._state, self._prepared = None, (), None
