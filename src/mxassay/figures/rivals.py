"""Kernels that are measured beside ours on the emulated card: a contest entry, and aiter's prebuilt ones."""

import contextlib
import importlib.util
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mxassay
from mxassay.errors import UnsupportedError
from mxassay.kernels import GemmArguments, Shape

if TYPE_CHECKING:
    import torch

__all__ = ["Rival", "contest_entry", "default_entry", "prebuilt", "published"]

Call = Callable[[GemmArguments], "torch.Tensor"]

# What a contest entry asks of aiter as it is imported. For shapes that the entry plans itself none of it runs.
_STUBS: dict[str, dict[str, object]] = {
    "aiter": {},
    "aiter.ops": {},
    "aiter.ops.triton": {},
    "aiter.ops.triton.quant": {"dynamic_mxfp4_quant": None},
    "aiter.ops.gemm_op_a4w4": {"get_GEMM_config": None},
    "aiter.utility": {},
    "aiter.utility.dtypes": {},
    "aiter.utility.fp4_utils": {"e8m0_shuffle": None},
}
_MARK = "#!POPCORN"


@dataclass(frozen=True)
class Rival:
    """A kernel by name; `fused`: it takes bfloat16 activations, as ours does, not quantized ones."""

    name: str
    call: Call
    fused: bool = True


def default_entry() -> Path | None:
    """The contest entry that our kernels replace, where it lies beside the checkout."""
    file = Path(mxassay.__file__).resolve().parents[3] / "shared/seed/submission_748756.txt"
    return file if file.is_file() else None


@contextlib.contextmanager
def contest_entry(file: Path) -> Iterator[Rival]:
    """`custom_kernel` of a contest file, loaded into this process without aiter. Loading runs code.

    Raises UnsupportedError where there is no such file, or it does not load so.
    """
    if not file.is_file():
        raise UnsupportedError(f"the contest entry must be a file, not {file}; check the path")
    text = file.read_text()
    # A saved entry may have a title above the Python file, which begins with the contest's marks.
    text = text[max(text.find(_MARK), 0) :]
    before = {name: sys.modules.get(name) for name in (*_STUBS, "task")}
    with tempfile.TemporaryDirectory(prefix="mxassay-") as folder:
        source = Path(folder, "contest_entry.py")  # Triton reads its kernels' source from the file
        source.write_text(text)
        _install_stubs()
        try:
            spec = importlib.util.spec_from_file_location("mxassay_contest_entry", source)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            function = module.custom_kernel
        except (ImportError, AttributeError, TypeError) as error:
            raise UnsupportedError(f"{file.name} must load without aiter to be measured, not need {error}") from error
        finally:
            for name, found in before.items():
                sys.modules.pop(name, None)
                if found is not None:
                    sys.modules[name] = found

        def call(x: GemmArguments) -> "torch.Tensor":
            out: torch.Tensor = function((x.a, x.b, x.b_packed, x.b_preshuffled, x.b_scales_shuffled))
            return out

        yield Rival("seed", call)


def _install_stubs() -> None:
    from mxassay.hosting.task_module import make_task_module

    for name, names in _STUBS.items():
        module = types.ModuleType(name)
        module.__dict__.update(names, __path__=[])
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    config = _Config()
    sys.modules["aiter.ops.gemm_op_a4w4"].get_GEMM_config = config  # type: ignore[attr-defined]
    sys.modules["task"] = make_task_module()


class _Config:
    """Stands for aiter's cached look-up of tuned kernels, which entries fill as they load."""

    def __init__(self) -> None:
        self.gemm_dict: dict[object, object] = {}

    def __call__(self, *_: object) -> None:
        return None

    def cache_clear(self) -> None:
        pass


def prebuilt(checkout: Path, shape: Shape) -> Rival:
    """The prebuilt kernel that aiter takes for a shape; the reference quantizes the activations for it.

    Raises UnsupportedError where the checkout has none.
    """
    from mxassay.hosting.prebuilt import run_a4w4
    from mxassay.hosting.prebuilt_choice import PrebuiltKernels
    from mxassay.layouts import SCALE_SHUFFLE
    from mxassay.reference import EVEN, quantize

    choice = PrebuiltKernels(checkout).choose(*shape)

    def call(x: GemmArguments) -> "torch.Tensor":
        a = quantize(x.a, EVEN)
        return run_a4w4(
            choice.kernel.path, a.packed, SCALE_SHUFFLE.apply(a.scales), x.b_preshuffled, x.b_scales_shuffled,
            log2_k_split=choice.log2_k_split,
        )  # fmt: skip

    return Rival(f"aiter {'x'.join(map(str, choice.kernel.tile))}", call, fused=False)


def published(checkout: Path) -> dict[Shape, float]:
    """Seconds that aiter's tuning table gives for its prebuilt kernels on an MI355X, for shapes small enough to emulate
    in a second or so. Activations come quantized, and the time is the kernel's alone."""
    from mxassay.hosting.prebuilt_choice import PrebuiltKernels

    kernels = PrebuiltKernels(checkout)
    found: dict[Shape, float] = {}
    for (_, _, m, n, k), row in kernels.tuned.items():
        if row["kernelName"] in kernels.kernels and m <= 256 and m * n * k <= _LARGEST and n * k <= 1 << 24:
            found[m, n, k] = float(row["us"]) * 1e-6
    return found


_LARGEST = 1 << 29
