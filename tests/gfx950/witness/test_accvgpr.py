"""Moves between VGPRs and AGPRs. AMD publishes no pseudocode for them: one register, the lanes that are on."""

import random

import emulate
import numpy as np
import pytest

WAVES = 3
# text, file and number that is read, file and number that is written
MOVES = [
    ("v_accvgpr_write_b32 a5, v2", "vgprs", 2, "agprs", 5),
    ("v_accvgpr_read_b32 v3, a4", "agprs", 4, "vgprs", 3),
    ("v_accvgpr_mov_b32 a5, a4", "agprs", 4, "agprs", 5),
]


@pytest.mark.parametrize(("text", "source", "read", "destination", "written"), MOVES, ids=[m[0] for m in MOVES])
def test_a_move_copies_the_lanes_that_are_on(text, source, read, destination, written):
    rng = np.random.default_rng(random.Random(text).randrange(1 << 32))
    files = {
        name: {n: rng.integers(0, 1 << 32, (WAVES, 64), np.uint32) for n in range(6)} for name in ("vgprs", "agprs")
    }
    mask = np.array([(1 << 64) - 1, 0, int(rng.integers(0, 1 << 64, dtype=np.uint64))], np.uint64)
    machine = emulate.Machine(WAVES, **{k: dict(v) for k, v in files.items()}, exec=mask)
    cohort = emulate.execute(text, machine)
    on = np.unpackbits(mask.view(np.uint8), bitorder="little").reshape(WAVES, 64).astype(bool)
    want = {name: dict(registers) for name, registers in files.items()}
    want[destination][written] = np.where(on, files[source][read], files[destination][written])
    for name, registers in (("vgprs", cohort.v), ("agprs", cohort.a)):
        for number in range(6):
            assert (registers[number] == want[name][number]).all(), f"{name} {number}"
