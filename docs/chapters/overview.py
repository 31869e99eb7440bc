"""The first page of the specification."""

from chapters.layout import slug
from chapters.statement import TAGS, table
from mxassay.layouts import LAYOUTS, SCALE_SHUFFLE, WEIGHT_PRESHUFFLE, explain_element, locate

_MATRIX, _ELEMENT = (2112, 7168), (53, 450)
_CHAPTERS = (
    ("formats", "Formats", "E2M1 codes, E8M0 scale bytes, blocks of 32"),
    ("dialects", "Dialects", "how a block's largest magnitude becomes its scale byte, with every edge"),
    ("conversion", "The conversion instruction", "`v_cvt_scalef32_pk_fp4_bf16`: rounding, edges, wait states"),
    ("scaled-mfma", "The scaled MFMA", "`v_mfma_scale_f32_*_f8f6f4`: what it multiplies, where its operands lie"),
    ("certificate", "The exactness certificate", "where only one output is right, and the bound elsewhere"),
)


def page() -> str:
    """spec/index.md."""
    lines = [
        "# Specification",
        "",
        (
            "Where each byte of an MXFP4 GEMM for gfx950 lies, and what it means. These pages are made from the "
            "objects that the code uses, and a test compares them."
        ),
        "",
        *_from_an_element_to_its_bytes(),
        "## Layouts in memory",
        "",
        *_layouts("memory"),
        "",
        "## Layouts in registers",
        "",
        *_layouts("registers"),
        "",
        "## What the bytes mean",
        "",
        *table(("chapter", "what"), [(f"[{title}]({name}.md)", what) for name, title, what in _CHAPTERS]),
        "",
        "## How sure",
        "",
        *TAGS,
        "",
        *_toctree("Layouts", [slug(name) for name in LAYOUTS]),
        *_toctree("Meaning", [name for name, *_ in _CHAPTERS]),
        *_toctree("More", ["witnesses", "time-model", "explorer-page", "sources"]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _from_an_element_to_its_bytes() -> list[str]:
    (rows, whole), (n, k) = _MATRIX, _ELEMENT
    weight, scale = (locate(layout, _MATRIX, _ELEMENT) for layout in (WEIGHT_PRESHUFFLE, SCALE_SHUFFLE))
    kb, g = weight.coords[1], scale.coords[1]
    stored = SCALE_SHUFFLE.bind(scale.shape).padded_shape[1]
    offsets = [
        layout.bind(found.shape).offset(found.coords)
        for layout, found in ((WEIGHT_PRESHUFFLE, weight), (SCALE_SHUFFLE, scale))
    ]
    state = f"rows={rows}&amp;K={whole}&amp;row={n}&amp;k={k}&amp;a=WEIGHT_PRESHUFFLE&amp;b=SCALE_SHUFFLE"
    return [
        "## From an element to its bytes",
        "",
        f"Where is the weight of output column n = {n} and k = {k}, in a matrix of N = {rows} rows and K = {whole}?",
        "",
        (
            f"1. Two codes share a byte ([PACKING](packing.md)): kb = ⌊k / 2⌋ = {kb}. k is even, so the code is the "
            "low nibble."
        ),
        (
            f"2. [WEIGHT_PRESHUFFLE](weight-preshuffle.md) takes (n, kb) = ({n}, {kb}), with KB = K / 2 = "
            f"{weight.shape[1]} bytes a row, to **byte {offsets[0]}** of the preshuffled weights."
        ),
        (
            f"3. 32 codes share a scale: block g = ⌊k / 32⌋ = {g}. [SCALE_SHUFFLE](scale-shuffle.md) takes (r, g) = "
            f"({n}, {g}), with Gp = {stored} stored blocks a row (K / 32 = {scale.shape[1]}, padded to a multiple of "
            f"8), to **byte {offsets[1]}** of the shuffled scales."
        ),
        ("4. Packed activations stay row-major; kernels such as aiter's take their scales shuffled in this same way."),
        "",
        (
            f'The same in the <a href="../explorer/index.html#{state}">explorer</a>, and in the terminal, where '
            "`--matrix` counts in codes:"
        ),
        "",
        "```console",
        *_command("weight-preshuffle", 3),
        *_command("scale-shuffle", 3),
        "```",
        "",
        (
            "With `--shape` instead of `--matrix`, both the shape and `--at` count in the layout's own axes: packed "
            "bytes for weights, blocks for scales."
        ),
        "",
    ]


def _command(name: str, count: int) -> list[str]:
    """The command, and the first lines of what it prints."""
    layout = LAYOUTS[name.upper().replace("-", "_")]
    words = f"$ mxassay layout {name} --matrix {_MATRIX[0]},{_MATRIX[1]} --at {_ELEMENT[0]},{_ELEMENT[1]}"
    return [words, *explain_element(layout, _MATRIX, _ELEMENT).splitlines()[:count], "…"]


def _layouts(space: str) -> list[str]:
    return table(
        ("layout", "what"),
        [(f"[{name}]({slug(name)}.md)", layout.purpose) for name, layout in LAYOUTS.items() if layout.space == space],
    )


def _toctree(caption: str, names: list[str]) -> list[str]:
    return ["```{toctree}", ":maxdepth: 1", ":hidden:", f":caption: {caption}", "", *names, "```", ""]
