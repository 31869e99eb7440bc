"""The rules of undefined bits against the emulator itself: whatever an operation's undefined input bits are, the bits
of its result that count as defined are the same."""

import numpy as np
import pytest
from emulate import ADDRESS, decoded
from forms import VECTOR, Form
from judge import forms_to_judge, inputs_of, machine_of, seeded
from variants import Variant

from mxassay.gfx950.batch import Batch
from mxassay.gfx950.checks.effects import AGPRS, SCC, SGPRS, effects_of
from mxassay.gfx950.checks.propagation import Propagation
from mxassay.gfx950.checks.shadow import Shadow
from mxassay.gfx950.faults import UnsupportedInstruction
from mxassay.gfx950.floating import ignore_float_errors
from mxassay.gfx950.instruction import EXEC
from mxassay.gfx950.memory import AddressSpace
from mxassay.gfx950.registry import Context, lookup
from mxassay.gfx950.wave import Cohort

WAVES, COMPLETIONS, TRIALS = 2, 2, 2


class Trial:
    """One instruction on one state, of which `undefined` (register number -> mask) may be anything."""

    def __init__(self, text, registers, undefined, exec_bits=None):
        self.inst = decoded(text)
        self.effects = effects_of(self.inst)
        self.step = lookup(self.inst.op).build(self.inst, Context("trial"))
        self.registers, self.undefined, self.exec_bits = registers, undefined, exec_bits
        self.reported = []

    def cohort(self, flips=None) -> Cohort:
        cohort = Cohort(Batch(AddressSpace(), 0, WAVES, 1), np.arange(WAVES), ADDRESS, 256, 64)
        for number, value in self.registers.items():
            value = value if flips is None or number not in flips else value ^ flips[number]
            if number == SCC:
                cohort.scc[:] = value & 1
            elif number >= SGPRS:
                cohort.s[number - SGPRS] = value
            else:
                (cohort.a if number >= AGPRS else cohort.v)[number % AGPRS] = value
        if self.exec_bits is not None:
            cohort.set_exec(self.exec_bits)
        return cohort

    def state(self, cohort, number):
        if number == SCC:
            return np.where(cohort.scc, np.uint32(0xFFFFFFFF), np.uint32(0))
        if number >= SGPRS:
            return cohort.s[number - SGPRS].copy()
        return (cohort.a if number >= AGPRS else cohort.v)[number % AGPRS].copy()

    def shadow(self) -> dict[int, np.ndarray]:
        """What counts as undefined of each result after the instruction."""
        cohort = self.cohort()
        shadow = Shadow(cohort.batch, set())
        for number, bits in self.undefined.items():
            shadow.start(number, bits.copy())
            shadow.dirty.add(number)
        sink = lambda inst, cohort, bits, origin, use: self.reported.append(use) if np.any(bits) else None  # noqa: E731
        hooks = Propagation(lambda _: shadow, sink).watch(self.inst, self.effects)
        with ignore_float_errors():
            hooks.before(cohort)
            self.step(cohort)
            if hooks.after:
                hooks.after(cohort)
        return {
            number: np.broadcast_to(shadow.read(number, slice(None))[0], self.state(cohort, number).shape)
            for number in self.effects.writes
        }

    def check(self, rng):
        found = self.shadow()
        base = self.cohort()
        with ignore_float_errors():
            self.step(base)
        for _ in range(COMPLETIONS):
            flips = {
                n: bits & rng.integers(0, 1 << 32, bits.shape, dtype=np.uint32) for n, bits in self.undefined.items()
            }
            other = self.cohort(flips)
            with ignore_float_errors():
                self.step(other)
            moved = self.moved(flips)
            for number, bits in found.items():
                if self.reported and number >= SGPRS + EXEC:
                    continue
                changed = self.state(base, number) ^ self.state(other, number)
                if number < SGPRS:
                    changed = np.where(base.mask | self.effects.every_lane, changed, 0)
                if not self.effects.every_lane:
                    # A NaN's sign may follow other lanes' operations: a lane with the same inputs is no witness.
                    changed = np.where(moved if changed.ndim == 2 else moved.any(axis=1), changed, 0)
                assert not (changed & ~bits).any(), (self.inst.text, number)

    def moved(self, flips):
        """The lanes that some other input reached."""
        lanes = np.zeros((WAVES, 64), bool)
        for number in self.effects.reads:
            if number in flips:
                bits = flips[number]
                lanes |= (bits if bits.ndim == 2 else bits[:, None]) != 0
        return lanes


def masks(rng, shape):
    """Undefined bits: none, one, a byte, a half, all."""
    kind = rng.integers(0, 6, shape)
    one = np.uint32(1) << rng.integers(0, 32, shape, dtype=np.uint32)
    byte = np.uint32(0xFF) << (rng.integers(0, 4, shape, dtype=np.uint32) * np.uint32(8))
    half = np.uint32(0xFFFF) << (rng.integers(0, 2, shape, dtype=np.uint32) * np.uint32(16))
    options = [
        np.zeros(shape, np.uint32),
        np.zeros(shape, np.uint32),
        one,
        byte,
        half,
        np.full(shape, 0xFFFFFFFF, np.uint32),
    ]
    return np.choose(kind, options).astype(np.uint32)


def trial_of(form: Form, variant: Variant, text: str, rng) -> Trial:
    machine = machine_of(form, inputs_of(form, variant, seeded(form, variant), WAVES))
    registers = dict(machine.vgprs) | {SGPRS + n: v for n, v in machine.sgprs.items()}
    registers |= {SGPRS + 106 + word: (machine.vcc >> np.uint64(32 * word)).astype(np.uint32) for word in (0, 1)}
    registers |= {SGPRS + 124: machine.m0, SCC: machine.scc.astype(np.uint32)}
    undefined = {}
    for number, value in registers.items():
        bits = masks(rng, value.shape)
        if number == SCC:
            bits = np.where(rng.integers(0, 2, value.shape) == 1, np.uint32(0xFFFFFFFF), np.uint32(0))
        if number != SGPRS + 124:
            undefined[number] = bits
    return Trial(text, registers, undefined, machine.exec)


FORMS = [*forms_to_judge(False), *forms_to_judge(True)]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_defined_bits_of_a_result_do_not_depend_on_undefined_ones(form):
    rng = np.random.default_rng(list(str(form).encode()))
    for variant in (Variant(), Variant(partial=True), Variant("op_sel", op_sel=5), Variant("op_sel", op_sel=10)):
        if variant.op_sel and form.encoding not in ("VOP3", "VOP3P"):
            continue
        text = variant.text(form)
        if variant.op_sel and not form.assembles(variant.sources(form), variant.mods(form)):
            continue
        try:
            trials = [trial_of(form, variant, text, rng) for _ in range(TRIALS)]
        except UnsupportedInstruction:
            continue
        for trial in trials:
            trial.check(rng)


BY_HAND = [
    "v_mov_b32_dpp v96, v16 row_shl:1 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v96, v16 row_shr:3 row_mask:0x5 bank_mask:0x3",
    "v_add_u32_dpp v96, v16, v48 row_ror:4 row_mask:0xf bank_mask:0xf bound_ctrl:0",
    "v_mov_b32_dpp v96, v16 row_bcast:15 row_mask:0xa bank_mask:0xf",
    "v_mov_b32_sdwa v96, v16 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1",
    "v_add_u32_sdwa v96, v16, v48 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD",
    "v_or_b32_sdwa v96, v16, v48 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:BYTE_3",
    "v_mov_b32_sdwa v96, sext(v16) dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:BYTE_3",
    "v_permlane16_swap_b32 v96, v16",
    "v_permlane32_swap_b32 v96, v16",
    "v_readfirstlane_b32 s38, v16",
    "v_readlane_b32 s38, v16, 17",
    "v_writelane_b32 v96, s32, 5",
    "v_accvgpr_write_b32 a3, v16",
    "v_mfma_f32_16x16x32_bf16 v[96:99], v[16:19], v[48:51], v[80:83]",
    "v_mfma_f32_32x32x16_f16 v[96:111], v[16:19], v[48:51], v[80:95]",
    "v_mfma_f32_16x16x32_f16 v[96:99], v[16:19], v[48:51], 0",
    ("v_mfma_scale_f32_16x16x128_f8f6f4 v[96:99], v[16:19], v[48:51], v[80:83], v20, v52 "
    "op_sel_hi:[0,0,0] cbsz:4 blgp:4"),
    ("v_mfma_scale_f32_32x32x64_f8f6f4 v[96:111], v[16:19], v[48:51], v[80:95], v20, v52 "
    "op_sel:[1,0,0] op_sel_hi:[0,1,0] cbsz:4 blgp:4"),
]  # fmt: skip


@pytest.mark.parametrize("text", BY_HAND)
@pytest.mark.parametrize("share", [0.02, 0.6])
def test_lane_moves_parts_and_matrices_keep_undefined_bits_in_place(text, share):
    rng = np.random.default_rng(list(text.encode()))
    numbers = [*range(16, 22), *range(48, 54), *range(80, 112)]
    registers = {n: rng.integers(0, 1 << 32, (WAVES, 64), dtype=np.uint32) for n in numbers}
    registers |= {SGPRS + 32: rng.integers(0, 1 << 32, WAVES, dtype=np.uint32)}
    undefined = {}
    for number, value in registers.items():
        if number not in VECTOR.values() and number % 3:
            continue
        undefined[number] = np.where(rng.random(value.shape) < share, masks(rng, value.shape), np.uint32(0))
    for exec_bits in (None, rng.integers(1, 1 << 63, WAVES, dtype=np.uint64)):
        if exec_bits is not None and "swap" in text:
            continue
        Trial(text, registers, undefined, exec_bits).check(rng)


def test_a_matrix_spoils_only_the_row_of_an_undefined_element():
    registers = {n: np.zeros((WAVES, 64), np.uint32) for n in (*range(16, 20), *range(48, 52), *range(96, 100))}
    bits = np.zeros((WAVES, 64), np.uint32)
    bits[1, 21] = 0x8000  # lane 21 holds row 5
    trial = Trial("v_mfma_f32_16x16x32_bf16 v[96:99], v[16:19], v[48:51], 0", registers, {17: bits})
    found = trial.shadow()
    for word in range(4):
        spoilt = np.zeros((WAVES, 64), bool)
        if word == 5 % 4:
            spoilt[1, 16 * (5 // 4) : 16 * (5 // 4) + 16] = True
        assert ((found[96 + word] != 0) == spoilt).all()


def test_what_a_conversion_keeps_of_its_destination_stays_undefined():
    registers = {n: np.zeros((WAVES, 64), np.uint32) for n in (16, 48, 96)}
    whole = {96: np.full((WAVES, 64), 0xFFFFFFFF, np.uint32)}
    text = "v_cvt_scalef32_pk_fp4_bf16 v96, v16, v48 op_sel:[0,0,1,0]"
    assert (Trial(text, registers, whole).shadow()[96] == 0xFFFF00FF).all()


def test_a_byte_permute_by_a_known_selector_moves_undefined_bytes_and_no_others():
    registers = {16: np.zeros((WAVES, 64), np.uint32), 48: np.zeros((WAVES, 64), np.uint32)}
    registers |= {80: np.full((WAVES, 64), 0x0C050D00, np.uint32), 96: np.zeros((WAVES, 64), np.uint32)}
    undefined = {16: np.full((WAVES, 64), 0x0000FF00, np.uint32), 48: np.full((WAVES, 64), 0x00000010, np.uint32)}
    found = Trial("v_perm_b32 v96, v16, v48, v80", registers, undefined).shadow()
    assert (found[96] == 0x00FF0010).all()
