"""Contracts: one thing made illegal in an otherwise legal call, refused by the name of what is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.properties.checks import assert_refused
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest

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


@claim("illegal-plans", examples=4)
@given(field=st.sampled_from(WRONG_FIELDS), tile_m=st.sampled_from((1, 16, 64)))
def test_illegal_plans_are_refused(mx_kernel: KernelUnderTest, field: tuple[str, Any], tile_m: int) -> None:
    from mxassay.optimized import Plan

    name, value = field
    fields = {"tile_m": tile_m, "tile_n": 64, "tile_k": 256, name: value}
    assert_refused(lambda: Plan(**fields), ContractError, f"Plan.{name}", case=f"{name}={value!r}")
