"""aiter's compiled operators on a machine without ROCm: enums and a rounding rule are answered, the rest is refused.

`compile_ops` here stands in for the decorator of aiter/jit/core.py, which builds C++ and HIP modules when first called.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any, NoReturn

from mxassay.errors import UnsupportedError
from mxassay.hosting.prebuilt_choice import padded_m
from mxassay.hosting.refusals import refusal


class UnsupportedAttributeError(UnsupportedError, AttributeError):
    """A name of aiter that can't be had here. `hasattr` and `getattr` with a default see it as missing."""


def needs_compiler(name: str, module: str) -> UnsupportedError:
    """The error for calling a compiled operator."""
    return refusal(
        f"{name} must be a Triton kernel, a pure-torch helper or a prebuilt a4w4 kernel of aiter, not an operator of "
        f"its compiled module {module}, which takes a HIP compiler and a real card; run it on an MI355X"
    )


def _members(name: str, first: int, *names: str) -> enum.IntEnum:
    return enum.IntEnum(name, {member: first + index for index, member in enumerate(names)})


# aiter, csrc/include/aiter_enum.h and csrc/include/mx_quant_utils.h
ENUMS: dict[str, Any] = {
    "ActivationType": _members("ActivationType", -1, "No", "Silu", "Gelu", "Swiglu", "Situv2"),
    "QuantType": _members(
        "QuantType", 0, "No", "per_Tensor", "per_Token", "per_1x32", "per_1x128", "per_128x128", "per_256x128",
        "per_1024x128",
    ),
    "MlaVersion": _members("MlaVersion", 0, "V32", "V40"),
    "MxScaleRoundMode": _members("MxScaleRoundMode", 0, "RoundDown", "RoundUp", "Even", "Ceil"),
    "MxDtype": _members("MxDtype", 0, "FP4_E2M1", "FP8_E4M3", "FP8_E4M3_FNUZ"),
}  # fmt: skip

ANSWERED: dict[str, Callable[..., Any]] = {**ENUMS, "getPaddedM": padded_m}


def compile_ops(
    _md_name: str, fc_name: str | None = None, *_: Any, **__: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a declared operator: give its answer if it is one of ANSWERED, else refuse when it is called."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        answer = ANSWERED.get(fc_name or function.__name__)
        if answer is not None:
            return answer

        @functools.wraps(function)
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise needs_compiler(f"aiter.{function.__name__}", _md_name)

        refuse.needs_compiler = _md_name  # type: ignore[attr-defined]
        return refuse

    return decorate
