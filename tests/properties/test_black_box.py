"""Properties that see a kernel from outside: a right one passes them all, and each sees a kernel wrong in one way.

The kernels are plain torch, so no device is needed; those that only an emulated card can see have tests elsewhere.
"""

import pytest
import torch
from hypothesis.errors import Flaky

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties import (
    test_determinism as determinism,
)
from mxassay.properties import (
    test_fused_quantizer as fused,
)
from mxassay.properties import (
    test_gemm as gemm,
)
from mxassay.properties import (
    test_invariance as invariance,
)
from mxassay.properties import (
    test_layouts as layouts,
)
from mxassay.properties import (
    test_padding as padding,
)
from mxassay.properties import (
    test_special_values as special,
)
from mxassay.properties import (
    test_split_k as split_k,
)
from mxassay.properties import (
    test_state as state,
)
from mxassay.properties.checks import PropertyError, unrepeatable
from mxassay.properties.claims import running
from mxassay.reference import FLOOR, dequantize, matmul, partials, quantize


def linear(x):
    n, k = x.b_preshuffled.shape[0], 2 * x.b_preshuffled.shape[1]
    return WEIGHT_PRESHUFFLE.invert(x.b_preshuffled), SCALE_SHUFFLE.invert(x.b_scales_shuffled, (n, k // 32))


def right(x):
    return matmul(*quantize(x.a), *linear(x))


def one_unit_off(x):
    out = right(x)
    out.view(torch.int16)[-1, -1] += 1
    return out


def twice_the_bound_off(x):
    out = right(x)
    return torch.where(out.isfinite(), (out.double() * 1.02).to(torch.bfloat16), out)


def truncated(x):
    exact = dequantize(*quantize(x.a), torch.float64) @ dequantize(*linear(x), torch.float64).T
    return (exact.float().view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)


def another_scale_rule(x):
    return matmul(*quantize(x.a, FLOOR), *linear(x))


def ties_away(x):
    from dataclasses import replace

    from mxassay.reference import EVEN

    return matmul(*quantize(x.a, replace(EVEN, ties="away")), *linear(x))


def scales_of_the_neighbouring_stripe(x):
    weights, scales = linear(x)
    return matmul(*quantize(x.a), weights, scales.roll(16, 0))


def scale_halves_exchanged(x):
    weights, scales = linear(x)
    if scales.shape[1] < 8:
        return matmul(*quantize(x.a), weights, scales)
    scales = scales.clone()
    scales[:, :8] = scales[:, :8].roll(4, 1)
    return matmul(*quantize(x.a), weights, scales)


def nibbles_of_weights_exchanged(x):
    weights, scales = linear(x)
    return matmul(*quantize(x.a), weights >> 4 | weights << 4, scales)


def weight_tiles_exchanged(x):
    weights, scales = linear(x)
    shape = weights.shape
    weights = weights.reshape(shape[0], -1, 2, 16).flip(2).reshape(shape)
    return matmul(*quantize(x.a), weights, scales)


def last_block_forgotten(x):
    a = x.a.clone()
    a[:, -32:] = 0
    return matmul(*quantize(a), *linear(x))


def a_block_counted_twice(x):
    packed, scales = quantize(x.a)
    weights, weight_scales = linear(x)
    again = torch.cat((packed, packed[:, :16]), 1), torch.cat((scales, scales[:, :1]), 1)
    return matmul(*again, torch.cat((weights, weights[:, :16]), 1), torch.cat((weight_scales, weight_scales[:, :1]), 1))


def bfloat16_partials(x):
    parts = partials(*quantize(x.a), *linear(x), splits=2)
    return parts.to(torch.bfloat16).sum(0)


def depends_on_the_row(x):
    out = right(x)
    out[1:] = torch.nextafter(out[1:], torch.full_like(out[1:], float("inf")))
    return out


def depends_on_the_column(x):
    out = right(x)
    return torch.where(torch.arange(out.shape[1]) % 3 == 1, torch.nextafter(out, out * 2), out)


def depends_on_the_place_in_k(x):
    weights, scales = linear(x)
    a = x.a.clone()
    a[:, ::64] = a[:, ::64].abs()
    return matmul(*quantize(a), weights, scales)


def subnormals_flushed(x):
    a = torch.where(x.a.abs() < 2.0**-126, torch.zeros_like(x.a), x.a)
    return matmul(*quantize(a), *linear(x))


def small_scales_flushed(x):
    weights, scales = linear(x)
    return matmul(*quantize(x.a), weights, torch.where(scales < 113, 0, scales))


def amax_of_positive_elements(x):
    return matmul(*quantize(x.a, scales=quantize(x.a.clamp(min=0)).scales), *linear(x))


def wrong_sign_rule(x):
    out = right(x)
    return torch.where(out < 0, torch.nextafter(out, torch.zeros_like(out)), out)


def padding_scales_used(x):
    scales = linear(x)[1]
    last = x.b_scales_shuffled.flatten()[-1]
    return right(x) * (1.0 if int(last) != 0 or len(scales) % 256 == 0 else 0.5)


def nan_scale_is_a_large_number(x):
    weights, scales = linear(x)
    return matmul(*quantize(x.a), weights, scales.clamp(max=254))


def nan_spoils_the_batch(x):
    out = right(x)
    return torch.full_like(out, float("nan")) if x.a.isnan().any() else out


def scales_below_125_taken_for_it(x):
    weights, scales = linear(x)
    return matmul(*quantize(x.a), weights, scales.clamp(min=125))


def empty_rows_unwritten(x):
    out = right(x)
    out[(x.a == 0).all(1)] = float("nan")
    return out


def zero_columns_unwritten(x):
    out = right(x)
    out[:, ((linear(x)[0] & 0x77) == 0).all(1)] = float("nan")
    return out


def zero_blocks_get_the_scale(x):
    """A block of zero codes adds its scale."""
    weights, scales = linear(x)
    empty = ((weights & 0x77).reshape(*scales.shape, 16) == 0).all(2).any(1)
    out = right(x)
    out[:, empty] = torch.nextafter(out[:, empty], torch.full_like(out[:, empty], float("inf")))
    return out


def writes_beside_its_input(x):
    x.a.as_strided((x.a.numel() + 1,), (1,))[-1] = 0
    return right(x)


def random_bits(x):
    out = right(x)
    out.view(torch.int16)[0, 0] += int(torch.randint(0, 2, ()))
    return out


class Stale:
    """Remembers the first weights it saw at an address and of a shape."""

    def __init__(self):
        self.known = {}

    def __call__(self, x):
        key = x.b_preshuffled.data_ptr(), x.b_preshuffled.shape
        weights = self.known.setdefault(key, tuple(part.clone() for part in linear(x)))
        return matmul(*quantize(x.a), *weights)


class Aliased:
    """Returns the same buffer each time."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, x):
        out = right(x)
        kept = self.buffers.setdefault(out.shape, out.clone())
        return kept.copy_(out)


PROPERTIES = {
    "certified": gemm.test_certified_outputs_are_exact,
    "bounded": gemm.test_other_outputs_stay_within_the_bound,
    "ramp": gemm.test_every_scale_byte,
    "sharp": gemm.test_sharp_blocks,
    "rows": invariance.test_rows_of_a_in_another_order,
    "columns": invariance.test_rows_of_w_in_another_order,
    "blocks": invariance.test_blocks_along_k_in_another_order,
    "powers": invariance.test_powers_of_two,
    "signs": invariance.test_signs,
    "zero blocks": invariance.test_blocks_of_zeros,
    "slices": invariance.test_rows_alone,
    "weight map": layouts.test_the_weights_that_the_kernel_reads,
    "scale map": layouts.test_the_scales_that_the_kernel_reads,
    "padding": padding.test_padding_bytes_change_no_bit,
    "surroundings": padding.test_nothing_beside_the_buffers_is_read_or_written,
    "special block": special.test_a_special_block_stays_in_its_row,
    "special rows": special.test_rows_of_special_blocks,
    "scale 255": special.test_scale_255_makes_a_column_nan,
    "scale ends": special.test_the_ends_of_the_scale_table,
    "zeros": special.test_zeros_give_zeros,
    "each k": split_k.test_each_k_is_counted_once,
    "quantizer": fused.test_activations_come_back_quantized,
    "amax sweep": fused.test_every_largest_magnitude_inside_the_kernel,
    "repeats": determinism.test_repeats_are_equal,
    "state": state.test_calls_in_sequence,
}
WRONG = [
    ("certified", one_unit_off),
    ("certified", truncated),
    ("certified", bfloat16_partials),
    ("bounded", twice_the_bound_off),
    ("ramp", small_scales_flushed),
    ("ramp", scale_halves_exchanged),
    ("sharp", ties_away),
    ("rows", depends_on_the_row),
    ("columns", depends_on_the_column),
    ("blocks", depends_on_the_place_in_k),
    ("powers", scales_below_125_taken_for_it),
    ("signs", wrong_sign_rule),
    ("zero blocks", zero_blocks_get_the_scale),
    ("slices", depends_on_the_row),
    ("weight map", nibbles_of_weights_exchanged),
    ("weight map", weight_tiles_exchanged),
    ("scale map", scales_of_the_neighbouring_stripe),
    ("scale map", scale_halves_exchanged),
    ("padding", padding_scales_used),
    ("surroundings", writes_beside_its_input),
    ("special block", nan_spoils_the_batch),
    ("special rows", subnormals_flushed),
    ("scale 255", nan_scale_is_a_large_number),
    ("scale ends", small_scales_flushed),
    ("zeros", empty_rows_unwritten),
    ("zeros", zero_columns_unwritten),
    ("each k", last_block_forgotten),
    ("each k", a_block_counted_twice),
    ("quantizer", another_scale_rule),
    ("quantizer", amax_of_positive_elements),
    ("amax sweep", another_scale_rule),
    ("repeats", random_bits),
    ("state", Stale),
    ("state", Aliased),
]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_right_kernel_passes(name, kernel_of, run_property):
    run_property(PROPERTIES[name], kernel_of(right))


@pytest.mark.parametrize(("name", "wrong"), WRONG, ids=lambda value: getattr(value, "__name__", value))
def test_a_wrong_kernel_is_seen(name, wrong, kernel_of, run_property):
    kernel = kernel_of(wrong() if isinstance(wrong, type) else wrong)
    running.violation = None
    # A kernel with a memory of its own fails otherwise when it is run again, which Hypothesis says in its own words.
    with pytest.raises((PropertyError, Flaky)):
        run_property(PROPERTIES[name], kernel)
    facts = running.violation.facts
    assert "planted on emulated" in facts["kernel"]
    assert facts["wrong"]
    assert "keeps state between calls" in unrepeatable().facts["once"]


@pytest.mark.parametrize("part", range(4))
def test_the_ratio_sweep(part, kernel_of):
    fused.test_every_ratio_inside_the_kernel(kernel_of(right), part)
    with pytest.raises(PropertyError, match="k of the activation"):
        fused.test_every_ratio_inside_the_kernel(kernel_of(ties_away), part)


def test_a_kernel_that_refuses_is_outside_its_contract(kernel_of, run_property):
    from hypothesis.errors import Unsatisfiable

    from mxassay.errors import ContractError

    def refuses(_x):
        raise ContractError("K must be a multiple of 1000000, not what it is; pad it")

    with pytest.raises(Unsatisfiable):
        run_property(gemm.test_certified_outputs_are_exact, kernel_of(refuses), max_examples=2)
    assert running.refusal.startswith("K must be a multiple")


def test_a_kernel_that_raises_fails_with_its_words(kernel_of, run_property):
    def raises(_x):
        raise RuntimeError("no such tile")

    with pytest.raises(PropertyError, match="must run, not raise RuntimeError: no such tile"):
        run_property(gemm.test_certified_outputs_are_exact, kernel_of(raises))
