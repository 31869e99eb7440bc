"""Questions for a real MI355X, asked of the emulated card until there is one.

`ask(card)` runs a small kernel for each question in `QUESTIONS` and returns a `Record`, which `probe.json` holds.
`compare(old, new)` tells two cards apart and says which of the emulator's policies a difference settles. Each question
names the behaviours it can tell apart; an answer is called after those that give exactly its bits.
"""

from mxassay.gfx950.probe.asking import (
    QUESTIONS,
    Difference,
    ask,
    code_object,
    compare,
    contradictions,
    hypotheses,
)
from mxassay.gfx950.probe.cards import Card, EmulatedCard
from mxassay.gfx950.probe.hip import HipCard, HipError, why_no_card
from mxassay.gfx950.probe.pinning import Pinned, pins_of
from mxassay.gfx950.probe.question import Program, Question
from mxassay.gfx950.probe.record import Answer, Record

__all__ = [
    "QUESTIONS", "Answer", "Card", "Difference", "EmulatedCard", "HipCard", "HipError", "Pinned", "Program", "Question",
    "Record", "ask", "code_object", "compare", "contradictions", "hypotheses", "pins_of", "why_no_card",
]  # fmt: skip
