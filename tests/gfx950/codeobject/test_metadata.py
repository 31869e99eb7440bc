"""The metadata note, the code it belongs to, and source lines."""

import re

import pytest
from sample_metadata import METADATA

from mxassay.gfx950.codeobject import Argument, CodeObjectError, load_code_object
from mxassay.gfx950.msgpack import MAX_DEPTH, decode

# Encodings written out by hand from the MessagePack specification.
VECTORS = [
    ("00", 0), ("7f", 127), ("e0", -32), ("ff", -1), ("c0", None), ("c2", False), ("c3", True),
    ("ccff", 255), ("cdffff", 65535), ("ceffffffff", 2**32 - 1), ("cfffffffffffffffff", 2**64 - 1),
    ("d080", -128), ("d18000", -(2**15)), ("d280000000", -(2**31)), ("d38000000000000000", -(2**63)),
    ("ca3fc00000", 1.5), ("cb3ff8000000000000", 1.5), ("a0", ""), ("a26869", "hi"), ("d9026869", "hi"),
    ("da00026869", "hi"), ("db000000026869", "hi"), ("c4020001", b"\0\1"), ("c500020001", b"\0\1"),
    ("c6000000020001", b"\0\1"), ("90", []), ("920102", [1, 2]), ("dc00020102", [1, 2]), ("dd000000020102", [1, 2]),
    ("80", {}), ("81a16101", {"a": 1}), ("de0001a16101", {"a": 1}), ("df00000001a16101", {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("encoded", "value"), VECTORS)
def test_messagepack_vectors(encoded, value):
    found = decode(bytes.fromhex(encoded))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("encoded", "value"), [v for v in VECTORS if len(v[0]) > 2])
def test_every_cut_of_a_messagepack_value_is_an_error(encoded, value):
    data = bytes.fromhex(encoded)
    for size in range(len(data)):
        with pytest.raises(CodeObjectError):
            decode(data[:size])


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ("", "the metadata note must hold 1 bytes, not 0; the file is damaged"),
        ("c1", "a metadata value must be of a plain MessagePack type, not 0xc1; the file is damaged"),
        ("d40100", "a metadata value must be of a plain MessagePack type, not 0xd4; the file is damaged"),
        ("ddffffffff", "a metadata array must fit in the note, not have 4294967295 members; the file is damaged"),
        ("dfffffffff", "a metadata map must fit in the note, not have 4294967295 members; the file is damaged"),
        ("dbffffffff", "the metadata note must hold 4294967300 bytes, not 5; the file is damaged"),
        ("819001", "a metadata key must be a string, not a list; the file is damaged"),
        (
            "91" * (MAX_DEPTH + 2),
            f"the metadata note must nest at most {MAX_DEPTH} deep and hold at most 262144 values, not more",
        ),
    ],
)
def test_messagepack_errors(encoded, message):
    with pytest.raises(CodeObjectError) as caught:
        decode(bytes.fromhex(encoded))
    assert str(caught.value) == message


def test_arguments_of_a_compiled_kernel(compiled):
    kernel = load_code_object(compiled["add"].binary).kernel("add")
    assert kernel.args[:3] == (
        Argument(0, 8, "global_buffer", address_space="global"),
        Argument(8, 8, "global_buffer", address_space="global"),
        Argument(16, 4, "by_value"),
    )
    assert all(argument.offset + argument.size <= kernel.kernarg_size for argument in kernel.args)
    assert kernel.max_flat_workgroup_size == 256


def test_counts_of_compiled_kernels_are_what_llvm_wrote(compiled):
    for built in compiled.values():
        meta = load_code_object(built.binary).kernel().metadata
        for key, found in (
            ("vgpr_count", meta.vgpr_count), ("sgpr_count", meta.sgpr_count), ("agpr_count", meta.agpr_count),
            ("vgpr_spill_count", meta.vgpr_spill_count), ("sgpr_spill_count", meta.sgpr_spill_count),
            ("kernarg_segment_size", meta.kernarg_size), ("kernarg_segment_align", meta.kernarg_align),
            ("max_flat_workgroup_size", meta.max_flat_workgroup_size),
        ):  # fmt: skip
            (wanted,) = re.findall(rf"\.{key}:\s+(\d+)", built.text)
            assert found == int(wanted), (built.name, key)


def test_the_code_is_the_symbol_s_bytes(compiled):
    for built in compiled.values():
        kernel = load_code_object(built.binary).kernel()
        (length,) = re.findall(r"; codeLenInByte = (\d+)", built.text)
        # LLVM's count leaves out the alignment of branch targets.
        assert int(length) <= kernel.code_size <= len(kernel.text)
        assert kernel.entry % 256 == 0
        assert kernel.code == kernel.text[kernel.entry - kernel.text_address :][: kernel.code_size]


def test_names_types_access_and_hidden_arguments(assemble):
    found = load_code_object(assemble(metadata=METADATA))
    kernel = found.kernel("spelled")
    assert found.target == "amdgcn-amd-amdhsa--gfx950"
    assert kernel.args[0] == Argument(0, 8, "global_buffer", "x", "float*", "global", "read_only")
    assert [(arg.value_kind, arg.hidden) for arg in kernel.args[1:]] == [
        ("hidden_block_count_x", True),
        ("hidden_group_size_x", True),
    ]
    assert kernel.metadata.reqd_workgroup_size == (64, 2, 1)
    assert (kernel.kernarg_size, kernel.metadata.kernarg_align) == (288, 16)
    assert kernel.metadata.vgpr_spill_count is None


def test_a_kernarg_segment_reaches_to_its_last_argument(assemble):
    text = METADATA.replace(".kernarg_segment_size: 288", ".kernarg_segment_size: 40")
    assert load_code_object(assemble(metadata=text)).kernel().kernarg_size == 46


def test_a_kernel_without_metadata_still_loads(assemble):
    kernel = load_code_object(assemble()).kernel("probe")
    assert (kernel.metadata, kernel.args, kernel.max_flat_workgroup_size) == (None, (), 1024)


def test_several_kernels_must_be_named(link):
    two = "\n".join(
        f"""
        .text
        .globl {name}
        .p2align 8
        .type {name},@function
        {name}: {body}
        s_endpgm
        .section .rodata,"a",@progbits
        .p2align 6
        .amdhsa_kernel {name}
        .amdhsa_next_free_vgpr 8
        .amdhsa_next_free_sgpr 8
        .amdhsa_accum_offset 8
        .end_amdhsa_kernel"""
        for name, body in (("one", "s_nop 1"), ("two", ""))
    )
    found = load_code_object(link('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"' + two))
    assert sorted(found.kernels) == ["one", "two"]
    # Without a symbol size a kernel reaches to the next function, padding included.
    assert found.kernels["one"].code_size == 256
    with pytest.raises(CodeObjectError, match=r"^a kernel name must be given, since the file holds 2: "):
        found.kernel()
    with pytest.raises(CodeObjectError, match=r"^the kernel must be one of (one, two|two, one), not three$"):
        found.kernel("three")


def test_source_lines(compiled):
    built = compiled["add"]
    found = load_code_object(built.binary)
    kernel = found.kernel()
    lines = {found.line_of(pc) for pc in range(kernel.entry, kernel.entry + kernel.code_size, 4)}
    named = {(name, int(line)) for line, name in re.findall(r"\.loc\s+\d+ (\d+) \d+.*; (\S+?):\d+", built.text)}
    assert {line for line in lines if line} == {(name, line) for name, line in named if line}
    assert "compiled_kernels.py" in {name for name, _ in named}
    assert found.line_of(0) is None


def test_code_without_line_tables(assemble):
    found = load_code_object(assemble())
    assert found.line_of(found.kernel().entry) is None


RELOCATED = """
.section .data.rel.ro,"aw",@progbits
.p2align 3
.globl table
table: .quad table, probe+16
.quad 0x1122334455667788
"""


def test_relocations_follow_the_base(assemble):
    found = load_code_object(assemble(metadata=RELOCATED))
    base = 0x7F0000000000
    entry = found.kernel().entry
    ((address, data),) = [(a, d) for a, d in found.image(base) if bytes.fromhex("8877665544332211") in d]
    at = data.index(bytes.fromhex("8877665544332211")) - 16
    assert int.from_bytes(data[at : at + 8], "little") == address + at
    assert int.from_bytes(data[at + 8 : at + 16], "little") == base + entry + 16


def test_the_image_is_zero_filled_to_its_size_in_memory(compiled):
    found = load_code_object(compiled["add"].binary)
    assert [len(data) for _, data in found.image()] == [segment.memory_size for segment in found.segments]
    assert found.image(0x1000)[0][0] == found.segments[0].vaddr + 0x1000
