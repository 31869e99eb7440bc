"""Moves between lanes and scalars, judged by AMD's text run once a wave with every lane's registers at hand."""

import random

import emulate
import numpy as np
import pytest
from pcode import run
from pcode_state import State, program_of
from pcode_values import unsigned

SOURCE, DESTINATION = 16, 96
WAVES = 24


def waves_of(seed: str):
    rng = random.Random(seed)
    machine = emulate.Machine(WAVES)
    for number in (SOURCE, DESTINATION):
        machine.vgprs[number] = np.array([[rng.getrandbits(32) for _ in range(64)] for _ in range(WAVES)], np.uint32)
    for number in (32, 34, 38):
        machine.sgprs[number] = np.array([rng.getrandbits(32) for _ in range(WAVES)], np.uint32)
    masks = [0, 1, 1 << 63, (1 << 64) - 1, *(rng.getrandbits(64) for _ in range(WAVES - 4))]
    machine.exec = np.array(masks, np.uint64)
    machine.m0 = np.array([rng.choice((0, 5, 63, 64, 69, rng.getrandbits(32))) for _ in range(WAVES)], np.uint32)
    return machine


def said_by_text(name: str, machine: emulate.Machine, wave: int, **sources: int) -> State:
    vgprs = {(lane, 0): unsigned(int(machine.vgprs[SOURCE][wave, lane])) for lane in range(64)}
    vgprs |= {(lane, 1): unsigned(int(machine.vgprs[DESTINATION][wave, lane])) for lane in range(64)}
    registers = {"D0": unsigned(0), "SRC0": unsigned(0), "VDST": unsigned(1)}
    registers["EXEC"] = unsigned(int(machine.exec[wave]), 64)
    registers |= {slot: unsigned(bits) for slot, bits in sources.items()}
    return run(program_of(name), State(registers, vgprs))


def test_readfirstlane_takes_the_lowest_lane_that_is_on_or_lane_0():
    machine = waves_of("readfirstlane")
    cohort = emulate.execute("v_readfirstlane_b32 s38, v16", machine)
    for wave in range(WAVES):
        assert cohort.s[38][wave] == said_by_text("V_READFIRSTLANE_B32", machine, wave)["D0"].bits


@pytest.mark.parametrize("select", ["s34", "m0", "0", "37", "63"])
def test_readlane_takes_the_selected_lane_whatever_exec_says(select):
    machine = waves_of(f"readlane {select}")
    cohort = emulate.execute(f"v_readlane_b32 s38, v16, {select}", machine)
    known = {"s34": machine.sgprs[34], "m0": machine.m0}
    for wave in range(WAVES):
        lane = int(known[select][wave]) if select in known else int(select)
        want = said_by_text("V_READLANE_B32", machine, wave, S1=lane)
        assert cohort.s[38][wave] == want["D0"].bits


WRITES = [("s32", "m0"), ("s34", "s34"), ("-7", "s34"), ("s32", "41"), ("64", "0")]


@pytest.mark.parametrize(("value", "select"), WRITES)
def test_writelane_writes_one_lane_whatever_exec_says(value, select):
    machine = waves_of(f"writelane {value} {select}")
    cohort = emulate.execute(f"v_writelane_b32 v96, {value}, {select}", machine)
    known = {"s32": machine.sgprs[32], "s34": machine.sgprs[34], "m0": machine.m0}
    for wave in range(WAVES):
        data, lane = (int(known[t][wave]) if t in known else int(t) & 0xFFFFFFFF for t in (value, select))
        want = said_by_text("V_WRITELANE_B32", machine, wave, S0=data, S1=lane)
        got = [int(x) for x in cohort.v[DESTINATION][wave]]
        assert got == [want["VGPR", at, 1].bits for at in range(64)]


@pytest.mark.parametrize("width", [16, 32])
def test_permlane_swap_exchanges_halves_between_the_two_registers(width):
    text = f"v_permlane{width}_swap_b32 v96, v16"
    if emulate.lookup(emulate.decoded(text).op) is None:
        pytest.skip("the emulator refuses this operation by name")
    machine = waves_of(text)
    machine.exec = None
    cohort = emulate.execute(text, machine)
    for wave in range(WAVES):
        machine.exec = np.full(WAVES, (1 << 64) - 1, np.uint64)
        want = said_by_text(f"V_PERMLANE{width}_SWAP_B32", machine, wave)
        for column, register in ((0, SOURCE), (1, DESTINATION)):
            assert [int(x) for x in cohort.v[register][wave]] == [want["VGPR", at, column].bits for at in range(64)]
