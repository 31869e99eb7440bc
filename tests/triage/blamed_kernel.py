"""A failing product of the code that is imported, and whom it is blamed on, printed as JSON: python blamed_kernel.py"""

import json

import torch

from mxassay.elsewhere import on_interpreter
from mxassay.gfx950 import emulated
from mxassay.loading import Request, open_kernels
from mxassay.optimized import Plan
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import quantize
from mxassay.triage.blame import blame
from mxassay.triage.compilations import CHANGES
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import again, fails, on
from mxassay.triage.xray import xray


def main():
    torch.set_num_threads(1)
    m, n, k = 16, 64, 256
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(m, k, generator=generator).to(torch.bfloat16)
    weights = quantize(torch.randn(n, k, generator=generator).to(torch.bfloat16))
    launch = Launch(Plan(tile_m=16, tile_n=64, tile_k=256))
    failure = Failure(Subject(), Operands(a, *weights), launch, Placement(), None)
    with emulated(), open_kernels(Request(None, None, "even", "emulated")) as kernels:
        run = on(KernelUnderTest(kernels[0], "emulated", "cpu", own=True))
        failure = again(failure, run)
        # Two changes are enough: one that changes the compiler's options, one that leaves out the assembly.
        few = [change for change in CHANGES if change[0] in ("num_warps=8", "USE_ASM=False")]
        found = blame(failure, run, on_interpreter, xray(failure, run), few)
    print(json.dumps({"fails": fails(failure), **vars(found)}))


if __name__ == "__main__":
    main()
