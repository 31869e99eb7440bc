"""The 64-byte kernel descriptor (the `.kd` symbol): what the dispatcher sets up before the first instruction.

Bit positions: LLVM AMDGPUUsage, "Kernel Descriptor for GFX6-GFX12", "compute_pgm_rsrc1/2 for GFX6-GFX12",
"compute_pgm_rsrc3 for GFX90A, GFX942".
"""

import struct
from dataclasses import dataclass

from mxassay.gfx950.elf import CodeObjectError
from mxassay.gfx950.metadata import MAX_KERNARG_BYTES

DESCRIPTOR_BYTES = 64
MAX_USER_SGPRS = 16
# LLVM PR #116309 (160 KiB of LDS); GCNSubtarget.h getMaxWaveScratchSize: 8,191 KiB a wave of 64 lanes.
MAX_LDS_BYTES = 160 * 1024
MAX_SCRATCH_BYTES = 8191 * 1024 // 64
_FORM = struct.Struct("<III4xq20xIIIHH4x")

# (bit of kernel_code_properties, name, SGPRs), in the order in which they are laid out from s0.
_USER_SGPRS = (
    (0, "private_segment_buffer", 4),
    (1, "dispatch_ptr", 2),
    (2, "queue_ptr", 2),
    (3, "kernarg_segment_ptr", 2),
    (4, "dispatch_id", 2),
    (5, "flat_scratch_init", 2),
    (6, "private_segment_size", 1),
)
_WAVEFRONT32, _DYNAMIC_STACK = 10, 11


@dataclass(frozen=True, slots=True)
class UserSgpr:
    """`count` SGPRs from s[`first`] on, set before the wave starts."""

    name: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A kernel descriptor in words. Sizes in bytes, registers in 32-bit registers per lane (VGPR, AGPR) or wave (SGPR).

    `user_sgprs` is the layout from s0 on; a last entry "kernarg_preload" holds `count` dwords of the kernarg segment
    from dword `kernarg_preload_offset`. `total_vgprs` is the allocation out of the unified file of 512, in
    granules of 8; the first `accum_offset` are VGPRs, the others AGPRs. `sgprs` is the allocation, VCC included.
    Modes as in the MODE register: rounding 0 nearest even, 1 up, 2 down, 3 toward zero; denormals 0 flush operands and
    results, 1 flush results, 2 flush operands, 3 keep. `workitem_id`: 0 = x, 1 = x and y, 2 = x, y and z.
    """

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry_offset: int
    user_sgpr_count: int
    user_sgprs: tuple[UserSgpr, ...]
    kernarg_preload_length: int
    kernarg_preload_offset: int
    workgroup_id: tuple[bool, bool, bool]
    workgroup_info: bool
    workitem_id: int
    scratch_enabled: bool
    dynamic_stack: bool
    trap_handler: bool
    total_vgprs: int
    accum_offset: int
    sgprs: int
    round_mode_32: int
    round_mode_16_64: int
    denorm_mode_32: int
    denorm_mode_16_64: int
    ieee: bool
    dx10_clamp: bool
    fp16_overflow: bool
    tg_split: bool
    wavefront_size: int

    @property
    def system_sgprs(self) -> tuple[UserSgpr, ...]:
        """The SGPRs that follow the user SGPRs: workgroup ids, workgroup info, scratch wave offset."""
        enabled = [
            (name, on)
            for name, on in zip(("workgroup_id_x", "workgroup_id_y", "workgroup_id_z"), self.workgroup_id, strict=True)
        ]
        enabled.append(("workgroup_info", self.workgroup_info))
        names = [name for name, on in enabled if on]
        return tuple(UserSgpr(name, self.user_sgpr_count + index, 1) for index, name in enumerate(names))


def read_descriptor(data: bytes) -> Descriptor:
    """Read the 64 bytes of a gfx950 kernel descriptor.

    Raises:
        CodeObjectError: not 64 bytes, wave32, or a user SGPR layout that does not fit the user SGPR count.
    """
    if len(data) != DESCRIPTOR_BYTES:
        raise CodeObjectError(
            f"a kernel descriptor must be {DESCRIPTOR_BYTES} bytes, not {len(data)}; the file is damaged"
        )
    lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _FORM.unpack(data)

    def field(word: int, low: int, width: int = 1) -> int:
        return word >> low & ((1 << width) - 1)

    for name, size, most in (("LDS", lds, MAX_LDS_BYTES), ("scratch a lane", scratch, MAX_SCRATCH_BYTES)):
        if size > most:
            raise CodeObjectError(f"{name} must take at most {most} bytes, not {size}; gfx950 has no more")
    if kernarg > MAX_KERNARG_BYTES:
        raise CodeObjectError(f"the kernarg segment must take at most {MAX_KERNARG_BYTES} bytes, not {kernarg}")
    if field(properties, _WAVEFRONT32):
        raise CodeObjectError("the wavefront size must be 64, not 32; gfx950 has wave64 only")
    count, layout = field(rsrc2, 1, 5), []
    first = 0
    for bit, name, size in _USER_SGPRS:
        if field(properties, bit):
            layout.append(UserSgpr(name, first, size))
            first += size
    length, offset = field(preload, 0, 7), field(preload, 7, 9)
    if length:
        layout.append(UserSgpr("kernarg_preload", first, length))
        first += length
    if first > count or count > MAX_USER_SGPRS:
        raise CodeObjectError(
            f"the user SGPR count must be {first} to {MAX_USER_SGPRS}, not {count}; the descriptor is damaged"
        )
    total_vgprs = (field(rsrc1, 0, 6) + 1) * 8
    return Descriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        user_sgpr_count=count,
        user_sgprs=tuple(layout),
        kernarg_preload_length=length,
        kernarg_preload_offset=offset,
        workgroup_id=(bool(field(rsrc2, 7)), bool(field(rsrc2, 8)), bool(field(rsrc2, 9))),
        workgroup_info=bool(field(rsrc2, 10)),
        workitem_id=field(rsrc2, 11, 2),
        scratch_enabled=bool(field(rsrc2, 0)),
        dynamic_stack=bool(field(properties, _DYNAMIC_STACK)),
        trap_handler=bool(field(rsrc2, 6)),
        total_vgprs=total_vgprs,
        accum_offset=(field(rsrc3, 0, 6) + 1) * 4,
        sgprs=(field(rsrc1, 6, 4) // 2 + 1) * 16,
        round_mode_32=field(rsrc1, 12, 2),
        round_mode_16_64=field(rsrc1, 14, 2),
        denorm_mode_32=field(rsrc1, 16, 2),
        denorm_mode_16_64=field(rsrc1, 18, 2),
        ieee=bool(field(rsrc1, 23)),
        dx10_clamp=bool(field(rsrc1, 21)),
        fp16_overflow=bool(field(rsrc1, 26)),
        tg_split=bool(field(rsrc3, 16)),
        wavefront_size=64,
    )
