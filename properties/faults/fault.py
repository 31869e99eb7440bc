"""A planted fault as data, and the files that hold them."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from mxassay.errors import ContractError

CLASSES = {
    "scale-rule": "scale rounding rule, scale bias",
    "element-rounding": "element rounding, ties, encoder",
    "e8m0-special": "E8M0 special codes and denormals",
    "nan-inf": "NaN and Inf propagation",
    "zero-tiny": "zero blocks, tiny amax, subnormals",
    "nibble-order": "nibble order, pack axis, element table",
    "weight-order": "weight tile order, preshuffle contract",
    "scale-order": "scale tile order, row stride, padding",
    "padding": "uninitialised padding bytes",
    "k-tail": "K tail mask, over-read along K",
    "n-tail": "N tail, row bound",
    "small-m": "small M, M tail",
    "split-span": "split-K span, partition, units",
    "partials": "missing, double or unwritten partial",
    "precision": "precision of partials, accumulator, output",
    "stale-buffers": "stale or aliased buffers",
    "cache-key": "cache keyed by address, or under-keyed",
    "plan-lookup": "plan lookup, dispatch",
    "wide-offset": "32-bit offset",
    "strides": "strides, views",
    "race": "race, non-determinism",
    "tile-map": "tile map not a bijection",
    "compiler-hazard": "inline assembly, ISA hazard, compiler",
    "dtype-contract": "operand dtype, mixed formats",
    "harness": "reference, certificate, checker, emulated card",
}
"""The classes of faults that shipped in MXFP4 and block-scaled GEMM stacks. A missing barrier belongs to `race`, but
cannot be planted in one line: Triton places barriers itself."""

STAGES = (
    "activations",
    "quantizer.scale",
    "quantizer.element",
    "pack",
    "weights.layout",
    "scales.layout",
    "k-loop",
    "accumulate",
    "store",
    "split-k",
    "reduce",
    "plan",
    "launch",
    "tile-map",
    "workspace",
    "prepare",
    "contract",
    "layouts",
    "reference",
    "certificate",
    "checker",
)
"""Where a fault sits, in the order of the data's way through the kernel; the last four judge and are not judged."""

DEVICES = {"emulated": "", "interpreter": "", "cuda": "an NVIDIA Hopper GPU"}
"""Where a fault's code runs, with what a machine needs for it besides a CPU."""


@dataclass(frozen=True)
class Fault:
    """One line of our own code, changed.

    Attributes:
        id: in words with hyphens, unique.
        class_: a key of CLASSES; `class` in files.
        file: as in a checkout, such as `optimized/pack.py`.
        stage: one of STAGES: what a diagnosis should name.
        find: text that stands exactly once in `file`.
        replace: what stands there instead.
        why: what goes wrong, or why it is easily missed.
        device: where the code runs: `emulated`, `interpreter` for code that gfx950 never sees, or `cuda` for kernels
            that only an NVIDIA Hopper GPU runs.
        equivalent: a proof that no observable behaviour changes, else "".
    """

    id: str
    class_: str
    file: str
    stage: str
    find: str
    replace: str
    why: str
    device: str = "emulated"
    equivalent: str = ""

    def __post_init__(self) -> None:
        for name, value, legal in (
            ("class", self.class_, CLASSES),
            ("stage", self.stage, STAGES),
            ("device", self.device, DEVICES),
        ):
            if value not in legal:
                raise ContractError(f"{name} of fault {self.id} must be one of {', '.join(legal)}, not {value!r}")
        if self.find == self.replace or not self.find:
            raise ContractError(f"find of fault {self.id} must be text that differs from replace, not {self.find!r}")
        if Path(self.file).is_absolute() or ".." in Path(self.file).parts:
            raise ContractError(f"file of fault {self.id} must lie in the checkout, not at {self.file}")

    def applied_to(self, text: str) -> str:
        """`text` with the fault in it.

        Raises ContractError unless `find` stands in it exactly once.
        """
        count = text.count(self.find)
        if count != 1:
            raise ContractError(
                f"find of fault {self.id} must stand once in {self.file}, not {count} times; give more of the line"
            )
        return text.replace(self.find, self.replace)


def faults_in(path: Path) -> tuple[Fault, ...]:
    """The faults of a TOML file: an array of tables `fault`, whose keys are the attributes of `Fault`.

    Raises ContractError on what is no such file, an unknown or missing key, and an id that occurs twice.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ContractError(f"faults must come from a readable TOML file, not {path}: {error}") from None
    tables = document.get("fault")
    if not isinstance(tables, list) or set(document) != {"fault"}:
        raise ContractError(f"{path} must hold [[fault]] tables alone, not {', '.join(document) or 'nothing'}")
    return unique(_fault(path, table) for table in tables)


def planted() -> tuple[Fault, ...]:
    """Every fault that ships with the suite."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    return unique(fault for file in files for fault in faults_in(file))


def divided(faults: Sequence[Fault], device: str) -> tuple[list[Fault], dict[str, str]]:
    """The faults that a campaign on `device` tries, and why it doesn't try others, by their ids.

    On `emulated` those that need no GPU; on `cuda` those of the kernels for NVIDIA Hopper alone.
    """
    chosen = [fault for fault in faults if (fault.device == "cuda") == (device == "cuda")]
    if device == "cuda":
        return chosen, {}
    rest = {fault.id: fault.device for fault in faults if fault not in chosen}
    return chosen, {name: f"needs {DEVICES[its]}: mxassay faults --device {its}" for name, its in rest.items()}


def unique(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """`faults` as a tuple.

    Raises ContractError when two share an id.
    """
    found = tuple(faults)
    twice = [name for name, count in Counter(fault.id for fault in found).items() if count > 1]
    if twice:
        raise ContractError(f"ids of faults must be unique, not {', '.join(twice)} twice")
    return found


_KEYS = {"class" if field.name == "class_" else field.name: field for field in fields(Fault)}
_REQUIRED = {"id", "class", "file", "stage", "find", "replace", "why"}


def _fault(path: Path, table: dict[str, object]) -> Fault:
    name = table.get("id", "without an id")
    unknown, missing = sorted(set(table) - set(_KEYS)), sorted(_REQUIRED - set(table))
    if unknown or missing:
        what = f"lack {', '.join(missing)}" if missing else f"have {', '.join(unknown)}"
        raise ContractError(f"fault {name} of {path} must have the keys {', '.join(_KEYS)}, not {what}")
    for key, value in table.items():
        if not isinstance(value, str):
            raise ContractError(f"{key} of fault {name} of {path} must be a string, not {type(value).__name__}")
    given = {_KEYS[key].name: str(value) for key, value in table.items()}
    return Fault(**given | {"equivalent": given.get("equivalent", "").strip()})
