"""How K is cut into splits."""

from dataclasses import dataclass

from mxassay.errors import ContractError

SMALLEST_TILE_K = 128  # depth of one v_mfma_scale_f32_16x16x128_f8f6f4


@dataclass(frozen=True)
class SplitK:
    """K cut into `count` consecutive ranges: split i covers k in [i * span, min((i + 1) * span, K)).

    `span` is a multiple of `tile_k`, every k lies in exactly one split, and no split is empty.
    """

    span: int
    tile_k: int
    count: int


def reconcile(k: int, tile_k: int, splits: int, smallest: int = SMALLEST_TILE_K) -> SplitK:
    """Fit a requested tile depth and number of splits to K.

    The tile is halved while half of it still holds all of K and is no less than `smallest` (one MFMA), so a small K
    is not padded to a large tile. The tiles of K are then dealt to at most `splits` ranges of equal length; the last
    may be shorter.

    Not checked: that tile_k is a power of two; `Plan` checks it.

    Raises ContractError when an argument is below 1.

    >>> reconcile(7168, 512, 7)
    SplitK(span=1024, tile_k=512, count=7)
    >>> reconcile(7168, 512, 5)
    SplitK(span=1536, tile_k=512, count=5)
    >>> reconcile(576, 256, 8)
    SplitK(span=256, tile_k=256, count=3)
    """
    for name, value in (("k", k), ("tile_k", tile_k), ("splits", splits)):
        if value < 1:
            raise ContractError(f"{name} must be at least 1, not {value}")
    while tile_k // 2 >= max(k, smallest):
        tile_k //= 2
    tiles = -(-k // tile_k)
    span_tiles = -(-tiles // min(splits, tiles))
    return SplitK(span=span_tiles * tile_k, tile_k=tile_k, count=-(-tiles // span_tiles))
