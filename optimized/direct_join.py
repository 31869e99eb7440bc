# mypy: allow-untyped-decorators
"""The sum over splits inside the launch that makes the partials: the workgroup of a tile that comes last does it.

Nobody waits for anybody. A workgroup writes its partial, then counts itself; who finds all others counted reads all
partials, in ascending order, its own among them: the bits are those of `reduce_partials`, whoever comes last.

A die has an L2 of its own. Partials are written through and read past it (SC0 and SC1 set: system scope; AMD CDNA4
ISA, "Memory scopes"), and counted at agent scope once `s_waitcnt` has seen every wave's writes arrive. LLVM's release
at agent scope would write back all of the L2 besides (LLVM, AMDGPUUsage, "Memory Model gfx942").
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def write_partial(tile: gl.tensor, offsets: gl.tensor, values: gl.tensor, mask: gl.tensor) -> None:
    """Store float32 values where every die sees them."""
    gl.amd.cdna4.buffer_store(values, tile, offsets, mask=mask, cache=".wt")


@gluon.jit
def arrive(needed: gl.tensor) -> None:
    """Wait until all that the workgroup wrote has arrived. `needed` is a kernel argument that only the last workgroup
    uses: named here, it is loaded by now, and not after the count."""
    gl.inline_asm("s_waitcnt vmcnt(0)", "s,~{memory}", [needed])
    gl.barrier()


@gluon.jit
def count_in(counter: gl.tensor) -> gl.tensor:
    """How many workgroups counted themselves before this one."""
    return gl.atomic_add(counter, 1, sem="relaxed", scope="gpu")


@gluon.jit
def sum_partials(
    tile: gl.tensor, apart: gl.tensor, offsets: gl.tensor, mask: gl.tensor, SPLITS: gl.constexpr
) -> gl.tensor:
    """The sum of the float32 partials that lie `apart` elements apart, in ascending order."""
    total = gl.amd.cdna4.buffer_load(tile, offsets, mask=mask, cache=".cv")
    for split in gl.static_range(1, SPLITS):
        total += gl.amd.cdna4.buffer_load(tile + split * apart, offsets, mask=mask, cache=".cv")
    return total


@gluon.jit
def clear(counter: gl.tensor) -> None:
    """Leave the counter as the next launch wants it."""
    gl.atomic_xchg(counter, 0, sem="relaxed", scope="gpu")
