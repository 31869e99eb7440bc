"""Runs one form of an instruction on the emulator and on AMD's text, and lists where they differ."""

import random
import zlib
from dataclasses import dataclass, field

import emulate
import expected
import numpy as np
from edges import draw
from expected import LANES, WHOLE, WaveInput
from forms import SCALAR, VECTOR, Form, Operand, gfx950_forms
from pcode_state import NoWitnessError, program_of
from pcode_values import FORMATS
from variants import Variant

from mxassay.gfx950.registry import Mode, lookup

# Approximate on the card, to 1 ulp in float32 (AMD CDNA4 ISA; for f16 and f64 that bound is inferred): compared so.
APPROXIMATE = {
    f"V_{op}_{fmt}": 1 for op in ("RCP", "RCP_IFLAG", "RSQ", "SQRT", "EXP", "LOG") for fmt in ("F16", "F32", "F64")
}


@dataclass
class Verdict:
    """`differences` in words; `judged` lanes (or waves of a scalar instruction) out of `lanes`."""

    text: str
    differences: list[str] = field(default_factory=list)
    judged: int = 0
    lanes: int = 0


def supported(form: Form) -> bool:
    """The emulator knows the operation (by whatever name it gives it)."""
    return lookup(emulate.decoded(form.text()).op) is not None


def forms_to_judge(scalar: bool) -> list[Form]:
    """What the emulator supports and AMD's text covers, cross-lane moves left out."""
    chosen = []
    for form in gfx950_forms():
        if form.scalar != scalar or form.name.startswith(expected.CROSS_LANE) or not supported(form):
            continue
        try:
            program_of(form.name)
        except NoWitnessError:
            continue
        chosen.append(form)
    return chosen


def seeded(form: Form, variant: Variant) -> random.Random:
    return random.Random(zlib.crc32(f"{form}/{variant}".encode()))


def inputs_of(form: Form, variant: Variant, rng: random.Random, waves: int) -> list[WaveInput]:
    operands = [*form.sources, *([form.destination] if form.destination else [])]
    found = []
    for _ in range(waves):
        wave = WaveInput(vcc=rng.getrandbits(64), scc=rng.getrandbits(1), m0=rng.getrandbits(32))
        if variant.partial:
            wave.exec = rng.getrandbits(64)
        elif form.scalar:
            wave.exec = rng.choice((0, WHOLE, rng.getrandbits(64)))
        for operand in operands:
            if operand.scalar or operand.slot in variant.scalars:
                wave.sgprs[operand.slot] = draw(operand, rng)
            elif operand.slot not in variant.constants:
                wave.vgprs[operand.slot] = [draw(operand, rng) for _ in range(LANES)]
        relate(wave, form, rng)
        if form.carry_out:
            wave.sgprs["D"] = rng.getrandbits(64)
        found.append(wave)
    return found


def relate(wave: WaveInput, form: Form, rng: random.Random) -> None:
    """Makes sources equal, one apart or opposite in some lanes: independent draws hardly ever meet."""
    sizes = {s.slot: s.words for s in form.sources}
    for first, second in (("S0", "S1"), ("S1", "S2"), ("S0", "S2")):
        if sizes.get(first) != sizes.get(second, 0):
            continue
        top = 1 << (32 * sizes[first] - 1)
        for values in (wave.vgprs, wave.sgprs):
            if first not in values or second not in values:
                continue
            for lane in range(LANES) if values is wave.vgprs else (None,):
                if rng.random() < 0.2:
                    x = values[first] if lane is None else values[first][lane]
                    near = rng.choice((x, x, x ^ 1, x ^ top, x ^ top >> 16, (x + 1) & (2 * top - 1)))
                    if lane is None:
                        values[second] = near
                    else:
                        values[second][lane] = near


def machine_of(form: Form, waves: list[WaveInput]) -> emulate.Machine:
    machine = emulate.Machine(len(waves))
    words = {o.slot: o.words for o in (*form.sources, *([form.destination] if form.destination else []))}
    for slot in waves[0].vgprs:
        for word in range(words[slot]):
            rows = [[value >> 32 * word & emulate.MASK for value in wave.vgprs[slot]] for wave in waves]
            machine.vgprs[VECTOR[slot] + word] = np.array(rows, np.uint32)
    for slot in waves[0].sgprs:
        for word in range(2):
            numbers = [wave.sgprs[slot] >> 32 * word & emulate.MASK for wave in waves]
            machine.sgprs[SCALAR[slot] + word] = np.array(numbers, np.uint32)
    machine.vcc = np.array([w.vcc for w in waves], np.uint64)
    machine.exec = np.array([w.exec for w in waves], np.uint64)
    machine.scc = np.array([w.scc for w in waves], bool)
    machine.m0 = np.array([w.m0 for w in waves], np.uint32)
    return machine


def judge(form: Form, variant: Variant) -> Verdict:
    """One variant of a vector instruction."""
    waves = inputs_of(form, variant, seeded(form, variant), variant.waves)
    text = variant.text(form)
    verdict = Verdict(text, lanes=sum(w.exec.bit_count() for w in waves))
    cohort = emulate.execute(text, machine_of(form, waves), Mode(ieee=variant.ieee))
    for number, wave in enumerate(waves):
        want = expected.vector(form, variant, wave)
        verdict.judged += wave.exec.bit_count() - want.undetermined
        if form.destination is not None and not form.destination.scalar:
            compare_lanes(form, variant, wave, want, cohort, number, verdict)
        compare_masks(want, wave, cohort, number, verdict)
    return verdict


def vgpr(cohort, first: int, words: int, wave: int, lane: int) -> int:
    return sum(int(cohort.v[first + i][wave, lane]) << 32 * i for i in range(words))


def compare_lanes(form, variant, wave, want, cohort, number, verdict) -> None:
    destination: Operand = form.destination
    for lane in range(LANES):
        got = vgpr(cohort, VECTOR["D"], destination.words, number, lane)
        old = wave.vgprs["D"][lane]
        if not wave.exec >> lane & 1:
            if got != old:
                verdict.differences.append(f"lane {lane} is off, but its {old:#x} became {got:#x}")
            continue
        lane_want = want.lanes.get(lane)
        if lane_want is None or not (got ^ lane_want.value) & lane_want.care:
            continue
        if form.name in APPROXIMATE and near(destination.format, got, lane_want.value, APPROXIMATE[form.name]):
            continue
        operands = {s: hex(v[lane]) for s, v in wave.vgprs.items()} | {s: hex(v) for s, v in wave.sgprs.items()}
        verdict.differences.append(
            f"wave {number} lane {lane} {operands} vcc bit {wave.vcc >> lane & 1}: "
            f"got {got:#x}, AMD's text says {lane_want.value:#x} (care {lane_want.care:#x})"
        )


def near(fmt: str, got: int, want: int, ulps: int) -> bool:
    """Same sign, finite or not, at most `ulps` codes apart."""
    f = FORMATS[fmt]
    mask = (1 << f.width) - 1
    got, want = got & mask, want & mask
    return (got ^ want) < f.sign_bit and abs(got - want) <= ulps and max(got, want) & ~f.sign_bit <= f.inf


def compare_masks(want, wave, cohort, number, verdict) -> None:
    found = {
        "VCC": int(cohort.pair(emulate.VCC)[number]),
        "SDST": int(cohort.pair(SCALAR["D"])[number]),
        "EXEC": int(cohort.exec[number]),
    }
    untouched = {"VCC": wave.vcc, "EXEC": wave.exec}
    for name, got in found.items():
        if name in want.masks:
            value, care = want.masks[name]
        elif name in untouched:
            value, care = untouched[name], WHOLE
        else:
            continue
        if (got ^ value) & care:
            operands = {s: [hex(x) for x in v] for s, v in wave.vgprs.items()} if wave.vgprs else wave.sgprs
            lane = ((got ^ value) & care & -((got ^ value) & care)).bit_length() - 1
            shown = {s: (v[lane] if isinstance(v, list) and lane < len(v) else v) for s, v in operands.items()}
            verdict.differences.append(
                f"wave {number} {name} got {got:#x}, AMD's text says {value:#x} (lane {lane}: {shown})"
            )


def judge_scalar(form: Form, count: int = 256) -> Verdict:
    """A scalar instruction on `count` waves, one operand tuple each."""
    waves = inputs_of(form, Variant(), seeded(form, Variant()), count)
    verdict = Verdict(form.text(), judged=count, lanes=count)
    cohort = emulate.execute(form.text(), machine_of(form, waves))
    for number, wave in enumerate(waves):
        want = expected.scalar(form, wave)
        if form.destination is not None:
            words = form.destination.words
            got = sum(int(cohort.s[SCALAR["D"] + i][number]) << 32 * i for i in range(words))
            old = wave.sgprs["D"] & ((1 << 32 * words) - 1)
            value = want.scalar.value if want.scalar is not None else old
            if got != value:
                operands = {s: hex(v) for s, v in wave.sgprs.items()}
                verdict.differences.append(f"{operands} scc {wave.scc}: got {got:#x}, AMD's text says {value:#x}")
        if int(cohort.scc[number]) != want.scc:
            operands = {s: hex(v) for s, v in wave.sgprs.items()}
            verdict.differences.append(f"{operands} SCC got {int(cohort.scc[number])}, AMD's text says {want.scc}")
        compare_masks(want, wave, cohort, number, verdict)
    return verdict
