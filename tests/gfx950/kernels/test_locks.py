"""Workgroups that wait for one another with barriers inside the waiting loop: the one that holds the lock must get its
turn, however the others' waves part and meet."""

import numpy as np
import pytest

from mxassay.gfx950 import EndlessLoop, Kernel, Options, launch, load_code_object
from mxassay.gfx950.assembler import KernelText, assemble, module

# The first wave of each group tries to take the lock and tells the others through LDS; all pass two barriers a try.
# Who holds it adds 1 to a counter, not atomically, and gives the lock back.
LOCKED = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_and_b32_e32 v0, 0x3ff, v0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
v_mov_b32_e32 v3, 0
s_mov_b32 m0, -1
v_readfirstlane_b32 s8, v0
s_waitcnt lgkmcnt(0)
.Ltry:
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Ltold
s_mov_b64 exec, 1
global_atomic_cmpswap v4, v1, v[2:3], s[4:5] sc0
s_waitcnt vmcnt(0)
ds_write_b32 v1, v4
s_waitcnt lgkmcnt(0)
s_mov_b64 exec, -1
.Ltold:
s_barrier
ds_read_b32 v5, v1
s_waitcnt lgkmcnt(0)
s_barrier
v_readfirstlane_b32 s9, v5
s_nop 4
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 .Ltry
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Ldone
s_mov_b64 exec, 1
global_load_dword v6, v1, s[6:7]
s_waitcnt vmcnt(0)
v_add_u32_e32 v6, 1, v6
global_store_dword v1, v6, s[6:7]
s_waitcnt vmcnt(0)
{release}
.Ldone:
"""


def kernel(release):
    text = KernelText("locked", LOCKED.format(release=release), lds_bytes=64)
    return Kernel(load_code_object(assemble(module(text))))


@pytest.mark.parametrize("waves", [1, 2, 4])
@pytest.mark.parametrize("groups", [1, 2, 7])
def test_every_group_gets_the_lock_once(groups, waves):
    lock, counter = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    ready = kernel("global_atomic_swap v1, v3, s[4:5]\ns_waitcnt vmcnt(0)")
    launch(ready, (groups,), (64 * waves,), [lock, counter], options=Options(budget=200_000))
    assert (int(lock[0]), int(counter[0])) == (0, groups)


def test_a_lock_that_is_never_given_back_is_an_endless_loop():
    lock, counter = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    with pytest.raises(EndlessLoop, match="a launch must end within 20,000 steps, but still runs"):
        launch(kernel("s_nop 0"), (2,), (128,), [lock, counter], options=Options(budget=20_000))
    assert int(counter[0]) == 1
