"""SDWA and DPP: how a source is cut out or fetched from another lane, and which part of the result is written.

AMD's text doesn't describe these (they are the encoding's business), so the rules are written out here a second time,
lane by lane, from the ISA document: "Sub-dword addressing (SDWA)", "Data parallel primitives (DPP)".
"""

import random

import emulate
import numpy as np
import pytest

SELECTS = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
    "DWORD": (0, 32),
}  # fmt: skip
WAVES = 3


def machine_of(seed: str) -> emulate.Machine:
    rng = random.Random(seed)
    machine = emulate.Machine(WAVES)
    for number in (16, 48, 96):
        machine.vgprs[number] = np.array([[rng.getrandbits(32) for _ in range(64)] for _ in range(WAVES)], np.uint32)
    machine.exec = np.array([(1 << 64) - 1, rng.getrandbits(64), rng.getrandbits(64)], np.uint64)
    return machine


def cut(word: int, select: str, signed: bool = False) -> int:
    low, width = SELECTS[select]
    part = word >> low & ((1 << width) - 1)
    return (part - (1 << width)) & 0xFFFFFFFF if signed and part >> (width - 1) else part


def put(old: int, value: int, select: str, unused: str) -> int:
    low, width = SELECTS[select]
    mask = ((1 << width) - 1) << low
    placed = value << low & mask
    if unused == "UNUSED_PRESERVE":
        return old & ~mask | placed
    if unused == "UNUSED_SEXT":
        above = 0xFFFFFFFF & ~((1 << (low + width)) - 1)
        return placed | (above if placed >> (low + width - 1) & 1 else 0)
    return placed


def lanes(machine: emulate.Machine):
    for wave in range(WAVES):
        for lane in range(64):
            words = [int(machine.vgprs[n][wave, lane]) for n in (16, 48, 96)]
            yield wave, lane, bool(int(machine.exec[wave]) >> lane & 1), words


@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("destination", list(SELECTS))
def test_sdwa_writes_the_selected_part(destination, unused):
    text = f"v_add_u32_sdwa v96, v16, v48 dst_sel:{destination} dst_unused:{unused} src0_sel:DWORD src1_sel:DWORD"
    machine = machine_of(text)
    cohort = emulate.execute(text, machine)
    for wave, lane, on, (a, b, old) in lanes(machine):
        want = put(old, a + b & 0xFFFFFFFF, destination, unused) if on else old
        assert f"{int(cohort.v[96][wave, lane]):#x}" == f"{want:#x}", (wave, lane)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("second", list(SELECTS))
@pytest.mark.parametrize("first", ["BYTE_0", "BYTE_3", "WORD_1", "DWORD"])
def test_sdwa_reads_the_selected_parts(first, second, signed):
    a_text, b_text = ("sext(v16)", "sext(v48)") if signed else ("v16", "v48")
    text = (
        f"v_sub_u32_sdwa v96, {a_text}, {b_text} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{first} src1_sel:{second}"
    )
    machine = machine_of(text)
    cohort = emulate.execute(text, machine)
    for wave, lane, on, (a, b, old) in lanes(machine):
        want = cut(a, first, signed) - cut(b, second, signed) & 0xFFFFFFFF if on else old
        assert f"{int(cohort.v[96][wave, lane]):#x}" == f"{want:#x}", (wave, lane)


def fetched_from(control: str, lane: int) -> int | None:
    """The lane that `lane` reads, None where there is none."""
    name, _, argument = control.partition(":")
    row, place = lane & ~15, lane & 15
    n = int(argument) if argument.isdigit() else 0
    match name:
        case "quad_perm":
            return (lane & ~3) + [int(x) for x in argument.strip("[]").split(",")][lane & 3]
        case "row_shl":
            return row + place + n if place + n < 16 else None
        case "row_shr":
            return row + place - n if place >= n else None
        case "row_ror":
            return row + (place - n) % 16
        case "row_mirror":
            return row + 15 - place
        case "row_half_mirror":
            return (lane & ~7) + 7 - (lane & 7)
        case "row_newbcast":
            return row + n
        case "row_bcast":
            if n == 15:
                return row - 1 if lane >= 16 else None
            return 31 if lane >= 32 else None
        case "wave_shr":
            return lane - 1 if lane else None
        case "wave_shl":
            return lane + 1 if lane < 63 else None
        case "wave_rol":
            return (lane + 1) % 64
        case "wave_ror":
            return (lane - 1) % 64
    raise AssertionError(control)


CONTROLS = [
    "quad_perm:[1,0,3,2]", "quad_perm:[3,3,0,1]", "row_shl:1", "row_shl:15", "row_shr:1", "row_shr:8", "row_ror:4",
    "row_ror:15", "row_mirror", "row_half_mirror", "row_newbcast:0", "row_newbcast:11", "row_bcast:15", "row_bcast:31",
    "wave_shl:1", "wave_shr:1", "wave_rol:1", "wave_ror:1",
]  # fmt: skip


@pytest.mark.parametrize("bound", ["", " bound_ctrl:0"])
@pytest.mark.parametrize("masks", [(0xF, 0xF), (0xA, 0xF), (0xF, 0x3), (0x5, 0x6)])
@pytest.mark.parametrize("control", CONTROLS)
def test_dpp_fetches_from_the_lane_that_the_control_names(control, masks, bound):
    rows, banks = masks
    text = f"v_add_u32_dpp v96, v16, v48 {control} row_mask:{rows:#x} bank_mask:{banks:#x}{bound}"
    machine = machine_of(text)
    cohort = emulate.execute(text, machine)
    for wave, lane, on, (_, b, old) in lanes(machine):
        source = fetched_from(control, lane)
        readable = source is not None and int(machine.exec[wave]) >> source & 1
        written = on and rows >> (lane >> 4) & 1 and banks >> (lane >> 2 & 3) & 1 and (readable or bound)
        a = int(machine.vgprs[16][wave, source]) if readable else 0
        want = a + b & 0xFFFFFFFF if written else old
        assert f"{int(cohort.v[96][wave, lane]):#x}" == f"{want:#x}", (wave, lane)
