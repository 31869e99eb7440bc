"""Exams of contracts: calls that must be refused, each with the class of the fault that lets it pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from mxassay.errors import MxassayError
from mxassay.triage.exams.exam import Exam, Seen

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

Arguments = dict[str, Any]


def legal(device: str, m: int = 3, n: int = 48, k: int = 320) -> Arguments:
    """Arguments of a call of `matmul` that is not refused."""
    groups = -(-(k // 32) // 8) * 8
    return {
        "a": torch.zeros(m, k, dtype=torch.bfloat16, device=device),
        "b_preshuffled": torch.zeros(n, k // 2, dtype=torch.uint8, device=device),
        "b_scales_shuffled": torch.zeros(-(-n // 256) * 256, groups, dtype=torch.uint8, device=device),
        "out": torch.zeros(m, n, dtype=torch.bfloat16, device=device),
    }


def _changed(name: str, change: Callable[[torch.Tensor], Any]) -> Callable[[Arguments], Arguments]:
    return lambda x: {**x, name: change(x[name])}


_A, _W, _S, _OUT = "a", "b_preshuffled", "b_scales_shuffled", "out"
# What is done to a legal call, and the class of a fault that lets it pass.
ILLEGAL: tuple[tuple[str, str, Callable[[Arguments], Arguments]], ...] = (
    ("activations in float16", "dtype-contract", _changed(_A, lambda t: t.half())),
    ("activations in float32", "dtype-contract", _changed(_A, lambda t: t.float())),
    ("activations that want a gradient", "dtype-contract", _changed(_A, lambda t: t.clone().requires_grad_())),
    ("weights in int8", "dtype-contract", _changed(_W, lambda t: t.view(torch.int8))),
    ("weights in float8", "dtype-contract", _changed(_W, lambda t: t.view(torch.float8_e4m3fn))),
    ("scales in float8_e4m3fn", "dtype-contract", _changed(_S, lambda t: t.view(torch.float8_e4m3fn))),
    ("scales without padding along N", "padding", _changed(_S, lambda t: t[:48])),
    ("scales without padding along K", "padding", _changed(_S, lambda t: t[:, :10].contiguous())),
    ("scales of the other orientation", "padding", _changed(_S, lambda t: t.t().contiguous())),
    ("weights as columns of wider ones", "strides", _changed(_W, lambda t: torch.cat([t] * 2, dim=1)[:, :160])),
    ("scales as columns of wider ones", "strides", _changed(_S, lambda t: torch.cat([t] * 2, dim=1)[:, :16])),
    ("an output whose rows overlap", "strides", _changed(_OUT, lambda t: t.as_strided((3, 48), (16, 1)))),
    ("an output whose rows are one", "strides", _changed(_OUT, lambda t: t[:1].expand(3, 48))),
    ("an output of the transposed shape", "strides", _changed(_OUT, lambda t: t.view(48, 3))),
    ("an output of 6 rows and 24 columns", "strides", _changed(_OUT, lambda t: t.new_zeros(6, 48)[:, :24])),
    ("an output transposed in memory", "strides", _changed(_OUT, lambda t: t.t().contiguous().t())),
    ("weights of 40 rows", "n-tail", _changed(_W, lambda t: t[:40])),
    ("an output inside the activations", "stale-buffers", lambda x: {**x, _OUT: x[_A][:, :48]}),
    ("an output between the activations' last columns", "stale-buffers",
     lambda x: {**x, _A: (whole := torch.zeros(3, 340, dtype=torch.bfloat16))[:, :320], _OUT: whole[:, 292:340]}),
    ("an output inside the weights", "stale-buffers",
     lambda x: {**x, _OUT: x[_W].view(torch.bfloat16).flatten()[:144].view(3, 48)}),
)  # fmt: skip

# Plans that must be refused, and the class of a fault that lets them pass.
PLANS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("a single warp", "compiler-hazard", {"num_warps": 1}),
    ("a step of 64 on the 16x16 MFMA", "compiler-hazard", {"tile_k": 64}),
    ("tiles of 256 x 256", "plan-lookup", {"tile_m": 256, "tile_n": 256, "tile_k": 64, "matrix_instr_nonkdim": 32}),
    ("tiles of 256 rows and a depth of 256", "plan-lookup", {"tile_m": 256, "tile_n": 16, "tile_k": 256}),
    ("tiles of 256 columns and a depth of 1024", "plan-lookup", {"tile_m": 1, "tile_n": 256, "tile_k": 1024}),
    ("no split", "plan-lookup", {"splits": 0}),
    ("tiles of 3 rows", "plan-lookup", {"tile_m": 3}),
    ("tiles of 8 columns", "n-tail", {"tile_n": 8}),
)


def _accepted(call: Callable[[], object]) -> bool:
    """Whether a call that must be refused by name is not."""
    try:
        call()
    except MxassayError:
        return False
    except Exception:  # it got further than the contract
        return True
    return True


def _calls(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import matmul, matmul_prepared, prepare

    x = legal(kernel.tensors_on)
    for what, class_, change in ILLEGAL:
        if _accepted(lambda: matmul(**change(x))):  # noqa: B023
            return Seen(class_, "contract", f"{what} are accepted" if what[:2] != "an" else f"{what} is accepted")
    weights = prepare(x[_W], x[_S])
    if _accepted(lambda: matmul_prepared(x[_A][:, :256], weights)):
        return Seen("dtype-contract", "contract", "prepared weights of a larger K are accepted")
    return None


def _depth(kernel: "KernelUnderTest") -> Seen | None:
    """The first thing that is wrong with K = 288 is the activations' depth; a later check says something else."""
    from mxassay.optimized import matmul

    x = legal(kernel.tensors_on)
    try:
        matmul(**{**x, _A: torch.zeros(3, 288, dtype=torch.bfloat16, device=kernel.tensors_on)})
    except MxassayError as error:
        if "multiple of 64" in str(error):
            return None
    except Exception:
        pass
    return Seen("k-tail", "contract", "a K of 288, no multiple of 64, passes the check of the activations")


def _rows_of_weights(kernel: "KernelUnderTest") -> Seen | None:
    """N = 40 is refused for what it is."""
    from mxassay.optimized import matmul

    x = legal(kernel.tensors_on)
    try:
        matmul(**{**x, _W: x[_W][:40].contiguous(), _OUT: x[_OUT][:, :40].contiguous()})
    except MxassayError as error:
        if "multiple of 16" in str(error):
            return None
    except Exception:
        pass
    return Seen("n-tail", "contract", "weights of 40 rows, no multiple of 16, pass their check")


def _plans(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Plan

    plain = {"tile_m": 16, "tile_n": 64, "tile_k": 256}
    for what, class_, change in PLANS:
        if _accepted(lambda: Plan(**plain | change)):  # type: ignore[arg-type]  # noqa: B023
            return Seen(class_, "contract", f"a plan with {what} is accepted")
    return None


def _negated(kernel: "KernelUnderTest") -> Seen | None:
    """A lazy negation is read with its sign."""
    from mxassay.optimized import Plan, matmul, quantize

    device = kernel.tensors_on
    a = torch._neg_view(torch.ones(3, 320, dtype=torch.bfloat16, device=device))
    weights = torch.full((16, 160), 0x22, dtype=torch.uint8, device=device)
    scales = torch.full((256, 16), 127, dtype=torch.uint8, device=device)
    plan, plain = Plan(tile_m=16, tile_n=32, tile_k=256), a.resolve_neg().clone()
    same = torch.equal(matmul(a, weights, scales, plan=plan), matmul(plain, weights, scales, plan=plan))
    if not same or not torch.equal(quantize(a).packed, quantize(plain).packed):
        return Seen("strides", "contract", "activations that torch negates lazily are read without their sign")
    return None


CONTRACTS: tuple[Exam, ...] = (
    Exam("illegal-plans", "a plan outside the declared ranges is refused", _plans, ("illegal-plans",), launches=False),
    Exam("depth-refused", "K must be a multiple of 64", _depth, ("illegal-calls",), launches=False),
    Exam("rows-refused", "N must be a multiple of 16", _rows_of_weights, ("illegal-calls",), launches=False),
    Exam(
        "illegal-calls", "what is outside the contract is refused by name", _calls, ("illegal-calls",), launches=False
    ),
    Exam("lazy-negation", "a lazy negation is part of the values", _negated, ("views",)),
)
"""In the order in which they are worth the time."""
