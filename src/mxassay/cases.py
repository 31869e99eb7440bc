"""Cases: a shape, a seed and a dialect, from which the inputs and the expected outputs follow."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mxassay.errors import ContractError
from mxassay.kernels import GemmArguments, Kernel, Shape

if TYPE_CHECKING:
    import torch

    from mxassay.arenas import Arena
    from mxassay.reference import Expectation, Quantized

# Small shapes at every edge: M of 1 and odd, N and K that are no multiple of any tile, one long K for split-K.
# Also four blocks of K in 128 columns, where scales are gathered, and many rows of tiles, with a last band of few.
EDGES: tuple[Shape, ...] = (
    (1, 16, 64),
    (1, 48, 128),
    (2, 272, 192),
    (5, 48, 320),
    (17, 80, 576),
    (33, 272, 1088),
    (3, 112, 3648),
    (600, 64, 64),
)

# Powers of two among which each block's scale is drawn, by K: the most that keeps nearly every output certified.
# Without them nine blocks in ten share one scale byte, and a fault in the scale layout hides.
_SPREAD_BITS = ((512, 6), (2048, 5), (7168, 4), (1 << 62, 3))


@dataclass(frozen=True)
class Case:
    """One replayable case. `plan` is None where the kernel plans for itself."""

    shape: Shape
    seed: int = 0
    dialect: str = "even"
    plan: Any = None
    reduced_from: Shape | None = None

    @property
    def plan_text(self) -> str:
        return self.plan.words if self.plan is not None else "own"


@dataclass(frozen=True)
class Problem:
    """The inputs of a case, each inside a larger buffer whose other bytes are 0xFF, and what must come out."""

    arguments: GemmArguments
    expectation: "Expectation"
    arenas: tuple["Arena", ...]

    def changed(self) -> list[str]:
        """Names of the inputs that are no longer what they were, or whose surroundings were written."""
        return [arena.name for arena in self.arenas if arena.changed()]


def build(case: Case, device: str) -> Problem:
    """Draw the inputs of `case` from its seed, place them on torch device `device`, and compute what must come out.

    Activations are normal, weights are normal and quantized with the same dialect; each block of 32 is scaled by its
    own power of two. Padding of the scale table is 0xFF (NaN), as are all bytes around every input.
    """
    from mxassay.arenas import Arena
    from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
    from mxassay.reference import DIALECTS, expectation, quantize

    a, b, b_quantized = drawn(case)
    a_quantized = quantize(a, DIALECTS[case.dialect])
    inputs = {
        "a": a,
        "b": b,
        "b_packed": b_quantized.packed,
        "b_preshuffled": WEIGHT_PRESHUFFLE.apply(b_quantized.packed),
        "b_scales_shuffled": SCALE_SHUFFLE.apply(b_quantized.scales, fill=0xFF),
    }
    arenas = {name: Arena(name, tensor, device, fill=True) for name, tensor in inputs.items()}
    return Problem(
        arguments=GemmArguments(**{name: arena.tensor for name, arena in arenas.items()}),
        expectation=expectation(*a_quantized, *b_quantized),
        arenas=tuple(arenas.values()),
    )


def drawn(case: Case) -> "tuple[torch.Tensor, torch.Tensor, Quantized]":
    """bfloat16 (M, K) activations and (N, K) weights of `case`, and the weights quantized.

    Raises ContractError where K is no multiple of 32.
    """
    import torch

    from mxassay.reference import DIALECTS, quantize

    m, n, k = case.shape
    if k % 32:
        raise ContractError(f"K must be a multiple of 32, not {k}; a block has 32 elements along K")
    generator = torch.Generator().manual_seed(case.seed)
    a = _blockwise_scaled_normal(m, k, generator)
    b = _blockwise_scaled_normal(n, k, generator)
    return a, b, quantize(b, DIALECTS[case.dialect])


def _blockwise_scaled_normal(rows: int, k: int, generator: "torch.Generator") -> "torch.Tensor":
    import torch

    bits = next(bits for limit, bits in _SPREAD_BITS if k <= limit)
    values = torch.randn(rows, k // 32, 32, generator=generator)
    levels = torch.randint(0, bits + 1, (rows, k // 32, 1), generator=generator)
    return torch.ldexp(values, levels).reshape(rows, k).to(torch.bfloat16)


def cases(kernel: Kernel, shapes: list[Shape], *, full_size: bool, seed: int) -> list[Case]:
    """The cases of `shapes` for `kernel`; on a slow device M and N are cut to two tiles and a part of a third."""
    found = []
    for shape in shapes:
        plan = kernel.plan_for(*shape) if kernel.plan_for else None
        case = Case(shape, seed, kernel.dialect, plan)
        found.append(case if full_size else _reduced(case))
    return found


def _reduced(case: Case) -> Case:
    m, n, k = case.shape
    tile_m, tile_n = (case.plan.tile_m, case.plan.tile_n) if case.plan is not None else (16, 256)
    shape = (min(m, 2 * tile_m + 1), min(n, 2 * tile_n + 16), k)
    return case if shape == case.shape else replace(case, shape=shape, reduced_from=case.shape)
