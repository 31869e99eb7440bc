"""Bounds from made-up work, by hand; and what the assumptions promise."""

from dataclasses import replace

import pytest

from mxassay.errors import UnsupportedError
from mxassay.gfx950.checks.counts import CLASSES, KernelCounts
from mxassay.gfx950.instruction import Instruction
from mxassay.gfx950.occupancy import Occupancy
from mxassay.gfx950.timing import CARD, NOT_MODELLED, LaunchWork, modelled
from mxassay.gfx950.timing.rates import matrix_cycles

QUIET = LaunchWork(
    kernel="k", groups=256, waves_per_group=4, counts=KernelCounts("k", 1024, dict.fromkeys(CLASSES, 0)),
    occupancy=Occupancy(2, 2, {}, "LDS"), longest=2400, longest_issue=1000, issue=0, vector=0, matrix=0, scalar=0,
    trips=2, local_trips=0, lds_cycles=0, lds_ideal=0,
    lines={"requested": 0, "busiest": 0, "loaded": 0, "stored": 0, "loaded_once": 0, "stored_once": 0},
    asked=0, needed=0, spills=0, scratch=0,
)  # fmt: skip


def test_an_idle_card_takes_its_slowest_wave_and_the_launch():
    time = modelled(QUIET)
    assert time.limit == "wave"
    assert time.seconds == pytest.approx(CARD["launch"] + 2400 / 2.4e9)


@pytest.mark.parametrize(("groups", "rounds"), [(1, 1), (256, 1), (257, 1), (512, 1), (513, 2), (1025, 3)])
def test_rounds_of_workgroups(groups, rounds):
    # Two workgroups fit on each of 256 compute units.
    time = modelled(replace(QUIET, groups=groups))
    assert time.rounds == rounds
    assert time.bounds["wave"] == pytest.approx(rounds * 2400 / 2.4e9)


def test_busy_simds():
    # 257 workgroups of 4 waves: one compute unit has two, each SIMD of it two waves of 1,028.
    work = replace(QUIET, groups=257, vector=1028 * 5000, matrix=1028 * 100, scalar=1028 * 8, issue=1028 * 6000)
    time = modelled(work)
    assert time.limit == "vector"
    assert time.bounds["vector"] == pytest.approx(2 * 5000 / 2.4e9)
    assert time.bounds["matrix"] == pytest.approx(2 * 100 / 2.4e9)
    assert time.simd_issue == 12000


def test_memory_bounds():
    lines = {
        "requested": 8_000_000, "busiest": 31_250, "loaded": 4_000_000, "stored": 0, "loaded_once": 1_000_000,
        "stored_once": 100_000,
    }  # fmt: skip
    bounds = modelled(replace(QUIET, lines=lines)).bounds
    trip = CARD["memory_latency"] / CARD["clock"]
    assert bounds["memory"] == pytest.approx(1_100_000 * 128 / CARD["memory_bytes"] + trip)
    assert bounds["fabric"] == pytest.approx(4_000_000 * 128 / CARD["fabric_bytes"] + trip)
    assert bounds["l2"] == pytest.approx(1_000_000 * 128 / 2048 / 2.4e9 + trip)
    assert bounds["l1"] == pytest.approx(31_250 * 128 / 64 / 2.4e9)


def test_the_busiest_workgroup_and_others_beside_it_share_a_compute_unit():
    lines = {**QUIET.lines, "requested": 512 * 1000, "busiest": 5000}
    one = modelled(replace(QUIET, lines={**lines, "requested": 256 * 1000})).bounds["l1"]
    two = modelled(replace(QUIET, groups=512, lines=lines)).bounds["l1"]
    assert one == pytest.approx(5000 * 128 / 64 / 2.4e9)
    assert two == pytest.approx(6000 * 128 / 64 / 2.4e9)


def test_every_assumption_says_where_it_comes_from():
    rows = CARD.rows()
    assert {row["how"] for row in rows} == {"certain", "inferred", "unknown"}
    assert all(len(row["source"]) > 20 for row in rows)
    assert len(NOT_MODELLED) >= 3
    changed = CARD.but(launch=1e-6)
    assert changed["launch"] == 1e-6
    assert changed.launch.how == "inferred"
    assert CARD["launch"] == 2.2e-6


@pytest.mark.parametrize(
    ("op", "cycles"),
    [
        ("v_mfma_f32_16x16x32_bf16", 16), ("v_mfma_f32_32x32x16_f16", 32), ("v_mfma_f32_16x16x32_fp8_fp8", 8),
        ("v_mfma_i32_16x16x64_i8", 16), ("v_mfma_f64_16x16x4_f64", 64), ("v_mfma_f32_32x32x2_f32", 64),
        ("v_mfma_f32_4x4x4_16b_f16", 2), ("v_smfmac_f32_16x16x64_bf16", 16),
    ],
)  # fmt: skip
def test_matrix_rates_follow_the_data_sheet(op, cycles):
    assert matrix_cycles(Instruction(0, 8, op, "VOP3P_MFMA", (), ()), CARD) == cycles


def test_fp8_takes_twice_as_long_as_fp4():
    op = "v_mfma_scale_f32_16x16x128_f8f6f4"
    assert matrix_cycles(Instruction(0, 16, op, "VOP3PX2", (), (), {"cbsz": 0, "blgp": 4}), CARD) == 32


def test_an_unknown_form_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"the rate of v_mfma_f32_16x16x8_xf99 must be known"):
        matrix_cycles(Instruction(0, 8, "v_mfma_f32_16x16x8_xf99", "VOP3P_MFMA", (), ()), CARD)
