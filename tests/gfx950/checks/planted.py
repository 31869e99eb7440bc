"""Whole kernels in assembly with their listing: where each line of text lies, so that a test can name a pc."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from assemble import ARGUMENT, DESCRIPTOR, HEADER, TARGET, assemble_object, machine_code
from triton._C.libtriton import amd

from mxassay.gfx950 import Kernel, Options, launch, load_code_object

# What the tests' kernels begin with: the first two buffers in s[4:5] and s[6:7], the lane's byte offset in v1.
LOAD_ARGUMENTS = """
s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
s_waitcnt lgkmcnt(0)
"""


@dataclass
class Planted:
    """A kernel and the text it was made of; a line that ends in `; <- name` can be asked for by `pc(name)`."""

    code: bytes
    lines: list[str]
    kernel: Kernel = field(init=False)

    def __post_init__(self):
        self.kernel = Kernel(load_code_object(self.code))

    def pc(self, mark: str = "here") -> int:
        """Where the assembler put the marked line: the entry and the length of what comes before it."""
        at = next(i for i, line in enumerate(self.lines) if line.endswith(f"; <- {mark}"))
        return self.kernel.code.entry + len(machine_code(*self.lines[:at]))

    def run(self, checks, *buffers, grid=1, block=64, **options):
        return launch(self.kernel, (grid,), (block,), list(buffers), options=Options(observer=checks, **options))


def _code_object(body: str, pointers: int, lds: int, scratch: int) -> bytes:
    arguments = "\n".join(ARGUMENT.format(offset=8 * i) for i in range(pointers))
    descriptor = DESCRIPTOR.format(name="planted", kernarg_bytes=8 * pointers, arguments=arguments, ieee=1)
    descriptor = descriptor.replace("group_segment_fixed_size 0", f"group_segment_fixed_size {lds}")
    descriptor = descriptor.replace("private_segment_fixed_size 0", f"private_segment_fixed_size {scratch}")
    source = TARGET + HEADER.format(name="planted") + body + descriptor
    with tempfile.TemporaryDirectory() as folder:
        relocatable, linked = Path(folder, "a.o"), Path(folder, "a.hsaco")
        relocatable.write_bytes(assemble_object(source))
        amd.link_hsaco(str(relocatable), str(linked))
        return linked.read_bytes()


def planted(text: str, *, pointers: int = 2, lds: int = 0, scratch: int = 0) -> Planted:
    """A kernel that begins with LOAD_ARGUMENTS and goes on with `text`; s_endpgm follows."""
    lines = [line.strip() for line in (LOAD_ARGUMENTS + text).splitlines() if line.strip()]
    return Planted(_code_object("\n".join(lines) + "\n", pointers, lds, scratch), lines)
