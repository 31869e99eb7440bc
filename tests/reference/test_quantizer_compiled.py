"""The quantizer as torch.compile takes it: the same bytes as eager, whatever the input holds and wherever it lies."""

import pytest
import torch

from mxassay.errors import ContractError
from mxassay.reference import DIALECTS, quantize, quantizer_compiled
from mxassay.reference.quantizer_compiled import quantize_pairs

EVERY = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def blocks_with_every_value():
    """Each bfloat16 beside 31 others that leave it the largest, a middling one or a tiny one; specials included."""
    spread = EVERY[torch.randperm(1 << 16, generator=torch.Generator().manual_seed(3))].view(-1, 32)
    alike = EVERY.view(-1, 32)
    tiny = torch.zeros(1 << 11, 32, dtype=torch.bfloat16)
    tiny[:, 7] = EVERY[:: 1 << 5]
    zeros = torch.tensor([0.0, -0.0] * 16, dtype=torch.bfloat16).view(1, 32)
    return torch.cat((spread, alike, tiny, zeros))


@pytest.mark.parametrize("name", DIALECTS)
def test_pairs_give_the_same_bytes_in_every_dialect(name):
    """Run without the compiler, which changes no arithmetic: the pairs' own formulas are what could be wrong."""
    blocks, dialect = blocks_with_every_value(), DIALECTS[name]
    packed, scales = quantize_pairs(blocks, dialect, None)
    want = quantize(blocks, dialect)
    assert torch.equal(scales, want.scales.flatten())
    assert torch.equal(packed, want.packed)


@pytest.mark.parametrize("name", ["even", "rceil-torchao"])
def test_pairs_under_every_forced_scale(name):
    blocks = EVERY.view(-1, 32)[::37].repeat(256, 1)
    forced = torch.arange(256, dtype=torch.uint8).repeat_interleave(len(blocks) // 256)
    packed, scales = quantize_pairs(blocks, DIALECTS[name], forced)
    assert scales is forced
    assert torch.equal(packed, quantize(blocks, DIALECTS[name], scales=forced.view(-1, 1)).packed)


def test_who_gets_pairs(monkeypatch):
    """Contiguous bfloat16 on the CPU while compiling, and nothing else."""
    x = torch.randn(3, 2, 64, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    scales = torch.randint(120, 130, (3, 2, 2), dtype=torch.uint8)
    asked = []
    monkeypatch.setattr(
        quantizer_compiled, "quantize_pairs", lambda *given: (asked.append(1), quantize_pairs(*given))[1]
    )
    want, forced = quantize(x), quantize(x, scales=scales)
    assert not asked
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for found, due in ((quantize(x), want), (quantize(x, scales=scales), forced)):
        assert all(map(torch.equal, found, due))
    assert len(asked) == 2
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    for other in (x.float(), x.half(), turned, torch.empty(0, 32, dtype=torch.bfloat16, device="meta")):
        quantize(other)
    assert len(asked) == 2
    with pytest.raises(ContractError, match=r"^scales must have shape \(3, 2, 2\), not \(2, 2\)$"):
        quantize(x, scales=scales[0])


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_whole_and_wherever_the_input_lies():
    base = torch.randn(64 * 64 + 1, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    call = torch.compile(quantize, fullgraph=True)
    # The compiler takes both for one: the second begins in the middle of 32 bits.
    for x in (base[:-1].view(64, 64), base[1:].view(64, 64)):
        assert all(map(torch.equal, call(x), quantize(x)))
