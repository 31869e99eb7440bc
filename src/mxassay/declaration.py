"""What a kernel says of itself: a dictionary MXASSAY in its file, read without running it.

    MXASSAY = {
        "dialect": "even",                  # how it quantizes activations: a name of mxassay.reference.DIALECTS
        "multiples": (1, 16, 64),           # M, N and K must be multiples of these
        "shapes": [(4, 2880, 512)],         # (M, N, K) that it has plans, tables or kernels of their own for
        "weights": "WEIGHT_PRESHUFFLE",     # the order in which it takes packed weights, or ROW_MAJOR
        "scales": "SCALE_SHUFFLE",          # the order in which it takes scale bytes, or ROW_MAJOR: (N, K/32), unpadded
    }

Every key may be left out. The options of the command line and of pytest come first, the declaration next, the values
above last. It holds for all kernels of the file.
"""

import ast
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError
from mxassay.kernels import GemmArguments, Shape

if TYPE_CHECKING:
    import torch

NAME = "MXASSAY"
ROW_MAJOR = "ROW_MAJOR"
_LAYOUTS = {"weights": "WEIGHT_PRESHUFFLE", "scales": "SCALE_SHUFFLE"}
_KEYS = ("dialect", "multiples", "shapes", *_LAYOUTS)


@dataclass(frozen=True)
class Declaration:
    """What holds for a kernel; None or nothing where nobody said it. The fields are the keys of MXASSAY."""

    dialect: str | None = None
    multiples: Shape | None = None
    weights: str = _LAYOUTS["weights"]
    scales: str = _LAYOUTS["scales"]
    shapes: tuple[Shape, ...] = ()

    @property
    def takes(self) -> Shape:
        """The multiples, those of the ABI where none were declared."""
        return self.multiples or (1, 16, 64)

    def admits(self, shape: Shape) -> bool:
        """Whether the kernel says that it takes the shape; everything where it says nothing."""
        return self.multiples is None or not any(size % each for size, each in zip(shape, self.multiples, strict=True))

    def arranged(self, x: GemmArguments) -> "tuple[torch.Tensor, torch.Tensor]":
        """The weights and scales of `x` in the order that the kernel takes."""
        from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE

        weights, scales = x.b_preshuffled, x.b_scales_shuffled
        n, half_k = weights.shape
        if self.weights == ROW_MAJOR:
            weights = WEIGHT_PRESHUFFLE.invert(weights)
        if self.scales == ROW_MAJOR:
            scales = SCALE_SHUFFLE.invert(scales, (n, half_k // 16))
        return weights, scales


def settled(spec: str | None, dialect: str | None = None, multiples: Shape | None = None) -> Declaration:
    """What holds for the kernel `spec`, its dialect included: an option where it was given, else the declaration.

    Raises ContractError on a declaration that says something else than it may.
    """
    told = declared(spec)
    return replace(told, dialect=dialect or told.dialect or "even", multiples=multiples or told.multiples)


@cache
def declared(spec: str | None) -> Declaration:
    """The declaration of the kernel that `spec` names; an empty one where it has none or can't be found.

    Neither the kernel's file nor a package above it is run. The name of a prebuilt code object says in which order it
    takes weights.

    >>> declared(None).takes
    (1, 16, 64)

    Raises ContractError on a declaration that is no literal dictionary or says something else than it may.
    """
    if not spec:
        return Declaration()
    where = spec.partition(":")[0]
    if where.endswith((".co", ".hsaco")):
        return Declaration(weights=ROW_MAJOR if "noBpreShuffle" in Path(where).name else _LAYOUTS["weights"])
    path = Path(where) if where.endswith(".py") else _source_of(where)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return Declaration()  # whoever loads the kernel says why it can't
    found = [node.value for node in tree.body if isinstance(node, ast.Assign) and _names(node)]
    if not found:
        return Declaration()
    try:
        value = ast.literal_eval(found[-1])
    except ValueError:
        raise ContractError(
            f"{NAME} of {where} must be a dictionary of literals, not {ast.unparse(found[-1])}; it is read without "
            "running it"
        ) from None
    return _checked(value, f"{NAME} of {where}")


def multiples_of(text: str) -> Shape:
    """M,N,K as three positive integers. Raises ContractError on anything else."""
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise ContractError(f"multiples must be M,N,K with positive integers, not {text}")
    m, n, k = (int(part) for part in parts)
    return m, n, k


def _names(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == NAME for target in node.targets)


def _source_of(module: str) -> Path | None:
    """The source of a module, found as Python finds it, but without importing the packages that hold it."""
    places: Any = None
    spec = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = next(
            (found for finder in sys.meta_path if (found := finder.find_spec(name, places, None)) is not None), None
        )
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _checked(value: Any, where: str) -> Declaration:
    if not isinstance(value, dict):
        raise ContractError(f"{where} must be a dictionary, not {value!r}")
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise ContractError(f"{where} must have no keys but {', '.join(_KEYS)}, not {unknown[0]!r}")
    dialect, multiples = value.get("dialect"), value.get("multiples")
    if dialect is not None and not isinstance(dialect, str):
        raise ContractError(f"{where}: dialect must be a name, not {dialect!r}")
    if multiples is not None and not _is_shape(multiples):
        raise ContractError(f"{where}: multiples must be (M, N, K), three positive integers, not {multiples!r}")
    shapes = value.get("shapes", ())
    if not isinstance(shapes, tuple | list):
        raise ContractError(f"{where}: shapes must be a list of (M, N, K), not {shapes!r}")
    for shape in shapes:
        if not _is_shape(shape):
            raise ContractError(f"{where}: a shape must be (M, N, K), three positive integers, not {shape!r}")
    orders = {}
    for key, layout in _LAYOUTS.items():
        orders[key] = value.get(key, layout)
        if orders[key] not in (layout, ROW_MAJOR):
            raise ContractError(f"{where}: {key} must be {layout} or {ROW_MAJOR}, not {orders[key]!r}")
    return Declaration(dialect, multiples and tuple(multiples), **orders, shapes=tuple(map(tuple, shapes)))


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 3 and all(type(size) is int and size > 0 for size in value)
