"""A metadata note with everything the kernels of Triton leave out."""

METADATA = """
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.kernels:
  - .name: spelled
    .symbol: probe.kd
    .kernarg_segment_size: 288
    .kernarg_segment_align: 16
    .group_segment_fixed_size: 64
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 20
    .vgpr_count: 30
    .reqd_workgroup_size: [64, 2, 1]
    .max_flat_workgroup_size: 128
    .args:
      - {.name: x, .type_name: 'float*', .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global,
         .access: read_only}
      - {.size: 4, .offset: 32, .value_kind: hidden_block_count_x}
      - {.size: 2, .offset: 44, .value_kind: hidden_group_size_x}
...
.end_amdgpu_metadata
"""
