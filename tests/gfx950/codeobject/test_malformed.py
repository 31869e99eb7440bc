"""Files that are no gfx950 code object: each ends in one clear sentence."""

import struct

import pytest
from sample_metadata import METADATA

from mxassay.errors import MxassayError
from mxassay.gfx950.codeobject import CodeObjectError, load_code_object
from mxassay.gfx950.metadata import read_metadata


def _message(data):
    with pytest.raises(CodeObjectError) as caught:
        load_code_object(data)
    assert isinstance(caught.value, MxassayError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _patched(binary, at, form, value):
    data = bytearray(binary)
    struct.pack_into("<" + form, data, at, value)
    return bytes(data)


# (offset in the ELF header, form, value) -> message; offsets from the System V gABI, "ELF Header"
HEADERS = {
    "ELF32": (4, "B", 1, "the ELF class must be 2 (64-bit), not 1; code objects for gfx950 are ELF64"),
    "big endian": (5, "B", 2, "the ELF byte order must be 1 (little-endian), not 2"),
    "x86": (18, "H", 62, "the code object must be for an AMD GPU, not for x86-64"),
    "cubin": (18, "H", 190, "the code object must be for an AMD GPU, not for an NVIDIA GPU (cubin)"),
    "unknown machine": (18, "H", 9999, "the code object must be for an AMD GPU, not for machine 9999"),
    "gfx942": (48, "I", 0x54C, "the code object must be for gfx950, not gfx942; compile it for gfx950"),
    "gfx1250": (48, "I", 0x49, "the code object must be for gfx950, not gfx1250; compile it for gfx950"),
    "unknown processor": (
        48,
        "I",
        0x5FF,
        "the code object must be for gfx950, not processor 0xff; compile it for gfx950",
    ),
    "graphics": (7, "B", 65, "the OS ABI must be 64 (amdhsa), not 65; graphics code is not run"),
    "entry size of segments": (
        54,
        "H",
        57,
        "an entry of the program header table must be 56 bytes, not 57; the file is damaged",
    ),
    "entry size of sections": (
        58,
        "H",
        0,
        "an entry of the section header table must be 64 bytes, not 0; the file is damaged",
    ),
    "names outside": (62, "H", 999, "the section of names must be below 21, not 999; the file is damaged"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers(compiled, case):
    at, form, value, message = HEADERS[case]
    assert _message(_patched(compiled["add"].binary, at, form, value)).startswith(message)


@pytest.mark.parametrize("at", [32, 40])
def test_tables_far_outside_the_file(compiled, at):
    binary = compiled["add"].binary
    for value in (len(binary), 2**63, 2**64 - 1):
        assert " must end inside the file of " in _message(_patched(binary, at, "Q", value))


def test_every_truncation_is_an_error_or_a_whole_object(compiled):
    binary = compiled["add"].binary
    # The section header table stands last, so any cut loses a part of it.
    for size in range(0, len(binary), 7):
        assert _message(binary[:size])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file must begin with the ELF magic 7f454c46, not nothing; is it a code object?"),
        (b"\x7fELF", "the ELF header must hold 64 bytes, not 4; the file is truncated"),
        (b"// PTX\n", "the file must begin with the ELF magic 7f454c46, not 2f2f2050; is it a code object?"),
        (
            b"CCOB" + bytes(60),
            "the bundle must be plain, not compressed; unbundle it with clang-offload-bundler --unbundle",
        ),
    ],
)
def test_other_files(data, message):
    assert _message(data) == message


def test_a_path_that_is_not_there(tmp_path):
    assert _message(tmp_path / "absent.co").startswith("the code object must be a readable file, not ")
    assert _message(tmp_path).startswith("the code object must be a readable file, not ")


def test_a_path(compiled, tmp_path):
    path = tmp_path / "add.hsaco"
    path.write_bytes(compiled["add"].binary)
    assert load_code_object(path).path == str(path)
    assert load_code_object(str(path)).kernels.keys() == {"add"}


def test_no_kernel(link):
    data = link('.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n.globl f\n.type f,@function\nf: s_endpgm\n')
    assert (
        _message(data) == "a code object must hold a kernel (a symbol ending in .kd), not none; is it a device library?"
    )


def _segment(binary, index):
    return struct.unpack_from("<Q", binary, 32)[0] + 56 * index


def test_segments_that_overlap(compiled):
    binary = compiled["add"].binary
    assert _message(_patched(binary, _segment(binary, 2) + 16, "Q", 0x10)).startswith("segments must not overlap, but ")


def test_a_segment_larger_than_memory(compiled):
    binary = compiled["add"].binary
    message = _message(_patched(binary, _segment(binary, 3) + 40, "Q", 2**40))
    assert message.startswith("the loaded image must take at most 268435456 bytes, not ")
    assert "must take its 112 file bytes, not 1" in _message(_patched(binary, _segment(binary, 3) + 40, "Q", 1))


def test_an_entry_outside_the_code(compiled):
    binary = compiled["add"].binary
    at = binary.index(struct.pack("<q", load_code_object(binary).kernel().descriptor.entry_offset), 64)
    assert _message(_patched(binary, at, "q", -(2**62))).startswith("the entry of add must ")
    assert _message(_patched(binary, at, "q", 4)).startswith("the entry of add must be a multiple of 256, not ")


def test_metadata_that_names_an_absent_symbol(assemble):
    text = METADATA.replace("probe.kd", "absent.kd")
    assert (
        _message(assemble(metadata=text))
        == "each kernel of the metadata must have its symbol, but absent.kd is missing"
    )


_DAMAGED = "; the file is damaged"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".offset: 44", ".offset: 1048577", f".offset must be an integer of 0 to 1048576, not 1048577{_DAMAGED}"),
        (
            "_size: 288",
            "_size: 4000000000",
            f".kernarg_segment_size must be an integer of 0 to 1048576, not 4000000000{_DAMAGED}",
        ),
        ("size: 128", "size: 2048", f".max_flat_workgroup_size must be an integer of 0 to 1024, not 2048{_DAMAGED}"),
        ("[64, 2, 1]", "[64, 0, 1]", ".reqd_workgroup_size must be 3 sizes of 1 to 1024, not [64, 0, 1]"),
    ],
)
def test_metadata_out_of_range(assemble, old, new, message):
    assert METADATA.count(old) == 1
    assert _message(assemble(metadata=METADATA.replace(old, new))) == message


def _key(text):
    return bytes([0xA0 + len(text)]) + text.encode()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            b"\x81" + _key(".name") + b"\xa0",
            "a kernel's metadata must give .name and .symbol, not leave them empty" + _DAMAGED,
        ),
        (b"\x81" + _key(".name") + b"\x01", ".name must be a string, not a int" + _DAMAGED),
        (b"\x01", "an entry of amdhsa.kernels must be a map, not a int" + _DAMAGED),
    ],
)
def test_metadata_without_a_name(kernel, message):
    with pytest.raises(CodeObjectError) as caught:
        read_metadata(b"\x81" + _key("amdhsa.kernels") + b"\x91" + kernel)
    assert str(caught.value) == message


BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"


def _bundle(*entries):
    at = len(BUNDLE) + 8 + sum(24 + len(name) for name, _ in entries)
    table, body = b"", b""
    for name, data in entries:
        table += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name
        body += data
    return BUNDLE + struct.pack("<Q", len(entries)) + table + body


def test_an_offload_bundle_gives_its_gfx950_part(compiled):
    binary = compiled["add"].binary
    host, other = (b"host-x86_64-unknown-linux--", b""), (b"hipv4-amdgcn-amd-amdhsa--gfx942", b"\x7fELF")
    for name in (b"hipv4-amdgcn-amd-amdhsa--gfx950", b"hip-amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-"):
        assert load_code_object(_bundle(host, other, (name, binary))).kernels.keys() == {"add"}
    assert _message(_bundle(host, other)) == (
        "the bundle must hold a code object for gfx950, not only "
        "['host-x86_64-unknown-linux--', 'hipv4-amdgcn-amd-amdhsa--gfx942']"
    )


def test_damaged_bundles(compiled):
    whole = _bundle((b"hipv4-amdgcn-amd-amdhsa--gfx950", compiled["add"].binary))
    assert _message(whole[:40]).startswith("the bundle's table must end inside the file of 40 bytes")
    assert _message(whole[:-1]).startswith("a bundle entry must end inside the file of ")
    many = BUNDLE + struct.pack("<Q", 2**63)
    assert _message(many) == f"a bundle must have at most 4096 entries, not {2**63}; the file is damaged"


def _elf(sections, extra=b""):
    """A bare gfx950 ELF whose sections, (type, offset, size, link, entry size), may share bytes."""
    names = len(sections) + 1
    rows = [(0, 0, 0, 0, 0), *sections, (3, 64, 1, 0, 0)]
    ident = b"\x7fELF\x02\x01\x01\x40" + bytes(8)
    body = bytes(64) + extra
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, link, 0, 0, step) for kind, at, size, link, step in rows
    )
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 224, 1, 0, 0, len(body), 0x54F, 64, 0, 0, 64, len(rows), names)
    return header + body[64:] + table


def test_sections_that_share_bytes_cannot_multiply_the_work():
    extra = bytes(24 * 5000)
    tables = _elf([(2, 64, len(extra), 0, 24)] * 1000, extra)
    assert _message(tables) == "a file must hold at most 65536 symbols, not 5000000; it is damaged"
    relocations = _elf([(4, 64, len(extra), 0, 24)] * 1000, extra)
    assert _message(relocations) == "a file must hold at most 65536 relocations, not 5000000; it is damaged"
    notes = _elf([(7, 64, 24, 0, 0)] * 65, extra)
    assert _message(notes) == "a file must hold at most 64 note sections, not 65; it is damaged"


def test_a_name_without_end():
    symbol = struct.pack("<IBBHQQ", 1, 0, 0, 1, 0, 0)
    data = _elf([(2, 64, 24, 2, 24), (3, 88, 20000, 0, 0)], symbol + b"\0" + b"a" * 19999)
    assert _message(data) == "the name of a symbol must end inside its table of 20000 bytes, within 16384 from 1"
