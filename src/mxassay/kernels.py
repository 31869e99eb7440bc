"""The kernel under test as a record, and how a word on the command line becomes one."""

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError, UnsupportedError

if TYPE_CHECKING:
    import torch

ABIS = {
    "mxfp4-gemm": "fn(a_bf16, b_preshuffled, b_scales_shuffled) -> out_bf16",
    "gpumode": "a contest submission file with custom_kernel(data), data = (A, B, B_q, B_shuffle, B_scale_sh)",
}


@dataclass(frozen=True)
class GemmArguments:
    """What a GEMM kernel may be given, whatever its ABI: shapes in elements, bytes as uint8.

    Attributes:
        a: bf16 (M, K) activations.
        b: bf16 (N, K) weights before quantization; only the `gpumode` tuple carries them.
        b_packed: uint8 (N, K/2) packed codes, row-major.
        b_preshuffled: uint8 (N, K/2), layout WEIGHT_PRESHUFFLE.
        b_scales_shuffled: uint8 (N padded to 256, K/32 padded to 8), layout SCALE_SHUFFLE.
    """

    a: "torch.Tensor"
    b: "torch.Tensor"
    b_packed: "torch.Tensor"
    b_preshuffled: "torch.Tensor"
    b_scales_shuffled: "torch.Tensor"


@dataclass(frozen=True)
class Kernel:
    """A kernel under test.

    Attributes:
        name: as the user wrote it.
        abi: a key of ABIS.
        dialect: name of the quantization dialect the kernel's activations follow.
        call: runs it, given the arguments and a plan (None where the kernel chooses itself).
        plan_for: our own kernels' plan of a shape (M, N, K); None for other kernels.
    """

    name: str
    abi: str
    dialect: str
    call: Callable[[GemmArguments, Any], "torch.Tensor"]
    plan_for: Callable[[int, int, int], Any] | None = None


def own_kernel(dialect: str) -> Kernel:
    """mxassay's own optimized kernel."""
    from mxassay.optimized import matmul, plan_for

    def call(arguments: GemmArguments, plan: Any) -> "torch.Tensor":
        return matmul(arguments.a, arguments.b_preshuffled, arguments.b_scales_shuffled, plan=plan)

    return Kernel("mxassay.optimized:matmul", "mxfp4-gemm", dialect, call, plan_for)


def _by_mxfp4_gemm(function: Callable[..., Any]) -> Callable[[GemmArguments, Any], Any]:
    return lambda x, _plan: function(x.a, x.b_preshuffled, x.b_scales_shuffled)


def _by_gpumode(function: Callable[..., Any]) -> Callable[[GemmArguments, Any], Any]:
    return lambda x, _plan: function((x.a, x.b, x.b_packed, x.b_preshuffled, x.b_scales_shuffled))


_ADAPTERS = {"mxfp4-gemm": _by_mxfp4_gemm, "gpumode": _by_gpumode}


def load_kernel(spec: str | None, abi: str | None, dialect: str) -> Kernel:
    """The kernel that `spec` names: `module:attr`, `path.py:attr`, or `path.py` (a contest file); None is our own.

    Loading runs the file. Open the device first (`mxassay.devices`).

    Raises:
        ContractError: an ABI that is none of ABIS.
        UnsupportedError: no such file, module or attribute, or an import that fails.
    """
    if spec is None:
        return own_kernel(dialect)
    where, _, attribute = spec.partition(":")
    abi = abi or ("mxfp4-gemm" if attribute else "gpumode")
    if abi not in _ADAPTERS:
        raise ContractError(f"ABI must be one of {', '.join(_ADAPTERS)}, not {abi}")
    attribute = attribute or "custom_kernel"
    module = _load_file(Path(where), abi) if where.endswith(".py") else _load_module(where)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise UnsupportedError(
            f"{where} must define a callable {attribute}, not {type(function).__name__}; "
            "name another one as path.py:attr"
        )
    return Kernel(spec, abi, dialect, _ADAPTERS[abi](function))


def _load_module(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"kernel must be an importable module:attr or a path.py, not {name}: {error}") from error


def _load_file(path: Path, abi: str) -> types.ModuleType:
    if not path.is_file():
        raise UnsupportedError(f"kernel must be an existing file, not {path}; check the path")
    if abi == "gpumode":
        sys.modules.setdefault("task", _task_module())
    spec = importlib.util.spec_from_file_location(f"mxassay_kernel_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Triton reads a kernel's source through its module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise UnsupportedError(
            f"{path} must import with what is installed, not need {error.name or error}; install it first"
        ) from error
    return module


def _task_module() -> types.ModuleType:
    """The contest's `task` module: it holds nothing but two type names."""
    task = types.ModuleType("task")
    task.__dict__.update(input_t=Any, output_t=Any)
    return task
