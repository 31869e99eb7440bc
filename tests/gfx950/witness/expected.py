"""What AMD's text says a wave looks like after one instruction."""

from dataclasses import dataclass, field

from forms import LITERAL, SIMM16, Form, Operand
from pcode import run
from pcode_state import State, program_of, texts
from pcode_values import FORMATS, UndeterminedError, Value, is_nan, unsigned
from variants import FLOATS, Variant

LANES = 64
WHOLE = (1 << 64) - 1
CROSS_LANE = ("V_READFIRSTLANE", "V_READLANE", "V_WRITELANE", "V_PERMLANE")
# 16-bit results: what becomes of the register's other half, where the text is silent.
# LLVM, GCNSubtarget::zeroesHigh16BitsOfDest, true on gfx9 ("mostly derived from experimentation").
ZEROES_HIGH_HALF = frozenset(
    {
        "V_CVT_F16_F32", "V_CVT_F16_U16", "V_CVT_F16_I16", "V_RCP_F16", "V_RSQ_F16", "V_SQRT_F16", "V_LOG_F16",
        "V_EXP_F16", "V_SIN_F16", "V_COS_F16", "V_FLOOR_F16", "V_CEIL_F16", "V_TRUNC_F16", "V_RNDNE_F16", "V_FRACT_F16",
        "V_FREXP_MANT_F16", "V_FREXP_EXP_I16_F16", "V_LDEXP_F16", "V_LSHLREV_B16", "V_LSHRREV_B16", "V_ASHRREV_I16",
        "V_ADD_U16", "V_SUB_U16", "V_SUBREV_U16", "V_MUL_LO_U16", "V_ADD_F16", "V_SUB_F16", "V_SUBREV_F16", "V_MUL_F16",
        "V_MAX_F16", "V_MIN_F16", "V_MAX_U16", "V_MIN_U16", "V_MAX_I16", "V_MIN_I16",
    }
)  # fmt: skip
# AMD's text zeroes the half for these, LLVM's table says gfx9 keeps it: nobody here has the card, so nobody decides.
DISPUTED_HIGH_HALF = frozenset({"V_MAC_F16", "V_MADMK_F16", "V_MADAK_F16"})


@dataclass
class Lane:
    """One lane's destination: `value` where `care` has a 1; None when the text doesn't determine it."""

    value: int
    care: int


@dataclass
class WaveInput:
    """`vgprs[slot][lane]` whole registers; `sgprs[slot]` a number; D among both where it applies."""

    vgprs: dict[str, list[int]] = field(default_factory=dict)
    sgprs: dict[str, int] = field(default_factory=dict)
    vcc: int = 0
    exec: int = WHOLE
    scc: int = 0
    m0: int = 0


@dataclass
class WaveOutput:
    lanes: dict[int, Lane] = field(default_factory=dict)
    masks: dict[str, tuple[int, int]] = field(default_factory=dict)  # "VCC", "SDST", "EXEC": (value, care)
    scalar: Lane | None = None
    scc: int | None = None
    undetermined: int = 0


def wide(bits: int, width: int) -> Value:
    return Value("B", width, bits & ((1 << width) - 1))


def encoded_op_sel(form: Form, variant: Variant) -> int:
    """OP_SEL as the encoding holds it: assembly lists the sources' bits, then the destination's, which is bit 3."""
    count = len(form.sources)
    if form.name.startswith("V_CVT_SCALEF32_F16_"):  # LLVM takes three bits here and drops a fourth
        return variant.op_sel & 3 | (variant.op_sel >> 2 & 1) << 3
    if form.encoding != "VOP3" or form.name.startswith("V_CVT_SCALEF32") or count >= 3:
        return variant.op_sel
    return variant.op_sel & (1 << count) - 1 | variant.op_sel >> count << 3


def source_bits(form: Form, variant: Variant, source: Operand, index: int, wave: WaveInput, lane: int) -> Value:
    """The source as the text's S0, S1, S2 sees it: selected, then ABS, then NEG."""
    if source.slot in variant.constants:
        bits = variant.constants[source.slot][1]
    elif source.slot in variant.scalars or source.scalar:
        bits = wave.sgprs[source.slot]
    else:
        bits = wave.vgprs[source.slot][lane]
    width = 32 * source.words
    picks_high = source.bits == 16 and variant.op_sel >> index & 1
    if form.encoding == "VOP3P" and not form.name.startswith(("V_MAD_MIX", "V_PK_MOV")):
        bits = packed(form, variant, source, index, bits)
    elif form.encoding == "VOP3" and picks_high and "OPSEL" not in texts()[form.name]:
        bits = bits >> 16 | bits << 16 & 0xFFFF0000
    sign = 1 << (FORMATS[source.format].width if source.format in FLOATS else width) - 1
    absolute, negative = variant.abs >> index & 1, variant.neg >> index & 1
    if form.name.startswith("V_MAD_MIX"):
        absolute, negative = variant.neg_hi >> index & 1, variant.neg_lo >> index & 1
        half = 16 * (variant.op_sel >> index & 1) if (variant.op_sel_hi or 0) >> index & 1 else 16
        sign = 1 << (half + 15)
    if absolute:
        bits &= ~sign
    if negative:
        bits ^= sign
    return wide(bits, width)


def packed(form: Form, variant: Variant, source: Operand, index: int, bits: int) -> int:
    """OP_SEL and OP_SEL_HI choose the half for the low and the high result, NEG_LO and NEG_HI flip its sign."""
    if not source.format.startswith("pk2"):
        return bits
    width = source.bits // 2
    mask = (1 << width) - 1
    high = variant.op_sel_hi if variant.op_sel_hi is not None else (1 << len(form.sources)) - 1
    low_half = bits >> width * (variant.op_sel >> index & 1) & mask
    high_half = bits >> width * (high >> index & 1) & mask
    if source.format.endswith(("f16", "f32", "bf16")):
        low_half ^= (variant.neg_lo >> index & 1) << (width - 1)
        high_half ^= (variant.neg_hi >> index & 1) << (width - 1)
    return high_half << width | low_half


def registers(form: Form, variant: Variant, wave: WaveInput, lane: int) -> dict[str, Value]:
    found = {s.slot: source_bits(form, variant, s, i, wave, lane) for i, s in enumerate(form.sources)}
    vcc = wave.vcc
    if form.carry_in and form.encoding.startswith("VOP3"):
        vcc = wave.sgprs["S2"]
    destination = form.destination
    old = 0
    width = 64
    if destination is not None:
        old = wave.sgprs["D"] if destination.scalar else wave.vgprs["D"][lane]
        width = max(32, 32 * destination.words)
    high = variant.op_sel_hi if variant.op_sel_hi is not None else (0 if "MIX" in form.name else 7)
    found |= {
        "D0": wide(old, width),
        "D1": unsigned(0, 1),
        "VCC": unsigned(vcc, 64),
        "EXEC": unsigned(wave.exec, 64),
        "SCC": unsigned(wave.scc, 1),
        "M0": unsigned(wave.m0, 32),
        "laneId": unsigned(lane),
        "OPSEL": unsigned(encoded_op_sel(form, variant), 4),
        "OPSEL_HI": unsigned(high, 3),
        "SIMM16": unsigned(LITERAL & 0xFFFF if not form.scalar else SIMM16, 16),
        "SIMM32": unsigned(LITERAL),
        "WAVE_MODE.IEEE": unsigned(int(variant.ieee), 1),
        "SDWA_SRC0_SEL": unsigned(6, 3),  # DWORD
        "INST.OMOD": unsigned(variant.table >> 6, 2),
        "INST.ABS": unsigned(variant.table >> 3 & 7, 3),
        "INST.NEG": unsigned(variant.table & 7, 3),
        "VDST": unsigned(1),
        "SRC0": unsigned(0),
    }
    if form.encoding == "SOPK":
        immediate = unsigned(SIMM16, 16)
        found |= {"S0": found["D0"], "S1": immediate} if "CMPK" in form.name else {"S0": immediate}
    return found


def saturates(form: Form, variant: Variant) -> bool:
    return variant.clamp and form.destination is not None and "f" not in form.destination.format


def clamped(bits: int, kind: str) -> int:
    """CLAMP of a float result: to 0 .. 1, NaN to 0 (MODE.DX10_CLAMP is on)."""
    v = Value(kind, FORMATS[kind].width, bits)
    if is_nan(v) or v.bits & v.format.sign_bit:
        return 0
    one = v.format.bias << v.format.mantissa_bits
    return min(bits, one)


def vector(form: Form, variant: Variant, wave: WaveInput) -> WaveOutput:
    """Every lane that is on, one by one."""
    output = WaveOutput()
    program = program_of(form.name)
    vcc = known = 0
    exec_after = wave.exec
    for lane in range(LANES):
        if not wave.exec >> lane & 1:
            continue
        found = registers(form, variant, wave, lane)
        vgprs = {(lane, 0): found.get("S0", unsigned(0)), (lane, 1): found["D0"]}
        state = State(found, vgprs, saturates(form, variant))
        try:
            run(program, state)
        except UndeterminedError:
            output.undetermined += 1
            continue
        masks = state["D0"] if form.compares else state["VCC"]
        bit = state["D1"].bits if "D1" in state.written else masks.bits >> lane & 1
        vcc, known = vcc | bit << lane, known | 1 << lane
        if form.name.startswith("V_CMPX"):
            exec_after = exec_after & ~(1 << lane) | (state["EXEC"].bits >> lane & 1) << lane
        if not form.compares:
            output.lanes[lane] = result_of(form, variant, state, lane, found["D0"].bits)
    off = ~wave.exec & WHOLE
    if form.compares or form.carry_out:
        # Lanes that are off get 0 (compares: AMD CDNA4 ISA, "VOPC"; carries: inferred).
        output.masks["VCC" if form.encoding in ("VOPC", "VOP2") else "SDST"] = vcc, known | off
    if form.name.startswith("V_CMPX"):
        output.masks["EXEC"] = exec_after, known | off
    return output


def result_of(form: Form, variant: Variant, state: State, lane: int, old: int) -> Lane:
    assert form.destination is not None
    width = 32 * form.destination.words
    root = "D0" if "D0" in state.written else ("VGPR", lane, 1)
    value, written = state[root].bits, state.written[root]
    care = written & ~state[root].loose
    if variant.clamp:
        at = 16 if written == 0xFFFF0000 and form.destination.bits == 16 else 0
        value, care = clamp_result(form.destination.format, value, care, state[root].loose, at)
    sixteen = form.destination.bits == 16 or written == 0xFFFF
    high = form.encoding == "VOP3" and encoded_op_sel(form, variant) >> 3 & 1
    if sixteen and high and root == "D0" and written == 0xFFFF:
        return Lane((value & 0xFFFF) << 16 | old & 0xFFFF, (care & 0xFFFF) << 16 | 0xFFFF)
    if written == 0xFFFF and root == "D0" and width == 32:
        if form.name in ZEROES_HIGH_HALF:
            return Lane(value & 0xFFFF, care | 0xFFFF0000)
        return Lane(value & 0xFFFF, care)
    if form.name in DISPUTED_HIGH_HALF:
        care &= 0xFFFF
    if root != "D0":
        return Lane(value, care | ~written & ((1 << width) - 1))
    return Lane(value, care)


def clamp_result(fmt: str, value: int, care: int, loose: int, at: int = 0) -> tuple[int, int]:
    """`at`: the bit where the result begins (V_MAD_MIXHI writes the high half)."""
    element = fmt.removeprefix("pk2_")
    if element not in FLOATS:
        return value, care
    width = FORMATS[element].width
    count = 2 if fmt.startswith("pk2_") else 1
    mask = (1 << width) - 1
    for start in range(at, at + width * count, width):
        part = clamped(value >> start & mask, element)
        value = value & ~(mask << start) | part << start
        if loose >> start & mask:
            care |= mask << start
    return value, care


def scalar(form: Form, wave: WaveInput) -> WaveOutput:
    output = WaveOutput()
    state = run(program_of(form.name), State(registers(form, Variant(), wave, 0)))
    if form.destination is not None and "D0" in state.written:
        width = 32 * form.destination.words
        output.scalar = Lane(state["D0"].bits & ((1 << width) - 1), (1 << width) - 1)
    output.scc = state["SCC"].bits & 1
    output.masks["EXEC"] = state["EXEC"].bits, WHOLE
    return output
