"""Kernels that follow a wrong rule by arithmetic alone: what a run of the emulated card would give, in milliseconds."""

from dataclasses import replace

import torch

from mxassay.optimized import Plan
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.suspects import SUSPECTS, predicted
from mxassay.triage.suspects.scene import scenes_of

WIDE = Plan(tile_m=16, tile_n=32, tile_k=256)


def dense(m=17, n=48, k=320, seed=0):
    """A product of full operands, certified."""
    generator = torch.Generator().manual_seed(seed)
    row, block = torch.arange(m).unsqueeze(1), torch.arange(k // 32)
    values = torch.randint(-12, 13, (m, k // 32, 32), generator=generator) / 2.0
    values[..., 5] = 6
    a = values * torch.exp2(((row + 2 * block) % 3).float()).unsqueeze(2)
    codes = torch.randint(0, 256, (n, k // 2), generator=generator).to(torch.uint8)
    row = torch.arange(n).unsqueeze(1)
    scales = (126 + (row + row // 16 + 2 * block + block // 4) % 4).to(torch.uint8)
    return Operands(a.reshape(m, k).bfloat16(), codes, scales, "even", "dense")


def follows(name):
    """A run whose outputs are those of the suspect `name`."""

    def run(failure):
        run.calls += 1
        prediction = predicted(SUSPECTS[name], scenes_of(failure)[0])
        right = failure.operands.expectation.exact
        if prediction is None:
            return right.clone()
        return torch.where(prediction.unknown, right, prediction.expected.exact)

    run.calls = 0
    return run


def right(failure):
    """A run that is right."""
    return failure.operands.expectation.exact.clone()


def failing(run, operands=None, plan=WIDE, placement=None):
    """A failure of that run."""
    call = Failure(Subject(), operands or dense(), Launch(plan), placement or Placement(padding=0x7F), None)
    return replace(call, out=run(call))
