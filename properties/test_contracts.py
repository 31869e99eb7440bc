"""Contracts: one thing made illegal in an otherwise legal call, refused by the name of what is wrong."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.properties.checks import assert_refused, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest
from mxassay.properties.strategies.shapes import COLUMNS, DEPTHS, ROWS

Arguments = dict[str, Any]


def legal(device: str, m: int = 3, n: int = 48, k: int = 320) -> Arguments:
    """Arguments of a call that is not refused."""
    groups = -(-(k // 32) // 8) * 8
    return {
        "a": torch.zeros(m, k, dtype=torch.bfloat16, device=device),
        "b_preshuffled": torch.zeros(n, k // 2, dtype=torch.uint8, device=device),
        "b_scales_shuffled": torch.zeros(-(-n // 256) * 256, groups, dtype=torch.uint8, device=device),
        "out": torch.zeros(m, n, dtype=torch.bfloat16, device=device),
    }


# What is done to one argument; the refusal must name the argument (or what the tuple's second part says).
ILLEGAL: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a float32": ("a.dtype", lambda x: {**x, "a": x["a"].float()}),
    "a float16": ("a.dtype", lambda x: {**x, "a": x["a"].half()}),
    "a of one dimension": ("a must have 2 dimensions", lambda x: {**x, "a": x["a"][0]}),
    "a without depth": ("a.shape[1] (K)", lambda x: {**x, "a": x["a"][:, :0]}),
    "a of 288 columns": ("a.shape[1] (K)", lambda x: {**x, "a": x["a"][:, :288]}),
    "a of another depth": ("b_preshuffled.shape[1]", lambda x: {**x, "a": x["a"][:, :256]}),
    "a no tensor": ("a must be a torch.Tensor", lambda x: {**x, "a": x["a"].tolist()}),
    "a wants a gradient": ("a must not require a gradient", lambda x: {**x, "a": x["a"].clone().requires_grad_()}),
    "weights int8": ("b_preshuffled.dtype", lambda x: {**x, "b_preshuffled": x["b_preshuffled"].view(torch.int8)}),
    "weights of 40 rows": ("b_preshuffled.shape[0] (N)", lambda x: {**x, "b_preshuffled": x["b_preshuffled"][:40]}),
    "weights without rows": ("b_preshuffled.shape[0] (N)", lambda x: {**x, "b_preshuffled": x["b_preshuffled"][:0]}),
    "weights unpacked": (
        "b_scales_shuffled.shape",
        lambda x: {**x, "b_preshuffled": torch.cat([x["b_preshuffled"]] * 2, dim=1)},
    ),
    "weights transposed in memory": (
        "b_preshuffled must be contiguous",
        lambda x: {**x, "b_preshuffled": x["b_preshuffled"].t().contiguous().t()},
    ),
    "weights a view of wider ones": (
        "b_preshuffled must be contiguous",
        lambda x: {**x, "b_preshuffled": torch.cat([x["b_preshuffled"]] * 2, dim=1)[:, :160]},
    ),
    "weights e4m3": (
        "b_preshuffled.dtype",
        lambda x: {**x, "b_preshuffled": x["b_preshuffled"].view(torch.float8_e4m3fn)},
    ),
    "scales e4m3": (
        "b_scales_shuffled.dtype",
        lambda x: {**x, "b_scales_shuffled": x["b_scales_shuffled"].view(torch.float8_e4m3fn)},
    ),
    "scales float32": ("b_scales_shuffled.dtype", lambda x: {**x, "b_scales_shuffled": x["b_scales_shuffled"].float()}),
    "scales not padded along N": (
        "b_scales_shuffled.shape",
        lambda x: {**x, "b_scales_shuffled": x["b_scales_shuffled"][:48]},
    ),
    "scales not padded along K": (
        "b_scales_shuffled.shape",
        lambda x: {**x, "b_scales_shuffled": x["b_scales_shuffled"][:, :10].contiguous()},
    ),
    "scales every other column": (
        "b_scales_shuffled must be contiguous",
        lambda x: {**x, "b_scales_shuffled": torch.cat([x["b_scales_shuffled"]] * 2, dim=1)[:, ::2]},
    ),
    "scales transposed": ("b_scales_shuffled.shape", lambda x: {**x, "b_scales_shuffled": x["b_scales_shuffled"].t()}),
    "out float32": ("out.dtype", lambda x: {**x, "out": x["out"].float()}),
    "out of another shape": ("out.shape", lambda x: {**x, "out": x["out"][:2]}),
    "out of the transposed shape": ("out.shape", lambda x: {**x, "out": x["out"].view(48, 3)}),
    "out transposed": ("out must have unit column stride", lambda x: {**x, "out": x["out"].t().contiguous().t()}),
    "out with rows that overlap": (
        "out must have unit column stride",
        lambda x: {**x, "out": x["out"].as_strided((3, 48), (16, 1))},
    ),
    "out inside a": (
        "out must not share memory with a",
        lambda x: {**x, "out": x["a"][:, :48]},
    ),
    "out inside the weights": (
        "out must not share memory with b_preshuffled",
        lambda x: {**x, "out": x["b_preshuffled"].view(torch.bfloat16).flatten()[:144].view(3, 48)},
    ),
    "plan a number": ("plan must be a Plan", lambda x: {**x, "plan": 3}),
}


@claim("illegal-calls")
@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_calls_are_refused(mx_kernel: KernelUnderTest, name: str) -> None:
    from mxassay.optimized import matmul

    words, change = ILLEGAL[name]
    arguments = legal(mx_kernel.tensors_on)
    matmul(**arguments)
    assert_refused(lambda: matmul(**change(arguments)), ContractError, words, case=name)


def illegal_elsewhere(device: str) -> dict[str, tuple[str, Callable[[], object]]]:
    """Calls of the other entry points that must be refused: words of the refusal, and the call."""
    from mxassay.optimized import custom_kernel, matmul_prepared, prepare, quantize, reduce_partials

    x = legal(device)
    a, b, scales = x["a"], x["b_preshuffled"], x["b_scales_shuffled"]
    weights, parts = prepare(b, scales), torch.zeros(2, 3, 48, device=device)
    return {
        "matmul_prepared: a smaller K": ("a.shape[1] (K)", lambda: matmul_prepared(a[:, :256], weights)),
        "matmul_prepared: a larger K": ("a.shape[1] (K)", lambda: matmul_prepared(torch.cat((a, a), 1), weights)),
        "matmul_prepared: a float16": ("a.dtype", lambda: matmul_prepared(a.half(), weights)),
        "matmul_prepared: a of 288 columns": ("a.shape[1] (K)", lambda: matmul_prepared(a[:, :288], weights)),
        "matmul_prepared: weights a tensor": ("weights must be PreparedWeights", lambda: matmul_prepared(a, b)),
        "matmul_prepared: out inside a": ("share memory", lambda: matmul_prepared(a, weights, out=a[:, :48])),
        "prepare: scales not padded": ("b_scales_shuffled.shape", lambda: prepare(b, scales[:48])),
        "prepare: weights a view": ("must be contiguous", lambda: prepare(torch.cat((b, b), 1)[:, :160], scales)),
        "custom_kernel: four tensors": ("the five-tuple", lambda: custom_kernel((a, b, b, scales))),  # type: ignore[arg-type]
        "custom_kernel: a float16": ("a.dtype", lambda: custom_kernel((a.half(), a, b, b, scales))),
        "quantize: float16": ("x.dtype", lambda: quantize(a.half())),
        "quantize: 48 columns": ("x.shape[1] (K)", lambda: quantize(a[:, :48])),
        "quantize: a gradient": ("x must not require a gradient", lambda: quantize(a.clone().requires_grad_())),
        "reduce_partials: bfloat16": ("partials must be float32", lambda: reduce_partials(parts.bfloat16())),
        "reduce_partials: two dimensions": ("partials must be float32", lambda: reduce_partials(parts[0])),
        "reduce_partials: no split": ("a split and a column", lambda: reduce_partials(parts[:0])),
        "reduce_partials: every other column": ("unit stride", lambda: reduce_partials(parts[:, :, ::2])),
        "reduce_partials: a gradient": ("a gradient", lambda: reduce_partials(parts.clone().requires_grad_())),
        "reduce_partials: out transposed": ("out.shape", lambda: reduce_partials(parts, out=x["out"].view(48, 3))),
    }


@claim("illegal-calls")
def test_every_entry_point_refuses_what_is_illegal(mx_kernel: KernelUnderTest) -> None:
    for name, (words, call) in illegal_elsewhere(mx_kernel.tensors_on).items():
        assert_refused(call, ContractError, words, case=name)


# Out of range by one step, and values that are no power of two.
_TILES = {
    "tile_m": (0, -1, 3, 512),
    "tile_n": (0, 8, 48, 512),
    "tile_k": (0, 32, 192, 2048),
    "num_warps": (0, 1, 3, 32),
}
_COUNTS = {"group_m": (0, -1, 65537), "splits": (0, -1, 65537), "num_stages": (0, 5), "waves_per_eu": (-1, 9)}
_KINDS = {"matrix_instr_nonkdim": (0, 8, 64), "linear": (0, 1, None), "splits": (1.0, True, "2")}
WRONG_FIELDS = [
    (name, value) for table in (_TILES, _COUNTS, _KINDS) for name, values in table.items() for value in values
]


# Each field in its range, and together more than Triton compiles to a scaled MFMA, or than registers and LDS hold.
_TOGETHER: tuple[tuple[str, dict[str, int]], ...] = (
    ("tile_k", {"tile_k": 64}),
    ("tile_m", {"tile_m": 256, "tile_n": 256, "tile_k": 128}),
    ("tile_m", {"tile_m": 256, "tile_n": 16, "tile_k": 256}),
    ("tile_n", {"tile_m": 1, "tile_n": 256, "tile_k": 1024}),
)


@claim("illegal-plans")
@pytest.mark.parametrize("tile_m", [1, 16, 64])
def test_illegal_plans_are_refused(mx_kernel: KernelUnderTest, tile_m: int) -> None:
    from mxassay.optimized import Plan

    legal_fields: dict[str, Any] = {"tile_m": tile_m, "tile_n": 64, "tile_k": 256}
    Plan(**legal_fields)
    wrong: list[tuple[str, dict[str, Any]]] = [(name, {name: value}) for name, value in WRONG_FIELDS]
    for name, fields in (*wrong, *_TOGETHER):
        assert_refused(lambda: Plan(**legal_fields | fields), ContractError, f"Plan.{name}", case=f"{fields}")  # noqa: B023


@claim("plans-of-shapes")
def test_every_shape_has_its_plan(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized import Plan, plan_for, reconcile
    from mxassay.optimized.plans import _TABLE

    for m, n, k in product((0, *ROWS, 255, 256, 257, 4096, 65537), (*COLUMNS, 4096, 1 << 18), (*DEPTHS, 7168, 1 << 17)):
        found = plan_for(m, n, k)
        if not isinstance(found, Plan) or not 1 <= found.splits <= max(k // 128, 1):
            raise violation(f"the plan must be legal, with splits of a step at least, not {found}", case=f"{m},{n},{k}")
        tiles = -(-m // found.tile_m) * -(-n // found.tile_n) * reconcile(k, found.tile_k, found.splits).count
        if tiles >= 2**31:
            raise violation(f"the plan must need fewer than 2^31 workgroups, not {tiles}", case=f"{m},{n},{k}")
    for shape, kept in _TABLE.items():
        if plan_for(*shape) != kept:
            words = f"the table's plan must be {kept.words}, not {plan_for(*shape).words}"
            raise violation(words, case=f"M,N,K = {shape}")
