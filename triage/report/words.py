"""The words of a report: stages in plain language, counts, the line that names a kernel."""

import unicodedata

from mxassay.kernels import Shape
from mxassay.triage.failure import Subject

STAGES = {
    "activations": "loading the activations",
    "quantizer.scale": "choosing the scale of a block",
    "quantizer.element": "rounding elements to codes",
    "pack": "packing codes into bytes",
    "weights.layout": "reading the preshuffled weights",
    "scales.layout": "reading the shuffled scales",
    "k-loop": "stepping along K",
    "accumulate": "multiplying and summing",
    "store": "storing the output",
    "split-k": "dividing K among the splits",
    "reduce": "summing the partials",
    "plan": "choosing the plan",
    "launch": "launching the grid",
    "tile-map": "giving tiles to workgroups",
    "workspace": "the workspace of the partials",
    "prepare": "preparing the weights",
    "contract": "what the entry point accepts",
    "layouts": "the declared layouts",
    "reference": "the reference",
    "certificate": "the certificate",
    "checker": "the check",
}
"""`mxassay.properties.faults.STAGES`, each as what the kernel does there."""

JUDGES = ("layouts", "reference", "certificate", "checker")
"""The stages that judge the kernel and are none of it."""


def visible(text: str) -> str:
    """The text with every character that moves a cursor, turns the direction of writing or is half of one spelled out.

    >>> visible("a\\x1b[31m\\u202eb")
    'a\\\\x1b[31m\\\\u202eb'
    """
    return "".join(_spelled(char) if _hidden(char) else char for char in text)


def _hidden(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def sentence(text: str) -> str:
    """The text with a capital and a full stop.

    >>> sentence("the scale of the next K group is used")
    'The scale of the next K group is used.'
    """
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?" else f"{text}."


def shape_words(shape: Shape) -> str:
    """M, N and K with their names.

    >>> shape_words((1, 16, 64))
    'M=1, N=16, K=64'
    """
    return ", ".join(f"{name}={size}" for name, size in zip("MNK", shape, strict=True))


def count(number: int, singular: str, plural: str = "") -> str:
    """A number and its noun.

    >>> count(1, "element"), count(1200, "element")
    ('1 element', '1,200 elements')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def kernel_words(subject: Subject) -> str:
    """The kernel as its owner named it."""
    return subject.spec or "mxassay.optimized"


def device_words(device: str) -> str:
    """A device of the command line in plain language."""
    return _DEVICES.get(device, device)


_DEVICES = {
    "emulated": "emulated MI355X",
    "mi355x": "MI355X",
    "interpreter": "Triton's interpreter",
    "cuda": "CUDA GPU",
}
