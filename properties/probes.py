"""Maps recovered through the kernel: which stored byte it reads for each coordinate, from outputs alone.

With A the identity, output (k, n) is the value that the kernel takes for W[n, k]. Stored codes that spell the digits of
their own address, one digit a launch, make each output name the place it came from. For scales, all codes are 1 and
the byte, a power of two, is read off the output's exponent. No layout is assumed, so any wrong one is seen as it is.
"""

import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import E2M1

_CODES = torch.tensor([code for code in range(16) if code != 8], dtype=torch.uint8)  # but -0, which reads as 0
_ONE = 2  # the code of 1.0
_BYTES = 128  # scale bytes 64..191: seven bits of an address in each launch, far from every edge
_FIRST_BYTE = 64
_UNIT = 127


def weight_map(kernel: KernelUnderTest, n: int, ks: torch.Tensor, k: int, launch: Launch) -> torch.Tensor:
    """int64 (len(ks), n): for W[n, ks[i]], 2 * the byte offset in the preshuffled weights, + 1 for the high nibble.

    -1 where outputs are no E2M1 values, so that nothing can be read.
    """
    a = torch.zeros(len(ks), k, dtype=torch.bfloat16)
    a[torch.arange(len(ks)), ks] = 1
    stored_scales = torch.full(SCALE_SHUFFLE.bind((n, k // 32)).padded_shape, _UNIT, dtype=torch.uint8)
    address = torch.arange(n * k)
    found = torch.zeros(len(ks), n, dtype=torch.int64)
    for weight, digits in _digits(address, len(_CODES)):
        codes = _CODES[digits]
        packed = (codes[0::2] | codes[1::2] << 4).reshape(n, k // 2)
        out = _run(kernel, a, packed, stored_scales, launch)
        read = torch.full_like(found, -1)
        for digit, code in enumerate(_CODES.tolist()):
            read[out == E2M1.values[code]] = digit
        found = torch.where((read < 0) | (found < 0), -1, found + read * weight)
    return found


def scale_map(kernel: KernelUnderTest, n: int, k: int, launch: Launch) -> torch.Tensor:
    """int64 (k/32, n): the byte offset in the shuffled scales that scales W[n, 32 g ...]; -1 where none can be read."""
    groups = k // 32
    a = torch.zeros(groups, k, dtype=torch.bfloat16)
    a[torch.arange(groups), 32 * torch.arange(groups)] = 1
    packed = torch.full((n, k // 2), _ONE | _ONE << 4, dtype=torch.uint8)
    shape = SCALE_SHUFFLE.bind((n, groups)).padded_shape
    address = torch.arange(shape[0] * shape[1])
    found = torch.zeros(groups, n, dtype=torch.int64)
    for weight, digits in _digits(address, _BYTES):
        stored = (_FIRST_BYTE + digits).to(torch.uint8).reshape(shape)
        out = _run(kernel, a, packed, stored, launch).double()
        mantissa, exponent = torch.frexp(out)
        digit = exponent.long() - 1 + _UNIT - _FIRST_BYTE
        readable = (mantissa == 0.5) & (digit >= 0) & (digit < _BYTES) & (found >= 0)
        found = torch.where(readable, found + digit * weight, -1)
    return found


def expected_weight_map(n: int, ks: torch.Tensor, k: int) -> torch.Tensor:
    """What `weight_map` must give, by the address formula of the preshuffle."""
    offsets = WEIGHT_PRESHUFFLE.bind((n, k // 2)).offsets()
    return (2 * offsets[:, ks // 2] + ks % 2).T


def expected_scale_map(n: int, k: int) -> torch.Tensor:
    """What `scale_map` must give, by the address formula of the scale shuffle."""
    return SCALE_SHUFFLE.bind((n, k // 32)).offsets()[:n, : k // 32].T


def _digits(address: torch.Tensor, base: int) -> list[tuple[int, torch.Tensor]]:
    """(weight, digit of each address) for every digit of the largest address."""
    found, weight = [], 1
    while weight < len(address):
        found.append((weight, address // weight % base))
        weight *= base
    return found or [(1, address)]


def _run(
    kernel: KernelUnderTest, a: torch.Tensor, preshuffled: torch.Tensor, stored_scales: torch.Tensor, launch: Launch
) -> torch.Tensor:
    """The kernel on bytes as they lie in memory. What a contest file is given beside them is their linear form."""
    n, k = preshuffled.shape[0], a.shape[1]
    operands = Operands(
        a,
        WEIGHT_PRESHUFFLE.invert(preshuffled),
        SCALE_SHUFFLE.invert(stored_scales, (n, k // 32)),
        kernel.kernel.dialect,
        "one-hot probe",
    )
    return kernel.run(operands, launch, Placement(), stored=(preshuffled, stored_scales)).out
