# mypy: allow-untyped-decorators
"""A kernel that does nothing, compiled so that forks of this process find Triton's compiler ready."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def nothing(out: tl.tensor) -> None:
    """Stores a sum of zeros."""
    tl.store(out, tl.sum(tl.zeros((64,), tl.float32)))


def compile_once() -> None:
    """Compile it for gfx950: what Triton loads and hashes at its first compilation takes most of a second."""
    source = ASTSource(fn=nothing, signature={"out": "*fp32"}, constexprs={})
    triton.compile(source, target=GPUTarget("hip", "gfx950", 64))
