"""Atomics of LDS, global memory and buffers, many lanes at one place, against a loop over lanes in grid order."""

import struct

import ml_dtypes
import numpy as np
import pytest

LANE = np.arange(64)
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value, bits):
    return value - (1 << bits) if value >> bits - 1 else value


def floats(kind):
    """Bits to number and back."""
    if kind == "f32":
        return lambda x: np.uint32(x).view(np.float32), lambda x: int(np.float32(x).view(np.uint32))
    return lambda x: np.uint64(x).view(np.float64), lambda x: int(np.float64(x).view(np.uint64))


def added(kind):
    number, bits = floats(kind)
    return lambda old, data: bits(number(old) + number(data))


def chosen(kind, less):
    number, _ = floats(kind)
    return lambda old, data: data if (number(data) < number(old) if less else number(data) > number(old)) else old


def packed(dtype):
    def add(old, data):
        halves = [np.array([value], np.uint32).view(np.uint16).view(dtype).astype(np.float32) for value in (old, data)]
        total = (halves[0] + halves[1]).astype(dtype).view(np.uint16)
        return int(total[0]) | int(total[1]) << 16

    return add


def table(bits):
    mask = (1 << bits) - 1
    return {
        "add_u": lambda old, data: old + data & mask,
        "sub_u": lambda old, data: old - data & mask,
        "rsub_u": lambda old, data: data - old & mask,
        "inc_u": lambda old, data: 0 if old >= data else old + 1,
        "dec_u": lambda old, data: data if old == 0 or old > data else old - 1,
        "min_i": lambda old, data: min(old, data, key=lambda x: signed(x, bits)),
        "max_i": lambda old, data: max(old, data, key=lambda x: signed(x, bits)),
        "min_u": min,
        "max_u": max,
        "and_b": lambda old, data: old & data,
        "or_b": lambda old, data: old | data,
        "xor_b": lambda old, data: old ^ data,
        "wrxchg_b": lambda old, data: data,
    }


DS = {(name, bits): function for bits in (32, 64) for name, function in table(bits).items()}
DS |= {
    ("add_f", 32): added("f32"), ("min_f", 32): chosen("f32", True), ("max_f", 32): chosen("f32", False),
    ("add_f", 64): added("f64"), ("min_f", 64): chosen("f64", True), ("max_f", 64): chosen("f64", False),
    ("pk_add_f16", 32): packed(np.float16), ("pk_add_bf16", 32): packed(ml_dtypes.bfloat16),
}  # fmt: skip


def operands(name, bits, seed):
    """Data for 2 waves and memory for 16 places; floats are ordinary numbers."""
    rng = np.random.default_rng(seed)
    unsigned = np.uint32 if bits == 32 else np.uint64
    if name.endswith("_f"):
        dtype = np.float32 if bits == 32 else np.float64
        return [rng.standard_normal(shape).astype(dtype).view(unsigned) for shape in ((2, 64), 16)]
    if name.startswith("pk_add"):
        dtype = np.float16 if name.endswith("_f16") else ml_dtypes.bfloat16
        drawn = [rng.standard_normal((*shape, 2)).astype(dtype) for shape in ((2, 64), (16,))]
        return [np.ascontiguousarray(part).view(np.uint32)[..., 0] for part in drawn]
    high = 40 if name in ("inc_u", "dec_u") else 1 << bits
    return [rng.integers(0, high, shape, dtype=unsigned) for shape in ((2, 64), 16)]


def loop(function, memory, places, *data, on=M64):
    """Memory and old values after lanes took turns."""
    memory, before = [int(value) for value in memory], {}
    for wave in range(len(places)):
        for lane in range(64):
            if on >> lane & 1:
                at = int(places[wave][lane])
                before[wave, lane] = memory[at]
                memory[at] = function(memory[at], *(int(values[wave][lane]) for values in data))
    return memory, before


def put(card, register, values):
    """64-bit values into register pairs, 32-bit ones into registers."""
    card.v[register] = values & np.asarray(M32, values.dtype)
    if values.dtype == np.uint64:
        card.v[register + 1] = values >> np.uint64(32)


def got(card, register, bits, wave, lane):
    value = int(card.v[register, wave, lane])
    return value | int(card.v[register + 1, wave, lane]) << 32 if bits == 64 else value


def name_of(operation, bits, returns):
    if operation.startswith("pk_add"):
        return f"ds_pk_add_{'rtn_' if returns else ''}{operation.removeprefix('pk_add_')}"
    root, kind = operation.split("_")
    return f"ds_{root}_{'rtn_' if returns else ''}{kind}{bits}"


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize(("operation", "bits"), sorted(DS))
def test_lds_atomics_take_turns_in_lane_order(bench, operation, bits, returns):
    if operation == "wrxchg_b" and not returns:
        pytest.skip("exchanges always return")
    data, start = operands(operation, bits, bits)
    card = bench(waves=2, lds=256)
    size = bits // 8
    card.lds()[32 : 32 + 16 * size] = start.view(np.uint8)
    places = np.random.default_rng(3).integers(0, 16, (2, 64))
    on = M64 - 0x0FF0
    card.cohort.set_exec(np.full(2, on, np.uint64))
    card.v[0] = places * size
    put(card, 2, data)
    span = "v[2:3]" if bits == 64 else "v2"
    back = ("v[4:5], " if bits == 64 else "v4, ") if returns else ""
    card.run(f"{name_of(operation, bits, returns)} {back}v0, {span} offset:32")
    memory, before = loop(DS[operation, bits], start, places, data, on=on)
    after = card.lds()[32 : 32 + 16 * size].view(np.uint32 if bits == 32 else np.uint64)
    assert after.tolist() == memory
    if returns:
        assert all(got(card, 4, bits, *where) == value for where, value in before.items())
        assert card.v[4, 0, 4] == 0xA5A5A5A5  # a lane that is off


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("operation", "function"), [
    ("cmpst_b", lambda old, compare, data: data if old == compare else old),
    ("mskor_b", lambda old, mask, data: old & ~mask | data),
])  # fmt: skip
def test_lds_atomics_with_two_operands(bench, operation, function, bits):
    unsigned = np.uint32 if bits == 32 else np.uint64
    rng = np.random.default_rng(4)
    first, second = rng.integers(0, 4, (2, 2, 64)).astype(unsigned)
    start = rng.integers(0, 4, 8).astype(unsigned)
    card = bench(waves=2, lds=64)
    card.lds()[: 8 * bits // 8] = start.view(np.uint8)
    places = rng.integers(0, 8, (2, 64))
    card.v[0] = places * (bits // 8)
    put(card, 2, first)
    put(card, 4, second)
    spans = ("v[6:7]", "v[2:3]", "v[4:5]") if bits == 64 else ("v6", "v2", "v4")
    card.run(f"ds_{operation.split('_')[0]}_rtn_b{bits} {spans[0]}, v0, {spans[1]}, {spans[2]}")
    memory, before = loop(function, start, places, first, second)
    assert card.lds()[:bits].view(unsigned)[:8].tolist() == memory
    assert all(got(card, 6, bits, *where) == value for where, value in before.items())


def test_wrap_and_exchange_of_two(bench):
    card = bench(lds=1024)
    card.lds().view(np.uint32)[:] = np.arange(256)
    card.v[0], card.v[1], card.v[2] = 0, 5, 9
    card.run("ds_wrap_rtn_b32 v4, v0, v1, v2 offset:80")
    value, want = 20, []
    for _ in range(64):
        want.append(value)
        value = value - 5 if value >= 5 else value + 9
    assert card.v[4, 0].tolist() == want
    card.v[0] = 4 * LANE
    card.run("ds_wrxchg2st64_rtn_b32 v[4:5], v0, v1, v2 offset0:1 offset1:2")
    assert card.v[4, 0].tolist() == list(range(64, 128))
    assert card.v[5, 0].tolist() == list(range(128, 192))
    assert set(card.lds().view(np.uint32)[64:128].tolist()) == {5}
    assert set(card.lds().view(np.uint32)[128:192].tolist()) == {9}


def test_append_and_consume_count_the_lanes_that_are_on(bench):
    card = bench(waves=2, groups=2, lds=64)
    for group in range(2):
        card.lds(group).view(np.uint32)[5] = 100 * group
    card.s[124] = 12
    card.cohort.set_exec(np.array([0xFF, 0, M64, 0x7], np.uint64))
    card.run("ds_append v5 offset:8")
    assert card.v[5, 0, :9].tolist() == [0] * 8 + [0xA5A5A5A5]
    assert (card.v[5, 2] == 100).all()
    assert card.v[5, 3, :3].tolist() == [164] * 3
    assert [int(card.lds(group).view(np.uint32)[5]) for group in range(2)] == [8, 167]
    card.run("ds_consume v6 offset:8")
    assert card.v[6, 3, 0] == 167 - 64
    assert [int(card.lds(group).view(np.uint32)[5]) for group in range(2)] == [0, 100]


GLOBAL = {
    "swap": "wrxchg_b", "add": "add_u", "sub": "sub_u", "smin": "min_i", "umin": "min_u", "smax": "max_i",
    "umax": "max_u", "and": "and_b", "or": "or_b", "xor": "xor_b", "inc": "inc_u", "dec": "dec_u",
}  # fmt: skip
GLOBAL_FLOATS = {
    "add_f32": ("add_f", 32), "add_f64": ("add_f", 64), "min_f64": ("min_f", 64), "max_f64": ("max_f", 64),
    "pk_add_f16": ("pk_add_f16", 32), "pk_add_bf16": ("pk_add_bf16", 32),
}  # fmt: skip
EVERY = {
    **{(name, 32): (kind, 32) for name, kind in GLOBAL.items()},
    **{(f"{name}_x2", 64): (kind, 64) for name, kind in GLOBAL.items()},
    **{(name, kind[1]): kind for name, kind in GLOBAL_FLOATS.items()},
}


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("space", ["global", "flat", "buffer"])
@pytest.mark.parametrize(("name", "bits"), sorted(EVERY))
def test_memory_atomics_take_turns_in_grid_order(bench, name, bits, space, returns):
    operation, _ = EVERY[name, bits]
    data, start = operands(operation, bits, bits + 1)
    memory_words = start.copy()
    card = bench(waves=2)
    base = card.map("x", memory_words)
    places = np.random.default_rng(5).integers(0, 16, (2, 64))
    offsets = places * (bits // 8)
    put(card, 2, data)
    span, back = ("v[2:3]", "v[4:5]") if bits == 64 else ("v2", "v4")
    tail = " sc0" if returns else ""
    if space == "buffer":
        card.v[0] = offsets
        card.resource(8, base, 15 * bits // 8)  # the last place is out of range
        card.run(f"buffer_atomic_{name} {span}, v0, s[8:11], 0 offen{tail}")
        result = 2
        inside = places < 15
    else:
        address = base + offsets
        card.v[0], card.v[1] = address & M32, address >> 32
        off = ", off" if space == "global" else ""
        card.run(f"{space}_atomic_{name} {back + ', ' if returns else ''}v[0:1], {span}{off}{tail}")
        result = 4
        inside = np.ones_like(places, bool)
    where = np.where(inside, places, 16)
    memory, before = loop(DS[operation, bits], [*start.tolist(), 0], where, data)
    assert memory_words.tolist() == memory[:16]
    if returns:
        for (wave, lane), value in before.items():
            assert got(card, result, bits, wave, lane) == (value if inside[wave, lane] else 0)
    elif space == "buffer":
        assert (card.v[2] == (data & np.asarray(M32, data.dtype))).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_compare_and_swap_takes_the_new_value_first(bench, bits):
    unsigned = np.uint32 if bits == 32 else np.uint64
    rng = np.random.default_rng(6)
    new, compare = rng.integers(0, 4, (2, 2, 64)).astype(unsigned)
    start = rng.integers(0, 4, 8).astype(unsigned)
    memory_words = start.copy()
    card = bench(waves=2)
    card.map("x", memory_words, 8)
    places = rng.integers(0, 8, (2, 64))
    card.v[0] = places * (bits // 8)
    put(card, 2, new)
    put(card, 2 + bits // 32, compare)
    suffix, spans = ("_x2", ("v[8:9]", "v[2:5]")) if bits == 64 else ("", ("v8", "v[2:3]"))
    card.run(f"global_atomic_cmpswap{suffix} {spans[0]}, v0, {spans[1]}, s[8:9] sc0")
    memory, before = loop(lambda old, data, wanted: data if old == wanted else old, start, places, new, compare)
    assert memory_words.tolist() == memory
    assert all(got(card, 8, bits, *where) == value for where, value in before.items())


def test_a_nan_leaves_a_minimum_alone(bench):
    card = bench(lds=64)
    card.lds().view(np.float32)[:2] = [3.0, np.nan]
    card.v[0] = 4 * (LANE % 2)
    card.v[1] = struct.unpack("<I", struct.pack("<f", float("nan")))[0]
    card.run("ds_min_f32 v0, v1", "ds_max_f32 v0, v1")
    assert card.lds().view(np.float32)[0] == 3.0
    card.v[1] = struct.unpack("<I", struct.pack("<f", 1.0))[0]
    card.run("ds_min_f32 v0, v1")
    assert card.lds().view(np.float32)[0] == 1.0
    assert np.isnan(card.lds().view(np.float32)[1])
