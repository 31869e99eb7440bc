"""Offload bundles: one file that holds code objects for several targets.

Form: Clang "Offload Bundler", "Bundled Code Object File Layout".
"""

import struct

from mxassay.gfx950.elf import CodeObjectError

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC = b"CCOB"
MAX_ENTRIES = 4096
_ENTRY = struct.Struct("<QQQ")


def unbundle(data: bytes, processor: str) -> bytes:
    """The code object for `processor` out of a bundle; `data` itself when it is no bundle.

    Raises:
        CodeObjectError: a compressed or damaged bundle, or one without that processor (the message names those it has).
    """
    if data.startswith(COMPRESSED_MAGIC):
        raise CodeObjectError(
            "the bundle must be plain, not compressed; unbundle it with clang-offload-bundler --unbundle"
        )
    if not data.startswith(MAGIC):
        return data
    at = len(MAGIC)
    count = int.from_bytes(data[at : at + 8], "little")
    at += 8
    if count > MAX_ENTRIES:
        raise CodeObjectError(f"a bundle must have at most {MAX_ENTRIES} entries, not {count}; the file is damaged")
    targets = []
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise CodeObjectError(
                f"the bundle's table must end inside the file of {len(data)} bytes; the file is truncated"
            )
        offset, size, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if offset + size > len(data) or at + length > len(data):
            raise CodeObjectError(
                f"a bundle entry must end inside the file of {len(data)} bytes; the file is truncated"
            )
        target = data[at : at + length].decode("utf-8", "replace")
        at += length
        if target.split(":")[0].endswith(f"-{processor}"):
            return data[offset : offset + size]
        targets.append(target)
    raise CodeObjectError(f"the bundle must hold a code object for {processor}, not only {targets or 'nothing'}")
