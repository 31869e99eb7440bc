"""The assembler: what a descriptor says, several kernels in one object, refusals, and running what it made."""

import numpy as np
import pytest

from mxassay.gfx950 import CodeObjectError, launch, load_code_object
from mxassay.gfx950.assembler import AssemblyError, KernelText, assemble, module

STORE = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_and_b32_e32 v0, 0x3ff, v0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v2, {add}, v2
global_store_dword v1, v2, s[6:7]
"""


def test_two_kernels_of_one_object_run():
    code = assemble(module(KernelText("plus_1", STORE.format(add=1)), KernelText("plus_60", STORE.format(add=60))))
    for name, added in (("plus_1", 1), ("plus_60", 60)):
        source, target = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
        launch(code, (1,), (64,), [source, target], kernel=name)
        assert (target == source + added).all()
    with pytest.raises(CodeObjectError, match="a kernel name must be given, since the file holds 2: plus_1, plus_60"):
        launch(code, (1,), (64,), [source, target])


def test_the_descriptor_says_what_was_asked():
    text = KernelText(
        "k",
        "s_nop 0",
        pointers=3,
        lds_bytes=4096,
        ieee=False,
        dx10_clamp=False,
        denorm_32=1,
        denorm_16_64=2,
        round_32=3,
    )
    kernel = load_code_object(assemble(module(text))).kernel("k")
    descriptor = kernel.descriptor
    assert (descriptor.ieee, descriptor.dx10_clamp, descriptor.denorm_mode_32) == (False, False, 1)
    assert (descriptor.denorm_mode_16_64, descriptor.round_mode_32, descriptor.lds_bytes) == (2, 3, 4096)
    assert [(argument.offset, argument.size) for argument in kernel.args] == [(0, 8), (8, 8), (16, 8)]
    assert (kernel.kernarg_size, kernel.vgprs, kernel.agprs) == (24, 256, 256)
    assert kernel.max_flat_workgroup_size == 256


def test_preloaded_words_come_in_sgprs_and_the_body_lies_256_bytes_on():
    body = """
v_mov_b32_e32 v2, s2
v_mov_b32_e32 v3, s4
v_mov_b32_e32 v4, s6
s_mov_b64 s[8:9], s[4:5]
v_mov_b32_e32 v1, 0
global_store_dwordx3 v1, v[2:4], s[8:9]
"""
    code = assemble(module(KernelText("k", body, preload=4)))
    kernel = load_code_object(code).kernel()
    assert (kernel.descriptor.kernarg_preload_length, kernel.descriptor.kernarg_preload_offset) == (4, 0)
    first, second = np.zeros(4, np.uint32), np.zeros(4, np.uint32)
    launch(code, (1,), (1,), [first, second])
    # s2 and s4 are the low words of the two addresses, s6 the workgroup.
    assert second[0] != second[1]
    assert second[2] == 0
    assert not first.any()
    # v_mov_b32_e32 v2, s2 is 0x7e040202
    assert kernel.code[256:260] == (0x7E040202).to_bytes(4, "little")


def test_text_that_gfx950_has_not_is_refused_with_llvms_words(capfd):
    with pytest.raises(AssemblyError) as refusal:
        assemble(module(KernelText("k", "v_dual_add_f32 v0, v1, v2")))
    assert str(refusal.value).startswith("the text must be gfx950 assembly that LLVM takes, not this: ")
    assert "v_dual_add_f32" in str(refusal.value)
    assert "instruction not supported on this GPU (gfx950)" in str(refusal.value)
    assert capfd.readouterr().err == ""
    # Standard error is whole again.
    import os

    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"
