"""The data of the explorer: the declarations of all layouts, as JSON inside its page."""

import json
import re
from pathlib import Path
from typing import Any

from mxassay.layouts import LAYOUTS, Layout

_BLOCK = re.compile(r'(<script type="application/json" id="layouts">\n).*?(\n</script>)', re.DOTALL)

# The register maps through which each layout in memory is read.
READERS = {
    "PACKING": ("MFMA_16X16X128_A", "MFMA_32X32X64_A"),
    "WEIGHT_PRESHUFFLE": ("MFMA_16X16X128_B", "MFMA_32X32X64_B"),
    "SCALE_SHUFFLE": ("MFMA_16X16X128_SCALE", "MFMA_32X32X64_SCALE"),
}

_COLUMNS = {"j"}  # the axis of D that runs along N; other axes without codes count rows


def declaration(layout: Layout) -> dict[str, Any]:
    """Everything that the page's arithmetic needs of one layout, and the words it shows."""
    return {
        "name": layout.name,
        "space": layout.space,
        "bits": layout.element_bits,
        "leading": layout.leading,
        "purpose": layout.purpose,
        "element": layout.element,
        "source": layout.source,
        "formula": layout.formula(),
        "readers": READERS.get(layout.name, ()),
        "axes": [
            {
                "name": axis.name,
                "meaning": axis.meaning,
                "padTo": axis.pad_to,
                "per": axis.codes or 1,
                "from": "k" if axis.codes else "column" if axis.name in _COLUMNS else "row",
                "factors": [{"name": f.name, "extent": f.extent, "meaning": f.meaning} for f in axis.factors],
            }
            for axis in layout.axes
        ],
        "places": [{"name": place.name, "factors": list(place.factors)} for place in layout.places],
    }


def data() -> str:
    """The JSON text, one layout a line."""
    lines = ",\n".join(json.dumps(declaration(layout), ensure_ascii=False) for layout in LAYOUTS.values())
    return f"[\n{lines}\n]".replace("</", "<\\/")


def page(path: Path) -> str:
    """The page at `path` with fresh data in its block."""
    text = path.read_text(encoding="utf-8")
    if len(_BLOCK.findall(text)) != 1:
        raise ValueError(f"{path.name} must hold exactly one block of layouts; restore it")
    return _BLOCK.sub(lambda match: match[1] + data() + match[2], text)
