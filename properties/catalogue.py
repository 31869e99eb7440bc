"""Every property: what it states, who says so, and what a kernel must have for it to apply.

    python -m mxassay.properties.catalogue            # print docs/properties.md

Loads neither torch nor triton.
"""

from dataclasses import dataclass

from mxassay.errors import ContractError

NEEDS = {
    "own": "our own kernel, whose stages, plans and entry points it is about: name no kernel",
    "same-process": "a kernel that runs in this process, where it can be watched, not in a worker of its own",
    "quantizes": "a kernel that quantizes activations itself, which a prebuilt one does not",
    "WEIGHT_PRESHUFFLE": "a kernel that takes weights in WEIGHT_PRESHUFFLE; this one says that it takes another order",
    "SCALE_SHUFFLE": "a kernel that takes scales in SCALE_SHUFFLE; this one says that it takes another order",
    "emulated": "the emulated card, which can be watched: --mx-device emulated",
    "fpsan": "the floating-point sanitizer of Triton 3.9",
    "scaled-mfma": "a scaled MFMA: elsewhere Triton widens codes to bfloat16, whose range is smaller",
}
"""What a property may need of a session, as the end of a sentence that begins with "needs"."""


@dataclass(frozen=True)
class Property:
    """One property. `statement` is one sentence, `source` says where it comes from, `needs` are keys of NEEDS."""

    id: str
    chapter: str
    statement: str
    source: str
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for need in self.needs:
            if need not in NEEDS:
                raise ContractError(f"a property's needs must be among {', '.join(NEEDS)}, not {need}")


_OCP = "OCP MX specification 1.0"
_CERTIFICATE = "exactness certificate: mxassay.reference.certificate"
_BOUND = "derived bound: mxassay.reference.error_bound"
_POLICY = "declared policy"
_CONTRACT = "contract of mxassay.optimized.matmul"
_SHUFFLE = "aiter shuffle_weight (16, 16) and e8m0_shuffle"

CATALOGUE: dict[str, Property] = {
    entry.id: entry
    for entry in (
        # formats
        Property(
            "element-values",
            "formats",
            "Each of the 16 E2M1 codes means the value that the format gives it, and encoding that value gives the "
            "code back.",
            f"{_OCP}, 5.3.3",
        ),
        Property(
            "scale-values",
            "formats",
            "Each E8M0 byte e means 2^(e - 127), 0 included, and 255 is NaN.",
            f"{_OCP}, 5.4.1",
        ),
        Property(
            "element-rounding",
            "formats",
            "Every bfloat16 over every scale 0..254 becomes the nearest code, ties to the even one, saturated at 6, "
            "with its sign.",
            f"{_OCP}, 5.3.3 and 6.3; AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_BF16",
        ),
        Property(
            "nibble-order",
            "formats",
            "The element of even k lies in the low nibble: [0.5, 6.0] packs to 0x71.",
            "ONNX and PyTorch float4_e2m1fn_x2; AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_BF16",
        ),
        Property(
            "second-witness",
            "formats",
            "Independent libraries give the codes and scale bytes of the dialects that bear their names.",
            "torchao, ml_dtypes, gfloat, amd-quark",
        ),
        # blocks
        Property(
            "scale-rule",
            "blocks",
            "The scale byte of a block follows from its largest magnitude by the dialect's rule, for every finite "
            "bfloat16 magnitude.",
            "the kernel's dialect: mxassay.reference.DIALECTS",
            ("own",),
        ),
        Property(
            "block-quantization",
            "blocks",
            "Packed bytes and scale bytes of any block, sharp, special or arbitrary, are those of the dialect.",
            "the kernel's dialect: mxassay.reference.quantize",
            ("own",),
        ),
        Property(
            "ratio-sweep",
            "blocks",
            "Under every scale byte, every bfloat16 whose ratio to the scale can round to a code other than 0 rounds "
            "to the right one.",
            f"{_OCP}, 6.3, exhaustive",
            ("own",),
        ),
        Property(
            "block-locality",
            "blocks",
            "What a block quantizes to depends on nothing outside the block.",
            f"{_OCP}, 6.3",
            ("own",),
        ),
        # layouts
        Property(
            "layout-formula",
            "layouts",
            "The shuffle moves the element of every coordinate to the address that the formula gives.",
            _SHUFFLE,
        ),
        Property(
            "layout-bijection",
            "layouts",
            "Every stored byte holds one element or padding, none holds two, and unshuffling gives the input back.",
            _SHUFFLE,
        ),
        Property(
            "layout-golden",
            "layouts",
            "Layouts give the golden vectors, which were worked out without this code's shuffle.",
            "mxassay/layouts/golden.json",
        ),
        Property(
            "weight-map",
            "layouts",
            "The kernel reads the code of W[n, k] from the byte and nibble that the preshuffle names, for every n and "
            "k: recovered from outputs alone.",
            _SHUFFLE,
            ("WEIGHT_PRESHUFFLE",),
        ),
        Property(
            "scale-map",
            "layouts",
            "The kernel reads the scale of W[n, 32 g ...] from the byte that the scale shuffle names, for every n and "
            "g: recovered from outputs alone.",
            _SHUFFLE,
            ("SCALE_SHUFFLE",),
        ),
        # fused quantizer
        Property(
            "quantizer-through-outputs",
            "fused quantizer",
            "Multiplied by one-hot weights, the kernel returns each activation quantized and dequantized.",
            "the kernel's dialect",
            ("quantizes",),
        ),
        Property(
            "operands-of-the-mfma",
            "fused quantizer",
            "The codes and scale bytes that reach the matrix instructions are the dialect's, each block as often as "
            "every other.",
            "the kernel's dialect; AMD CDNA4 ISA, V_MFMA_SCALE_F32_*_F8F6F4",
            ("emulated", "same-process", "quantizes", "own"),
        ),
        Property(
            "fused-ratio-sweep",
            "fused quantizer",
            "Inside the fused kernel too, under every scale byte, every bfloat16 that can round to a code other than "
            "0 rounds to the right one.",
            f"{_OCP}, 6.3, exhaustive",
            ("quantizes",),
        ),
        # gemm
        Property(
            "gemm-certified",
            "gemm",
            "Where the certificate holds, an output has the bits of the exact sum, rounded once to bfloat16.",
            _CERTIFICATE,
        ),
        Property(
            "gemm-bounded",
            "gemm",
            "Where the certificate fails, an output lies within the bound of every float32 summation.",
            _BOUND,
        ),
        Property(
            "gemm-scale-ramp",
            "gemm",
            "Outputs are exact for every scale byte of weights and activations, each block with a scale of its own.",
            _CERTIFICATE,
        ),
        Property(
            "gemm-sharp-blocks",
            "gemm",
            "Outputs are right when every activation block is sharp: ties, their neighbours, and every mantissa of "
            "the largest magnitude.",
            f"{_CERTIFICATE}; {_BOUND}",
            ("quantizes",),
        ),
        Property(
            "entry-points-agree",
            "gemm",
            "Every entry point that implements the product gives the same bits.",
            "faults repaired in one copy of a rule and left in another",
            ("own",),
        ),
        Property(
            "output-written-once",
            "gemm",
            "A launch writes every element of each output and each partial exactly once, and nothing else.",
            "missing, double and unwritten partials",
            ("emulated", "same-process"),
        ),
        Property(
            "clean-execution",
            "gemm",
            "The running kernel has no race, no missing wait, no undefined value that matters, no misaligned access.",
            "mxassay.gfx950.checks",
            ("emulated", "same-process"),
        ),
        Property(
            "wait-states",
            "gemm",
            "The launched machine code keeps every wait state that neither the hardware nor the compiler guarantees "
            "around inline assembly.",
            "LLVM GCNHazardRecognizer.cpp; AMD CDNA3 ISA, 4.5 and 7.6",
            ("emulated", "same-process"),
        ),
        # invariance
        Property("permuted-rows", "invariance", "Permuting rows of A permutes rows of the output.", "algebra"),
        Property("permuted-columns", "invariance", "Permuting rows of W permutes columns of the output.", "algebra"),
        Property(
            "permuted-blocks",
            "invariance",
            "Permuting the blocks along K of A and W alike changes no bit of a certified output.",
            _CERTIFICATE,
        ),
        Property(
            "scaled-rows",
            "invariance",
            "Scaling rows, columns or pairs of blocks by powers of two scales outputs likewise.",
            _CERTIFICATE,
        ),
        Property("negated", "invariance", "Negating A, or the codes of W, negates the output.", "algebra"),
        Property(
            "inserted-zeros",
            "invariance",
            "Blocks of zero codes inserted along K, under whatever scale, change no bit of a certified output.",
            _CERTIFICATE,
        ),
        Property(
            "slice-of-a-batch",
            "invariance",
            "Any rows of A alone give the bits that they give inside the batch.",
            "batch invariance",
        ),
        Property(
            "plans-agree",
            "invariance",
            "Any plan and any count of splits give the same bits where the certificate holds.",
            _CERTIFICATE,
            ("own",),
        ),
        Property(
            "plans-agree-in-a-ring",
            "invariance",
            "With floats replaced by an integer ring, in which order does not matter, any plan and any split give "
            "the same bits on any input.",
            "Triton's floating-point sanitizer",
            ("own", "fpsan", "emulated"),
        ),
        # split-K
        Property(
            "splits-cover",
            "split-K",
            "Every k lies in exactly one split, no split is empty, and spans are whole tiles: for every K, tile depth "
            "and count.",
            "contract of mxassay.optimized.reconcile",
            ("own",),
        ),
        Property(
            "each-k-once",
            "split-K",
            "Every k is counted once: with another power of two for every stretch of K, the sum of each is read off "
            "the output.",
            "spans in the wrong unit, overlapping or missing slices",
        ),
        Property(
            "partials-sum",
            "split-K",
            "Each partial is the exact sum over its own span, and the output is their sum in ascending order, rounded "
            "once.",
            "mxassay.reference.partials",
            ("own",),
        ),
        Property(
            "reduce-alone",
            "split-K",
            "The reduce kernel adds float32 partials in ascending order and rounds once to bfloat16, for any values "
            "and strides.",
            "contract of mxassay.optimized.reduce_partials",
            ("own",),
        ),
        # tile map
        Property(
            "xcd-remap",
            "tile map",
            "Spreading workgroups over the dies visits every number once, for every count to 4,096, Triton code and "
            "twin alike.",
            "contract of mxassay.optimized.tile_map",
            ("own",),
        ),
        Property(
            "grouped-order",
            "tile map",
            "The grouped order visits every tile once, for every grid to 4,096 tiles and every band height, Triton "
            "code and twin alike.",
            "contract of mxassay.optimized.tile_map",
            ("own",),
        ),
        # special values
        Property(
            "special-activations",
            "special values",
            "Activations that are Inf, NaN, subnormal, huge or -0 give what their quantized blocks give, and touch no "
            "other row.",
            "the kernel's dialect",
            ("quantizes",),
        ),
        Property(
            "scale-255",
            "special values",
            "A weight scale of 255 makes its column NaN, every row of it, and no other column.",
            f"{_OCP}, 5.4.1 and 6.1; AMD CDNA4 ISA, scale byte 255",
        ),
        Property(
            "scale-extremes",
            "special values",
            "Weight scale bytes 0 and 254 mean 2^-127 and 2^127: nothing is flushed, and overflow gives Inf.",
            f"{_OCP}, 5.4.1",
            ("scaled-mfma",),
        ),
        Property(
            "zero-rows",
            "special values",
            "A row of zeros among other rows gives zeros, and zero weights give zeros.",
            "zero blocks under graph warm-up and padded tokens",
        ),
        # state
        Property(
            "calls-in-sequence",
            "state",
            "What a call returns depends on its arguments alone, and later calls leave earlier outputs alone, through "
            "any sequence of calls, changed, freed and reallocated weights.",
            "caches keyed by address, stale and aliased buffers",
            ("same-process",),
        ),
        # contracts
        Property(
            "illegal-calls",
            "contracts",
            "Everything outside the contract is refused by name, before any launch.",
            _CONTRACT,
            ("own",),
        ),
        Property(
            "illegal-plans",
            "contracts",
            "A plan outside the declared ranges is refused by the name of its field.",
            "contract of mxassay.optimized.Plan",
            ("own",),
        ),
        Property(
            "plans-of-shapes",
            "contracts",
            "Every legal shape has a legal plan of no more splits than K has steps, and a shape of the table has the "
            "table's.",
            "contract of mxassay.optimized.plan_for",
            ("own",),
        ),
        # machine code
        Property(
            "inline-assembly",
            "machine code",
            "Inline assembly is right in any registers and before any instruction: no result is written over an input "
            "that is still to be read, and every result may be read at once.",
            "LLVM language reference, early clobbers; LLVM GCNHazardRecognizer.cpp, which cannot see into it",
            ("own", "emulated"),
        ),
        Property(
            "conversion-alone",
            "machine code",
            "The conversion takes each pair by the pair's own scale, whatever stands beside it.",
            "AMD CDNA4 ISA, V_CVT_SCALEF32_PK_FP4_BF16",
            ("own",),
        ),
        # memory
        Property(
            "within-buffers",
            "memory",
            "No load and no store reaches a byte that is no element of an argument, whether or not its value is used.",
            "over-reads along K, N and M, which fault on a card when the page behind is not mapped",
            ("emulated", "same-process"),
        ),
        Property(
            "wide-offsets",
            "memory",
            "Rows, columns and partials that lie more than 2^31 elements apart are read and written where they lie.",
            "32-bit offsets that wrap",
            ("own",),
        ),
        # results
        Property(
            "results-apart",
            "results",
            "What a call returned shares no memory with what later calls return, and later calls leave it alone.",
            "stale and aliased buffers",
            ("same-process",),
        ),
        Property(
            "partials-apart",
            "results",
            "Partials of two calls share no memory, even if the calls share a workspace and a shape.",
            "stale and aliased buffers, two streams",
            ("own",),
        ),
        Property(
            "writes-noted",
            "results",
            "A call counts as a write to the tensor given as out, for torch's version counter, and to no other.",
            _CONTRACT,
            ("own",),
        ),
        Property(
            "kept-weights",
            "results",
            "A workspace uses prepared weights again for equal bytes, wherever they lie, and for no others, and none "
            "after clear().",
            "contract of mxassay.optimized.Workspace",
            ("own",),
        ),
        # determinism
        Property("repeats", "determinism", "The same call gives the same bits each time.", "races, atomics"),
        Property(
            "order-of-waves",
            "determinism",
            "Neither the order in which workgroups run nor what uninitialised registers and LDS hold changes a bit.",
            _POLICY,
            ("emulated", "same-process"),
        ),
        # padding
        Property(
            "padding-bytes",
            "padding",
            "What fills the padding of the scale table, 0x00, 0x7F or 0xFF, changes no bit.",
            "uninitialised padding",
            ("SCALE_SHUFFLE",),
        ),
        Property(
            "surroundings",
            "padding",
            "Inputs, and the bytes around every buffer, are left alone and read into no result.",
            "over-reads along K and N, stray writes",
        ),
        Property(
            "views",
            "padding",
            "Activations of any strides, and outputs of any pitch, give the bits of contiguous ones.",
            _CONTRACT,
            ("own",),
        ),
    )
}

CHAPTERS = tuple(dict.fromkeys(entry.chapter for entry in CATALOGUE.values()))


def markdown() -> str:
    """The page docs/properties.md."""
    lines = [
        "# Properties",
        "",
        f"What `mxassay check --profile` asks of a kernel: {len(CATALOGUE)} properties in {len(CHAPTERS)} chapters.",
        "Generated from `mxassay.properties.catalogue`. A property that does not apply to a kernel or a device is",
        "skipped with the reason; what the short words under *needs* mean stands at the end.",
    ]
    for chapter in CHAPTERS:
        lines += ["", f"## {chapter[0].upper()}{chapter[1:]}", ""]
        for entry in CATALOGUE.values():
            if entry.chapter == chapter:
                needs = f" *Needs: {', '.join(entry.needs)}.*" if entry.needs else ""
                lines += [f"`{entry.id}`", f": {entry.statement} *Source: {entry.source}.*{needs}", ""]
        lines.pop()
    lines += ["", "## What a property may need", ""]
    lines += [f"- *{need}*: {meaning}." for need, meaning in NEEDS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
