"""A repository of 40 commits of a small MXFP4 GEMM package, with six changes hidden in it: 3 faults, 2 changes of
contract and 1 of plan, each mended later, among refactorings, comments, renames, retunings and two broken builds.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

KERNEL = "gemms/mxgemm/launch.py:matmul"

PACKAGE = {
    "README.md": "# gemms\n\nOne kernel so far.\n",
    "gemms/mxgemm/__init__.py": '"""An MXFP4 GEMM for gfx950."""\n',
    "gemms/mxgemm/quantizing.py": r'''"""bfloat16 to MXFP4, blocks of 32 along K."""

import triton
import triton.language as tl


@triton.jit
def scale_byte(peak):
    """E8M0 byte of a block from its largest bfloat16 magnitude."""
    exponent = (tl.minimum(peak, 0x7F80) + 0x20) >> 7
    return tl.maximum(exponent, 2) - 2


@triton.jit
def codes_of(pairs, scale):
    """Both codes of pairs of bfloat16, by the instruction."""
    operand = tl.broadcast_to(tl.maximum(scale << 23, 0x00400000), pairs.shape)
    return tl.inline_asm_elementwise(
        asm="""v_cvt_scalef32_pk_fp4_bf16 $0, $4, $8
v_cvt_scalef32_pk_fp4_bf16 $1, $5, $9
v_cvt_scalef32_pk_fp4_bf16 $2, $6, $10
v_cvt_scalef32_pk_fp4_bf16 $3, $7, $11
s_nop 1""",
        constraints="=&v,=&v,=&v,=&v,v,v,v,v,v,v,v,v", args=[pairs, operand], dtype=tl.uint32, is_pure=True, pack=4,
    )


@triton.jit
def quantize(x, ROWS: tl.constexpr, DEPTH: tl.constexpr):
    """Packed codes (ROWS, DEPTH // 2) and scale bytes (ROWS, DEPTH // 32)."""
    even, odd = tl.split(x.to(tl.uint16, bitcast=True).reshape(ROWS, DEPTH // 32, 16, 2))
    peak = tl.maximum(even & 0x7FFF, odd & 0x7FFF).to(tl.int32)
    scale = scale_byte(tl.max(peak, axis=2, keep_dims=True))
    packed = codes_of(even.to(tl.uint32) | (odd.to(tl.uint32) << 16), scale)
    return packed.to(tl.uint8).reshape(ROWS, DEPTH // 2), scale.to(tl.uint8).reshape(ROWS, DEPTH // 32)
''',
    "gemms/mxgemm/kernel.py": '''"""The kernel: one tile of the output, one split of K for each program."""

import triton
import triton.language as tl

from .quantizing import quantize


@triton.jit
def weight_offset(n, byte, row_bytes):
    """Where a packed byte of W lies in the (16,16) preshuffle."""
    tile = n // 16 * 16 * row_bytes + byte // 32 * 512
    return tile + byte % 32 // 16 * 256 + n % 16 * 16 + byte % 16


@triton.jit
def scale_offset(n, group, groups):
    """Where a scale of W lies in the e8m0 shuffle."""
    tile = n // 32 * 32 * groups + group // 8 * 256
    return tile + group % 4 * 64 + n % 16 * 4 + group % 8 // 4 * 2 + n % 32 // 16


@triton.jit
def to_bfloat16(x):
    return x.to(tl.bfloat16)


@triton.jit
def gemm_kernel(a, w, ws, out, M, N, K, groups, SPAN, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
                SPLIT: tl.constexpr):
    m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)[:, None]
    n = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)[:, None]
    first = tl.program_id(2) * SPAN
    accumulator = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(SPAN, TILE_K)):
        start = first + step * TILE_K
        k = start + tl.arange(0, TILE_K)[None, :]
        byte = start // 2 + tl.arange(0, TILE_K // 2)[None, :]
        group = start // 32 + tl.arange(0, TILE_K // 32)[None, :]
        x = tl.load(a + m * K + k, mask=(m < M) & (k < K), other=0.0)
        codes = tl.load(w + weight_offset(n, byte, K // 2), mask=(n < N) & (byte < K // 2), other=0)
        scales = tl.load(ws + scale_offset(n, group, groups), mask=(n < N) & (group < K // 32), other=127)
        packed, x_scales = quantize(x, TILE_M, TILE_K)
        accumulator = tl.dot_scaled(packed, x_scales, "e2m1", codes.trans(1, 0), scales, "e2m1", accumulator)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)[None, :]
    mask = (m < M) & (column < N)
    if SPLIT:
        tl.store(out + (tl.program_id(2) * M + m) * N + column, accumulator, mask=mask)
    else:
        tl.store(out + m * N + column, to_bfloat16(accumulator), mask=mask)
''',
    "gemms/mxgemm/plans.py": '''"""How a shape is launched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    tile_m: int = 16
    tile_n: int = 16
    tile_k: int = 128
    splits: int = 1


def choose(m, n, k):
    return Plan()
''',
    "gemms/mxgemm/launch.py": '''"""The entry point."""

import torch
import triton

from .kernel import gemm_kernel
from .plans import Plan, choose


def plan_for(m, n, k):
    return choose(m, n, k)


def matmul(a, b_preshuffled, b_scales_shuffled, plan=None):
    """bfloat16 (M, N) from bfloat16 (M, K), preshuffled codes and shuffled scales."""
    (m, k), n = a.shape, b_preshuffled.shape[0]
    plan = plan or plan_for(m, n, k)
    grid = (triton.cdiv(m, plan.tile_m), triton.cdiv(n, plan.tile_n), plan.splits)
    # Whole tiles for each split.
    span = k // plan.splits // plan.tile_k * plan.tile_k if plan.splits > 1 else k
    split = plan.splits > 1
    shape, dtype = ((plan.splits, m, n), torch.float32) if split else ((m, n), torch.bfloat16)
    out = torch.empty(shape, dtype=dtype, device=a.device)
    gemm_kernel[grid](
        a, b_preshuffled, b_scales_shuffled, out, m, n, k, b_scales_shuffled.shape[1], span,
        TILE_M=plan.tile_m, TILE_N=plan.tile_n, TILE_K=plan.tile_k, SPLIT=split, num_warps=2,
    )
    return out.sum(0).to(torch.bfloat16) if split else out
''',
}

Q, G, P, L = (f"gemms/mxgemm/{name}.py" for name in ("quantizing", "kernel", "plans", "launch"))
RIGHT_SCALE = "return tile + group % 4 * 64 + n % 16 * 4 + group % 8 // 4 * 2 + n % 32 // 16"
WRONG_SCALE = "return tile + group % 4 * 64 + n % 16 * 4 + n % 32 // 16 * 2 + group % 8 // 4"
EVEN = "exponent = (tl.minimum(peak, 0x7F80) + 0x20) >> 7"
RCEIL = "exponent = (tl.minimum(peak, 0x7F80) + 0x3F) >> 7"
BYTE = "return tl.maximum(exponent, 2) - 2"
BYTE_255 = "return tl.where(exponent >= 255, 255, tl.maximum(exponent, 2) - 2)"
STORE = "return x.to(tl.bfloat16)"
TRUNCATED = "return (x.to(tl.uint32, bitcast=True) >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)"
MASKED = "mask=(n < N) & (byte < K // 2), other=0)"
STEP = "    for step in range(0, tl.cdiv(SPAN, TILE_K)):\n        start = first + step * TILE_K\n"
BACKWARDS = (
    "    for step in range(0, tl.cdiv(SPAN, TILE_K)):\n"
    "        start = first + (tl.cdiv(SPAN, TILE_K) - 1 - step) * TILE_K\n"
)
LAST_TWICE = STEP.replace(
    "first + step * TILE_K", "first + tl.minimum(step + step % 2, tl.cdiv(SPAN, TILE_K) - 1) * TILE_K"
)


@dataclass(frozen=True)
class Hidden:
    """A change hidden in the history: where it is, what it is, and a range in which it is the only one that matters."""

    commit: int
    change: str
    good: int
    bad: int
    words: str = ""


HIDDEN = (
    Hidden(5, "fault", 1, 7),
    Hidden(13, "contract change", 8, 15, "rceil"),
    Hidden(19, "plan change", 16, 21, "splits=2"),
    Hidden(26, "fault", 22, 28),
    Hidden(30, "contract change", 29, 32, "even-aiter-mx"),
    Hidden(35, "fault", 33, 39),
)

# Subject and changes of each commit: (file, text, what it becomes), (file, None, text to append), or a file's new name.
COMMITS = (
    ("An MXFP4 GEMM", ()),
    ("Say what is here", (("README.md", None, "\nIt takes preshuffled weights.\n"),)),
    ("Comment the quantizer", ((Q, "    exponent =", "    # Rounded up from 1.75 on.\n    exponent ="),)),
    ("Call it what it is", ((G, "accumulator", "total"),)),
    ("Simplify the address of a scale", ((G, RIGHT_SCALE, WRONG_SCALE),)),
    ("Tests to come", (("tests/test_matmul.py", None, "def test_nothing():\n    pass\n"),)),
    ("Comment the launch", ((L, "    split = plan", "    # Partial sums are added here.\n    split = plan"),)),
    ("Address scales as the shuffle says", ((G, WRONG_SCALE, RIGHT_SCALE),)),
    ("Say who may use it", (("README.md", None, "\nMIT.\n"),)),
    ("Name the tile", ((G, "    m = tl", "    # One tile.\n    m = tl"),)),
    ("Walk K backwards", ((G, STEP, BACKWARDS),)),
    ("Comment the walk", ((G, "    for step", "    # From the end.\n    for step"),)),
    ("Round scales up, as NVIDIA does", ((Q, EVEN, RCEIL),)),
    ("Type the plan", ((P, "def choose(m, n, k)", "def choose(m: int, n: int, k: int) -> Plan"),)),
    ("More words", (("README.md", None, "\nScales are rounded up.\n"),)),
    ("Round scales as the contest does", ((Q, RCEIL, EVEN),)),
    ("Plan in words", ((P, '"""How a shape is launched."""', '"""How a shape is launched: tiles and splits."""'),)),
    ("Wider tiles", ((P, "tile_n: int = 16", "tile_n: int = 32"),)),
    ("Split long K", ((P, "    return Plan()", "    return Plan(splits=2) if k >= 256 else Plan()"),)),
    ("Comment the splits", ((P, "    return Plan(s", "    # Fills the card.\n    return Plan(s"),)),
    ("Even more words", (("README.md", None, "\nLong K is split.\n"),)),
    ("One split for now", ((P, "Plan(splits=2) if k >= 256 else Plan()", "Plan()"),)),
    ("Name the arguments", ((L, "(m, k), n = a.shape, b", "m, k = a.shape\n    n = b"),)),
    ("Move plans about", ((L, "from .plans import Plan, choose", "from .planning import Plan, choose"),)),
    ("Leave plans where they are", ((L, "from .planning import Plan, choose", "from .plans import Plan, choose"),)),
    ("Store bits as they are", ((G, STORE, TRUNCATED),)),
    ("Comment the store", ((G, "    if SPLIT:", "    # Partial sums stay float32.\n    if SPLIT:"),)),
    ("Quantizing becomes its own thing", ((Q, "gemms/mxgemm/mxfp4.py"), (G, "from .quantizing", "from .mxfp4"))),
    ("Round on the way out", ((G, TRUNCATED, STORE),)),
    ("Tell NaN by its byte", (("gemms/mxgemm/mxfp4.py", BYTE, BYTE_255),)),
    ("Words on NaN", (("README.md", None, "\nByte 255 is NaN.\n"),)),
    ("Walk K forwards", ((G, BACKWARDS, STEP),)),
    ("Keep NaN finite, as the contest does", (("gemms/mxgemm/mxfp4.py", BYTE_255, BYTE),)),
    ("Two names fewer", ((G, "    tile = n // 32", "    # Stripes of 32 rows.\n    tile = n // 32"),)),
    ("Pair the steps", ((G, STEP, LAST_TWICE),)),
    ("Comment the pairs", ((G, "    for step", "    # In pairs.\n    for step"),)),
    ("A second test to come", (("tests/test_matmul.py", None, "\n\ndef test_less():\n    pass\n"),)),
    ("Half a thought", ((L, "    return out.sum", "    return return out.sum"),)),
    ("The other half", ((L, "    return return out.sum", "    return out.sum"),)),
    ("Each step once", ((G, LAST_TWICE, STEP),)),
)  # fmt: skip


def build(root: Path) -> list[str]:
    """Make the repository at `root`, a new folder; the names of its commits, the first one at index 1."""
    for path, text in PACKAGE.items():
        _write(root / path, text)
    _git(root, "init", "--quiet", "--initial-branch=main")
    commits = [""]
    for number, (subject, changes) in enumerate(COMMITS):
        for change in changes:
            _apply(root, change)
        _git(root, "add", "--all")
        _git(root, "commit", "--quiet", "--allow-empty", "-m", subject, date=f"2026-01-01T00:{number:02}:00Z")
        commits.append(_git(root, "rev-parse", "HEAD"))
    return commits


def _apply(root: Path, change: tuple) -> None:
    if len(change) == 2:
        (root / change[0]).rename(root / change[1])
        return
    path, text, becomes = change
    file = root / path
    before = file.read_text() if file.exists() else ""
    if text is None:
        _write(file, before + becomes)
        return
    assert text in before, f"{path} must hold {text!r}"
    _write(file, before.replace(text, becomes))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _git(root: Path, *words: str, date: str = "2026-01-01T00:00:00Z") -> str:
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "A"), ("EMAIL", "a@example.com"), ("DATE", date))}  # fmt: skip
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(["git", *words], cwd=root, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    import sys

    for number, commit in enumerate(build(Path(sys.argv[1]))):
        print(number, commit)
