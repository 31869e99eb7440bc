"""What `matmul` and its relatives accept, checked before anything is launched."""

import torch

from mxassay.errors import ContractError

LARGEST_SIZE = 2**31 - 2**12  # a size and a tile beyond it still fit in int32
_CODES = (torch.uint8, torch.float4_e2m1fn_x2)
_SCALES = (torch.uint8, torch.float8_e8m0fnu)


def padded(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple.

    >>> padded(2880, 256)
    3072
    """
    return -(-size // multiple) * multiple


def check_activations(name: str, a: torch.Tensor, multiple: int) -> torch.Tensor:
    """A bfloat16 (M, K) tensor with K a multiple of `multiple`, any strides; returned without a lazy negation."""
    _check_tensor(name, a, (torch.bfloat16,), 2)
    rows, k = a.shape
    if k == 0 or k % multiple:
        raise ContractError(f"{name}.shape[1] (K) must be a positive multiple of {multiple}, not {k}; pad with zeros")
    _check_size(name, rows)
    _check_size(name, k)
    if a.requires_grad and torch.is_grad_enabled():
        raise ContractError(
            f"{name} must not require a gradient, since none is computed; detach it or use torch.no_grad()"
        )
    return a.resolve_neg()


def check_preshuffled(a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Preshuffled weights and shuffled scales that belong to activations `a`; returned as uint8."""
    b, scales = check_preshuffled_pair(b, scales)
    if 2 * b.shape[1] != a.shape[1]:
        raise ContractError(
            f"b_preshuffled.shape[1] must be K // 2 = {a.shape[1] // 2}, not {b.shape[1]}; two codes lie in one byte"
        )
    check_same_device("b_preshuffled", b, a)
    return b, scales


def check_preshuffled_pair(b: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights in the (16,16) preshuffle and their e8m0-shuffled scales, checked against each other."""
    _check_tensor("b_preshuffled", b, _CODES, 2)
    _check_tensor("b_scales_shuffled", scales, _SCALES, 2)
    n, k = b.shape[0], 2 * b.shape[1]
    if n == 0 or n % 16:
        raise ContractError(
            f"b_preshuffled.shape[0] (N) must be a positive multiple of 16, not {n}; the preshuffle has 16-row tiles"
        )
    if k == 0 or k % 64:
        raise ContractError(
            f"b_preshuffled.shape[1] (K // 2) must be a positive multiple of 32, not {k // 2}; pad K with zero codes"
        )
    _check_size("b_preshuffled", n)
    _check_size("b_preshuffled", k)
    expected = (padded(n, 256), padded(k // 32, 8))
    if tuple(scales.shape) != expected:
        raise ContractError(
            f"b_scales_shuffled.shape must be {expected} (N padded to 256, K // 32 padded to 8), not "
            f"{tuple(scales.shape)}"
        )
    for name, tensor in (("b_preshuffled", b), ("b_scales_shuffled", scales)):
        if not tensor.is_contiguous():
            raise ContractError(
                f"{name} must be contiguous, not of strides {tuple(tensor.stride())}; a shuffled tensor is a run of "
                "bytes, so shuffle into a contiguous tensor"
            )
    check_same_device("b_scales_shuffled", scales, b)
    return b.view(torch.uint8), scales.view(torch.uint8)


def check_output(out: torch.Tensor, m: int, n: int, inputs: dict[str, torch.Tensor]) -> None:
    """A bfloat16 (m, n) output with unit column stride, rows apart, and no byte in common with an input."""
    _check_tensor("out", out, (torch.bfloat16,), 2)
    if tuple(out.shape) != (m, n):
        raise ContractError(f"out.shape must be {(m, n)}, not {tuple(out.shape)}")
    if out.stride(1) != 1 or (m > 1 and out.stride(0) < n):
        raise ContractError(
            f"out must have unit column stride and rows at least {n} apart, not strides {tuple(out.stride())}"
        )
    if out.is_neg():
        raise ContractError("out must hold its values, not a lazy negation; call resolve_neg()")
    if out.requires_grad and torch.is_grad_enabled():
        raise ContractError("out must not require a gradient, since none is computed; detach it")
    for name, tensor in inputs.items():
        check_same_device(name, tensor, out, other="out")
        if may_overlap(out, tensor):
            raise ContractError(f"out must not share memory with {name}; pass another tensor, or clone {name}")


def check_same_device(name: str, tensor: torch.Tensor, reference: torch.Tensor, other: str = "a") -> None:
    """Two tensors of one device."""
    if tensor.device != reference.device:
        raise ContractError(
            f"{name} must be on the device of {other}, {reference.device}, not on {tensor.device}; move it"
        )


def check_device(name: str, tensor: torch.Tensor, expected: str | None) -> None:
    """A tensor on a device type where the kernel can reach it; None is any with memory."""
    if tensor.device.type == "meta" or (expected is not None and tensor.device.type != expected):
        wanted = expected or "a device with memory"
        raise ContractError(f"{name} must be on {wanted}, not on {tensor.device}; move it")


def may_overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two strided tensors can share a byte.

    Exact for two matrices of unit column stride and one row pitch, such as two column ranges of one buffer; otherwise
    their address ranges are compared, which can report an overlap where there is none.
    """
    first_x, end_x = _byte_range(x)
    first_y, end_y = _byte_range(y)
    if end_x <= first_y or end_y <= first_x:
        return False
    pitch = _row_pitch(x)
    if pitch is None or pitch != _row_pitch(y):
        return True
    width_x = x.shape[1] * x.element_size()
    width_y = y.shape[1] * y.element_size()
    apart = (first_y - first_x) % pitch
    return not (width_x <= apart and apart + width_y <= pitch)


def _row_pitch(tensor: torch.Tensor) -> int | None:
    if tensor.dim() != 2 or tensor.stride(1) != 1 or tensor.stride(0) < tensor.shape[1]:
        return None
    return tensor.stride(0) * tensor.element_size()


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    first = tensor.data_ptr()
    if tensor.numel() == 0:
        return first, first
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * tensor.element_size()


def _check_tensor(name: str, tensor: torch.Tensor, dtypes: tuple[torch.dtype, ...], dimensions: int) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ContractError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ContractError(f"{name} must be a dense tensor, not {tensor.layout}; call to_dense()")
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        found = str(tensor.dtype).removeprefix("torch.")
        raise ContractError(f"{name}.dtype must be {wanted}, not {found}; convert or view it")
    if tensor.dim() != dimensions:
        raise ContractError(f"{name} must have {dimensions} dimensions, not {tensor.dim()}; reshape it")
    if dtypes != (torch.bfloat16,) and tensor.is_neg():
        raise ContractError(f"{name} must hold its bytes, not a lazy negation; call resolve_neg()")


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_SIZE:
        raise ContractError(f"{name} must have sizes up to {LARGEST_SIZE}, not {size}; cut the product in pieces")
