"""Undefined bits through the arithmetic of one instruction: which rule, which lanes, which result registers."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxassay.gfx950.checks.effects import SCC, SGPRS, Effects
from mxassay.gfx950.checks.matrix_rule import latest, matrix_result
from mxassay.gfx950.checks.rules import Operands, rule_of, spread
from mxassay.gfx950.checks.run import Hooks, rows_of
from mxassay.gfx950.checks.shadow import ALL, Shadow, Word
from mxassay.gfx950.instruction import EXEC, Instruction, Operand
from mxassay.gfx950.lanes import dpp_lanes, dpp_writes, sdwa_result, sdwa_source
from mxassay.gfx950.operands import constant
from mxassay.gfx950.registry import lookup
from mxassay.gfx950.wave import LANES, Cohort, Mask, lanes_of, packed

__all__ = ["Propagation"]

Sink = Callable[[Instruction, Cohort, Any, Any, str], None]
ZERO = np.uint32(0)
_BASE = {"v": 0, "a": 256, "s": SGPRS}
# Operations whose destination is a source too; others keep part of it (`Operands.old`).
_ACCUMULATES = re.compile(r"v_(pk_)?(fmac|mac|dot\d+c)_")
_NONZERO = re.compile(
    r"s_(and|or|xor|andn2|orn2|nand|nor|xnor|not|lshl|lshr|ashr|bfe|wqm|quadmask|abs|bcnt\d_i32)_?[bui]?(32|64)?.*"
)
_EXEC = frozenset((SGPRS + EXEC, SGPRS + EXEC + 1))


class Propagation:
    """`shadow` gives the state of a cohort's batch, `sink` takes what comes to matter."""

    def __init__(self, shadow: Callable[[Cohort], Shadow], sink: Sink) -> None:
        self.shadow, self.sink = shadow, sink
        self.flags: tuple[Any, Any] | None = None

    def watch(self, inst: Instruction, effects: Effects) -> Hooks | None:
        if not effects.writes:
            return None
        op = inst.op
        if inst.encoding.startswith("SOP"):
            nonzero = SCC in effects.writes and bool(inst.dst) and _NONZERO.fullmatch(op) is not None
            return Hooks(
                before=self._guarded(inst, effects, partial(self._scalar, inst, effects, nonzero)),
                after=partial(self._flag, inst) if nonzero else None,
            )
        if op in ("v_readlane_b32", "v_readfirstlane_b32"):
            act: Any = partial(self._read_lane, inst)
        elif op == "v_writelane_b32":
            act = partial(self._write_lane, inst)
        elif re.match(r"v_swap_|v_permlane(16|32)_swap", op):
            act = partial(self._swap, inst)
        elif op.startswith(("v_mfma", "v_smfmac")):
            act = partial(self._matrix, inst, effects)
        elif op.startswith("v_cndmask"):
            act = partial(self._select, inst)
        else:
            act = partial(self._vector, inst)
        return Hooks(before=self._guarded(inst, effects, act))

    def _guarded(self, inst: Instruction, effects: Effects, act: Callable[[Cohort, Shadow], None]) -> Any:
        """Nothing undefined goes in: the results are defined."""
        reads, writes, every = frozenset(effects.reads), effects.writes, frozenset(effects.writes)
        scalar = inst.encoding.startswith("SOP")
        matrix = inst.op.startswith(("v_mfma", "v_smfmac"))
        lanes = dpp_writes(inst) if "DPP" in inst.encoding else None
        part = inst.op == "v_writelane_b32"

        def before(cohort: Cohort) -> None:
            shadow = self.shadow(cohort)
            if shadow.dirty.isdisjoint(reads):
                if not shadow.dirty.isdisjoint(every) and not part:
                    mask = None if cohort.full or scalar or matrix else cohort.mask
                    if lanes is not None:
                        mask = lanes(cohort) & cohort.mask
                    for number in writes:
                        shadow.define(number, cohort, mask)
                elif part:
                    act(cohort, shadow)
                return
            for number in reads & shadow.dirty:
                shadow.settle(number)
            act(cohort, shadow)

        return before

    # Reading

    def _words(self, operand: Operand, cohort: Cohort, shadow: Shadow, rows: Any, vector: bool) -> list[Word]:
        if operand.file == "special" and operand.value == "scc":
            found = [shadow.read(SCC, rows)]
        elif operand.file not in _BASE:
            return [(ZERO, ZERO)] * operand.count
        else:
            first = _BASE[operand.file] + operand.index
            found = [shadow.read(first + word, rows) for word in range(operand.count)]
        if vector and operand.file not in ("v", "a"):
            return [tuple(part[:, None] if np.ndim(part) == 1 else part for part in word) for word in found]
        return found

    def _raw(self, operand: Operand, cohort: Cohort, word: int, vector: bool) -> Any:
        if operand.file in ("v", "a"):
            return (cohort.v if operand.file == "v" else cohort.a)[operand.index + word]
        if operand.file == "s":
            value = cohort.s[operand.index + word]
            return value[:, None] if vector else value
        if operand.file == "special":
            flag = cohort.scc.astype(np.uint32)
            return flag[:, None] if vector else flag
        bits = int(constant(operand, "u32" if operand.count == 1 else "u64"))
        return np.uint32(bits >> 32 * word & 0xFFFFFFFF)

    def _sources(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> list[list[Word]]:
        """Undefined bits of each source as the operation sees them: after DPP, SDWA and OP_SEL."""
        rows, sources = rows_of(cohort), []
        for slot, operand in enumerate(inst.src):
            if operand.format == "m64":
                low, high = self._words(operand, cohort, shadow, rows, False)
                sources.append([_mask_lanes(low, high, cohort)])
                continue
            words = self._words(operand, cohort, shadow, rows, True)
            if "SDWA" in inst.encoding and operand.role in ("src0", "src1"):
                bits, origin = words[0]
                select, extend = inst[f"{operand.role}_sel"], inst[f"{operand.role}_sext"]
                wide = np.broadcast_to(bits, cohort.mask.shape)
                words = [(sdwa_source(lambda wv, wide=wide: wide, select, extend)(cohort), origin)]  # type: ignore[misc]
            elif "DPP" in inst.encoding and operand.role == "src0":
                words = [_moved(word, inst, cohort) for word in words]
            elif inst.encoding == "VOP3" and re.fullmatch(r"[uifb]16|bf16", operand.format):
                half = np.uint32(16 * (inst["op_sel"] >> slot & 1))
                words = [(words[0][0] >> half & np.uint32(0xFFFF), words[0][1])]
            sources.append(words)
        return sources

    # Vector operations

    def _vector(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> None:
        rows = rows_of(cohort)
        sources = self._sources(inst, cohort, shadow)
        target = inst.dst[0]
        if _ACCUMULATES.match(inst.op):
            sources.append(self._words(target, cohort, shadow, rows, True))
        vector = target.file in ("v", "a")
        first = _BASE[target.file] + target.index
        old, old_origin = shadow.read(first, rows) if vector else (ZERO, ZERO)
        known = lookup(inst.op)
        keeps = known is not None and known.reads_dst
        operands = Operands(
            inst, [[bits for bits, _ in words] for words in sources], partial(self._known, inst, sources, cohort),
            lambda n, word: self._raw(inst.src[n], cohort, word, True), old if keeps else ZERO,
        )  # fmt: skip
        origin = latest(word for words in sources for word in words)
        mask = self._mask(inst, cohort)
        if vector:
            results = rule_of(inst, target.count)(operands)
            for word, bits in enumerate(results[: target.count]):
                if "SDWA" in inst.encoding:
                    wide = np.broadcast_to(bits, cohort.mask.shape)
                    bits = sdwa_result(np.broadcast_to(old, wide.shape), wide, inst["dst_sel"], inst["dst_unused"])
                self._put(shadow, first + word, cohort, bits, np.where(origin, origin, old_origin), mask)
            masks = inst.dst[1:]
        else:
            masks = inst.dst
        for operand in masks:
            self._put_mask(inst, operand, cohort, shadow, spread(*(b for words in sources for b, _ in words)), origin)

    def _known(self, inst: Instruction, sources: list[list[Word]], cohort: Cohort, n: int) -> Any:
        """A source's value where every active lane's is defined, else None."""
        if "_" in inst.encoding and "SDWA" in inst.encoding:
            return None
        bits = sources[n][0][0]
        if np.any(np.where(cohort.mask, bits, ZERO) if np.ndim(bits) == 2 else bits):
            return None
        return self._raw(inst.src[n], cohort, 0, not inst.encoding.startswith("SOP"))

    def _put(self, shadow: Shadow, number: int, cohort: Cohort, bits: Any, origin: Any, mask: Mask | None) -> None:
        seen = bits if mask is None or np.ndim(bits) < 2 else np.where(mask, bits, ZERO)
        if np.any(seen):
            shadow.write(number, cohort, bits, origin, mask)
        else:
            shadow.define(number, cohort, mask)

    def _put_mask(
        self, inst: Instruction, operand: Operand, cohort: Cohort, shadow: Shadow, bits: Any, origin: Any
    ) -> None:
        """A lane mask: undefined in the lanes whose operands are; lanes that EXEC has off get a defined 0."""
        lanes = np.broadcast_to(np.asarray(bits) != 0, cohort.mask.shape) & cohort.mask
        pair = packed(np.ascontiguousarray(lanes))
        latest = np.where(lanes, np.broadcast_to(origin, lanes.shape), ZERO).max(axis=1)
        if operand.index == EXEC:
            self.sink(inst, cohort, pair.astype(bool).astype(np.uint32), latest, "sets EXEC")
            return
        for word in (0, 1):
            half = (pair >> np.uint64(32 * word) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
            self._put(shadow, SGPRS + operand.index + word, cohort, half, latest, None)

    def _select(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> None:
        """V_CNDMASK: the undefined bits of what is picked; everything where the mask itself is undefined."""
        sources = self._sources(inst, cohort, shadow)
        (a, origin_a), (b, origin_b), (unsure, origin_mask) = (words[0] for words in sources)
        operand = inst.src[2]
        if operand.file == "s":
            pick = lanes_of(cohort.pair(operand.index))
        else:
            pick = lanes_of(np.full(cohort.count, int(operand.value) & (1 << 64) - 1, np.uint64))
        bits = np.where(unsure != 0, ALL, np.where(pick, b, a))
        origin = np.where(unsure != 0, origin_mask, np.where(pick, origin_b, origin_a))
        if "SDWA" in inst.encoding:
            old, _ = shadow.read(_BASE["v"] + inst.dst[0].index, rows_of(cohort))
            bits = sdwa_result(np.broadcast_to(old, bits.shape), bits, inst["dst_sel"], inst["dst_unused"])
        self._put(shadow, inst.dst[0].index, cohort, bits, origin, self._mask(inst, cohort))

    def _mask(self, inst: Instruction, cohort: Cohort) -> Mask | None:
        """The lanes that a vector operation writes, None for all."""
        if "DPP" in inst.encoding and (lanes := dpp_writes(inst)) is not None:
            return lanes(cohort) & cohort.mask
        return None if cohort.full else cohort.mask

    def _read_lane(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> None:
        rows, row = rows_of(cohort), np.arange(cohort.count)
        ((bits, origin),) = self._words(inst.src[0], cohort, shadow, rows, True)
        if inst.op == "v_readlane_b32":
            select, from_where = self._words(inst.src[1], cohort, shadow, rows, False)[0]
            self.sink(inst, cohort, select, from_where, "chooses a lane")
            lane = np.broadcast_to(self._raw(inst.src[1], cohort, 0, False) & np.uint32(63), (cohort.count,))
        else:
            lane = cohort.mask.argmax(axis=1)
        shape = cohort.mask.shape
        one = np.broadcast_to(bits, shape)[row, lane]
        self._put(shadow, SGPRS + inst.dst[0].index, cohort, one, np.broadcast_to(origin, shape)[row, lane], None)

    def _write_lane(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> None:
        rows = rows_of(cohort)
        bits, origin = self._words(inst.src[0], cohort, shadow, rows, False)[0]
        select, from_where = self._words(inst.src[1], cohort, shadow, rows, False)[0]
        self.sink(inst, cohort, select, from_where, "chooses a lane")
        lane = np.broadcast_to(self._raw(inst.src[1], cohort, 0, False) & np.uint32(63), (cohort.count,))
        mask = np.arange(LANES) == lane[:, None]
        wide = [np.broadcast_to(np.asarray(part).reshape(-1, 1), mask.shape) for part in (bits, origin)]
        self._put(shadow, inst.dst[0].index, cohort, wide[0], wide[1], mask)

    def _swap(self, inst: Instruction, cohort: Cohort, shadow: Shadow) -> None:
        rows, shape = rows_of(cohort), cohort.mask.shape
        numbers = [_BASE[operand.file] + operand.index for operand in (inst.dst[0], inst.src[0])]
        parts = [[np.broadcast_to(part, shape).copy() for part in shadow.read(number, rows)] for number in numbers]
        found = re.match(r"v_permlane(16|32)_swap", inst.op)
        if found is None:
            parts.reverse()
        else:
            size = int(found[1])
            for a, b in zip(*parts, strict=True):
                first, second = a.reshape(-1, 32 // size, 2, size), b.reshape(-1, 32 // size, 2, size)
                first[:, :, 1], second[:, :, 0] = second[:, :, 0].copy(), first[:, :, 1].copy()
        for number, (bits, origin) in zip(numbers, parts, strict=True):
            self._put(shadow, number, cohort, bits, origin, None if cohort.full else cohort.mask)

    def across(self, inst: Instruction, effects: Effects, cohort: Cohort) -> None:
        """DS_BPERMUTE lane by lane; DS_PERMUTE and DS_SWIZZLE as if each lane saw every lane of its wave."""
        shadow, rows = self.shadow(cohort), rows_of(cohort)
        mask = None if cohort.full else cohort.mask
        reads = [number for number in effects.reads if not shadow.settle(number)]
        target = _BASE[inst.dst[0].file] + inst.dst[0].index
        if not reads:
            shadow.define(target, cohort, mask)
            return
        words = [self._words(operand, cohort, shadow, rows, True)[0] for operand in inst.src]
        active = [(np.where(cohort.mask, bits, ZERO), origin) for bits, origin in words]
        if inst.op == "ds_bpermute_b32":
            self.sink(inst, cohort, *active[0], "chooses a lane")
            offset = np.uint32(inst["offset0"] | inst["offset1"] << 8)
            lane = (cohort.v[inst.src[0].index] + offset >> np.uint32(2) & np.uint32(63)).astype(np.int64)
            bits, origin = (np.take_along_axis(np.broadcast_to(part, lane.shape), lane, 1) for part in active[1])
        else:
            bits = spread(*(np.broadcast_to(part, cohort.mask.shape).any(axis=1, keepdims=True) for part, _ in active))
            bits = np.broadcast_to(bits, cohort.mask.shape)
            origin = np.broadcast_to(latest(active), cohort.mask.shape).max(axis=1, keepdims=True)
        self._put(shadow, target, cohort, bits, origin, mask)

    def _matrix(self, inst: Instruction, effects: Effects, cohort: Cohort, shadow: Shadow) -> None:
        target = inst.dst[0]
        first = _BASE[target.file] + target.index
        for word, (bits, origin) in enumerate(matrix_result(inst, effects, shadow, cohort)):
            self._put(shadow, first + word, cohort, bits, origin, None)

    # Scalar operations

    def _scalar(self, inst: Instruction, effects: Effects, nonzero: bool, cohort: Cohort, shadow: Shadow) -> None:
        self.flags = None
        rows = rows_of(cohort)
        sources = [self._words(operand, cohort, shadow, rows, False) for operand in inst.src]
        if SCC in effects.reads:
            sources.append([shadow.read(SCC, rows)])
        if inst.op.startswith(("s_cmov", "s_addk", "s_mulk", "s_bitset")):
            sources.append(self._words(inst.dst[0], cohort, shadow, rows, False))
        origin = latest(word for words in sources for word in words)
        count = inst.dst[0].count if inst.dst else 0
        operands = Operands(
            inst, [[bits for bits, _ in words] for words in sources], partial(self._known, inst, sources, cohort),
            lambda n, word: (
                self._raw(inst.src[n], cohort, word, False) if n < len(inst.src) else cohort.scc.astype(np.uint32)
            ),
        )  # fmt: skip
        if inst.op.startswith(("s_setpc", "s_swappc", "s_setreg")):
            self.sink(inst, cohort, spread(*(b for b, _ in sources[-1])), origin, "decides a branch")
        if "_saveexec_" in inst.op:
            results: list[Any] = [ZERO, ZERO]
            combined = inst.op.split("_saveexec")[0].removeprefix("s_")
            undefined = [
                bits & (cohort.s[EXEC + word] if combined in ("and", "nand", "andn1") else ALL)
                for word, (bits, _) in enumerate(sources[0])
            ]
            self.sink(inst, cohort, undefined[0] | undefined[1], origin, "sets EXEC")
        else:
            results = rule_of(inst, count)(operands) if count else []
        results = [np.broadcast_to(np.asarray(bits, np.uint32), (cohort.count,)) for bits in results]
        for word, bits in enumerate(results):
            number = SGPRS + inst.dst[0].index + word
            if number in _EXEC:
                self.sink(inst, cohort, bits, origin, "sets EXEC")
            else:
                self._put(shadow, number, cohort, bits, origin, None)
        if SCC in effects.writes:
            if nonzero and results:
                self.flags = (results, origin)
            everything = spread(*(bits for words in sources for bits, _ in words))
            self._put(shadow, SCC, cohort, np.broadcast_to(everything, (cohort.count,)), origin, None)

    def _flag(self, inst: Instruction, cohort: Cohort) -> None:
        """SCC = result is not zero: one bit known to be set decides it."""
        if self.flags is None:
            return
        (results, origin), self.flags = self.flags, None
        unsure, known = np.zeros(cohort.count, np.uint32), np.zeros(cohort.count, np.uint32)
        for word, bits in enumerate(results):
            unsure = unsure | bits
            known = known | cohort.s[inst.dst[0].index + word] & ~bits
        self._put(self.shadow(cohort), SCC, cohort, np.where((unsure != 0) & (known == 0), ALL, ZERO), origin, None)


def _mask_lanes(low: Word, high: Word, cohort: Cohort) -> Word:
    """The undefined bits of a lane mask, lane by lane."""
    words = [np.broadcast_to(np.asarray(part, np.uint32), (cohort.count,)) for part in (low[0], high[0])]
    lanes = lanes_of(words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32))
    origin = np.maximum(np.broadcast_to(low[1], (cohort.count,)), np.broadcast_to(high[1], (cohort.count,)))
    return np.where(lanes, ALL, ZERO), origin[:, None]


def _moved(word: Word, inst: Instruction, cohort: Cohort) -> Word:
    lanes = dpp_lanes(inst["dpp_ctrl"])
    assert lanes is not None
    bits, origin = (np.broadcast_to(part, cohort.mask.shape)[:, lanes] for part in word)
    return np.where((lanes >= 0) & cohort.mask[:, lanes], bits, ZERO), origin
