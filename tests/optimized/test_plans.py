"""What a plan refuses, and that the planner always answers with a plan that fits."""

import dataclasses
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError
from mxassay.optimized import LEADERBOARD, TEST_SHAPES, Plan, plan_for, reconcile

GOOD = Plan(tile_m=16, tile_n=128, tile_k=256)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tile_m", 0, "Plan.tile_m must be a power of two in 1..256, not 0"),
        ("tile_m", 12, "Plan.tile_m must be a power of two in 1..256, not 12"),
        ("tile_m", 512, "Plan.tile_m must be a power of two in 1..256, not 512"),
        ("tile_n", 8, "Plan.tile_n must be a power of two in 16..256, not 8"),
        ("tile_n", 96, "Plan.tile_n must be a power of two in 16..256, not 96"),
        ("tile_k", 32, "Plan.tile_k must be a power of two in 64..1024, not 32"),
        ("tile_k", 64, "Plan.tile_k must be at least 128, not 64, unless matrix_instr_nonkdim is 32"),
        ("num_warps", 1, "Plan.num_warps must be a power of two in 2..16, not 1"),
        ("num_stages", 0, "Plan.num_stages must be in 1..4, not 0"),
        ("splits", 0, "Plan.splits must be in 1..65536, not 0"),
        ("splits", -1, "Plan.splits must be in 1..65536, not -1"),
        ("group_m", 0, "Plan.group_m must be in 1..65536, not 0"),
        ("waves_per_eu", -1, "Plan.waves_per_eu must be in 0..8, not -1"),
        ("matrix_instr_nonkdim", 0, "Plan.matrix_instr_nonkdim must be 16 or 32, not 0"),
        ("tile_m", 16.0, "Plan.tile_m must be of type int, not float"),
        ("splits", True, "Plan.splits must be of type int, not bool"),
        ("linear", 1, "Plan.linear must be of type bool, not int"),
    ],
)
def test_each_field_is_checked_by_name(field, value, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(GOOD, **{field: value})


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        ((256, 256, 128), "Plan.tile_m * Plan.tile_n must be at most 32768, not 65536; take a smaller tile"),
        ((256, 16, 256), "Plan.tile_m * Plan.tile_k must be at most 32768, not 65536; take a smaller tile"),
        ((16, 256, 1024), "Plan.tile_n * Plan.tile_k must be at most 131072, not 262144; take a smaller tile"),
    ],
)
def test_tiles_too_large_for_the_register_file_are_refused(tile, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        Plan(tile_m=tile[0], tile_n=tile[1], tile_k=tile[2])


def test_a_plan_is_frozen_data():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GOOD.tile_m = 32
    assert hash(GOOD) == hash(dataclasses.replace(GOOD))


def test_the_table_has_the_contest_shapes():
    assert len(set(LEADERBOARD)) == 6
    assert len(set(TEST_SHAPES)) == 4
    assert not set(LEADERBOARD) & set(TEST_SHAPES)
    plans = {shape: plan_for(*shape).words for shape in LEADERBOARD}
    assert plans == {
        (4, 2880, 512): "16x128x512 direct=True",
        (16, 2112, 7168): "16x256x512 splits=7 num_warps=8 direct=True joined=True",
        (32, 4096, 512): "16x128x512 direct=True",
        (32, 2880, 512): "16x128x512 direct=True",
        (64, 7168, 2048): "16x128x512 waves_per_eu=1 direct=True",
        (256, 3072, 1536): "16x256x512 group_m=8 num_warps=8 direct=True",
    }


@given(
    m=st.integers(0, 1 << 20),
    n=st.integers(1, 1 << 16).map(lambda stripes: 16 * stripes),
    k=st.integers(1, 1 << 14).map(lambda tiles: 64 * tiles),
)
@example(m=0, n=16, k=64)
@example(m=1, n=16, k=64)
@example(m=1 << 20, n=1 << 20, k=1 << 20)
def test_every_legal_shape_has_a_plan(m, n, k):
    plan = plan_for(m, n, k)
    split = reconcile(k, plan.tile_k, plan.splits)
    assert split.count >= 1
    # Splitting must never multiply the work of a grid that fills the device already.
    tiles = -(-m // plan.tile_m) * -(-n // plan.tile_n)
    assert split.count == 1 or tiles * split.count <= 256


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((-1, 16, 64), "m must be at least 0, not -1"),
        ((1, 0, 64), "n must be at least 1, not 0"),
        ((1, 16, 0), "k must be at least 1, not 0"),
    ],
)
def test_impossible_sizes_are_refused(shape, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        plan_for(*shape)
