"""aiter's prebuilt a4w4 kernels: from tensors to a launch of their code object on the emulated card.

Source of every offset, stride and grid: aiter, csrc/py_itfs_cu/asm_gemm_a4w4.cu, and the argument names in the code
objects' own metadata, which `require_a4w4` holds against the table below.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError, UnsupportedError

if TYPE_CHECKING:
    import torch

    from mxassay.gfx950 import CodeObject

THREADS = 256
KERNARG_BYTES = 384
K_STEP = 256  # elements of K that one step of the kernels' main loop takes
ROW_PADDING = 32  # aiter allocates the output with rows padded to this

# Offset and form of each argument that is not padding: q is an address, f a float32, I a uint32, i an int32.
FIELDS = {
    "D": (0, "q"), "C": (16, "q"), "A": (32, "q"), "B": (48, "q"), "alpha": (64, "f"), "beta": (80, "f"),
    "strideD0": (96, "I"), "strideD1": (112, "I"), "strideC0": (128, "I"), "strideC1": (144, "I"),
    "strideA0": (160, "I"), "strideA1": (176, "I"), "strideB0": (192, "I"), "strideB1": (208, "I"),
    "Mdim": (224, "I"), "Ndim": (240, "I"), "Kdim": (256, "I"), "ScaleA": (272, "q"), "ScaleB": (288, "q"),
    "strideScaleA0": (304, "I"), "strideScaleA1": (320, "I"), "strideScaleB0": (336, "I"), "strideScaleB1": (352, "I"),
    "log2_k_split": (368, "i"),
}  # fmt: skip

_TILE = re.compile(r"(?:^|_)(\d+)x(\d+)E?$")


@dataclass(frozen=True)
class Problem:
    """One call: tensors as the kernel wants them, and their sizes in elements."""

    a: "torch.Tensor"
    a_scales: "torch.Tensor"
    b: "torch.Tensor"
    b_scales: "torch.Tensor"
    out: "torch.Tensor"
    bias: "torch.Tensor | None" = None
    alpha: float = 1.0
    beta: float = 0.0
    log2_k_split: int = 0

    @property
    def m(self) -> int:
        return self.a.shape[0]

    @property
    def n(self) -> int:
        return self.b.shape[0]

    @property
    def k(self) -> int:
        return 2 * self.a.shape[1]


def tile_of(name: "str | PathLike[str]") -> tuple[int, int]:
    """(tile_m, tile_n) from a code object's file name or a kernel's symbol name.

    Raises:
        ContractError: the name does not end in a tile.

    >>> tile_of("hsa/gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co")
    (32, 128)
    """
    path = PurePath(fspath(name))
    found = _TILE.search(path.stem if path.suffix in (".co", ".hsaco") else path.name)
    if not found:
        raise ContractError(
            f"the name of a prebuilt kernel must end in its tile, as in _32x128.co, not {path.name}; "
            "give the tile: --tile 32x128"
        )
    return int(found[1]), int(found[2])


def takes_preshuffled_weights(name: "str | PathLike[str]") -> bool:
    """False for the variants whose name says `noBpreShuffle`: their weights are plain packed rows."""
    return "noBpreShuffle" not in PurePath(fspath(name)).name


def grid_of(m: int, n: int, k: int, tile: tuple[int, int], log2_k_split: int = 0) -> tuple[int, int, int]:
    """Workgroups in x (along N), y (along M), z (splits of K), as aiter launches them.

    >>> grid_of(33, 2880, 512, (32, 128))
    (23, 2, 1)
    """
    tile_m, tile_n = tile
    span = -(-(k >> log2_k_split) // K_STEP) * K_STEP
    return -(-n // tile_n), -(-m // tile_m), -(-k // span)


def arguments_of(problem: Problem) -> dict[str, Any]:
    """Every argument of the kernel by name; tensors stand for their addresses. Strides of A and B count elements.

    aiter's host leaves the strides of D and all inner ones unset; here D's equal those of C, the inner ones are 0.
    """
    p = problem
    return {
        "D": p.out,
        "C": 0 if p.bias is None else p.bias,
        "A": p.a,
        "B": p.b,
        "alpha": float(p.alpha),
        "beta": float(p.beta),
        "strideD0": p.out.stride(0),
        "strideD1": 0,
        "strideC0": p.out.stride(0),
        "strideC1": 0,
        "strideA0": 2 * p.a.stride(0),
        "strideA1": 0,
        "strideB0": 2 * p.b.stride(0),
        "strideB1": 0,
        "Mdim": p.m,
        "Ndim": p.n,
        "Kdim": p.k,
        "ScaleA": p.a_scales,
        "ScaleB": p.b_scales,
        "strideScaleA0": p.a_scales.stride(0),
        "strideScaleA1": 0,
        "strideScaleB0": p.b_scales.stride(0),
        "strideScaleB1": 0,
        "log2_k_split": p.log2_k_split,
    }


def launch_arguments(code: "CodeObject", problem: Problem) -> list[Any]:
    """The arguments in the order of the code object's metadata, padding included, as `gfx950.launch` takes them.

    A code object without metadata gets (offset, value, size) triples.
    """
    values = arguments_of(problem)
    listed = code.kernel().args
    if not listed:
        return [(offset, values[name], struct.calcsize("<" + form)) for name, (offset, form) in FIELDS.items()]
    return [values.get(argument.name, 0) for argument in listed if not argument.hidden]


def kernarg_of(problem: Problem, address_of: "Callable[[torch.Tensor], int]") -> bytes:
    """The kernarg segment byte for byte, for whoever launches by other means; padding is 0.

    Args:
        address_of: gives a tensor's address on the device that will run the kernel.
    """
    kernarg = bytearray(KERNARG_BYTES)
    for name, value in arguments_of(problem).items():
        offset, form = FIELDS[name]
        number = value if isinstance(value, int | float) else address_of(value)
        struct.pack_into("<" + form, kernarg, offset, number)
    return bytes(kernarg)


def require_a4w4(code: "CodeObject") -> None:
    """Hold a code object's own argument names and offsets against FIELDS. One without metadata passes.

    Raises:
        UnsupportedError: it takes other arguments.
    """
    found = {argument.name: argument.offset for argument in code.kernel().args if argument.name != "pad"}
    wanted = {name: offset for name, (offset, _) in FIELDS.items()}
    # Kernels that don't split K leave the last argument out.
    for name in found:
        if wanted.get(name) != found[name]:
            raise UnsupportedError(
                f"an aiter-a4w4 code object must take {', '.join(FIELDS)} in slots of 16 bytes, not {name} "
                f"at byte {found[name]}; is it an f4gemm kernel of gfx950?"
            )


def run_a4w4(
    code_object: "str | PathLike[str]",
    a: "torch.Tensor",
    a_scales: "torch.Tensor",
    b: "torch.Tensor",
    b_scales: "torch.Tensor",
    *,
    tile: tuple[int, int] | None = None,
    log2_k_split: int = 0,
    out: "torch.Tensor | None" = None,
    bias: "torch.Tensor | None" = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> "torch.Tensor":
    """Multiply on the emulated card with one of aiter's prebuilt code objects.

    Args:
        code_object: path of the `.co` file.
        a: (M, K/2) packed bytes, K a multiple of 32, rows contiguous.
        a_scales: (at least M padded to 256, K/32 padded to 8) bytes, layout SCALE_SHUFFLE.
        b: (N, K/2) packed bytes, layout WEIGHT_PRESHUFFLE, or plain rows for a `noBpreShuffle` kernel.
        b_scales: (N padded to 256, K/32 padded to 8) bytes, layout SCALE_SHUFFLE.
        tile: (tile_m, tile_n); read from the file name when left out.
        log2_k_split: K is split in 2 to this power; the kernel then adds into a zeroed output with bf16 atomics.
        out: bf16, at least M rows padded to 32, N columns; made here when left out.
        bias: float32 (M, N) or None, taken times `beta`.

    Not checked: the contents of the padding, and whether the kernel was built to split K.

    Returns:
        bf16 (M, N), a view of `out`.

    Raises:
        ContractError: a shape, dtype or stride outside the above.
        UnsupportedError: a code object with other arguments.

    Source: aiter, csrc/py_itfs_cu/asm_gemm_a4w4.cu.
    """
    import torch

    from mxassay.gfx950 import launch, load_code_object

    code = load_code_object(code_object)
    require_a4w4(code)
    tile = tile or tile_of(code_object)
    m, n, k = a.shape[0], b.shape[0], 2 * a.shape[1]
    if out is None:
        out = torch.empty(-(-m // ROW_PADDING) * ROW_PADDING, n, dtype=torch.bfloat16)
    _require(a, a_scales, b, b_scales, out, log2_k_split)
    if log2_k_split:
        out.zero_()
    problem = Problem(a, a_scales, b, b_scales, out, bias, alpha, beta, log2_k_split)
    launch(code, grid_of(m, n, k, tile, log2_k_split), (THREADS, 1, 1), launch_arguments(code, problem))
    return out[:m]


def _require(
    a: "torch.Tensor",
    a_scales: "torch.Tensor",
    b: "torch.Tensor",
    b_scales: "torch.Tensor",
    out: "torch.Tensor",
    log2_k_split: int,
) -> None:
    import torch

    (m, half_k), n = a.shape, b.shape[0]
    if half_k % 16:
        raise ContractError(f"K must be a multiple of 32, not {2 * half_k}")
    groups = -(-(half_k // 16) // 8) * 8
    for name, tensor, rows, columns in (
        ("a", a, m, half_k),
        ("b", b, n, half_k),
        ("a_scales", a_scales, -(-m // 256) * 256, groups),
        ("b_scales", b_scales, -(-n // 256) * 256, groups),
    ):
        if tensor.element_size() != 1 or tensor.dim() != 2 or not tensor.is_contiguous():
            raise ContractError(f"{name} must be a contiguous matrix of bytes, not {_words(tensor)}")
        if tensor.shape[0] < rows or tensor.shape[1] < columns:
            raise ContractError(f"{name} must have shape ({rows}, {columns}) or more, not {tuple(tensor.shape)}")
    rows = -(-m // ROW_PADDING) * ROW_PADDING
    if out.dtype != torch.bfloat16 or out.dim() != 2 or out.shape[0] < rows or out.shape[1] != n or out.stride(1) != 1:
        raise ContractError(f"out must be torch.bfloat16 of shape ({rows}, {n}) with unit stride, not {_words(out)}")
    if log2_k_split < 0 or 2 * half_k % (1 << log2_k_split):
        raise ContractError(f"K must be a multiple of the number of splits, not {2 * half_k} for {1 << log2_k_split}")


def _words(tensor: "torch.Tensor") -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)} and strides {tensor.stride()}"
