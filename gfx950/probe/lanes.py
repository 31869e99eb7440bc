"""Questions on lanes that are off, on data between lanes, and on what a wave begins with."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mxassay.gfx950.probe.lanewise import columns, each
from mxassay.gfx950.probe.question import REFUSED, Program, Question, Reading, Words
from mxassay.gfx950.registry import CERTAIN, INFERRED, UNKNOWN, Fidelity

__all__ = ["QUESTIONS"]

_ISA = "AMD CDNA4 ISA"
_LANE = np.arange(64)
_NUMBERS = columns(0x100 + _LANE, 0x200 + _LANE)
_MASK = 0x0F0FF00F_3355AAFF
_ON = (_MASK >> _LANE.astype(object) & 1).astype(bool)
_OFF = f"s_mov_b32 exec_lo, {_MASK & 0xFFFFFFFF:#x}\ns_mov_b32 exec_hi, {_MASK >> 32:#x}\ns_nop 7\n"
_ALL_ON = "\ns_nop 7\ns_mov_b64 exec, -1"


def _swapped(rows: int, *, writes: Callable[[Any, Any], Any]) -> Reading:
    """Odd groups of `rows` lanes of the first register change places with even groups of the second."""

    def outputs(words: Words) -> Words:
        a, b = words[..., 0], words[..., 1]
        odd = _LANE // rows % 2 == 1
        partner = np.where(odd, _LANE - rows, _LANE + rows)
        new_a = np.where(odd & writes(_ON, _ON[partner]), b[:, partner], a)
        new_b = np.where(~odd & writes(_ON, _ON[partner]), a[:, partner], b)
        return np.stack([new_a, new_b], axis=2)

    return outputs


def _swap(rows: int, lanes_off: bool) -> Question:
    readings: Mapping[str, Reading] = {
        "EXEC does not count": _swapped(rows, writes=lambda own, other: True),
        "lanes that are off are not written": _swapped(rows, writes=lambda own, other: own),
        "only where both lanes are on": _swapped(rows, writes=lambda own, other: own & other),
    }
    name = f"v_permlane{rows}_swap_b32"
    move = "v_mov_b32_e32 v64, v16\nv_mov_b32_e32 v65, v17\ns_nop 7\n"
    text = f"{move}{_OFF if lanes_off else ''}{name} v64, v65{_ALL_ON}"
    every = {"odd groups change places with even ones": readings["EXEC does not count"]}
    return Question(
        f"lanes.permlane{rows}_swap{'_off' if lanes_off else ''}",
        f"What does {name} do with lanes that are off?" if lanes_off else f"Which lanes does {name} swap?",
        "Reductions over a wave with a masked tail." if lanes_off else "Triton's layout conversions.",
        f"{_ISA}: the pseudocode does not mention EXEC." if lanes_off else f"{_ISA}; a control.",
        REFUSED if lanes_off else next(iter(every)), UNKNOWN if lanes_off else CERTAIN,
        Program(text, _NUMBERS, 2), readings if lanes_off else every,
    )  # fmt: skip


def _shifted(new: Callable[[Any, Any, Any], Any]) -> Reading:
    """DPP row_shr:1. `new(source's value, source is on, old)` for lanes that are on; the first lane of a row has no
    source."""

    def outputs(words: Words) -> Words:
        value, old = words[..., 0], words[..., 1]
        source = np.where(_LANE % 16 == 0, _LANE, _LANE - 1)
        moved = new(value[:, source], _ON[source] & (_LANE % 16 > 0), old)
        return np.where(_ON, moved, old)[..., None]

    return outputs


def _dpp(bound_ctrl: bool) -> Question:
    tail = " bound_ctrl:0" if bound_ctrl else ""
    readings = {
        "the old value stays": _shifted(lambda value, valid, old: np.where(valid, value, old)),
        "0": _shifted(lambda value, valid, old: np.where(valid, value, 0)),
        "EXEC of the source does not count, no source gives the old value": _shifted(
            lambda value, valid, old: np.where(_LANE % 16 > 0, value, old)
        ),
    }
    return Question(
        f"lanes.dpp_source_off_{int(bound_ctrl)}",
        f"What does a DPP row shift read from a lane that is off, {'with' if bound_ctrl else 'without'} BOUND_CTRL?",
        "Scans and reductions with masked tails.", f'{_ISA}, "DPP".', "0" if bound_ctrl else "the old value stays",
        CERTAIN,
        Program(
            f"v_mov_b32_e32 v64, v17\ns_nop 7\n{_OFF}"
            f"v_mov_b32_dpp v64, v16 row_shr:1 row_mask:0xf bank_mask:0xf{tail}{_ALL_ON}", _NUMBERS, 1,
        ),
        readings,
    )  # fmt: skip


_PERMUTE = Question(
    "lanes.bpermute_source_off", "What does ds_bpermute_b32 give for a source lane that is off?",
    "Gathers across a wave with a masked tail.", f"{_ISA}, DS_BPERMUTE_B32 (pseudocode): 0.", "0", CERTAIN,
    Program(
        f"v_lshlrev_b32_e32 v4, 2, v0\nv_xor_b32_e32 v4, 20, v4\ns_nop 7\n{_OFF}ds_bpermute_b32 v64, v4, v16\n"
        f"s_waitcnt lgkmcnt(0){_ALL_ON}", _NUMBERS, 1,
    ),
    {
        "0": lambda words: np.where(_ON, np.where(_ON[_LANE ^ 5], words[:, _LANE ^ 5, 0], 0), 0x5A5A5A5A)[..., None],
        "its value": lambda words: np.where(_ON, words[:, _LANE ^ 5, 0], 0x5A5A5A5A)[..., None],
    },
)  # fmt: skip

_FIRST = Question(
    "lanes.readfirstlane_exec_0", "Which lane does v_readfirstlane_b32 read when none is on?", "Empty waves.",
    f"{_ISA}, V_READFIRSTLANE_B32: lane 0.", "lane 0", CERTAIN,
    Program(
        "s_mov_b64 exec, 0\ns_nop 7\nv_readfirstlane_b32 s20, v16\ns_nop 7\ns_mov_b64 exec, -1\ns_nop 7\n"
        "v_mov_b32_e32 v64, s20", _NUMBERS, 1,
    ),
    {"lane 0": lambda words: np.broadcast_to(words[:, :1, :1], (*words.shape[:2], 1)),
     "lane 63": lambda words: np.broadcast_to(words[:, 63:, :1], (*words.shape[:2], 1))},
)  # fmt: skip

_RANDOM = Question(
    "lanes.prng", "Which pseudo-random number does v_prng_b32 make of its operand?", "Stochastic rounding.",
    f"{_ISA}, V_PRNG_B32 (pseudocode): a shift register with taps 0xc5.", "shift left, xor 0xc5 where bit 31 was set",
    CERTAIN,
    Program("v_prng_b32_e32 v64, v16", columns(0x9E3779B9 * (1 + _LANE.astype(np.uint64)) % (1 << 32)), 1),
    {
        "shift left, xor 0xc5 where bit 31 was set": each(
            lambda x: x << np.uint32(1) ^ (x >> np.uint32(31)) * np.uint32(0xC5)
        )
    },
)  # fmt: skip


def _uniform(value: int) -> Reading:
    return lambda words: np.full((*words.shape[:2], 1), value, np.uint32)


def _register(name: str, policy: str, status: Fidelity, sources: str, readings: Mapping[str, Reading]) -> Question:
    return Question(
        f"start.{name.lower()}", f"What does s_getreg_b32 read from HW_REG_{name} at the start of a wave?",
        "Kernels that read hardware registers; how they are allocated.", sources, policy, status,
        Program("v_mov_b32_e32 v64, s90", _NUMBERS, 1, first=f"s_getreg_b32 s90, hwreg(HW_REG_{name})"), readings,
    )  # fmt: skip


_PRELOAD = Question(
    "start.preload", "Do preloaded SGPRs hold the kernarg segment's first words?",
    "Triton's kernels enter behind their own loading code when the firmware preloads.",
    'LLVM AMDGPUUsage, "Preloaded Kernel Arguments"; a control.', "they do", CERTAIN,
    Program(
        "s_sub_u32 s90, s90, s4\ns_sub_u32 s91, s91, s5\ns_sub_u32 s92, s92, s6\ns_sub_u32 s93, s93, s7\n"
        + "\n".join(f"v_mov_b32_e32 v{64 + word}, s{90 + word}" for word in range(4)),
        columns(_LANE), 4, first="\n".join(f"s_mov_b32 s{90 + word}, s{2 + word}" for word in range(4)),
        settings={"preload": 4},
    ),
    {"they do": lambda words: np.zeros((*words.shape[:2], 4), np.uint32)},
)  # fmt: skip


def _start(name: str, statement: str, policy: str, status: Fidelity, text: str, words: int,
           readings: Mapping[str, Reading], first: str = "",
           block: tuple[int, int, int] = (64, 1, 1)) -> Question:  # fmt: skip
    return Question(
        f"start.{name}", statement, "Initial state that a kernel may rely on.",
        'LLVM AMDGPUUsage, "Initial Kernel Execution State".', policy, status,
        Program(text, columns(_LANE), words, first=first, block=block), readings,
    )  # fmt: skip


_STATE = (
    _start(
        "exec", "Which lanes are on in a workgroup of 40 work-items?", "the first 40", CERTAIN,
        "v_mov_b32_e32 v64, s98\nv_mov_b32_e32 v65, s99", 2,
        {"the first 40": lambda words: np.broadcast_to(np.array([0xFFFFFFFF, 0xFF], np.uint32), (*words.shape[:2], 2))},
        block=(40, 1, 1),
    ),
    _start(
        "v0", "Does v0 hold x, y and z of the work-item in 10 bits each?", "it does", CERTAIN,
        "v_mov_b32_e32 v64, v15", 1,
        {"it does": lambda words: np.broadcast_to(
            (_LANE % 4 | _LANE // 4 % 4 << 10 | _LANE // 16 << 20).astype(np.uint32)[:, None], (*words.shape[:2], 1))},
        block=(4, 4, 4),
    ),
    _start(
        "m0", "What does M0 hold at the start?", "0xffffffff", UNKNOWN, "v_mov_b32_e32 v64, s90", 1,
        {"0xffffffff": _uniform(0xFFFFFFFF), "0": _uniform(0)}, first="s_mov_b32 s90, m0",
    ),
)  # fmt: skip

_HARDWARE = "Depends on the allocation and the place of the wave; asked to be recorded."
QUESTIONS: tuple[Question, ...] = (
    *(_swap(rows, off) for rows in (16, 32) for off in (False, True)), _dpp(False), _dpp(True), _PERMUTE, _FIRST,
    _RANDOM, _PRELOAD, *_STATE,
    _register("MODE", "0x3f0: modes of the descriptor, nothing else", INFERRED, f'{_ISA}, "MODE register".',
              {"0x3f0: modes of the descriptor, nothing else": _uniform(0x3F0)}),
    *(_register(name, f"{value:#x}", UNKNOWN, _HARDWARE, {f"{value:#x}": _uniform(value)})
      for name, value in (("STATUS", 0x400), ("TRAPSTS", 0), ("XCC_ID", 0), ("HW_ID", 0))),
    *(_register(name, REFUSED, UNKNOWN, _HARDWARE, {}) for name in ("LDS_ALLOC", "GPR_ALLOC")),
)  # fmt: skip
