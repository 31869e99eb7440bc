"""What the emulator doesn't run, by the reason why: every name stands here, and `test_coverage` holds the list exact.

Whoever teaches an operation takes its name out.
"""

_UPDATES = ["add", "and", "cmpswap", "dec", "inc", "or", "smax", "smin", "sub", "swap", "umax", "umin", "xor"]
_SHAPES = ["x", "xy", "xyz", "xyzw"]

UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "keeps forked branches in SGPRs (MODE.CSP): no compiler writes it": (
        "s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join",
    ),
    "belongs to trap handlers, which no kernel of ours runs in": ("s_rfe_b64", "s_rfe_restore_b64"),
    "skips vector instructions by a mode (VSKIP): no compiler writes it": ("s_setvskip",),
    "stops the wave until the host answers a message": ("s_sendmsghalt",),
    "belongs to ordered pixel shaders": ("s_endpgm_ordered_ps_done",),
    "AMD publishes neither pseudocode nor the lookup table": ("v_screen_partition_4se_b32",),
    "is the first half of a VOP3PX2 instruction, which decodes as one": ("v_mfma_ld_scale_b32",),
    "converts between formats of textures on its way, by the resource's data format": (
        *(f"{kind}buffer_{way}_format_{half}{shape}" for kind in ("t", "") for way in ("load", "store")
          for half in ("", "d16_") for shape in _SHAPES),
        "buffer_load_format_d16_hi_x", "buffer_store_format_d16_hi_x",
    ),
    "scalar atomics: no compiler writes them": tuple(
        f"s_{base}atomic_{update}{size}" for base in ("", "buffer_") for update in _UPDATES for size in ("", "_x2")
    ),
    "scalar stores and scalar scratch: no compiler writes them": (
        *(f"s_{base}store_dword{size}" for base in ("", "buffer_", "scratch_") for size in ("", "x2", "x4")),
        *(f"s_scratch_load_dword{size}" for size in ("", "x2", "x4")),
    ),
    "probes the translation cache": ("s_atc_probe", "s_atc_probe_buffer"),
    "loads from scratch straight into LDS: no compiler writes it": tuple(
        f"scratch_load_lds_{kind}" for kind in ("dword", "sbyte", "sshort", "ubyte", "ushort")
    ),
    "semaphores of global wave sync: the driver's own": ("ds_gws_sema_p", "ds_gws_sema_release_all", "ds_gws_sema_v"),
    "exchanges two words of LDS by their top bits: no compiler writes it": ("ds_condxchg32_rtn_b64",),
}  # fmt: skip
