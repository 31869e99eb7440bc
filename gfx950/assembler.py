"""Assembly text to a gfx950 code object, by the LLVM inside Triton: no ROCm and no compiler besides.

>>> assemble(module(KernelText("nothing", "s_nop 0")))[:4]
b'\\x7fELF'
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mxassay.errors import ContractError

__all__ = ["AssemblyError", "KernelText", "assemble", "module"]


class AssemblyError(ContractError):
    """LLVM refuses the text for gfx950; the message holds its own words."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """One kernel as text, and what its descriptor says (LLVM AMDGPUUsage, ".amdhsa_kernel").

    `body` begins with the kernarg pointer in s[0:1], the workgroup's x in s2 and the packed work-item ids in v0, and
    is followed by an s_endpgm. Arguments are `pointers` buffer addresses of 8 bytes each. `preload`: how many dwords
    of the kernarg segment come in SGPRs from s2 on; the workgroup's x follows them, and the code that older firmware
    needs to load them itself comes before `body`. Modes: 3 keeps denormals and 0
    flushes them; rounding 0 is nearest even. Up to 256 VGPRs and 256 AGPRs.
    """

    name: str
    body: str
    pointers: int = 2
    lds_bytes: int = 0
    preload: int = 0
    ieee: bool = True
    dx10_clamp: bool = True
    denorm_32: int = 3
    denorm_16_64: int = 3
    round_32: int = 0


def assemble(text: str) -> bytes:
    """The loadable code object (hsaco) that `text`, a whole LLVM assembly module, stands for.

    Raises:
        AssemblyError: LLVM's assembler or linker refuses it. What they print is part of the message; while they work,
            file descriptor 2 of the process points elsewhere.
    """
    from triton._C.libtriton import amd
    from triton.backends.amd import compiler

    with tempfile.TemporaryDirectory() as folder:
        relocatable, linked = Path(folder, "module.o"), Path(folder, "module.hsaco")
        printed: list[str] = []
        try:
            with _standard_error(Path(folder, "said"), printed):
                # Triton 3.6 has the assembler in libtriton, later versions in the backend.
                translate = getattr(compiler, "assemble_amdgcn", None) or amd.assemble_amdgcn
                relocatable.write_bytes(translate(text, "gfx950", ""))
                amd.link_hsaco(str(relocatable), str(linked))
        except RuntimeError as error:
            said = "\n".join([str(error), *printed]).strip()
            raise AssemblyError(f"the text must be gfx950 assembly that LLVM takes, not this: {said}") from None
        return linked.read_bytes()


@contextmanager
def _standard_error(file: Path, printed: list[str]) -> Iterator[None]:
    """LLVM prints diagnoses to file descriptor 2: catch them."""
    saved = os.dup(2)
    try:
        with file.open("w+b") as stream:
            os.dup2(stream.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(saved, 2)
                stream.seek(0)
                printed.append(stream.read().decode(errors="replace").strip())
    finally:
        os.close(saved)


_CODE = """
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
s_endpgm
.Lend_{name}:
.size {name}, .Lend_{name}-{name}
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_user_sgpr_kernarg_preload_length {preload}
  .amdhsa_user_sgpr_kernarg_preload_offset 0
  .amdhsa_kernarg_size {kernarg_bytes}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_system_sgpr_workgroup_id_y 0
  .amdhsa_system_sgpr_workgroup_id_z 0
  .amdhsa_system_vgpr_workitem_id 2
  .amdhsa_next_free_vgpr 512
  .amdhsa_next_free_sgpr 100
  .amdhsa_accum_offset 256
  .amdhsa_group_segment_fixed_size {lds_bytes}
  .amdhsa_private_segment_fixed_size 0
  .amdhsa_ieee_mode {ieee}
  .amdhsa_dx10_clamp {dx10_clamp}
  .amdhsa_float_denorm_mode_32 {denorm_32}
  .amdhsa_float_denorm_mode_16_64 {denorm_16_64}
  .amdhsa_float_round_mode_32 {round_32}
.end_amdhsa_kernel
"""
_NOTE = """  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {kernarg_bytes}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds_bytes}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 106
    .vgpr_count: 512
    .agpr_count: 256
    .max_flat_workgroup_size: 256
    .args:
{arguments}
"""


def _preloading(kernel: KernelText) -> str:
    """Firmware that preloads arguments enters 256 bytes behind the kernel's start; other firmware enters at the start
    (LLVM AMDGPUUsage, "Preloaded Kernel Arguments")."""
    if not kernel.preload:
        return ""
    loads = [f"s_load_dword s{2 + word}, s[0:1], {4 * word:#x}" for word in range(kernel.preload)]
    # The workgroup's number already stands behind the preloaded registers, whoever fills them.
    return "\n".join([*loads, "s_waitcnt lgkmcnt(0)", f"s_branch .Lpreloaded_{kernel.name}", ".p2align 8",
                      f".Lpreloaded_{kernel.name}:", ""])  # fmt: skip


def module(*kernels: KernelText) -> str:
    """One assembly module of these kernels, descriptors and metadata included."""
    parts = ['.amdgcn_target "amdgcn-amd-amdhsa--gfx950"', ".amdhsa_code_object_version 5"]
    notes = []
    for kernel in kernels:
        words = {
            "name": kernel.name, "body": _preloading(kernel) + kernel.body.strip("\n"), "preload": kernel.preload,
            "kernarg_bytes": 8 * kernel.pointers, "lds_bytes": kernel.lds_bytes, "ieee": int(kernel.ieee),
            "dx10_clamp": int(kernel.dx10_clamp), "denorm_32": kernel.denorm_32, "denorm_16_64": kernel.denorm_16_64,
            "round_32": kernel.round_32,
        }  # fmt: skip
        arguments = "\n".join(
            f"      - {{.size: 8, .offset: {8 * index}, .value_kind: global_buffer, .address_space: global}}"
            for index in range(kernel.pointers)
        )
        parts.append(_CODE.format(**words))
        notes.append(_NOTE.format(**words, arguments=arguments))
    head = "amdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--gfx950\namdhsa.kernels:\n"
    note = head + "".join(notes).rstrip("\n")
    return "\n".join([*parts, ".amdgpu_metadata", "---", note, "...", ".end_amdgpu_metadata", ""])
