"""Diagnoses made by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from mxassay.optimized import Plan
from mxassay.properties.kernel import Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import matmul
from mxassay.triage.diagnosis import Blame, Checkpoint, Diagnosis, Explanation, XRay
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.report import Replay, html
from mxassay.triage.versions.cases import Case
from mxassay.triage.versions.change import Change, Comparison, Row
from mxassay.triage.versions.compare import Compared, Counted
from mxassay.triage.versions.figures import Difference
from mxassay.triage.versions.version import Version

HOSTILE = "<script>alert(1)</script>\"'&<img src=http://x.example/a onerror=alert(2)>\x1b[31m\u202e\x00\udcff"


def _operands(m: int, n: int, k: int, seed: int) -> Operands:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-3, 4, (m, k), generator=generator).to(torch.bfloat16)
    codes = torch.randint(0, 256, (n, k // 2), generator=generator).to(torch.uint8)
    scales = torch.randint(124, 131, (n, k // 32), generator=generator).to(torch.uint8)
    return Operands(a, codes, scales, words="integers")


def _next_group(x: Operands) -> torch.Tensor:
    """What comes out where the scale of the next K group is used."""
    return matmul(*x.quantized, x.codes, x.scales.roll(-1, 1))


def _single(k: int = 64) -> Operands:
    """One element of A, one of W."""
    a, codes = torch.zeros(1, k).bfloat16(), torch.zeros(16, k // 2, dtype=torch.uint8)
    a[0, 5], codes[3, 2] = 1.0, 0x40
    scales = torch.full((16, k // 32), 127, dtype=torch.uint8)
    scales[3, 1] = 130
    return Operands(a, codes, scales, words="shrunk")


def _checkpoints() -> tuple[Checkpoint, ...]:
    mfma = "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], v[8:15], v[24:31], a[0:3], v41, v43 op_sel_hi:[0,0,0] cbsz:4"
    conversion, load = "v_cvt_scalef32_pk_fp4_bf16", "buffer_load_ubyte v43, v6, s[16:19], 0 offen"
    store, accumulated, output = "buffer_store_short v12, v3, s[4:7], 0 offen", ("2", "16"), ("row 0", "column 3")
    at = {"kernel": "_fused_gemm", "source": ("fused_gemm.py", 118)}
    scale = {"pc": 0x1A40, "instruction": load, "wave": 1, "lane": 19, "place": "v43"}
    adder = {"pc": 0x1B10, "instruction": mfma, "wave": 1, "lane": 3, "place": "a0"}
    stored = {"pc": 0x1F2C, "instruction": store, "wave": 1, "lane": 3, "place": "v12"}
    bits, bytes_ = ("0x7F (2^0)", "0x82 (2^3)"), ("2 (0x4000)", "16 (0x4180)")
    reads = "as the MFMA reads them"
    return (
        Checkpoint("activations", "bytes of A as loaded", 512, 0, instruction="buffer_load_dwordx4", **at),
        Checkpoint("quantizer.scale", "scales of A as packed", 16, 0, instruction="v_bfe_u32", **at),
        Checkpoint("quantizer.element", "codes of A as packed", 512, 0, instruction=conversion, **at),
        Checkpoint("weights.layout", f"codes of W {reads}", 2048, 0, instruction=mfma, **at),
        Checkpoint("scales.layout", f"scales of W {reads}", 64, 16, ("row 3", "block 0"), *bits, **scale, **at),
        Checkpoint("accumulate", "accumulators after the last MFMA", 256, 16, output, *accumulated, **adder, **at),
        Checkpoint("store", "bytes of the output as stored", 256, 16, output, *bytes_, **stored, **at),
    )


def scale_fault(m: int = 48, n: int = 288, k: int = 256) -> Diagnosis:
    """The scale of the next K group, with everything that triage can find."""
    plan = Plan(tile_m=16, tile_n=64, tile_k=128, splits=2)
    x, small = _operands(m, n, k, seed=1), _single()
    wrong = _next_group(x)
    wrong[:, : n // 2] = x.expectation.exact[:, : n // 2]
    subject = Subject(spec="kernels/fused.py:gemm")
    failure = Failure(subject, x, Launch(plan), Placement(), wrong)
    shrunk = replace(failure, operands=small, out=_next_group(small), launch=Launch(replace(plan, splits=1)))
    count = int(x.expectation.wrong(wrong).sum())
    next_group, others = "the scale of the next K group was used", "two rows of 16 exchange their scales"
    explanations = (
        Explanation("scale-next-group", "scale-order", "scales.layout", next_group, count, count, 0),
        Explanation("scales-exchanged", "scale-order", "scales.layout", others, count // 9, count, 411),
        Explanation("half-k-step", "k-tail", "k-loop", "the last K step is taken twice", 12, count, 2207),
    )
    xray = XRay(_checkpoints(), ("the partials were not looked at, because the plan has one split",))
    difference = (
        "--- passing\n+++ failing\n@@ -118,7 +118,7 @@\n %41 = arith.addi %40, %c1_i32 : i32\n"
        "-%42 = tt.load %scales[%41]\n+%42 = tt.load %scales[%43]\n %44 = tt.reshape %42\n"
    )
    blame = Blame(
        "source",
        "Triton's interpreter gives the same wrong bits, so the source is at fault",
        "ttir",
        "splits=1",
        difference,
    )
    seconds = {"shrink": 3.21, "suspects": 1.04, "x-ray": 2.75, "source or compiler": 0.91}
    return Diagnosis(failure, shrunk, "scale-order", "scales.layout", explanations, xray, blame, (), seconds)


def raising() -> Diagnosis:
    """A kernel that raised."""
    failure = replace(scale_fault().shrunk, out=None, error="RuntimeError: out of LDS\n  at line 3")
    return Diagnosis(failure, failure, None, None, notes=("the x-ray needs an output",))


def unexplained() -> Diagnosis:
    """A truncating sum over many blocks, partly not certified, with a NaN: no suspect and no x-ray fit it."""
    x = _operands(20, 40, 512, seed=3)
    scales = x.scales.clone()
    scales[::3, 4] = 150
    x = replace(x, scales=scales)
    out = x.expectation.exact.clone()
    bits = out.view(torch.int16)
    bits[:, ::2] += 1
    bits[5, :4] += 700
    bits[9, 8:20] ^= -32768
    out[7, 7] = float("nan")
    failure = Failure(
        Subject(spec=None, device="interpreter"), x, Launch(Plan(tile_m=16, tile_n=32, tile_k=128)), Placement(), out
    )
    near = Explanation("truncating-store", "precision", "store", "the output is truncated, not rounded", 17, 402, 0)
    return Diagnosis(failure, failure, None, None, (near,), notes=("no code object ran on this device: no x-ray",))


def hostile() -> Diagnosis:
    """Names and texts that a page must not believe."""
    whole = scale_fault()
    subject = Subject(spec=HOSTILE, device=HOSTILE)
    explanations = (replace(whole.explanations[0], statement=HOSTILE, suspect=HOSTILE, class_=HOSTILE, stage=HOSTILE),)
    checkpoints = tuple(
        replace(x, what=HOSTILE, index=(HOSTILE,), expected=HOSTILE, found=HOSTILE, kernel=HOSTILE, instruction=HOSTILE,
                source=(HOSTILE, 1), place=HOSTILE, stage=HOSTILE)
        for x in whole.xray.checkpoints
    )  # fmt: skip
    return Diagnosis(
        replace(whole.failure, subject=subject, error=HOSTILE, property=HOSTILE),
        replace(whole.shrunk, subject=subject, error=HOSTILE, property=HOSTILE),
        HOSTILE,
        HOSTILE,
        explanations,
        XRay(checkpoints, (HOSTILE,)),
        Blame(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        (HOSTILE,),
        {HOSTILE: 1.0},
    )


def comparison(change: Change, wrong: bool, subject: str = "Read scales in one load") -> Compared:
    """Two revisions on two shapes, the second slower and maybe wrong."""
    sides = [
        Version(words, "gemms/launch.py:matmul", "/repo", None, None, None, words, commit=words * 8, subject=subject)
        for words in ("1234abcd", "feed5678")
    ]
    shapes = [Case((32, 128, 512), "certified"), Case((5, 48, 320), "order")]
    rows = (
        Row(shapes[0], Change.IDENTICAL, "16x64x128", "16x64x256", outputs=4096, certified=4096),
        Row(shapes[1], change, "own", "own", "the scale of the next K group", wrong, 240, 100, 17, 0, 17 * wrong,
            "out[0, 3] was 2, is 16"),
    )  # fmt: skip
    moved = (Difference("fused_gemm", "VGPRs", 96, 120), Difference("fused_gemm", "spilled VGPRs", 0, 8))
    whole = Comparison(change, "in 1 of 2 cases: the scale of the next K group", wrong, rows, "even", "even")
    return Compared(*sides, whole, "0" * 8, "1" * 8, (Counted(shapes[0], moved),))


DIAGNOSES: dict[str, Callable[[], Diagnosis]] = {
    "scale": scale_fault, "raising": raising, "unexplained": unexplained, "hostile": hostile
}  # fmt: skip


def replay_of(name: str) -> Replay:
    """How the samples are run again."""
    if name == "hostile":
        return Replay(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    return Replay(
        "mxassay replay case.mxcase", "import torch\nprint(1 < 2)\n", environment={"triton": "3.9.0", "torch": "2.13.0"}
    )


@pytest.fixture(scope="session")
def diagnoses() -> dict[str, Diagnosis]:
    """The samples, by name."""
    return {name: make() for name, make in DIAGNOSES.items()}


@pytest.fixture(scope="session")
def reports(diagnoses: dict[str, Diagnosis]) -> dict[str, str]:
    """Their pages, and those of two comparisons, one with a diagnosis."""
    pages = {name: html(diagnosis, replay=replay_of(name)) for name, diagnosis in diagnoses.items()}
    fault = comparison(Change.FAULT, wrong=True, subject=HOSTILE)
    pages["fault"] = html(diagnoses["scale"], fault, replay_of("fault"))
    pages["order-only"] = html(None, comparison(Change.ORDER_ONLY, wrong=False), Replay("mxassay triage A B"))
    return pages


@pytest.fixture(scope="session")
def replays() -> Callable[[str], Replay]:
    """How each sample is run again."""
    return replay_of


@pytest.fixture(scope="session")
def hostile_text() -> str:
    return HOSTILE
