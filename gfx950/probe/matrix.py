"""Questions on the dense matrix instructions without scales: how they add, and what they do with denormals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.accumulate import Groups, truncating
from mxassay.gfx950.probe.operand import accumulator, bf16, e5m2, join, rows_in_lanes
from mxassay.gfx950.probe.question import Program, Question, Reading, Words
from mxassay.gfx950.probe.sums import SUMS, Sum, blockwise, exact
from mxassay.gfx950.probe.terms import Terms, cancellation, many_small, ties
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN

__all__ = ["QUESTIONS"]

Values = NDArray[np.float64]


def _f16(values: Values) -> NDArray[np.uint32]:
    half = np.asarray(values, np.float16)
    assert np.array_equal(half.astype(np.float64), values)
    return half.view(np.uint16).astype(np.uint32)


def _f32(values: Values) -> NDArray[np.uint32]:
    return np.asarray(values, np.float32).view(np.uint32)


@dataclass(frozen=True)
class _Instruction:
    """One instruction of 16 rows: `registers` of A, and of B; `top` and `least`: exponents of the largest power of two
    and the smallest denormal; `normal`: of the smallest normal number. `groups`: as MI300X was measured."""

    name: str
    op: str
    depth: int
    bits: int
    encode: Callable[[Values], NDArray[np.uint32]]
    top: int
    normal: int
    least: int
    groups: tuple[int, bool] | None
    options: str = ""
    interleaved: bool = False

    @property
    def registers(self) -> int:
        return self.depth * self.bits // 128

    @property
    def text(self) -> str:
        count = self.registers

        def span(first: int) -> str:
            return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"

        c = 16 + 2 * count
        return f"{self.op} v[64:67], {span(16)}, {span(16 + count)}, v[{c}:{c + 3}]{self.options}"

    def words(self, terms: Terms) -> Words:
        a, b, c = terms
        operands = (rows_in_lanes(self.encode(part), self.bits, interleaved=self.interleaved) for part in (a, b))
        return join(*operands, accumulator(c))

    @property
    def groups_of_mi300x(self) -> Groups | None:
        return None if self.groups is None else Groups(*self.groups, (self.normal, self.normal))


_INSTRUCTIONS = (
    _Instruction("bf16", "v_mfma_f32_16x16x32_bf16", 32, 16, bf16, 30, -126, -133, (8, False)),
    _Instruction("f16", "v_mfma_f32_16x16x32_f16", 32, 16, _f16, 15, -14, -24, (8, False)),
    _Instruction("bf8", "v_mfma_f32_16x16x32_bf8_bf8", 32, 8, e5m2, 15, -14, -16, (16, True)),
    _Instruction(
        "f8f6f4_bf8", "v_mfma_f32_16x16x128_f8f6f4", 128, 8, e5m2, 15, -14, -16, (16, True), " cbsz:1 blgp:1", True
    ),
    _Instruction("f32", "v_mfma_f32_16x16x4_f32", 4, 32, _f32, 30, -126, -149, None),
)


def _adding(terms: Callable[[], Terms], rule: Sum) -> Reading:
    def outputs(words: Words) -> Words:
        a, b, c = terms()
        return accumulator(rule(a[:, :, None] * b[:, None], c))

    return outputs


def _sums(inst: _Instruction, terms: Callable[[], Terms]) -> Mapping[str, Reading]:
    found = {name: _adding(terms, rule) for name, rule in SUMS.items() if _meaningful(name, inst.depth)}
    for size in (8, 16):
        if size < inst.depth:
            for name in ("all terms and C cut toward zero at 24 bits", "all terms and C cut down at 24 bits"):
                found[f"{size} k at a time: {name}"] = _adding(terms, blockwise(SUMS[name], size))
    groups = inst.groups_of_mi300x
    if groups is not None:
        measured = groups
        found["as MI300X was measured (MMA-Sim)"] = lambda words: accumulator(truncating(*terms(), measured))
    return found


def _meaningful(name: str, depth: int) -> bool:
    return not name.startswith("groups of") or int(name.split()[2]) < depth


def _ramp(depth: int) -> Terms:
    """Small integers: every order of adding gives the same sum."""
    index = np.arange(16 * depth).reshape(1, 16, depth)
    c = (np.arange(256) - 100).reshape(1, 16, 16).astype(np.float32)
    a, b = (index * 5 % 15 - 7) % 8 - 4, (index * 11 + index // depth) % 7 - 3
    return a.astype(np.float64), b.astype(np.float64), c


def _denormals(inst: _Instruction) -> Terms:
    """Wave 0: denormal A, B that lifts it. Wave 1: small A and B whose products are denormal float32 (where the format
    reaches that far). Wave 2: denormal C alone. Wave 3: denormal C under a normal sum."""
    a, b = np.zeros((4, 16, inst.depth)), np.zeros((4, 16, inst.depth))
    c = np.zeros((4, 16, 16), np.uint32)
    span = inst.normal - inst.least
    a[0, :, 1] = np.exp2(inst.least + np.arange(16) % span) * np.where(np.arange(16) % 3, 1, -1)
    b[0, :, 1] = np.exp2(np.arange(16) % (inst.top + 1))
    small = max(inst.normal, -70)
    a[1, :, 2], b[1, :, 2] = np.exp2(np.full(16, small)), np.exp2(small + np.arange(16) % 8) * np.tile([1, -1], 8)
    c[2:] = (np.arange(256).reshape(16, 16) * 0x7FF7 + 1 & 0x7FFFFF) | np.eye(16, dtype=np.uint32) << np.uint32(31)
    a[3, :, 0], b[3, :, 0] = np.exp2(small), np.exp2(small)
    return a, b, c.view(np.float32)


def _flush(x: Any, normal: int) -> Any:
    return np.where(np.abs(x) < 2.0**normal, np.copysign(0, x), x).astype(np.asarray(x).dtype)


def _flushing(inst: _Instruction, terms: Callable[[], Terms]) -> Mapping[str, Reading]:
    def outputs(operands: bool, c_too: bool, sums: bool) -> Reading:
        def flushed(words: Words) -> Words:
            a, b, c = terms()
            if operands:
                a, b = _flush(a, inst.normal), _flush(b, inst.normal)
            total = exact(a[:, :, None] * b[:, None], _flush(c, -126) if c_too else c)
            return accumulator(_flush(total, -126) if sums else total)

        return flushed

    return {
        "kept": outputs(False, False, False), "operands flushed": outputs(True, False, False),
        "operands, C and results flushed": outputs(True, True, True), "results flushed": outputs(False, False, True),
        "C and results flushed": outputs(False, True, True),
    }  # fmt: skip


_SPLIT = {"f32": (0, 1, 2, 3), "f8f6f4_bf8": (0, 1, 5, 9, 17, 33, 70, 127)}
_POSITIONS = (0, 1, 2, 5, 9, 17, 31)
_WHY = "The last bits of a GEMM, and all of them after cancellation, depend on it."
_SOURCE = "MMA-Sim (arXiv:2511.10909) measured MI100 to MI300X; no public measurement of CDNA4."
_ONCE, _CHAIN = "exact, rounded once", "one product after another in float32"


def _questions(inst: _Instruction) -> tuple[Question, ...]:
    def ask(
        name: str, statement: str, why: str, source: str, policy: str, status: Any, made: Callable[[], Terms],
        readings: Mapping[str, Reading],
    ) -> Question:  # fmt: skip
        program = Program(inst.text, lambda: inst.words(made()), 4)
        return Question(f"mfma.{inst.name}.{name}", statement, why, source, policy, status, program, readings, "f32")

    positions = _SPLIT.get(inst.name, _POSITIONS)
    reach = min(36, 2 * inst.top)
    far = cache(lambda: cancellation(inst.depth, positions, min(inst.top, 15), reach))
    near = cache(lambda: ties(inst.depth, (positions[1], positions[3]), max(-27, 2 * inst.least)))
    few = cache(lambda: many_small(inst.depth))
    tiny = cache(lambda: _denormals(inst))
    ramp = cache(lambda: _ramp(inst.depth))
    policy = _CHAIN if inst.name == "f32" else _ONCE
    status = INFERRED if inst.name == "f32" else UNKNOWN
    return (
        ask("layout", f"Do the operands of {inst.op} lie where we think?", "Nothing else here can be read otherwise.",
            "AMD's matrix instruction calculator and AMD CDNA4 ISA; a control.", _ONCE, CERTAIN, ramp,
            {_ONCE: _adding(ramp, exact)}),
        ask("order", f"In what order and how wide does {inst.op} add?", _WHY, _SOURCE, policy, status, far,
            _sums(inst, far)),
        ask("ties", f"How does {inst.op} round its sum at ties?", _WHY, _SOURCE, policy, status, near,
            _sums(inst, near)),
        ask("small", f"How many small products does {inst.op} add before it rounds?", _WHY, _SOURCE, policy, status,
            few, _sums(inst, few)),
        ask("denormal", f"Does {inst.op} keep denormal operands, C and results?",
            "MI200 flushed them and lost trained weights (PyTorch documents it).", _SOURCE, "kept", INFERRED, tiny,
            _flushing(inst, tiny)),
    )  # fmt: skip


QUESTIONS: tuple[Question, ...] = tuple(question for inst in _INSTRUCTIONS for question in _questions(inst))
