"""What a pseudocode program is and what it runs on: the texts of AMD, parsed, and the registers of one lane."""

import functools
import re

import pcode_syntax as syntax
from pcode_errata import DEFECTIVE, ERRATA
from pcode_functions import FUNCTIONS, why_undefined
from pcode_syntax import PcodeSyntaxError
from pcode_values import Value, made_nan, make_inf, unsigned
from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

SUFFIX = re.compile(r"_E(32|64)$")
CONSTANTS = {
    "ROUND_NEAREST_EVEN": "RNE",
    "ROUND_TOWARD_ZERO": "RTZ",
    "INF": make_inf("f64", 0),
    "NAN": made_nan("f64"),
    # SDWA byte and word selects (AMD CDNA ISA, SDWA encoding, SRC0_SEL)
    "BYTE1": unsigned(1, 3),
    "BYTE2": unsigned(2, 3),
    "BYTE3": unsigned(3, 3),
    "WORD1": unsigned(5, 3),
}


class NoWitnessError(Exception):
    """AMD's text can't be executed for this instruction; the message says why."""


def plain_name(op_name: str) -> str:
    return SUFFIX.sub("", op_name)


@functools.cache
def texts() -> dict[str, str]:
    """Pseudocode by instruction name without the encoding suffix; all encodings of a name have one text (tested)."""
    found: dict[str, str] = {}
    for op, text in PCODE.items():
        if type(op).__name__[:3] in ("SOP", "VOP"):
            found.setdefault(plain_name(op.name), text)
    return found


@functools.cache
def program_of(name: str) -> tuple:
    """The parsed text of an instruction, errata applied.

    Raises:
        NoWitnessError: no text, a defective one, prose, or a call of a function that nobody defines.
    """
    if name in DEFECTIVE:
        raise NoWitnessError(f"the text {DEFECTIVE[name]}")
    if name not in ERRATA and name not in texts():
        raise NoWitnessError("AMD publishes no pseudocode")
    text = ERRATA[name][0] if name in ERRATA else texts()[name]
    try:
        program = syntax.parse(text)
    except PcodeSyntaxError:
        raise NoWitnessError("the text is prose, not a program") from None
    for called in sorted(set(re.findall(r"([A-Za-z_]\w*)\(", re.sub(r"//[^\n]*", "", text)))):
        local = called in ("U", "I", "B", "F", "BF", "lambda") or f"{called} = lambda" in text
        if not local and called not in FUNCTIONS and called.upper() not in texts():
            raise NoWitnessError(why_undefined(called))
    return program


class State:
    """Registers by the text's names (S0, D0, VCC, SCC, EXEC, laneId, OPSEL, ...) and VGPRs by (lane, number)."""

    def __init__(self, registers: dict[str, Value], vgprs: dict[tuple[int, int], Value] | None = None, saturate=False):
        self.variables: dict[object, object] = dict(registers)
        self.variables.update({("VGPR", *at): value for at, value in (vgprs or {}).items()})
        self.written: dict[object, int] = {}
        self.types: dict[object, str] = {}
        self.functions: dict[str, syntax.Lambda] = {}
        self.mode = "RNE"
        self.saturate = saturate

    def __getitem__(self, root: object) -> Value:
        return self.variables[root]
