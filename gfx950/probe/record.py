"""The answers of one card, as `probe.json` holds them."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mxassay.errors import ContractError
from mxassay.gfx950.probe.question import Words

__all__ = ["SCHEMA_VERSION", "Answer", "Record"]

SCHEMA_VERSION = 1
_SHORT = 256  # bytes that are written as hex; longer answers are packed


@dataclass(frozen=True, slots=True)
class Answer:
    """What one card said to one question.

    Attributes:
        question: the statement, so that the file can be read alone.
        digest: of the code and inputs asked with.
        status: how sure we are of the emulator's reading: certain, inferred or unknown.
        policy: the emulator's reading.
        outputs: uint32 (waves, 64, words); None where the card refused.
        readings: the readings that give exactly these bits.
        decoded: some of the answer, for people.
        stable: False where asking again gave other bits.
        refused: why there is no answer.
    """

    question: str
    digest: str
    status: str
    policy: str
    outputs: Words | None
    readings: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    stable: bool = True
    refused: str | None = None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "question": self.question, "digest": self.digest, "status": self.status, "policy": self.policy,
            "readings": list(self.readings), "decoded": list(self.decoded), "stable": self.stable,
        }  # fmt: skip
        if self.outputs is None:
            return {**fields, "refused": self.refused}
        data = np.ascontiguousarray(self.outputs, "<u4").tobytes()
        packed = len(data) > _SHORT
        text = base64.b64encode(zlib.compress(data, 9)).decode() if packed else data.hex()
        return {
            **fields, "shape": list(self.outputs.shape), "sha256": hashlib.sha256(data).hexdigest(),
            "encoding": "zlib+base64" if packed else "hex", "bytes": text,
        }  # fmt: skip

    @staticmethod
    def from_json(identity: str, fields: Mapping[str, Any]) -> "Answer":
        try:
            outputs = None
            if "bytes" in fields:
                text = fields["bytes"]
                packed = fields["encoding"] == "zlib+base64"
                data = zlib.decompress(base64.b64decode(text, validate=True)) if packed else bytes.fromhex(text)
                if hashlib.sha256(data).hexdigest() != fields["sha256"]:
                    raise ContractError(f"the bytes of {identity} must have the file's sha256; the file is damaged")
                outputs = np.frombuffer(data, "<u4").reshape(fields["shape"])
            return Answer(
                fields["question"], fields["digest"], fields["status"], fields["policy"], outputs,
                tuple(fields["readings"]), tuple(fields["decoded"]), fields["stable"], fields.get("refused"),
            )  # fmt: skip
        except ContractError:
            raise
        except (KeyError, ValueError, TypeError, zlib.error) as error:
            message = f"the answer {identity} must be one that mxassay probe wrote, not this: {error!r}"
            raise ContractError(message) from error


@dataclass(frozen=True, slots=True)
class Record:
    """The answers of one card by question id. `kind`: "emulated" or "mi355x"."""

    kind: str
    environment: Mapping[str, str]
    answers: Mapping[str, Answer]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "schema_version": SCHEMA_VERSION, "device": self.kind, "environment": dict(self.environment),
            "answers": {identity: answer.as_json() for identity, answer in self.answers.items()},
        }  # fmt: skip

    def write(self, path: "str | PathLike[str]") -> None:
        Path(path).write_text(json.dumps(self.as_json(), indent=1) + "\n")

    @staticmethod
    def read(path: "str | PathLike[str]") -> "Record":
        """Raises `ContractError` for a file that `write` did not make."""
        try:
            document = json.loads(Path(path).read_text())
        except OSError as error:
            raise ContractError(f"the probe file must be readable, not {path} ({error.strerror})") from error
        except ValueError as error:
            raise ContractError(f"the probe file must be JSON, not {path} ({error})") from error
        if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
            raise ContractError(f"the probe file must have schema_version {SCHEMA_VERSION}, not that of {path}")
        answers = document.get("answers")
        if not isinstance(answers, dict) or "device" not in document:
            raise ContractError(f"the probe file must hold a device and its answers, not those of {path}")
        return Record(
            document["device"], document.get("environment", {}),
            {identity: Answer.from_json(identity, fields) for identity, fields in answers.items()},
        )  # fmt: skip

    def chosen(self, identities: Iterable[str]) -> "Record":
        """The answers to these questions alone."""
        return Record(self.kind, self.environment, {name: self.answers[name] for name in identities})
