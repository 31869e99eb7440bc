"""The judge itself: an emulator with a planted fault must be found guilty."""

import dataclasses

import numpy as np
import pytest
from forms import gfx950_forms
from judge import judge, judge_scalar
from variants import Variant

from mxassay.gfx950 import registry

# An operation given another's meaning: what is left to see is often one edge operand.
SWAPPED = [
    ("v_min_i32", "v_min_u32", "VOP2"),
    ("v_lshrrev_b32", "v_ashrrev_i32", "VOP2"),
    ("v_mul_hi_u32", "v_mul_hi_i32", "VOP3"),
    ("v_add_co_u32", "v_sub_co_u32", "VOP3SD"),
    ("v_bfe_u32", "v_bfe_i32", "VOP3"),
    ("v_max_f32", "v_min_f32", "VOP2"),
    ("v_cmp_lt_f32", "v_cmp_le_f32", "VOPC"),
    ("v_cmp_lg_f32", "v_cmp_neq_f32", "VOPC"),
    ("v_rndne_f32", "v_trunc_f32", "VOP1"),
    ("v_alignbit_b32", "v_alignbyte_b32", "VOP3"),
    ("v_fma_f32", "v_max3_f32", "VOP3"),
    ("v_cvt_f32_u32", "v_cvt_f32_i32", "VOP1"),
    ("s_add_u32", "s_add_i32", "SOP2"),
    ("s_bfe_u32", "s_bfe_i32", "SOP2"),
    ("s_ashr_i32", "s_lshr_b32", "SOP2"),
    ("s_cmp_ge_i32", "s_cmp_ge_u32", "SOPC"),
]


def form_of(op: str, encoding: str):
    return next(f for f in gfx950_forms() if (f.name, f.encoding) == (op.upper(), encoding))


def verdict_of(op: str, encoding: str, variant: Variant):
    form = form_of(op, encoding)
    return judge_scalar(form) if form.scalar else judge(form, variant)


@pytest.mark.parametrize(("op", "other", "encoding"), SWAPPED, ids=[f"{a} as {b}" for a, b, _ in SWAPPED])
def test_another_operations_meaning_is_noticed(op, other, encoding, monkeypatch):
    assert registry.lookup(op) and registry.lookup(other)  # noqa: PT018
    monkeypatch.setitem(registry._TABLE, op, dataclasses.replace(registry._TABLE[other], op=op))
    assert verdict_of(op, encoding, Variant(waves=2)).differences


def faulty(op: str, after):
    """The operation with `after(cohort, before)` run behind it."""
    right = registry.lookup(op)

    def build(inst, context):
        step = right.build(inst, context)

        def wrong(cohort):
            before = cohort.v.copy(), cohort.s.copy()
            step(cohort)
            after(cohort, *before)

        return wrong

    return dataclasses.replace(right, build=build)


def write_all_lanes(cohort, v, s):
    cohort.v[96][~cohort.mask] = 7


def flip_a_bit_of_lane_63(cohort, v, s):
    cohort.v[96][:, 63] ^= np.uint32(1)


def forget_the_carry(cohort, v, s):
    cohort.s[38], cohort.s[39] = s[38], s[39]


@pytest.mark.parametrize("fault", [write_all_lanes, flip_a_bit_of_lane_63, forget_the_carry], ids=lambda f: f.__name__)
def test_a_wrong_lane_mask_bit_or_carry_is_noticed(fault, monkeypatch):
    registry.lookup("v_add_co_u32")
    monkeypatch.setitem(registry._TABLE, "v_add_co_u32", faulty("v_add_co_u32", fault))
    assert verdict_of("v_add_co_u32", "VOP3SD", Variant("partial EXEC", partial=True)).differences


def test_an_honest_emulator_is_acquitted():
    assert not verdict_of("v_add_co_u32", "VOP3SD", Variant("partial EXEC", partial=True)).differences
