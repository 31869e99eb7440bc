"""Golden vectors: what the address formula gives, as hashes at named shapes and as small tables.

They are computed from `BoundLayout.offsets`, the address formula, never from `apply`. A hash is the SHA-256 of the
offsets of every coordinate, padding included, in row-major order as little-endian int64. `golden.json` holds them,
so that a shuffle written elsewhere can be checked without this package.

    python -m mxassay.layouts.golden            # exit status 1 when golden.json is out of date
    python -m mxassay.layouts.golden --write    # write golden.json
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from mxassay.layouts import LAYOUTS, BoundLayout, Layout
from mxassay.layouts.explain import turns

GOLDEN = Path(__file__).with_name("golden.json")

# (M, K), (N, K/2) and (M or N, K/32) of the contest's shapes (gpu-mode "amd-mxfp4-mm"), and small ones around a tile.
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "PACKING": ((2,), (64,), (3, 32), (4, 512), (16, 7168)),
    "WEIGHT_PRESHUFFLE": (
        (16, 32),
        (32, 96),
        (2, 16, 64),
        (2112, 3584),
        (2880, 256),
        (3072, 768),
        (4096, 256),
        (7168, 1024),
    ),
    "SCALE_SHUFFLE": (
        (1, 1),
        (40, 12),
        (4, 16),
        (16, 224),
        (64, 64),
        (256, 48),
        (257, 9),
        (2112, 224),
        (2880, 16),
        (7168, 64),
    ),
}
TABLE_SHAPES: dict[str, tuple[int, ...]] = {
    "PACKING": (8,),
    "WEIGHT_PRESHUFFLE": (32, 96),
    "SCALE_SHUFFLE": (40, 12),
}


def vectors() -> dict[str, Any]:
    """The golden vectors of every layout, as `golden.json` holds them."""
    return {"schema_version": 1, "layouts": {name: _of(layout) for name, layout in LAYOUTS.items()}}


def digest(bound: BoundLayout) -> str:
    """SHA-256 of the offsets of every coordinate, row-major, little-endian int64."""
    return hashlib.sha256(bound.offsets().numpy().astype("<i8").tobytes()).hexdigest()


def text() -> str:
    """`vectors()` as JSON with each list of numbers on one line."""
    spread = json.dumps(vectors(), indent=1)
    return (
        re.sub(r"\[[\s\d,]+\]", lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]"), spread)
        + "\n"
    )


def _of(layout: Layout) -> dict[str, Any]:
    fixed = layout.fixed_shape
    shapes = SHAPES[layout.name] if fixed is None else (fixed,)
    hashes = [
        {"shape": list(bound.shape), "padded_shape": list(bound.padded_shape), "sha256": digest(bound)}
        for bound in map(layout.bind, shapes)
    ]
    return {"formula": layout.formula(), "hashes": hashes, "table": _table(layout, fixed or TABLE_SHAPES[layout.name])}


def _table(layout: Layout, shape: tuple[int, ...]) -> dict[str, Any]:
    bound = layout.bind(shape)
    picks = [
        sorted({*turns(axis, padded), extent - 1})
        for axis, extent, padded in zip(layout.axes, shape, bound.padded_shape, strict=True)
    ]
    places: dict[str, Any] = {}
    for place in layout.places:
        grid = bound.offsets(place.name)
        for dimension, indices in enumerate(picks):
            grid = grid[(slice(None),) * dimension + (indices,)]
        places[place.name] = grid.tolist()
    at = {axis.name: indices for axis, indices in zip(layout.axes, picks, strict=True)}
    return {"shape": list(shape), "at": at, "places": places}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write golden.json instead of comparing with it")
    fresh = text()
    if parser.parse_args().write:
        GOLDEN.write_text(fresh, encoding="utf-8")
        return 0
    if GOLDEN.read_text(encoding="utf-8") == fresh:
        return 0
    print("golden.json must match the address formulas; run: python -m mxassay.layouts.golden --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
