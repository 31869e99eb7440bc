"""How many waves of a kernel fit on a SIMD of a gfx950 compute unit, and which resource says so."""

from dataclasses import dataclass

from mxassay.gfx950.codeobject import KernelCode

# LLVM AMDGPUBaseInfo.cpp for gfx90a and later: getMaxWavesPerEU, getEUsPerCU, getTotalNumVGPRs, getVGPRAllocGranule,
# getTotalNumSGPRs, getSGPRAllocGranule, getMaxWorkGroupsPerCU.
MAX_WAVES, SIMDS = 8, 4
VGPR_FILE, VGPR_GRANULE = 512, 8
SGPR_FILE, SGPR_GRANULE = 800, 16
MAX_GROUPS_WITH_BARRIER = 16
# LLVM PR #116309, #219172: 160 KiB of LDS, allocated in units of 1,280 bytes.
LDS_FILE, LDS_GRANULE = 160 * 1024, 1280


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`waves` a SIMD (the fullest of the four) and `groups` a compute unit.

    `limits` holds the waves a SIMD that each resource alone would allow; `limited_by` names the scarcest: "waves" where
    the hardware's maximum of 8 is reached, "workgroup size" where another whole workgroup doesn't fit.
    """

    waves: int
    groups: int
    limits: dict[str, int]
    limited_by: str

    def __str__(self) -> str:
        return f"{self.waves} of {MAX_WAVES} waves a SIMD, {self.groups} workgroups a CU, limited by {self.limited_by}"


def occupancy_of(kernel: KernelCode, workgroup_size: int | None = None, lds_bytes: int | None = None) -> Occupancy:
    """The occupancy of `kernel` in workgroups of `workgroup_size` work-items with `lds_bytes` of LDS each.

    The kernel's greatest workgroup and its static LDS are the defaults. Not counted: scratch memory, and other kernels
    on the same unit.
    """
    size = kernel.max_flat_workgroup_size if workgroup_size is None else workgroup_size
    waves_per_group = max(1, -(-size // 64))
    lds = _rounded(kernel.lds_bytes if lds_bytes is None else lds_bytes, LDS_GRANULE)
    groups_by_lds = LDS_FILE // lds if lds else MAX_WAVES * SIMDS
    groups_by_barrier = MAX_GROUPS_WITH_BARRIER if waves_per_group > 1 else MAX_WAVES * SIMDS
    limits = {
        "VGPRs": min(MAX_WAVES, VGPR_FILE // _rounded(kernel.descriptor.total_vgprs, VGPR_GRANULE)),
        "SGPRs": min(MAX_WAVES, SGPR_FILE // _rounded(kernel.sgprs, SGPR_GRANULE)),
        "LDS": _waves(groups_by_lds, waves_per_group),
        "workgroup slots": _waves(groups_by_barrier, waves_per_group),
    }
    by_registers = min(limits["VGPRs"], limits["SGPRs"])
    groups = min(by_registers * SIMDS // waves_per_group, groups_by_lds, groups_by_barrier)
    waves = min(by_registers, _waves(groups, waves_per_group))
    scarcest = min(limits, key=lambda name: limits[name])
    limited_by = "waves" if waves == MAX_WAVES else scarcest if limits[scarcest] <= waves else "workgroup size"
    return Occupancy(waves, groups, limits, limited_by)


def _rounded(amount: int, granule: int) -> int:
    return -(-amount // granule) * granule


def _waves(groups: int, waves_per_group: int) -> int:
    return min(MAX_WAVES, -(-groups * waves_per_group // SIMDS))
