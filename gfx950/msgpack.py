"""A bounded reader of MessagePack, the form of the AMDGPU metadata note (LLVM AMDGPUUsage, "Code Object V3 and above").

Maps, arrays, strings, integers, floats, booleans, nil and binary; depth and the number of values are limited.
"""

import struct
from typing import TypeAlias

from mxassay.gfx950.elf import CodeObjectError

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[Value, Value] | None"

# Declared policy: metadata of real code objects nests 5 deep and holds some thousand values a kernel.
MAX_DEPTH = 16
MAX_VALUES = 1 << 18

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED = {
    0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("array", ">H"), 0xDD: ("array", ">I"),
    0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def decode(data: bytes) -> Value:
    """The one value that `data` encodes; bytes after it are padding and ignored.

    Raises:
        CodeObjectError: truncated, nested deeper than MAX_DEPTH, more than MAX_VALUES values, a map or array as
            key, or an extension type.

    >>> decode(bytes.fromhex("82a16101a16293c0c3ff"))
    {'a': 1, 'b': [None, True, -1]}
    """
    return _Reader(data).value(0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = MAX_VALUES

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise CodeObjectError(
                f"the metadata note must hold {self.at + size} bytes, not {len(self.data)}; the file is damaged"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int | float:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value  # type: ignore[no-any-return]

    def value(self, depth: int) -> Value:
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise CodeObjectError(
                f"the metadata note must nest at most {MAX_DEPTH} deep and hold at most {MAX_VALUES} values, not more"
            )
        head = self.take(1)[0]
        if head < 0x80:
            return head
        if head >= 0xE0:
            return head - 0x100
        if head in _CONSTANTS:
            return _CONSTANTS[head]
        if head in _NUMBERS:
            return self.number(_NUMBERS[head])
        if head < 0xC0:
            kind, mask = ("map", 15) if head < 0x90 else ("array", 15) if head < 0xA0 else ("str", 31)
            return self.sized(kind, head & mask, depth)
        if head in _SIZED:
            kind, form = _SIZED[head]
            return self.sized(kind, int(self.number(form)), depth)
        raise CodeObjectError(
            f"a metadata value must be of a plain MessagePack type, not {head:#x}; the file is damaged"
        )

    def sized(self, kind: str, size: int, depth: int) -> Value:
        if kind == "bin":
            return self.take(size)
        if kind == "str":
            return self.take(size).decode("utf-8", "replace")
        if size > len(self.data) - self.at:  # each member takes a byte at least
            raise CodeObjectError(
                f"a metadata {kind} must fit in the note, not have {size} members; the file is damaged"
            )
        if kind == "array":
            return [self.value(depth + 1) for _ in range(size)]
        members: dict[Value, Value] = {}
        for _ in range(size):
            key = self.value(depth + 1)
            if isinstance(key, (list, dict)):
                raise CodeObjectError(
                    f"a metadata key must be a string, not a {type(key).__name__}; the file is damaged"
                )
            members[key] = self.value(depth + 1)
        return members
