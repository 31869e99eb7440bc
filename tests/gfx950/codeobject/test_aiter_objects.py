"""AMD's prebuilt gfx950 kernels (aiter, hsa/gfx950/f4gemm): code objects of other people, written by hand."""

import re

import pytest

from mxassay.gfx950.codeobject import load_code_object
from mxassay.gfx950.hazards import hazards_of
from mxassay.gfx950.static import report_of

# One kernel overwrites the first dword of store data right after the store. LLVM PR #197267 asks for one wait state
# there, but what it measured was the second dword going wrong.
KNOWN = {"f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256.co": 3}


def test_all_load_with_the_kernarg_of_the_a4w4_abi(aiter_files):
    slots = {"D": 0, "C": 16, "A": 32, "B": 48, "alpha": 64, "beta": 80, "Mdim": 224, "Ndim": 240, "Kdim": 256}
    for path in aiter_files:
        found = load_code_object(path)
        kernel = found.kernel()
        assert path.stem in kernel.name
        assert [(sgpr.name, sgpr.first) for sgpr in kernel.descriptor.user_sgprs] == [("kernarg_segment_ptr", 0)]
        assert [(s.name, s.first) for s in kernel.descriptor.system_sgprs] == [
            (f"workgroup_id_{axis}", 2 + i) for i, axis in enumerate("xyz")
        ]
        assert kernel.max_flat_workgroup_size == 256
        offsets = {argument.name: argument.offset for argument in kernel.args if argument.name != "pad"}
        assert slots.items() <= offsets.items()
        # The variant without preshuffle can't split K and ends 16 bytes earlier.
        assert (kernel.kernarg_size, offsets.get("log2_k_split")) in ((384, 368), (368, None))
        assert sum(argument.value_kind == "global_buffer" for argument in kernel.args) == 6


def test_every_byte_of_code_is_seen_and_decodes(aiter_files):
    for path in aiter_files:
        kernel = load_code_object(path).kernel()
        report = report_of(kernel)
        assert report.unseen == 0
        assert report.classes["matrix"] >= 16
        assert report.code_bytes <= kernel.code_size
        assert report.occupancy.waves >= 1


def test_no_undisputed_hazard_but_the_known_one(aiter_files):
    found = {path.name: len(hazards_of(load_code_object(path).kernel())) for path in aiter_files}
    assert {name: count for name, count in found.items() if count} == {
        name: KNOWN[name] for name in KNOWN if name in found
    }


def test_the_m0_rule_is_broken_everywhere(aiter_files):
    disputed = [
        h for path in aiter_files for h in hazards_of(load_code_object(path).kernel(), disputed=True) if h.rule.disputed
    ]
    assert len(disputed) > 1000
    assert {(h.required, h.found, h.register) for h in disputed} == {(1, 0, "m0")}


def test_names_tell_the_tile(aiter_files):
    for path in aiter_files:
        if not re.search(r"_\d+x\d+$", path.stem):
            pytest.fail(f"{path.name} names no tile")
