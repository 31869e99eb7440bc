# mypy: allow-untyped-decorators
"""A kernel that does nothing, compiled so that forks of this process find Triton's compiler and the decoder ready."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mxassay.gfx950 import Kernel, Options, load_code_object


@triton.jit
def nothing(out: tl.tensor) -> None:
    """Stores a sum of zeros."""
    tl.store(out, tl.sum(tl.zeros((64,), tl.float32)))


def compile_once() -> None:
    """Compile it for gfx950 and decode it: what the first time loads and hashes takes most of two seconds."""
    source = ASTSource(fn=nothing, signature={"out": "*fp32"}, constexprs={})
    compiled = triton.compile(source, target=GPUTarget("hip", "gfx950", 64))
    kernel = Kernel(load_code_object(compiled.asm["hsaco"]))
    kernel.threaded(Options()).block(kernel.code.entry)
