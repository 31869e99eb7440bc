"""Code objects to read: compiled by Triton, assembled by LLVM, and AMD's own where a checkout of aiter is at hand."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
# pytest's importlib mode adds nothing to sys.path.
sys.path.insert(0, str(Path(__file__).parent))

HEAD = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl probe
.p2align 8
.type probe,@function
probe:
"""
TAIL = """
.Lend:
.size probe, .Lend-probe
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel probe
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 80
  .amdhsa_accum_offset {accum_offset}
{directives}
.end_amdhsa_kernel
"""


def _assemble(source: str) -> bytes:
    from triton._C.libtriton import amd
    from triton.backends.amd import compiler

    # The assembler moved out of libtriton in Triton 3.9.
    assembler = getattr(compiler, "assemble_amdgcn", None) or amd.assemble_amdgcn
    with tempfile.TemporaryDirectory() as folder:
        relocatable, linked = Path(folder, "a.o"), Path(folder, "a.hsaco")
        relocatable.write_bytes(assembler(source, "gfx950", ""))
        amd.link_hsaco(str(relocatable), str(linked))
        return linked.read_bytes()


@pytest.fixture(scope="session")
def assemble() -> Callable[..., bytes]:
    """assemble(body, directives="", metadata="", vgprs=512) -> a linked code object with one kernel, `probe`."""

    def build(body: str = "s_endpgm", directives: str = "", metadata: str = "", vgprs: int = 512) -> bytes:
        offset = min(256, -(-vgprs // 4) * 4)
        return _assemble(HEAD + body + TAIL.format(directives=directives, vgprs=vgprs, accum_offset=offset) + metadata)

    return build


@pytest.fixture(scope="session")
def link() -> Callable[[str], bytes]:
    """link(text) -> the code object of a whole assembly file, such as Triton's `amdgcn`."""
    return _assemble


@dataclass(frozen=True)
class Compiled:
    name: str
    text: str
    binary: bytes
    shared: int


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    """Kernels of several kinds as Triton compiles them for gfx950."""
    import triton
    from compiled_kernels import KERNELS
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        for name, (function, signature, constants, options) in KERNELS.items():
            attributes = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
            types = signature | dict.fromkeys(constants, "constexpr")
            source = ASTSource(function, signature=types, constexprs=constants, attrs=attributes)
            built = triton.compile(source, target=GPUTarget("hip", "gfx950", 64), options=options)
            found[name] = Compiled(name, built.asm["amdgcn"], built.asm["hsaco"], built.metadata.shared)
    return found


def aiter_objects() -> list[Path]:
    """The f4gemm code objects of the aiter checkout that MXASSAY_AITER names."""
    root = os.environ.get("MXASSAY_AITER")
    return sorted(Path(root, "hsa/gfx950/f4gemm").glob("*.co")) if root else []


@pytest.fixture(scope="session")
def aiter_files() -> list[Path]:
    found = aiter_objects()
    if not found:
        pytest.skip("needs AMD's code objects: set MXASSAY_AITER to an aiter checkout")
    return found
