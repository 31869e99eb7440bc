"""How a word on the command line becomes a kernel under test: one opener for each ABI."""

import importlib
import importlib.util
import inspect
import shlex
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mxassay.declaration import ROW_MAJOR, declared
from mxassay.errors import ContractError, MxassayError, UnsupportedError
from mxassay.kernels import GemmArguments, Kernel, Returned

if TYPE_CHECKING:
    import torch

ABIS = {
    "mxfp4-gemm": "fn(a_bf16, b_preshuffled, b_scales_shuffled) -> out_bf16",
    "gpumode": "a contest submission file with custom_kernel(data), data = (A, B, B_q, B_shuffle, B_scale_sh)",
    "aiter-a4w4": "a prebuilt code object of aiter's f4gemm family; activations are quantized by the reference",
}


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Attributes:
        spec: `module:attr`, `path.py:attr`, `path.py`, `path.co`, or None for our own kernel.
        abi: a key of ABIS, or None to tell it from `spec`.
        dialect: of the activations.
        device: name of the open device.
        aiter: root of an aiter checkout, or None.
        tile: (tile_m, tile_n) of a prebuilt kernel whose name does not say it.
        seconds, memory_gib: limits of each call of a contest file.
    """

    spec: str | None
    abi: str | None
    dialect: str
    device: str
    aiter: str | None = None
    tile: tuple[int, int] | None = None
    seconds: float = 600.0
    memory_gib: float = 8.0


def open_kernels(request: Request) -> AbstractContextManager[list[Kernel]]:
    """The kernels that `request` names; more than one only for a whole checkout of prebuilt ones. Loading runs code.

    Raises:
        ContractError: an ABI that is none of ABIS, or options that don't go together.
        UnsupportedError: no such file, module or attribute, an import that fails, or an ABI the device can't serve.
    """
    abi = request.abi or abi_of(request.spec)
    if abi not in ABIS:
        raise ContractError(f"ABI must be one of {', '.join(ABIS)}, not {abi}")
    if abi != "mxfp4-gemm" and request.spec is None and abi != "aiter-a4w4":
        raise ContractError(f"a kernel must be named for ABI {abi}, not left out; give its path")
    return _OPENERS[abi](request)


def abi_of(spec: str | None) -> str:
    """The ABI that a kernel's name suggests."""
    if spec is None or ":" in spec:
        return "mxfp4-gemm"
    return "aiter-a4w4" if spec.endswith((".co", ".hsaco")) else "gpumode"


@contextmanager
def _mxfp4_gemm(request: Request) -> Iterator[list[Kernel]]:
    if request.spec is None:
        yield [_own(request)]
        return
    told = declared(request.spec)
    function = attribute(request.spec, "")
    _check_signature(function, request.spec)

    def call(x: GemmArguments, _plan: object) -> Returned:
        return Returned(function(x.a, *told.arranged(x)))

    yield [Kernel(request.spec, "mxfp4-gemm", request.dialect, call, words=shlex.quote(request.spec))]


def _check_signature(function: Callable[..., Any], spec: str) -> None:
    """Raise ContractError, before anything is compiled, for what can't be called with three tensors."""
    if hasattr(function, "warmup"):  # a triton.JITFunction; importing triton to ask would cost a second
        raise ContractError(
            f"{spec} must be the function that allocates and launches, not the @triton.jit kernel; "
            "name fn(a_bf16, b_preshuffled, b_scales_shuffled) -> out_bf16"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise ContractError(
            f"{spec} must take (a_bf16, b_preshuffled, b_scales_shuffled) and return out_bf16, not take {signature}; "
            "wrap it in a function that does"
        ) from None


def _own(request: Request) -> Kernel:
    from mxassay.optimized import Plan, matmul, plan_for

    def call(x: GemmArguments, plan: Plan | None) -> Returned:
        return Returned(matmul(x.a, x.b_preshuffled, x.b_scales_shuffled, plan=plan))

    return Kernel("mxassay.optimized:matmul", "mxfp4-gemm", request.dialect, call, plan_for)


@contextmanager
def _gpumode(request: Request) -> Iterator[list[Kernel]]:
    assert request.spec is not None
    told = declared(request.spec)
    if ROW_MAJOR in (told.weights, told.scales):
        raise ContractError(
            f"{request.spec} must declare no {ROW_MAJOR} layout, not one for ABI gpumode; it hands over both orders"
        )
    words = f"{shlex.quote(request.spec)} --abi gpumode"
    words += f" --aiter {shlex.quote(request.aiter)}" if request.aiter else ""
    if request.device != "emulated":
        from mxassay.hosting.task_module import install_task

        install_task()
        function = attribute(request.spec, "custom_kernel")

        def call_here(x: GemmArguments, _plan: object) -> Returned:
            return Returned(function(_contest_tuple(x)))

        yield [Kernel(request.spec, "gpumode", request.dialect, call_here, words=words)]
        return
    from mxassay.hosting.submission import Limits, Submission

    limits = Limits(request.seconds, int(request.memory_gib * (1 << 30)))
    path, _, name = request.spec.partition(":")
    with Submission(path, request.aiter, limits, name or "custom_kernel") as submission:
        for note in submission.load():
            print(f"mxassay: {note}", file=sys.stderr)

        def call(x: GemmArguments, _plan: object) -> Returned:
            outcome = submission.call(_contest_tuple(x))
            if outcome.faults:
                raise MxassayError(f"the kernel must run without a fault, not {'; '.join(outcome.faults)}")
            if outcome.unsupported:
                raise UnsupportedError("; ".join(outcome.unsupported))
            return Returned(outcome.out, outcome.compile_seconds)

        yield [Kernel(request.spec, "gpumode", request.dialect, call, words=words)]


def _contest_tuple(x: GemmArguments) -> "tuple[torch.Tensor, ...]":
    """The contest's five tensors in the contest's types."""
    import torch

    codes, scales = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
    return x.a, x.b, x.b_packed.view(codes), x.b_preshuffled.view(codes), x.b_scales_shuffled.view(scales)


@contextmanager
def _aiter_a4w4(request: Request) -> Iterator[list[Kernel]]:
    if request.device != "emulated":
        raise UnsupportedError(f"device must be emulated for ABI aiter-a4w4, not {request.device}")
    if request.spec is None and request.aiter is None:
        raise ContractError(
            "a code object or --aiter PATH must be given for ABI aiter-a4w4, not neither; --aiter runs them all"
        )
    from mxassay.hosting.prebuilt import tile_of

    paths = [Path(request.spec)] if request.spec else _code_objects(Path(str(request.aiter)))
    if request.tile is not None and len(paths) > 1:
        raise ContractError("--tile must go with one code object, not with a whole checkout")
    yield [_prebuilt(path, request, request.tile or tile_of(path)) for path in paths]


def _code_objects(checkout: Path) -> list[Path]:
    folder = checkout / "hsa" / "gfx950" / "f4gemm"
    found = sorted(folder.glob("*.co"))
    if not found:
        raise UnsupportedError(f"an aiter checkout must hold {folder.relative_to(checkout)}/*.co, not none: {checkout}")
    return found


def _prebuilt(path: Path, request: Request, tile: tuple[int, int]) -> Kernel:
    from mxassay.hosting.prebuilt import run_a4w4, takes_preshuffled_weights
    from mxassay.layouts import SCALE_SHUFFLE
    from mxassay.reference import DIALECTS, quantize

    if not path.is_file():
        raise UnsupportedError(f"kernel must be an existing file, not {path}; check the path")

    def call(x: GemmArguments, _plan: object) -> Returned:
        a = quantize(x.a, DIALECTS[request.dialect])
        weights = x.b_preshuffled if takes_preshuffled_weights(path) else x.b_packed
        return Returned(
            run_a4w4(path, a.packed, SCALE_SHUFFLE.apply(a.scales), weights, x.b_scales_shuffled, tile=tile)
        )

    tile_m, tile_n = tile
    # One shape of whole tiles, one with a single row in the last tile.
    shapes = ((tile_m, 2 * tile_n, 1024), (tile_m + 1, tile_n, 512))
    words = f"{shlex.quote(str(path))} --abi aiter-a4w4" + (f" --tile {tile_m}x{tile_n}" if request.tile else "")
    return Kernel(path.name, "aiter-a4w4", request.dialect, call, shapes=shapes, words=words)


_OPENERS: dict[str, Callable[[Request], AbstractContextManager[list[Kernel]]]] = {
    "mxfp4-gemm": _mxfp4_gemm,
    "gpumode": _gpumode,
    "aiter-a4w4": _aiter_a4w4,
}


def attribute(spec: str, default: str) -> Callable[..., Any]:
    """The callable that `module:attr` or `path.py:attr` names; `default` is its name where none is given."""
    where, _, name = spec.partition(":")
    module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    found = getattr(module, name or default, None)
    if found is None:
        known = [word for word, value in vars(module).items() if _defined_in(module, value)]
        has = f"; it has {', '.join(known)}" if known else ""
        raise UnsupportedError(f"{where} must define a callable {name or default}, not leave it out{has}")
    if not callable(found):
        raise UnsupportedError(
            f"{where} must define a callable {name or default}, not {type(found).__name__}; "
            "name another one as path.py:attr"
        )
    return cast(Callable[..., Any], found)


def _defined_in(module: types.ModuleType, value: object) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _load_module(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"kernel must be an importable module:attr or a path.py, not {name}: {error}") from error


def _load_file(path: Path) -> types.ModuleType:
    if not path.is_file():
        raise UnsupportedError(f"kernel must be an existing file, not {path}; check the path")
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
    except MxassayError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a file that exits has not loaded
        raise UnsupportedError(f"{path} must import without an error, not {type(error).__name__}: {error}") from error
    return module
