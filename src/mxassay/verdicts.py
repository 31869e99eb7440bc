"""Verdicts, the record of one checked case, and the one JSON document every command prints."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

SCHEMA_VERSION = 1


class Verdict(Enum):
    """The closed set of outcomes of a check."""

    PASS = "PASS"
    FAIL = "FAIL"
    ERROR = "ERROR"
    """The kernel raised or faulted."""
    UNSUPPORTED = "UNSUPPORTED"
    """Outside the kernel's contract, or something that nobody taught the device."""


class ExitCode:
    """Exit codes of the command line. `git bisect run` reads UNTESTABLE as "skip this revision"."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    UNSUPPORTED = 3
    INTERNAL = 4
    UNTESTABLE = 125


# Worst first: the verdict of many cases is the first of these that occurs.
_SEVERITY = (Verdict.FAIL, Verdict.ERROR, Verdict.UNSUPPORTED, Verdict.PASS)
_EXIT = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.FAIL: ExitCode.FAIL,
    Verdict.ERROR: ExitCode.FAIL,
    Verdict.UNSUPPORTED: ExitCode.UNSUPPORTED,
}


def worst(verdicts: list[Verdict]) -> Verdict:
    """The most severe of `verdicts`; UNSUPPORTED when there is none, since nothing was shown."""
    return next((v for v in _SEVERITY if v in verdicts), Verdict.UNSUPPORTED)


def exit_code(verdict: Verdict) -> int:
    """The process exit code that `verdict` stands for."""
    return _EXIT[verdict]


@dataclass(frozen=True)
class WrongElement:
    """The first output, in row-major order, that is not what the reference demands."""

    index: tuple[int, int]
    got: float
    got_hex: str
    expected: float
    expected_hex: str
    lower_hex: str
    upper_hex: str
    certified: bool
    """True: only one bit pattern is right. False: any value from `lower` to `upper` is."""


@dataclass(frozen=True)
class CaseRecord:
    """One kernel on one case: what was run, what came out, and how to run it again."""

    shape: tuple[int, int, int]
    kernel: str
    device: str
    property: str
    plan: str
    verdict: Verdict
    outputs: int = 0
    certified: int = 0
    bit_differences: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    first_wrong: WrongElement | None = None
    reduced_from: tuple[int, int, int] | None = None
    dialect: str = ""
    seed: int = 0
    message: str = ""
    replay: str = ""

    def as_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON types."""
        return {**asdict(self), "verdict": self.verdict.value}


@dataclass(frozen=True)
class Document:
    """What `--json` prints: the same five fields for every command, and what the command adds."""

    command: str
    verdict: Verdict
    seconds: float
    environment: dict[str, str]
    extra: dict[str, Any] = field(default_factory=dict)

    def dumps(self) -> str:
        """The document as JSON text. NaN and infinities are written as strings, since JSON has neither."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "command": self.command,
            "verdict": self.verdict.value,
            "seconds": round(self.seconds, 3),
            "environment": self.environment,
            **self.extra,
        }
        return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
