"""Other people's quantizers as second witnesses: what each gives, and for which of our dialects.

None is needed: each is imported when it is asked. Sources: the packages of these names on PyPI.
"""

import importlib
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
import torch

from mxassay.reference import DIALECTS, decode, decode_scales, dequantize, encode, quantize, unpack


class Found(NamedTuple):
    """What a quantizer makes of float32 blocks (N, 32): `values` float32 (N, 32); `codes` uint8 (N, 32) and `scales`
    uint8 (N,) where it gives them."""

    values: torch.Tensor
    codes: torch.Tensor | None = None
    scales: torch.Tensor | None = None


@dataclass(frozen=True)
class Witness:
    """One library in one mode.

    Attributes:
        package: on PyPI, whose version counts. module: what is imported.
        dialect: ours that it implements; None where it converts elements alone, taken at scale 1.
        call: float32 blocks (N, 32) to Found.
        step: it is asked every how manieth block, being slow.
    """

    package: str
    module: str
    dialect: str | None
    call: Callable[[torch.Tensor], Found]
    step: int = 1

    def ours(self, x: torch.Tensor) -> Found:
        """What our reference gives for the same blocks."""
        if self.dialect is None:
            codes = encode(x)
            return Found(decode(codes), codes)
        packed, scales = quantize(x, DIALECTS[self.dialect])
        return Found(dequantize(packed, scales), unpack(packed), scales[:, 0])


def quietly(name: str) -> Any:
    """The module, imported without what it prints and warns of."""
    with warnings.catch_warnings(), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def _ml_dtypes(x: torch.Tensor) -> Found:
    found = x.numpy().astype(quietly("ml_dtypes").float4_e2m1fn)
    return Found(torch.from_numpy(found.astype(np.float32)), torch.from_numpy(found.view(np.uint8).copy()))


def _gfloat(x: torch.Tensor) -> Found:
    gfloat, form = quietly("gfloat"), quietly("gfloat.formats").format_info_ocp_e2m1
    rounded = [gfloat.round_float(form, float(value), sat=True) for value in x.flatten()]
    codes = torch.tensor([gfloat.encode_float(form, value) for value in rounded], dtype=torch.uint8).view(x.shape)
    return Found(torch.tensor(rounded).view(x.shape), codes)


def _torchao(mode: str, x: torch.Tensor) -> Found:
    mx = quietly("torchao.prototype.mx_formats.mx_tensor")
    scales, packed = mx.to_mx(x, torch.float4_e2m1fn_x2, 32, scaling_mode=mx.ScaleCalculationMode[mode])
    codes, scales = unpack(packed.view(torch.uint8)), scales.view(torch.uint8).reshape(-1)
    return Found((decode(codes, torch.float64) * decode_scales(scales).unsqueeze(1)).float(), codes, scales)


def _quark(x: torch.Tensor) -> Found:
    quark = quietly("quark.torch.kernel.hw_emulation.hw_emulation_interface")
    return Found(quark.fake_quantize_mx(x, -1, 32, mx_element_dtype="fp4"))


WITNESSES: dict[str, Witness] = {
    "ml_dtypes": Witness("ml_dtypes", "ml_dtypes", None, _ml_dtypes),
    "gfloat": Witness("gfloat", "gfloat", None, _gfloat, 61),
    **{
        f"torchao {mode}": Witness(
            "torchao", "torchao.prototype.mx_formats.mx_tensor", f"{mode.lower()}-torchao", partial(_torchao, mode)
        )
        for mode in ("EVEN", "FLOOR", "CEIL", "RCEIL")
    },
    "amd-quark": Witness("amd-quark", "quark.torch.kernel.hw_emulation.hw_emulation_interface", "even", _quark),
}
