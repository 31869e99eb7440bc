"""One planted fault a check, in assembly: each is named, with the pc that the assembler gives it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from mxassay.gfx950 import EndlessLoop, MemoryFault
from mxassay.gfx950.checks import CHECKS, Checks, StrictError

WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
STORE = WAIT + "global_store_dword v1, v2, s[6:7]\n"
OTHER_WAVE = "v_xor_b32 v3, 0x100, v1\n"  # the other wave's places, for workgroups of two


def only(checks, check, pc):
    assert [(finding.check, hex(finding.pc)) for finding in checks.findings] == [(check, hex(pc))]
    return checks.findings[0]


def test_a_right_kernel_has_no_findings(plant, words):
    checks = Checks("all")
    text = OTHER_WAVE + "global_load_dword v4, v1, s[4:5]\ns_waitcnt vmcnt(0)\nds_write_b32 v1, v4\n"
    text += "s_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v2, v3\n" + STORE
    out = words(256)
    plant(text, lds=512).run(checks, words(256), out, grid=2, block=128)
    assert checks.findings == []
    assert checks.text().startswith("no findings (alignment, bank-conflicts, bounds, ")
    assert (out[:128] == np.roll(words(128), 64)).all()


def test_a_load_past_its_buffer(plant, words):
    checks, kernel = Checks(), plant("global_load_dword v2, v1, s[4:5] ; <- here\n" + STORE)
    with pytest.raises(MemoryFault):
        kernel.run(checks, words(40), words(64))
    finding = only(checks, "bounds", kernel.pc())
    assert (finding.wave, finding.workgroup, finding.lane) == (0, 0, 40)
    assert finding.explanation.startswith("a load must stay inside a buffer, not at 0x")
    assert finding.explanation.endswith("(0 bytes past the end of argument 0 of 160 bytes at 0x5000000000"
                                        f"{finding.address - 160 & 0xFF:02x})")  # fmt: skip


def test_lds_that_nobody_wrote(plant, words):
    checks = Checks()
    kernel = plant("ds_write_b32 v1, v0\nds_read_b32 v2, v1 offset:128 ; <- here\n" + WAIT
                   + "v_add_u32 v2, 1, v2\nglobal_store_dword v1, v2, s[6:7] ; <- store\n", lds=512)  # fmt: skip
    kernel.run(checks, words(), words())
    finding = only(checks, "uninit-lds", kernel.pc())
    assert (finding.lane, finding.address, finding.buffer) == (32, 256, "LDS")
    assert finding.explanation == (
        "LDS must be written before it is read and its value is stored (`global_store_dword v1, v2, s[6:7]` at pc "
        f"{kernel.pc('store'):#x}), not read as nobody left it"
    )


def test_lds_that_nobody_wrote_is_no_fault_while_nothing_comes_of_it(plant, words):
    checks = Checks("all")
    text = "ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\nv_and_b32 v2, 0, v2\nglobal_store_dword v1, v2, s[6:7]\n"
    plant(text, lds=512).run(checks, words(), words())
    assert checks.findings == []


def test_a_register_that_nobody_wrote(plant, words):
    checks, kernel = Checks(), plant("v_add_u32 v2, 1, v9\nglobal_store_dword v1, v2, s[6:7] ; <- here")
    kernel.run(checks, words(), words(), grid=1, block=64)
    finding = only(checks, "uninit-registers", kernel.pc())
    assert finding.explanation == "v9 must be written before its value is stored, not read as it was found"


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("v_mov_b32 v5, v9\nglobal_load_dword v2, v5, s[4:5] ; <- here\ns_waitcnt vmcnt(0)", "v9 .* makes an address"),
        ("s_cmp_eq_u32 s20, 0\ns_cbranch_scc1 out ; <- here\ns_nop 0\nout:", "s20 .* decides a branch"),
        ("v_cmp_eq_u32 vcc, v9, v0\ns_cbranch_vccz out ; <- here\ns_nop 0\nout:", "v9 .* decides a branch"),
        ("v_cmp_eq_u32 vcc, v9, v0\ns_and_saveexec_b64 s[8:9], vcc ; <- here", "v9 .* sets EXEC"),
        ("v_readlane_b32 s8, v0, s21 ; <- here", "s21 .* chooses a lane"),
        ("v_mov_b32 v5, 0\nglobal_atomic_add v5, v9, s[6:7] ; <- here\ns_waitcnt vmcnt(0)", "v9 .* is stored"),
        (("scratch_store_dword off, v9, off\nscratch_load_dword v2, off, off\ns_waitcnt vmcnt(0)\n"
         "global_store_dword v1, v2, s[6:7] ; <- here"), "v9 .* is stored"),
        (("v_mfma_f32_16x16x32_bf16 v[12:15], v[20:23], v[24:27], 0\ns_nop 15\n"
         "global_store_dword v1, v13, s[6:7] ; <- here"), "v2[0-7] .* is stored"),
    ],
)  # fmt: skip
def test_where_a_register_that_nobody_wrote_comes_to_matter(plant, words, text, words_of_it):
    checks, kernel = Checks("uninit"), plant(text, scratch=16)
    kernel.run(checks, words(), words())
    finding = only(checks, "uninit-registers", kernel.pc())
    assert re.match(words_of_it.replace(" .* ", " must be written before its value "), finding.explanation)


def test_what_exec_masks_off_does_not_matter(plant, words):
    """A lane that never got a value is off when the value is stored."""
    checks = Checks()
    text = "v_cmp_gt_u32 vcc, 10, v0\ns_and_saveexec_b64 s[8:9], vcc\nv_mov_b32 v2, 7\nv_add_u32 v2, v2, v0\n"
    text += "global_store_dword v1, v2, s[6:7]\ns_mov_b64 exec, s[8:9]\n"
    plant(text).run(checks, words(), words())
    assert checks.findings == []
    kernel = plant(text + "global_store_dword v1, v2, s[6:7] ; <- here\n")
    kernel.run(checks, words(), words())
    assert only(checks, "uninit-registers", kernel.pc()).lane == 10


def test_scratch_that_nobody_wrote(plant, words):
    checks = Checks()
    kernel = plant("scratch_store_dword off, v0, off\nscratch_load_dwordx2 v[2:3], off, off ; <- here\n" + WAIT +
                   "global_store_dword v1, v2, s[4:5]\nglobal_store_dword v1, v3, s[6:7]\n", scratch=16)  # fmt: skip
    kernel.run(checks, words(), words())
    finding = only(checks, "uninit-memory", kernel.pc())
    assert (finding.address, finding.buffer) == (4, "scratch")


def test_a_missing_barrier(plant, words):
    checks = Checks()
    kernel = plant(OTHER_WAVE + "ds_write_b32 v1, v0 ; <- write\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v3 ; <- here\n"
                   + STORE, lds=512)  # fmt: skip
    kernel.run(checks, words(128), words(128), block=128)
    finding = only(checks, "lds-races", kernel.pc())
    assert (finding.wave, finding.lane, finding.address, finding.repeats) == (0, 0, 0x100, 2)
    assert finding.explanation == (
        "LDS that one wave has written must be read by another after a barrier that the access was waited for at, not "
        f"in the same epoch as `ds_write_b32 v1, v0` at pc {kernel.pc('write'):#x} of wave 1 of the workgroup"
    )


def test_a_barrier_before_the_wait_orders_nothing(plant, words):
    checks = Checks()
    kernel = plant(OTHER_WAVE + "ds_write_b32 v1, v0\ns_barrier\nds_read_b32 v2, v3 ; <- here\n" + STORE, lds=512)
    kernel.run(checks, words(128), words(128), block=128)
    only(checks, "lds-races", kernel.pc())


@pytest.mark.parametrize("wait", ["", "s_waitcnt lgkmcnt(0)\n"])
def test_a_read_must_be_waited_for_before_the_barrier_after_which_another_wave_writes(plant, words, wait):
    checks = Checks()
    text = "ds_write_b32 v1, v0\n" + WAIT + "s_barrier\n" + OTHER_WAVE + "ds_read_b32 v2, v3\n" + wait
    text += "s_barrier\nv_add_u32 v5, 1, v0\nds_write_b32 v1, v5 ; <- here\n" + STORE
    kernel = plant(text, lds=512)
    kernel.run(checks, words(128), words(128), block=128)
    if wait:
        assert checks.findings == []
    else:
        assert "has read must be written" in only(checks, "lds-races", kernel.pc()).explanation


def test_two_waves_may_store_the_same_bytes_but_not_different_ones(plant, words):
    checks = Checks()
    same = "v_and_b32 v3, 63, v0\nv_lshlrev_b32 v4, 2, v3\nds_write_b32 v4, v3\n" + WAIT + "s_barrier\n"
    plant(same, lds=512).run(checks, words(128), words(128), block=128)
    assert checks.findings == []
    kernel = plant(same.replace("v4, v3\n", "v4, v0 ; <- here\n"), lds=512)
    kernel.run(checks, words(128), words(128), block=128)
    assert "written must be written" in only(checks, "lds-races", kernel.pc()).explanation


def test_bytes_beside_each_other_are_no_race(plant, words):
    checks = Checks()
    plant("ds_write_b8 v0, v0\n" + WAIT, lds=512).run(checks, words(128), words(128), block=128)
    plant("v_and_b32 v2, 63, v0\nv_lshrrev_b32 v3, 6, v0\nv_lshl_add_u32 v4, v2, 1, v3\nds_write_b8 v4, v0\n" + WAIT,
          lds=512).run(checks, words(128), words(128), block=128)  # fmt: skip
    assert checks.findings == []


def test_a_read_that_counts_on_the_latency_of_memory(plant, words):
    """The read is not waited for at the barrier after which the other wave's load overwrites what it reads."""
    text = "ds_write_b32 v1, v0\n" + WAIT + "s_barrier\n" + OTHER_WAVE + "ds_read_b32 v2, v3\ns_barrier\n"
    text += "v_readfirstlane_b32 s8, v1\ns_mov_b32 m0, s8\nglobal_load_lds_dword v1, s[4:5] ; <- here\n" + STORE
    kernel = plant(text, lds=512)
    checks = Checks()
    kernel.run(checks, words(128), words(128), block=128)
    assert checks.findings == []
    checks = Checks("all")
    kernel.run(checks, words(128), words(128), block=128)
    only(checks, "lds-latency", kernel.pc())


def test_a_load_straight_to_lds_must_end_before_the_barrier(plant, words):
    text = "v_readfirstlane_b32 s8, v1\ns_mov_b32 m0, s8\nglobal_load_lds_dword v1, s[4:5] ; <- load\n{}s_barrier\n"
    text += OTHER_WAVE + "ds_read_b32 v2, v3 ; <- here\n" + STORE
    checks, out = Checks(), words(128)
    plant(text.format("s_waitcnt vmcnt(0)\n"), lds=512).run(checks, words(128), out, block=128)
    assert checks.findings == []
    assert (out == np.roll(words(128), 64)).all()
    kernel = plant(text.format(""), lds=512)
    kernel.run(checks, words(128), words(128), block=128)
    assert f"at pc {kernel.pc('load'):#x} of wave 1" in only(checks, "lds-races", kernel.pc()).explanation


def test_lds_atomics_are_no_race(plant, words):
    checks = Checks("races")
    plant("v_mov_b32 v3, 0\nds_add_u32 v3, v0\n" + WAIT, lds=512).run(checks, words(128), words(128), block=128)
    assert checks.findings == []


MISSING_WAITS = {
    "vm": ("global_load_dword v2, v1, s[4:5] ; <- load\nv_add_u32 v3, v2, v2 ; <- here\ns_waitcnt vmcnt(0)",
           ("v2 must be read after an s_waitcnt vmcnt that covers `global_load_dword v2, v1, s[4:5]` at pc {load:#x}, "
           "not while that load may be under way")),
    "vm too weak": (("global_load_dword v3, v1, s[4:5]\nglobal_load_dword v2, v1, s[4:5] ; <- load\n"
                    "s_waitcnt vmcnt(1)\n"
                    "v_add_u32 v3, v3, v3\nv_add_u32 v3, v2, v2 ; <- here"), "v2 must be read"),
    "a store counts": (("global_store_dword v1, v0, s[6:7]\nglobal_load_dword v2, v1, s[4:5] ; <- load\n"
                       "s_waitcnt vmcnt(1)\nv_add_u32 v3, v2, v2 ; <- here"), "v2 must be read"),
    "lgkm": ("ds_write_b32 v1, v0\nds_read_b32 v2, v1 ; <- load\nv_add_u32 v3, v2, v2 ; <- here\ns_waitcnt lgkmcnt(0)",
             "v2 must be read after an s_waitcnt lgkmcnt that covers"),
    "scalar loads end in any order": (
        ("s_load_dword s8, s[4:5], 0x0 ; <- load\ns_load_dword s9, s[4:5], 0x4\ns_waitcnt lgkmcnt(1)\n"
        "s_add_u32 s8, s8, 1 ; <- here\ns_waitcnt lgkmcnt(0)"), "s8 must be read after an s_waitcnt lgkmcnt(0)"),
    "overwritten": ("global_load_dword v2, v1, s[4:5] ; <- load\nv_mov_b32 v2, 0 ; <- here\ns_waitcnt vmcnt(0)",
                    "v2 must be written after"),
    "as an address": ("global_load_dword v2, v1, s[4:5] ; <- load\nglobal_load_dword v3, v2, s[4:5] ; <- here\n" + WAIT,
                      "v2 must be read"),
    "straight to LDS": ("s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[4:5] ; <- load\nds_read_b32 v2, v1 ; <- here\n"
                        + WAIT, ("LDS filled from memory must be touched after an s_waitcnt vmcnt that covers its load "
                        "at pc {load:#x}, not while that load may be under way")),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING_WAITS)
def test_a_missing_wait(plant, words, name):
    text, said = MISSING_WAITS[name]
    checks, kernel = Checks("waitcnt"), plant(text, lds=512)
    kernel.run(checks, words(), words())
    finding = only(checks, "waitcnt", kernel.pc())
    assert finding.explanation.startswith(said.format(load=kernel.pc("load")))
    assert finding.wave == 0


ENOUGH_WAITS = {
    "counted": "global_load_dword v2, v1, s[4:5]\nglobal_load_dword v3, v1, s[4:5]\ns_waitcnt vmcnt(1)\n"
               "v_mov_b32 v4, v2\ns_waitcnt vmcnt(0)\nv_mov_b32 v4, v3",
    "other lanes": "v_cmp_gt_u32 vcc, 32, v0\ns_and_saveexec_b64 s[8:9], vcc\nglobal_load_dword v2, v1, s[4:5]\n"
                   "s_xor_b64 exec, exec, s[8:9]\nv_mov_b32 v2, 0\ns_mov_b64 exec, -1\ns_waitcnt vmcnt(0)",
    "loads in order": "global_load_dword v2, v1, s[4:5]\nglobal_load_dword v2, v1, s[6:7]\ns_waitcnt vmcnt(0)",
    "LDS behind scalars": "ds_read_b32 v2, v1\ns_load_dword s8, s[4:5], 0x0\nds_read_b32 v3, v1\ns_waitcnt lgkmcnt(0)\n"
                          "v_add_u32 v2, v3, s8",
    "a store's data": "v_mov_b32 v2, 0\nglobal_store_dword v1, v2, s[6:7]\nv_mov_b32 v2, 1\ns_waitcnt vmcnt(0)",
}  # fmt: skip


@pytest.mark.parametrize("name", ENOUGH_WAITS)
def test_waits_that_suffice(plant, words, name):
    checks = Checks("waitcnt")
    plant(ENOUGH_WAITS[name], lds=512).run(checks, words(), words())
    assert checks.findings == []


def test_an_endless_loop(plant, words):
    checks, kernel = Checks(), plant("s_nop 0\nagain:\ns_nop 1 ; <- here\ns_branch again")
    with pytest.raises(EndlessLoop):
        kernel.run(checks, words(), words(), budget=5000)
    finding = only(checks, "endless", kernel.pc())
    assert finding.explanation == "a launch must end within 5,000 steps, but still runs"
    assert (finding.wave, finding.workgroup) == (0, 0)


def test_an_access_past_the_workgroups_lds(plant, words):
    checks, kernel = Checks(), plant("ds_write_b32 v1, v0 ; <- here\n" + WAIT, lds=128)
    with pytest.raises(MemoryFault):
        kernel.run(checks, words(), words())
    finding = only(checks, "bounds", kernel.pc())
    assert (finding.lane, finding.address, finding.buffer) == (32, 128, "LDS")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (("v_cmp_gt_u32 vcc, 8, v0\ns_and_b64 exec, exec, vcc\nv_add_u32 v1, 2, v1\n"
         "global_load_dword v2, v1, s[4:5] ; <- here\n"),
         "the address of 4 bytes must be a multiple of 4, not 0x"),
        ("v_mov_b32 v2, 3\nglobal_load_ushort v2, v2, s[4:5] ; <- here\n",
         "the address of 2 bytes must be a multiple of 2"),
        ("ds_read_b64 v[2:3], v1 ; <- here\n", "the address of 8 bytes must be a multiple of 8, not 0x4"),
        ("ds_read_b128 v[4:7], v1 ; <- here\n", "the address of 16 bytes must be a multiple of 16, not 0x4"),
        ("s_add_u32 s8, s4, 2\ns_mov_b32 s9, s5\ns_load_dword s10, s[8:9], 0x0 ; <- here\n",
         "the address of a scalar load must be a multiple of 4, not 2 more, which the card drops"),
        ("s_mov_b32 m0, 6\nglobal_load_lds_dword v1, s[4:5] ; <- here\n",
         "the place in LDS must be a multiple of 4, not 2 more, which the card drops"),
    ],
)  # fmt: skip
def test_a_misaligned_access(plant, words, text, said):
    checks, kernel = Checks("alignment"), plant(text + WAIT, lds=1024)
    kernel.run(checks, words(), words())
    assert only(checks, "alignment", kernel.pc()).explanation.startswith(said)


def test_strict_stops_at_the_first_finding(plant, words):
    kernel = plant(MISSING_WAITS["vm"][0])
    with pytest.raises(StrictError, match=r"^waitcnt: v2 must be read after") as caught:
        kernel.run(Checks(strict=True), words(), words())
    assert caught.value.finding.pc == kernel.pc()


def test_a_check_that_is_off_says_nothing(plant, words):
    checks = Checks("default,-waitcnt")
    plant(MISSING_WAITS["vm"][0]).run(checks, words(), words())
    assert checks.findings == []


def test_findings_of_several_launches_are_counted_together(plant, words):
    checks, kernel = Checks(), plant(MISSING_WAITS["vm"][0])
    for _ in range(3):
        kernel.run(checks, words(), words())
    assert only(checks, "waitcnt", kernel.pc()).repeats == 3


def test_checks_that_forget_are_as_new(plant, words):
    """Of a launch that failed in the middle, too; and what nobody wrote is forgotten with it."""
    checks = Checks("all,uninit-memory")
    wrong, right = plant(MISSING_WAITS["vm"][0]), plant("global_load_dword v2, v1, s[4:5]\n" + STORE)
    buffer = torch.zeros(64, dtype=torch.int32)
    with checks:
        checks.undefined(buffer)
        wrong.run(checks, words(), words())
        with pytest.raises(MemoryFault):
            right.run(checks, words(40), words())
    assert {finding.check for finding in checks.findings} >= {"waitcnt", "bounds"}
    assert checks.counts
    assert checks.unwritten(buffer) == 64
    checks.forget()
    assert (checks.findings, checks.counts, checks.places, checks.unwritten(buffer)) == ([], [], [], 0)
    with checks:
        right.run(checks, words(), words())
    assert checks.findings == []
    assert len(checks.counts) == 1
    wrong.run(checks, words(), words())
    assert only(checks, "waitcnt", wrong.pc()).repeats == 1


def test_observers_that_share_the_steps_of_a_kernel_are_told_each_its_own(plant, words):
    first, second, kernel = Checks("counts"), Checks("counts"), plant(STORE)
    for checks in (first, second, first):
        kernel.run(checks, words(), words())
    kernel.run(None, words(), words())
    assert (len(first.counts), len(second.counts)) == (2, 1)
    assert {counts.stored["argument 1"] for counts in (*first.counts, *second.counts)} == {256}


def test_the_words_of_a_finding(plant, words):
    checks, kernel = Checks(), plant(MISSING_WAITS["vm"][0])
    kernel.run(checks, words(128), words(128), grid=1, block=128)
    assert checks.text() == (
        f"waitcnt: v2 must be read after an s_waitcnt vmcnt that covers `global_load_dword v2, v1, s[4:5]` at pc "
        f"{kernel.pc('load'):#x}, not while that load may be under way\n"
        f"  at pc {kernel.pc():#x} of planted: `v_add_u32 v3, v2, v2`\n"
        "  first in wave 0 of workgroup 0, lane 0; 2 times"
    )


def test_every_check_that_can_fail_has_a_planted_fault_here():
    text = Path(__file__).read_text()
    for name, info in CHECKS.items():
        assert info.counts or name == "views" or f'"{name}"' in text
