"""Kernel descriptors against the assembler directives that made them (LLVM AMDGPUUsage, "Kernel Descriptor")."""

import re

import pytest

from mxassay.gfx950.codeobject import CodeObjectError, load_code_object
from mxassay.gfx950.descriptor import UserSgpr, read_descriptor


def _directives(text):
    return {name: int(value, 0) for name, value in re.findall(r"\.amdhsa_(\w+) (\d+)\s", text)}


def _granules(amount, granule):
    return -(-amount // granule) * granule


def test_every_field_of_a_compiled_kernel_is_what_llvm_wrote(compiled):
    for built in compiled.values():
        wanted = _directives(built.text)
        kernel = load_code_object(built.binary).kernel()
        found = kernel.descriptor
        assert kernel.lds_bytes == wanted["group_segment_fixed_size"]
        assert kernel.scratch_bytes == wanted["private_segment_fixed_size"]
        assert kernel.kernarg_size == wanted["kernarg_size"]
        assert found.user_sgpr_count == wanted["user_sgpr_count"]
        assert found.kernarg_preload_length == wanted["user_sgpr_kernarg_preload_length"]
        assert found.kernarg_preload_offset == wanted["user_sgpr_kernarg_preload_offset"]
        assert found.workgroup_id == tuple(bool(wanted[f"system_sgpr_workgroup_id_{axis}"]) for axis in "xyz")
        assert found.workgroup_info == bool(wanted["system_sgpr_workgroup_info"])
        assert found.workitem_id == wanted["system_vgpr_workitem_id"]
        assert found.dynamic_stack == bool(wanted["uses_dynamic_stack"])
        assert found.scratch_enabled == bool(wanted["enable_private_segment"])
        assert found.total_vgprs == _granules(wanted["next_free_vgpr"], 8)
        assert found.accum_offset == wanted["accum_offset"]
        assert (found.round_mode_32, found.round_mode_16_64) == (
            wanted["float_round_mode_32"],
            wanted["float_round_mode_16_64"],
        )
        assert (found.denorm_mode_32, found.denorm_mode_16_64) == (
            wanted["float_denorm_mode_32"],
            wanted["float_denorm_mode_16_64"],
        )
        assert (found.ieee, found.dx10_clamp) == (bool(wanted["ieee_mode"]), bool(wanted["dx10_clamp"]))
        assert (found.fp16_overflow, found.tg_split) == (bool(wanted["fp16_overflow"]), bool(wanted["tg_split"]))


_ONE_BITS = {
    "fp16_overflow": "fp16_overflow",
    "tg_split": "tg_split",
    "uses_dynamic_stack": "dynamic_stack",
    "system_sgpr_workgroup_info": "workgroup_info",
    "ieee_mode": "ieee",
    "dx10_clamp": "dx10_clamp",
}


@pytest.mark.parametrize("directive", _ONE_BITS)
@pytest.mark.parametrize("value", [0, 1])
def test_one_bit_fields(assemble, directive, value):
    found = load_code_object(assemble(directives=f".amdhsa_{directive} {value}")).kernel().descriptor
    assert getattr(found, _ONE_BITS[directive]) == bool(value)


@pytest.mark.parametrize(
    "field", ["float_round_mode_32", "float_round_mode_16_64", "float_denorm_mode_32", "float_denorm_mode_16_64"]
)
@pytest.mark.parametrize("value", [0, 1, 2, 3])
def test_float_modes(assemble, field, value):
    found = load_code_object(assemble(directives=f".amdhsa_{field} {value}")).kernel().descriptor
    names = ("round_mode_32", "round_mode_16_64", "denorm_mode_32", "denorm_mode_16_64")
    defaults = {"round_mode_32": 0, "round_mode_16_64": 0, "denorm_mode_32": 0, "denorm_mode_16_64": 3}
    wanted = defaults | {field.removeprefix("float_"): value}
    assert {name: getattr(found, name) for name in names} == wanted


@pytest.mark.parametrize("axes", ["", "x", "y", "z", "xy", "xz", "yz", "xyz"])
def test_workgroup_ids_follow_the_user_sgprs(assemble, axes):
    lines = [f".amdhsa_system_sgpr_workgroup_id_{axis} {int(axis in axes)}" for axis in "xyz"]
    lines.append(".amdhsa_user_sgpr_kernarg_segment_ptr 1")
    found = load_code_object(assemble(directives="\n".join(lines))).kernel().descriptor
    assert found.user_sgprs == (UserSgpr("kernarg_segment_ptr", 0, 2),)
    assert found.system_sgprs == tuple(UserSgpr(f"workgroup_id_{axis}", 2 + i, 1) for i, axis in enumerate(axes))


def test_user_sgprs_lie_in_the_documented_order(assemble):
    lines = [
        f".amdhsa_user_sgpr_{name} 1" for name in ("private_segment_size", "dispatch_id", "queue_ptr", "dispatch_ptr")
    ]
    lines += [".amdhsa_user_sgpr_kernarg_segment_ptr 1", ".amdhsa_user_sgpr_kernarg_preload_length 3"]
    lines += [".amdhsa_user_sgpr_kernarg_preload_offset 2"]
    found = load_code_object(assemble(directives="\n".join(lines))).kernel().descriptor
    assert found.user_sgprs == (
        UserSgpr("dispatch_ptr", 0, 2),
        UserSgpr("queue_ptr", 2, 2),
        UserSgpr("kernarg_segment_ptr", 4, 2),
        UserSgpr("dispatch_id", 6, 2),
        UserSgpr("private_segment_size", 8, 1),
        UserSgpr("kernarg_preload", 9, 3),
    )
    assert (found.kernarg_preload_length, found.kernarg_preload_offset, found.user_sgpr_count) == (3, 2, 12)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_workitem_id_mode(assemble, mode):
    assert (
        load_code_object(assemble(directives=f".amdhsa_system_vgpr_workitem_id {mode}")).kernel().descriptor.workitem_id
        == mode
    )


def test_sizes_of_lds_and_scratch(assemble):
    sizes = {"group_segment_fixed_size": 163840, "private_segment_fixed_size": 4096, "kernarg_size": 264}
    lines = [f".amdhsa_{name} {size}" for name, size in sizes.items()]
    kernel = load_code_object(assemble(directives="\n".join([*lines, ".amdhsa_enable_private_segment 1"]))).kernel()
    assert (kernel.lds_bytes, kernel.scratch_bytes, kernel.kernarg_size) == (163840, 4096, 264)
    assert kernel.descriptor.scratch_enabled


def _descriptor(**changes):
    words = {
        "lds": 0,
        "scratch": 0,
        "kernarg": 0,
        "rsrc3": 0,
        "rsrc1": 0,
        "rsrc2": 0,
        "properties": 0,
        "preload": 0,
    } | changes
    data = bytearray(64)
    for name, at, size in (
        ("lds", 0, 4), ("scratch", 4, 4), ("kernarg", 8, 4), ("rsrc3", 44, 4), ("rsrc1", 48, 4), ("rsrc2", 52, 4),
        ("properties", 56, 2), ("preload", 58, 2),
    ):  # fmt: skip
        data[at : at + size] = words[name].to_bytes(size, "little")
    return bytes(data)


def test_the_smallest_descriptor():
    found = read_descriptor(_descriptor())
    assert (found.total_vgprs, found.accum_offset, found.sgprs, found.user_sgprs) == (8, 4, 16, ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"properties": 1 << 10}, "the wavefront size must be 64, not 32; gfx950 has wave64 only"),
        ({"properties": 1 << 3}, "the user SGPR count must be 2 to 16, not 0; the descriptor is damaged"),
        ({"rsrc2": 17 << 1}, "the user SGPR count must be 0 to 16, not 17; the descriptor is damaged"),
        ({"lds": 163841}, "LDS must take at most 163840 bytes, not 163841; gfx950 has no more"),
        ({"scratch": 1 << 17}, "scratch a lane must take at most 131056 bytes, not 131072; gfx950 has no more"),
        ({"kernarg": 1 << 31}, "the kernarg segment must take at most 1048576 bytes, not 2147483648"),
    ],
)
def test_impossible_descriptors(changes, message):
    with pytest.raises(CodeObjectError) as caught:
        read_descriptor(_descriptor(**changes))
    assert str(caught.value) == message


def test_a_short_descriptor():
    with pytest.raises(CodeObjectError, match=r"^a kernel descriptor must be 64 bytes, not 63; the file is damaged$"):
        read_descriptor(bytes(63))
