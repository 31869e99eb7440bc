"""The two number formats of MXFP4: E2M1 elements and E8M0 scales, as data, with their encoders and decoders."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import torch

from mxassay.errors import ContractError
from mxassay.layouts import PACKING

Ties = Literal["even", "away"]


@dataclass(frozen=True)
class ElementFormat:
    """A 4-bit element format: `values[code]` is what `code` means, the sign in bit 3."""

    name: str
    values: tuple[float, ...]
    source: str

    @property
    def midpoints(self) -> tuple[float, ...]:
        """The seven magnitudes halfway between neighbours; `midpoints[j]` lies between codes j and j + 1.

        >>> E2M1.midpoints
        (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
        """
        magnitudes = self.values[:8]
        return tuple((low + high) / 2 for low, high in pairwise(magnitudes))


@dataclass(frozen=True)
class ScaleFormat:
    """An 8-bit scale format: byte e means 2^(e - bias), `nan` is not a number, one scale serves `block` elements."""

    name: str
    bias: int
    nan: int
    block: int
    source: str


_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

E2M1 = ElementFormat(
    name="E2M1",
    values=_MAGNITUDES + tuple(-value for value in _MAGNITUDES),
    source="OCP Microscaling Formats (MX) specification 1.0, 5.3.3",
)
E8M0 = ScaleFormat(
    name="E8M0",
    bias=127,
    nan=255,
    block=32,
    source="OCP Microscaling Formats (MX) specification 1.0, 5.4.1; block size: 5.2",
)

FLOAT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def encode(
    x: torch.Tensor, scales: torch.Tensor | None = None, *, ties: Ties = "even", byte0_exponent: int = -127
) -> torch.Tensor:
    """Round `x`, divided by its scales, to the nearest E2M1 codes.

    Args:
        x: bfloat16, float16 or float32, any shape (..., K), any strides.
        scales: uint8 E8M0 bytes (..., K/32); None stands for scale 1 (and then K may be anything).
        ties: "even" sends a midpoint to the neighbour with the even code, "away" to the larger magnitude.
        byte0_exponent: the exponent that scale byte 0 stands for. -127 is the E8M0 reading.

    Returns uint8 codes 0..15 of the shape of `x`. The outcome of every input is declared:
        - finite values: the nearest code; magnitudes above 6 saturate to 6; the sign is kept, also of -0 (code 8);
        - Inf: 7 or 15 (+-6). NaN: 7 or 15 by its sign bit (an AMD hardware test asserts +NaN -> 6; -NaN is a declared
          policy);
        - under scale byte 255 (NaN): 0 or 8, NaN elements as above (declared policy; such a code carries no value).

    The comparison works on the bits of `x` as integers, so it is exact for all inputs, subnormals included, whatever
    flush-to-zero mode the device is in. Source of rounding and saturation: OCP MX specification 1.0, 5.3.3 and 6.3.

    Raises ContractError on another dtype, on K % 32 != 0 with scales, and on scales of another shape or dtype.

    >>> encode(torch.tensor([0.25, 0.75, 2.5, 100.0, -0.0])).tolist()
    [0, 2, 4, 7, 8]
    """
    check_float("x", x)
    table = threshold_table(x.dtype, ties, byte0_exponent, x.device)
    if scales is None:
        thresholds = table[E8M0.bias]
        return codes_of(float_bits(x), thresholds)
    check_blocks("x", x.shape)
    scales = as_bytes("scales", scales, (*x.shape[:-1], x.shape[-1] // E8M0.block))
    blocks = float_bits(x).reshape(*scales.shape, E8M0.block)
    thresholds = table.index_select(0, scales.flatten().int()).view(*scales.shape, 1, 8)
    return codes_of(blocks, thresholds).flatten(-2)


def decode(codes: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The values of uint8 E2M1 `codes` (any shape), exact in every float dtype.

    Not checked: that codes are below 16 (the upper four bits are ignored).

    >>> decode(torch.tensor([1, 7, 8, 15], dtype=torch.uint8)).tolist()
    [0.5, 6.0, -0.0, -6.0]
    """
    codes = as_bytes("codes", codes)
    return _value_table(dtype, codes.device).index_select(0, (codes.flatten() & 15).int()).view(codes.shape)


def decode_scales(scales: torch.Tensor) -> torch.Tensor:
    """The values of E8M0 bytes (any shape) as float64, exact; byte 255 gives NaN.

    >>> decode_scales(torch.tensor([0, 127, 255], dtype=torch.uint8)).tolist()
    [5.877471754111438e-39, 1.0, nan]
    """
    scales = as_bytes("scales", scales)
    return _scale_table(scales.device).index_select(0, scales.flatten().int()).view(scales.shape)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """uint8 codes (..., K) to packed bytes (..., K/2), the even k in the low nibble: the layout PACKING.

    >>> pack(torch.tensor([1, 7], dtype=torch.uint8)).tolist()
    [113]
    """
    return PACKING.apply(codes)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """Packed bytes (..., K/2) to uint8 codes (..., K): the inverse of `pack`.

    >>> unpack(torch.tensor([0x71], dtype=torch.uint8)).tolist()
    [1, 7]
    """
    packed = as_bytes("packed", packed)
    return PACKING.invert(packed)


def decode_packed(packed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`decode(unpack(packed), dtype)` for float32 or float64, in one table look-up per byte.

    >>> decode_packed(torch.tensor([0x71], dtype=torch.uint8), torch.float32).tolist()
    [0.5, 6.0]
    """
    packed = as_bytes("packed", packed)
    pairs = _pair_table(dtype, packed.device).index_select(0, packed.flatten().int())
    return torch.view_as_real(pairs).view(*packed.shape[:-1], 2 * packed.shape[-1])


def float_bits(x: torch.Tensor) -> torch.Tensor:
    """The bit patterns of `x`: int16 for bfloat16, int32 for float32 and for float16 (widened, which is exact)."""
    x = x.detach()
    return x.view(torch.int16) if x.dtype == torch.bfloat16 else x.float().view(torch.int32)


def codes_of(bits: torch.Tensor, thresholds: torch.Tensor) -> torch.Tensor:
    """The codes of floats given by their `bits`, against `thresholds` (..., 8) that broadcast to their shape.

    Nonnegative floats order like their bit patterns, so a magnitude's code is the number of thresholds it reaches.
    """
    top = bits.element_size() * 8 - 1
    magnitude = bits & ((1 << top) - 1)
    codes = (bits >> top).bitwise_and_(8).add_(7)
    below = torch.empty_like(magnitude)
    for j in range(1, 8):
        # The difference of two nonnegative integers can't overflow; its sign bit, spread, is -1 where below.
        torch.sub(magnitude, thresholds[..., j], out=below)
        codes += below.bitwise_right_shift_(top)
    return codes.to(torch.uint8)


@lru_cache(maxsize=64)
def threshold_table(dtype: torch.dtype, ties: Ties, byte0_exponent: int, device: torch.device) -> torch.Tensor:
    """`table[e, j]`: the bits of the least magnitude whose code under scale byte e is j or more. Shape (256, 8).

    A midpoint itself reaches the upper neighbour when ties say so; the bits after it always do. Where a threshold
    exceeds the largest finite float, Inf takes its place: Inf must reach every code.
    """
    if ties not in ("even", "away"):
        raise ContractError(f'ties must be "even" or "away", not {ties!r}')
    mantissa, integers = (7, torch.int16) if dtype == torch.bfloat16 else (23, torch.int32)
    infinity = 255 << mantissa
    rows = []
    for byte in range(256):
        exponent = byte - E8M0.bias if byte else byte0_exponent
        row = [0]
        for j, midpoint in enumerate(E2M1.midpoints, start=1):
            up_at_tie = ties == "away" or j % 2 == 0
            row.append(min(_bits_of(int(4 * midpoint), exponent - 2, mantissa) + (not up_at_tie), infinity))
        rows.append([0] + [infinity + 1] * 7 if byte == E8M0.nan else row)
    return torch.tensor(rows, dtype=integers, device=device)


def _bits_of(integer: int, exponent: int, mantissa: int) -> int:
    """The bits of integer * 2^exponent in a float with float32's exponent range and `mantissa` stored bits."""
    leading = integer.bit_length() - 1
    field = leading + exponent + 127
    if field < 1:
        return integer << (exponent + 126 + mantissa)
    return ((field - 1) << mantissa) + (integer << (mantissa - leading))


@lru_cache(maxsize=16)
def _value_table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.tensor(E2M1.values, dtype=dtype, device=device)


@lru_cache(maxsize=8)
def _pair_table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Complex numbers whose two parts are the two elements of each packed byte: 256 of them."""
    every = torch.arange(256, dtype=torch.uint8, device=device).unsqueeze(1)
    return torch.view_as_complex(decode(unpack(every), dtype))


@lru_cache(maxsize=8)
def _scale_table(device: torch.device) -> torch.Tensor:
    values = [2.0 ** (byte - E8M0.bias) for byte in range(255)] + [float("nan")]
    return torch.tensor(values, dtype=torch.float64, device=device)


def check_float(name: str, x: torch.Tensor) -> None:
    """Raise ContractError unless `x` is a bfloat16, float16 or float32 tensor with at least one dimension."""
    if x.dtype not in FLOAT_DTYPES:
        raise ContractError(
            f"{name} must be bfloat16, float16 or float32, not {str(x.dtype).removeprefix('torch.')}; convert it first"
        )
    if x.ndim == 0:
        raise ContractError(f"{name} must have at least one dimension, not a scalar; reshape it to (1,)")


def check_blocks(name: str, shape: torch.Size) -> None:
    """Raise ContractError unless the last extent consists of whole blocks."""
    if not shape or shape[-1] % E8M0.block:
        extent = f"K = {shape[-1]} in {tuple(shape)}" if shape else "a scalar"
        raise ContractError(
            f"{name}'s last dimension must be a multiple of {E8M0.block}, not {extent}; pad K with zeros"
        )


def as_bytes(name: str, tensor: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    """`tensor` as uint8, of `shape` if given. torch's float4_e2m1fn_x2 and float8_e8m0fnu pass as bytes."""
    if tensor.dtype in (torch.float8_e8m0fnu, torch.float4_e2m1fn_x2):
        tensor = tensor.view(torch.uint8)
    if tensor.dtype != torch.uint8:
        raise ContractError(f"{name} must be uint8, not {str(tensor.dtype).removeprefix('torch.')}; pass raw bytes")
    if shape is not None and tuple(tensor.shape) != tuple(shape):
        raise ContractError(f"{name} must have shape {tuple(shape)}, not {tuple(tensor.shape)}")
    return tensor
