"""Kernels of many kinds through Triton's own compiler: every instruction is known, and results are torch's."""

import pytest
import torch
from triton_cases import Case, every_case

from mxassay.gfx950 import Kernel, emulated, load_code_object, survey


def far(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How far each element is off, relative to the largest wanted; 0 where bits or NaNs agree."""
    a, b = got.to(torch.float64), want.to(torch.float64)
    off = (a - b).abs() / b[b.isfinite()].abs().max().clamp(min=1e-300)
    return torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, off)


@pytest.mark.parametrize("case", every_case(), ids=str)
def test_a_kernel_computes_what_torch_does(case: Case):
    args = case.make()
    wanted = case.want({name: a.clone() if isinstance(a, torch.Tensor) else a for name, a in args.items()})
    with emulated():
        compiled = case.kernel[case.grid](**args, **case.options)
    for name, want in wanted.items():
        got = args[name]
        if case.within is None:
            same = (got == want) | (got != got) & (want != want)
            first = int((~same).flatten().int().argmax())
            assert same.all(), f"{name}[{first}] is {got.flatten()[first]}, not {want.flatten()[first]}"
        else:
            assert far(got, want).max() <= case.within, name
    surveyed = survey(Kernel(load_code_object(compiled.asm["hsaco"])))
    assert [(entry.op, entry.why) for entry in surveyed if entry.why] == []
