"""Assembly text to gfx950 machine code, by the LLVM inside Triton: an assembler that knows nothing of our decoder."""

import functools
import io
import os
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from triton._C.libtriton import amd
from triton.backends.amd import compiler

TARGET = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n'
HEADER = """
.globl {name}
.p2align 8
.type {name},@function
{name}:
"""
DESCRIPTOR = """
s_endpgm
.Lend:
.size {name}, .Lend-{name}
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size {kernarg_bytes}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_system_vgpr_workitem_id 0
  .amdhsa_next_free_vgpr 256
  .amdhsa_next_free_sgpr 102
  .amdhsa_accum_offset 256
  .amdhsa_group_segment_fixed_size 0
  .amdhsa_private_segment_fixed_size 0
  .amdhsa_ieee_mode {ieee}
  .amdhsa_dx10_clamp 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {kernarg_bytes}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 102
    .vgpr_count: 256
    .max_flat_workgroup_size: 1024
    .args:
{arguments}
...
.end_amdgpu_metadata
"""
ARGUMENT = "      - {{.size: 8, .offset: {offset}, .value_kind: global_buffer, .address_space: global}}"


class AssemblyError(Exception):
    """LLVM refuses the text for gfx950."""


def assemble_object(source: str) -> bytes:
    """A relocatable ELF.

    Raises:
        AssemblyError: LLVM refuses the text. (It prints its own diagnosis to standard error, which is muted here.)
    """
    quiet = os.open(os.devnull, os.O_WRONLY)
    saved = os.dup(2)
    os.dup2(quiet, 2)
    try:
        if hasattr(compiler, "assemble_amdgcn"):
            return compiler.assemble_amdgcn(source, "gfx950", "")
        return amd.assemble_amdgcn(source, "gfx950", "")  # Triton 3.6: the assembler is in libtriton
    except RuntimeError as error:
        raise AssemblyError(str(error)) from None
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(quiet)


@functools.cache
def machine_code(*instructions: str) -> bytes:
    """The bytes of a few instructions, one per argument."""
    elf = ELFFile(io.BytesIO(assemble_object(TARGET + "\n".join(instructions) + "\n")))
    return elf.get_section_by_name(".text").data()


def code_object(body: str, *, name: str = "probe", pointers: int = 3, ieee: bool = True) -> bytes:
    """A loadable hsaco with one kernel of `pointers` global buffers; `body` starts with the kernarg pointer in s[0:1],
    the workgroup id in s2 and the work item id in v0, and is followed by s_endpgm."""
    arguments = "\n".join(ARGUMENT.format(offset=8 * i) for i in range(pointers))
    source = (
        TARGET
        + HEADER.format(name=name)
        + body
        + DESCRIPTOR.format(name=name, kernarg_bytes=8 * pointers, arguments=arguments, ieee=int(ieee))
    )
    with tempfile.TemporaryDirectory() as folder:
        relocatable, linked = Path(folder, "a.o"), Path(folder, "a.hsaco")
        relocatable.write_bytes(assemble_object(source))
        amd.link_hsaco(str(relocatable), str(linked))
        return linked.read_bytes()
