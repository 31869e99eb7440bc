"""A question for a real card: what is asked, why, what is known, and the machine code that asks it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxassay.gfx950.assembler import KernelText
from mxassay.gfx950.registry import Fidelity

__all__ = ["FIRST_INPUT", "FIRST_OUTPUT", "REFUSED", "UNANSWERED", "Program", "Question", "Reading", "Words"]

Words = NDArray[np.uint32]  # (waves, 64, words): what each lane loads or stores
Reading = Callable[[Words], Words]  # inputs to the outputs that a card of this behaviour gives

FIRST_INPUT, FIRST_OUTPUT = 16, 64
UNANSWERED = 0x5A5A5A5A  # what memory holds where a kernel stores nothing
REFUSED = "refused"
"""The policy of an emulator that rather stops than guesses."""

# Lane l of wave w loads its words into v16 and on, runs the text, and stores v64 and on. The waits are longer than any
# hazard (AMD CDNA4 ISA, "Manually inserted wait states"), so that only what a question asks for can differ.
_BEFORE = """
v_mov_b32_e32 v15, v0
s_mov_b64 s[98:99], exec
s_mov_b32 s97, s{group}
{first}
s_mov_b64 exec, -1
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_mbcnt_lo_u32_b32 v0, -1, 0
v_mbcnt_hi_u32_b32 v0, -1, v0
v_mov_b32_e32 v1, s97
v_lshl_add_u32 v3, v1, 6, v0
s_movk_i32 s8, {in_bytes}
v_mul_lo_u32 v1, v3, s8
s_movk_i32 s8, {out_bytes}
v_mul_lo_u32 v2, v3, s8
s_waitcnt lgkmcnt(0)
{loads}
s_waitcnt vmcnt(0)
{clears}
s_nop 15
s_nop 15
"""
_AFTER = """
s_nop 15
s_nop 15
s_waitcnt vmcnt(0) lgkmcnt(0)
s_mov_b64 exec, -1
{stores}
"""


@dataclass(frozen=True)
class Program:
    """Machine code between loads and stores that are trusted.

    `text` finds the words of `inputs` in v16 and on, the lane in v0, the input and output addresses in s[4:5] and
    s[6:7], this lane's offsets into them in v1 and v2, every lane on, and leaves `out_words` words in v64 and on, which
    hold UNANSWERED at first. The v0 and EXEC that the kernel began with are in v15 and s[98:99]. It may use v3 to v14
    and v128 and on, and s8 to s96. `first` runs before everything else. `block`: the workgroup's sizes, 64 work-items
    at most. `settings` go to the kernel's descriptor (see `KernelText`).
    """

    text: str
    inputs: Callable[[], Words]
    out_words: int
    first: str = ""
    block: tuple[int, int, int] = (64, 1, 1)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def data(self) -> Words:
        """The inputs, made once; never written to."""
        words = np.ascontiguousarray(self.inputs(), np.uint32)
        assert words.ndim == 3, words.shape
        assert words.shape[1] == 64, words.shape
        assert words.shape[2] <= FIRST_OUTPUT - FIRST_INPUT, words.shape
        words.flags.writeable = False
        return words

    def kernel(self, name: str) -> KernelText:
        in_words = self.data.shape[2]
        loads = [f"global_load_dword v{FIRST_INPUT + word}, v1, s[4:5] offset:{4 * word}" for word in range(in_words)]
        clears = [f"v_mov_b32_e32 v{FIRST_OUTPUT + word}, {UNANSWERED:#x}" for word in range(self.out_words)]
        stores = [
            f"global_store_dword v2, v{FIRST_OUTPUT + word}, s[6:7] offset:{4 * word}" for word in range(self.out_words)
        ]
        before = _BEFORE.format(
            group=2 + self.settings.get("preload", 0), first=self.first, in_bytes=4 * in_words,
            out_bytes=4 * self.out_words, loads="\n".join(loads), clears="\n".join(clears),
        )  # fmt: skip
        return KernelText(
            name, before + self.text.strip("\n") + _AFTER.format(stores="\n".join(stores)), **self.settings
        )


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        id: dotted words; the key in `probe.json`.
        statement: the question in one sentence.
        matters: what goes wrong in a kernel or in the emulator if the answer is another one.
        sources: what public sources say.
        policy: the reading that the emulator follows; `REFUSED` where it stops instead.
        status: how sure we are of that reading. A CERTAIN question is a control: another answer means that the probe,
            the driver or our knowledge of the machine is wrong, not that a policy must change.
        program: the code that asks.
        readings: behaviours by name, each as a function from inputs to outputs, written without the emulator. An
            answer is named after the readings that give its bits.
        shows: how a word is written for people: "f32", "f16x2", "bf16x2" or "hex".
    """

    id: str
    statement: str
    matters: str
    sources: str
    policy: str
    status: Fidelity
    program: Program
    readings: Mapping[str, Reading]
    shows: str = "hex"

    @property
    def kernel_name(self) -> str:
        return self.id.replace(".", "_")

    @cached_property
    def digest(self) -> str:
        """Identifies what is asked: code and inputs. Answers to different digests can't be compared."""
        kernel = self.program.kernel(self.kernel_name)
        return hashlib.sha256(repr(kernel).encode() + self.program.data.tobytes()).hexdigest()[:16]

    @cached_property
    def predictions(self) -> dict[str, Words]:
        """The outputs that each reading predicts."""
        shape = (*self.program.data.shape[:2], self.program.out_words)
        with np.errstate(all="ignore"):
            found = {
                name: np.ascontiguousarray(reading(self.program.data), np.uint32)
                for name, reading in self.readings.items()
            }
        assert all(outputs.shape == shape for outputs in found.values()), (self.id, shape)
        return found

    def readings_of(self, outputs: Words) -> tuple[str, ...]:
        """The names of the readings that give exactly these outputs."""
        return tuple(name for name, predicted in self.predictions.items() if np.array_equal(predicted, outputs))
