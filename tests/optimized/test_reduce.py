"""The sum over splits, for every number of them."""

import re

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.optimized import reduce_partials
from mxassay.reference import round_to_bfloat16


def ascending_sum(partials):
    total = partials[0].clone()
    for partial in partials[1:]:
        total += partial
    return round_to_bfloat16(total.double())


@pytest.mark.parametrize("splits", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 100])
@pytest.mark.parametrize(("m", "n"), [(1, 16), (3, 256), (2, 272), (5, 80), (1, 1)])
def test_the_sum_is_taken_in_ascending_order(splits, m, n, device, assert_same_bits):
    generator = torch.Generator().manual_seed(splits)
    partials = torch.randn(splits, m, n, generator=generator)
    partials *= torch.exp2(torch.randint(-20, 20, (splits, m, n), generator=generator).float())
    assert_same_bits(reduce_partials(partials.to(device)).cpu(), ascending_sum(partials))


def test_a_sum_that_depends_on_the_order(device):
    partials = torch.tensor([1.0, 2.0**24, -(2.0**24), 1.0]).view(4, 1, 1).to(device)
    assert reduce_partials(partials).item() == 1.0  # ((1 + 2^24) - 2^24) + 1, where the first addition rounds to 2^24


def test_rounding_happens_once_to_nearest_even(device):
    # Rounding each partial, or truncating, would give 1.
    partials = torch.tensor([1.0, 2.0**-8 + 2.0**-20]).view(2, 1, 1).to(device)
    assert reduce_partials(partials).item() == 1.0 + 2.0**-7


def test_nan_and_infinity_come_through(device):
    partials = torch.tensor([[1.0, 1.0, float("inf")], [float("nan"), float("inf"), float("-inf")]]).view(2, 1, 3)
    found = reduce_partials(partials.to(device)).cpu()
    assert found[0].isnan().tolist() == [True, False, True]
    assert found[0, 1].item() == float("inf")


def test_strided_partials_inside_poison_and_an_output_with_a_canary(device, assert_same_bits):
    buffer = torch.full((6, 5, 300), float("nan"), device=device)
    partials = buffer[::2, 1:4, 7:279]
    partials.copy_(torch.randn(3, 3, 272))
    frame = torch.full((5, 300), float("nan"), dtype=torch.bfloat16, device=device)
    out = frame[1:4, 3:275]
    assert reduce_partials(partials, out=out) is out
    assert_same_bits(out.cpu(), ascending_sum(partials.cpu()))
    out.fill_(float("nan"))
    assert frame.isnan().all()


def test_more_rows_than_a_grid_has_in_y(device):
    partials = torch.ones(2, 65537, 1, device=device)
    if device.type == "cpu":
        partials = partials[:, :257]  # one workgroup a row: the CPU takes the grid one by one
    assert (reduce_partials(partials) == 2).all()


def test_no_rows(device):
    assert reduce_partials(torch.empty(3, 0, 16, device=device)).shape == (0, 16)


@pytest.mark.parametrize(
    ("partials", "message"),
    [
        (torch.zeros(2, 3), "partials must be float32 of shape (S, M, N), not torch.float32 of shape (2, 3)"),
        (
            torch.zeros(2, 3, 4, dtype=torch.bfloat16),
            "partials must be float32 of shape (S, M, N), not torch.bfloat16 of shape (2, 3, 4)",
        ),
        (None, "partials must be float32 of shape (S, M, N), not NoneType"),
        (torch.zeros(0, 3, 4), "partials must hold a split and a column at least, not shape (0, 3, 4)"),
        (torch.zeros(2, 3, 8)[:, :, ::2], "partials must have unit stride along N, not 2; call contiguous()"),
    ],
)
def test_refusals(partials, message):
    with pytest.raises(ContractError, match=f"^{re.escape(message)}$"):
        reduce_partials(partials)


def test_an_output_over_the_partials_is_refused(device):
    partials = torch.zeros(1, 1, 64, device=device)
    out = partials.view(torch.bfloat16)[0, :, :64]
    with pytest.raises(ContractError, match=r"^out must not share memory with partials;"):
        reduce_partials(partials, out=out)


def test_partials_that_are_negated_lazily(device):
    values = torch.ones(2, 1, 16, device=device)
    assert (reduce_partials(torch._neg_view(values)) == -2).all()


def test_partials_that_want_a_gradient_are_refused(device):
    with pytest.raises(
        ContractError, match=r"^partials must not require a gradient, since none is computed; detach them$"
    ):
        reduce_partials(torch.ones(2, 1, 16, device=device, requires_grad=True))
