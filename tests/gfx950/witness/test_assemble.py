"""The assembler against encodings written down by hand from AMD's ISA document, and against the loader."""

import pytest
from assemble import AssemblyError, code_object, machine_code

# AMD CDNA4 ISA, "Microcode formats". VOP2: op << 25 | vdst << 17 | vsrc1 << 9 | src0; VGPR n as a source is 256 + n.
KNOWN = [
    ("s_nop 0", [0xBF800000]),
    ("s_endpgm", [0xBF810000]),
    ("s_mov_b32 s4, 0x12345678", [0xBE8400FF, 0x12345678]),
    ("s_add_u32 s2, s3, s4", [0x80020403]),
    ("v_mov_b32_e32 v1, v2", [0x7E000000 | 1 << 17 | 1 << 9 | 258]),
    ("v_add_u32_e32 v1, v2, v3", [52 << 25 | 1 << 17 | 3 << 9 | 258]),
    ("v_add_f32_e32 v1, s2, v3", [1 << 25 | 1 << 17 | 3 << 9 | 2]),
    # VOP3: 0xD0000000 | op << 16 | clamp << 15 | op_sel << 11 | abs << 8 | vdst; neg << 29 | omod << 27 | src2 .. src0
    ("v_add_f32_e64 v1, -v2, |v3| clamp", [0xD0000000 | 0x101 << 16 | 1 << 15 | 2 << 8 | 1, 1 << 29 | 259 << 9 | 258]),
    ("v_fma_f32 v1, v2, v3, v4", [0xD0000000 | 459 << 16 | 1, 260 << 18 | 259 << 9 | 258]),
    (
        "v_cvt_scalef32_pk_fp4_bf16 v0, v1, v2 op_sel:[0,0,1,1]",
        [0xD0000000 | 589 << 16 | 0b1100 << 11, 258 << 9 | 257],
    ),
    # VOP3 bitop3: the truth table 0xe4 is OMOD = 3, ABS = 4, NEG = 4.
    (
        "v_bitop3_b32 v0, v1, v2, v3 bitop3:0xe4",
        [0xD2340400, 4 << 29 | 3 << 27 | 259 << 18 | 258 << 9 | 257],
    ),
]


@pytest.mark.parametrize(("text", "words"), KNOWN, ids=[k[0] for k in KNOWN])
def test_text_becomes_the_known_encoding(text, words):
    assert machine_code(text).hex() == b"".join(w.to_bytes(4, "little") for w in words).hex()


def test_text_that_gfx950_has_not_is_refused(capfd):
    with pytest.raises(AssemblyError):
        machine_code("v_dual_add_f32 v0, v1, v2")
    assert capfd.readouterr().err == ""


def test_a_code_object_is_an_amdgpu_shared_object_with_a_descriptor():
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(code_object("s_nop 0\n", name="witness")))
    assert (elf["e_machine"], elf["e_type"], elf["e_flags"] & 0xFF) == ("EM_AMDGPU", "ET_DYN", 0x4F)
    names = {s.name for s in elf.get_section_by_name(".dynsym").iter_symbols()}
    assert {"witness", "witness.kd"} <= names
