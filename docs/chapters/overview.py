"""The first page of the specification."""

from chapters.layout import slug
from chapters.statement import TAGS, table
from mxassay.layouts import LAYOUTS


def page() -> str:
    """spec/index.md."""
    rows = [(f"[{name}]({slug(name)}.md)", layout.purpose) for name, layout in LAYOUTS.items()]
    chapters = ("formats", "dialects", "conversion", "scaled-mfma", "certificate")
    return (
        "\n".join(
            [
                "# Specification",
                "",
                (
                    "Where each byte of an MXFP4 GEMM for gfx950 lies, and what it means. These pages are made from "
                    "the objects "
                    "that the code uses, and a test compares them."
                ),
                "",
                *TAGS,
                "",
                *table(("layout", "what"), rows),
                "",
                (
                    "The address of any element, worked out: `mxassay layout NAME --shape R,C --at r,c`, or the "
                    "[explorer](explorer-page.md)."
                ),
                "",
                "```{toctree}",
                ":maxdepth: 1",
                ":caption: Meaning",
                "",
                *chapters,
                "```",
                "",
                "```{toctree}",
                ":maxdepth: 1",
                ":caption: Layouts",
                "",
                *(slug(name) for name in LAYOUTS),
                "```",
                "",
                "```{toctree}",
                ":maxdepth: 1",
                ":caption: More",
                "",
                "explorer-page",
                "sources",
                "```",
            ]
        )
        + "\n"
    )
