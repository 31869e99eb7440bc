"""What the failing property alone suggests, for failures that nothing else explains."""

from typing import NamedTuple

from mxassay.triage.failure import Failure


class Guess(NamedTuple):
    """A class and a stage, or None, and why."""

    class_: str | None
    stage: str | None
    statement: str


# Property, class, stage.
PRIORS: dict[str, tuple[str, str]] = {
    "element-values": ("nibble-order", "reference"),
    "scale-values": ("harness", "reference"),
    "element-rounding": ("harness", "reference"),
    "nibble-order": ("nibble-order", "layouts"),
    "second-witness": ("harness", "reference"),
    "scale-rule": ("scale-rule", "quantizer.scale"),
    "block-quantization": ("element-rounding", "quantizer.element"),
    "ratio-sweep": ("element-rounding", "quantizer.element"),
    "block-locality": ("scale-rule", "quantizer.scale"),
    "layout-formula": ("harness", "layouts"),
    "layout-bijection": ("harness", "layouts"),
    "layout-golden": ("harness", "layouts"),
    "weight-map": ("weight-order", "weights.layout"),
    "scale-map": ("scale-order", "scales.layout"),
    "quantizer-through-outputs": ("element-rounding", "quantizer.element"),
    "operands-of-the-mfma": ("compiler-hazard", "quantizer.element"),
    "fused-ratio-sweep": ("element-rounding", "quantizer.element"),
    "gemm-bounded": ("precision", "accumulate"),
    "gemm-sharp-blocks": ("element-rounding", "quantizer.element"),
    "output-written-once": ("tile-map", "tile-map"),
    "clean-execution": ("compiler-hazard", "quantizer.element"),
    "wait-states": ("compiler-hazard", "quantizer.element"),
    "within-buffers": ("n-tail", "activations"),
    "wide-offsets": ("wide-offset", "activations"),
    "inserted-zeros": ("padding", "scales.layout"),
    "slice-of-a-batch": ("small-m", "activations"),
    "plans-agree": ("plan-lookup", "plan"),
    "plans-of-shapes": ("plan-lookup", "plan"),
    "splits-cover": ("split-span", "split-k"),
    "each-k-once": ("split-span", "split-k"),
    "partials-sum": ("partials", "reduce"),
    "reduce-alone": ("partials", "reduce"),
    "xcd-remap": ("tile-map", "tile-map"),
    "grouped-order": ("tile-map", "tile-map"),
    "special-activations": ("nan-inf", "quantizer.scale"),
    "scale-255": ("e8m0-special", "scales.layout"),
    "scale-extremes": ("e8m0-special", "scales.layout"),
    "zero-rows": ("zero-tiny", "quantizer.scale"),
    "calls-in-sequence": ("cache-key", "workspace"),
    "results-apart": ("stale-buffers", "workspace"),
    "partials-apart": ("stale-buffers", "workspace"),
    "writes-noted": ("stale-buffers", "workspace"),
    "kept-weights": ("cache-key", "workspace"),
    "illegal-calls": ("dtype-contract", "contract"),
    "illegal-plans": ("plan-lookup", "contract"),
    "repeats": ("race", "store"),
    "order-of-waves": ("race", "store"),
    "padding-bytes": ("padding", "scales.layout"),
    "surroundings": ("k-tail", "activations"),
    "views": ("strides", "activations"),
}
"""The class and the stage that a property's failure most often comes from."""

OF_STAGES: dict[str, str] = {
    "activations": "strides",
    "quantizer.scale": "scale-rule",
    "quantizer.element": "element-rounding",
    "pack": "nibble-order",
    "weights.layout": "weight-order",
    "scales.layout": "scale-order",
    "k-loop": "k-tail",
    "accumulate": "precision",
    "store": "precision",
    "split-k": "split-span",
    "reduce": "partials",
    "plan": "plan-lookup",
    "launch": "plan-lookup",
    "tile-map": "tile-map",
    "workspace": "stale-buffers",
    "prepare": "weight-order",
    "contract": "dtype-contract",
    "layouts": "harness",
    "reference": "harness",
    "certificate": "harness",
    "checker": "harness",
}
"""The class whose name says the most about a stage: a guess for want of a better one."""

OF_FAULTS: dict[str, str] = {"scales.layout": "padding", "store": "n-tail", "reduce": "partials"}
"""The class of an access outside of every buffer, by the stage of the buffer that lies closest; others are k-tail."""

# Words of an error, class, stage.
_ERRORS: tuple[tuple[str, str, str], ...] = (
    ("Plan.", "plan-lookup", "plan"),
    ("written, though nobody may", "n-tail", "store"),
    ("columns beside out", "strides", "store"),
    ("a second call with one workspace", "cache-key", "workspace"),
    ("must be refused", "dtype-contract", "contract"),
    ("MemoryFault", "k-tail", "activations"),
)


def likely(failure: Failure) -> Guess:
    """A guess from the words of the error, else from the property."""
    for words, class_, stage in _ERRORS:
        if words in failure.error:
            return Guess(class_, stage, f"the error says {words!r}, which suggests {class_} at stage {stage}")
    if failure.property in PRIORS:
        class_, stage = PRIORS[failure.property]
        words = f"a failure of {failure.property} most often is {class_} at stage {stage}"
        return Guess(class_, stage, words)
    return Guess(None, None, "")
