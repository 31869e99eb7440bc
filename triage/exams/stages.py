"""Exams of kernels by themselves: the quantizer, the reduction, the partials in between."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from mxassay.errors import MxassayError
from mxassay.properties.kernel import VIEWS, viewed
from mxassay.properties.strategies.blocks import SPECIAL, stacked
from mxassay.reference import DIALECTS, pack, quantize
from mxassay.triage.exams.exam import Exam, Seen
from mxassay.triage.suspects.library import SUSPECTS
from mxassay.triage.suspects.pipeline import Pipeline, quantized
from mxassay.triage.suspects.suspect import RIGHT, Suspect

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

_NOT_OF_BLOCKS = (
    "activations",
    "weights",
    "weight_scales",
    "loop",
    "cut",
    "steps",
    "partial",
    "reduce",
    "store",
    "written",
    "exchange",
)


def sharp_rows() -> torch.Tensor:
    """bfloat16 (M, 64): every special block, every mantissa of amax, and every ratio at which a code changes.

    Each stands beside a block of zeros, so that nothing drowns in a sum; M is a multiple of 16.
    """
    amax = ((130 << 7) + torch.arange(128)).unsqueeze(1)
    # The midpoints, over the scale 2 that most of these amax get, and their neighbours.
    ties = torch.tensor([0x3E80, 0x3F40, 0x3FA0, 0x3FE0, 0x4020, 0x4060, 0x40A0]) + 0x80
    near = torch.cat((ties, ties - 1, ties + 1, ties))
    signs = torch.tensor([0, 0x8000]).repeat(len(near))[: len(near)]
    bits = torch.minimum(near, amax) | signs
    # The largest comes first, or last but one and negative.
    first = torch.cat((amax, bits, torch.zeros(128, 3, dtype=amax.dtype)), dim=1)
    last = torch.cat((bits, torch.zeros(128, 1, dtype=amax.dtype), amax | 0x8000, amax - 1, amax - 1), dim=1)
    exact = torch.cat((torch.full((4, 1), 0x4140), near.expand(4, -1), torch.zeros(4, 3, dtype=near.dtype)), dim=1)
    words = torch.cat((first[::2], last[1::2], first[0x5C:0x64], last[0x5C:0x64], exact))
    signed = torch.where(words >= 0x8000, words - 0x10000, words).to(torch.int16).view(torch.bfloat16)
    every = torch.cat((signed, stacked(SPECIAL.values())))
    every = torch.cat((every, every[: -len(every) % 16]))
    return torch.stack((every, torch.zeros_like(every)), dim=1).flatten(1)


def _words(x: torch.Tensor) -> torch.Tensor:
    return (x.contiguous().view(torch.int16).long() & 0xFFFF).view(x.shape[0], -1, 32)


def _of_blocks() -> Iterator[Suspect]:
    """Suspects that act on blocks of activations alone."""
    for suspect in SUSPECTS.values():
        if all(getattr(suspect.pipeline, name) is getattr(RIGHT, name) for name in _NOT_OF_BLOCKS):
            yield suspect


def _rule(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, dialect: str) -> Suspect | None:
    """The suspect that gives these very bytes of `x`."""
    words = _words(x)

    def gives(pipeline: Pipeline) -> bool:
        codes, found = quantized(pipeline, words, DIALECTS[dialect])
        return torch.equal(found, scales) and torch.equal(pack(codes.flatten(1)), packed)

    return next((suspect for suspect in _of_blocks() if gives(suspect.pipeline)), None)


def _quantizer(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import quantize as under_test

    dialect = kernel.kernel.dialect
    sharp = sharp_rows()
    # Whole tiles first: 16 rows and 256 columns.
    flat = torch.cat([sharp.flatten()] * 2)
    x = flat[: -(-sharp.numel() // 4096) * 4096].view(-1, 256)
    seen = _quantized_wrongly(kernel, x.contiguous(), "whole tiles")
    if seen:
        packed, scales = (tensor.cpu() for tensor in under_test(x.to(kernel.tensors_on)))
        rule = _rule(x, packed, scales, dialect)
        if rule:
            return Seen(rule.class_, rule.stage, rule.statement, rule.id)
        return seen
    small = torch.arange(1, 17 * 288 + 1).remainder(61).to(torch.bfloat16).view(17, 288)
    rows, deep = small[:, :256].contiguous(), small[:16].contiguous()
    for x, class_, stage, words in (
        (rows, "small-m", "launch", "rows behind the last whole tile"),
        (deep, "n-tail", "store", "columns behind the last whole tile"),
    ):
        seen = _quantized_wrongly(kernel, x, words)
        if seen:
            return Seen(class_, stage, f"the quantizer goes wrong where there are {words}: {seen.statement}")
    for view in VIEWS:
        if view == "contiguous":
            continue
        right = quantize(rows, DIALECTS[dialect])
        try:
            found = under_test(viewed(rows, view).to(kernel.tensors_on))
            same = all(torch.equal(one.cpu(), other) for one, other in zip(found, right, strict=True))
        except MxassayError:  # it reached outside of its argument
            same = False
        if not same:
            return Seen("strides", "activations", f"the quantizer misreads activations that lie as {view}")
    return None


def _conversion(kernel: "KernelUnderTest") -> Seen | None:
    """The conversion of pairs to codes under any scale, also one under which they saturate, as no block's own does."""
    from mxassay.optimized.device import current_target
    from mxassay.properties.conversion_kernels import converted
    from mxassay.reference import cvt_scalef32_pk_fp4_bf16

    size = 256
    index = torch.arange(size)
    scales = index * 37 % 255
    fields = (scales.unsqueeze(1) + torch.stack((index % 9 - 4, index // 9 % 9 - 4), dim=1)).clamp(0, 254)
    bits = fields << 7 | (index.unsqueeze(1) * torch.tensor([29, 53])) % 128
    pairs = (bits[:, 0] | (bits[:, 1] | 0x8000) << 16).to(torch.int32)
    use_asm = current_target().use_asm
    found = converted(pairs.to(kernel.tensors_on), scales.to(kernel.tensors_on), size, use_asm).cpu()
    operand = (scales << 23).clamp(min=0x400000).to(torch.int32)
    right = (cvt_scalef32_pk_fp4_bf16(pairs, operand, 0) & 0xFF).to(torch.uint8)
    if torch.equal(found, right):
        return None
    at = int((found != right).nonzero()[0])
    words = f"pair 0x{int(pairs[at]) & 0xFFFFFFFF:08X} under scale byte {int(scales[at])} becomes"
    words += f" 0x{int(found[at]):02X}, not 0x{int(right[at]):02X}"
    return Seen("compiler-hazard" if use_asm else "element-rounding", "quantizer.element", words)


def _quantized_wrongly(kernel: "KernelUnderTest", x: torch.Tensor, words: str) -> Seen | None:
    from mxassay.arenas import GuardedAllocations
    from mxassay.optimized import quantize as under_test

    with GuardedAllocations() as allocations:
        found = under_test(x.to(kernel.tensors_on))
    right = quantize(x, DIALECTS[kernel.kernel.dialect])
    if allocations.overruns():
        return Seen("n-tail", "store", f"the quantizer writes beside its results, {words}")
    if not torch.equal(found.scales.cpu(), right.scales):
        row, group = (int(i) for i in (found.scales.cpu() != right.scales).nonzero()[0])
        got, want = int(found.scales[row, group]), int(right.scales[row, group])
        class_ = _nature(x[row, 32 * group : 32 * group + 32]) or "scale-rule"
        return Seen(class_, "quantizer.scale", f"the scale of block ({row}, {group}) is {got}, not {want}")
    if not torch.equal(found.packed.cpu(), right.packed):
        row, byte = (int(i) for i in (found.packed.cpu() != right.packed).nonzero()[0])
        got, want = int(found.packed[row, byte]), int(right.packed[row, byte])
        class_ = _nature(x[row, byte // 16 * 32 : byte // 16 * 32 + 32]) or "element-rounding"
        words = f"byte ({row}, {byte}) is 0x{got:02X}, not 0x{want:02X}"
        return Seen(class_, "quantizer.element", f"quantized {words}")
    return None


def _nature(block: torch.Tensor) -> str:
    """The class of faults that only blocks such as this one show, or ""."""
    amax = int((block.contiguous().view(torch.int16).int() & 0x7FFF).max())
    return "nan-inf" if amax >= 0x7F80 else "zero-tiny" if amax < 0x100 else ""


# Partials that tell rules of adding apart: ties, one bit more, NaN, Inf, tiny, beyond float16.
_VALUES = (
    1.0, 2.0**-8, 2.0**-9, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 1.0 + 2.0**-8 + 2.0**-20, 70000.0, -3.0, 1e-40, 5e-39,
    float("nan"), float("inf"), 3.0e38, 3.0e38, 2.0**-24, -(2.0**-24), 257.0, 0.1,
)  # fmt: skip


def _parts(count: int, m: int, n: int) -> torch.Tensor:
    order = (torch.arange(count * m * n) * 7 + torch.arange(count * m * n) // 3) % len(_VALUES)
    parts = torch.tensor(_VALUES, dtype=torch.float32)[order].reshape(count, m, n)
    parts[0, 0, 1:3] = torch.tensor([0x7FFFFFFF, -1], dtype=torch.int32).view(torch.float32)  # NaN of all ones
    parts[1:, 0, 1:3] = 1.0  # of two NaN in one sum, nothing says whose bits come out
    return parts


def _reduction(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.arenas import GuardedAllocations
    from mxassay.optimized import reduce_partials

    device = kernel.tensors_on
    parts = _parts(3, 2, 256)
    whole = torch.full((5, 2, 256), float("nan"))
    whole[1:4] = parts
    found = reduce_partials(whole.to(device)[1:4]).cpu()
    right = _summed(RIGHT, parts)
    if not _same(found, right):
        for suspect in sorted(SUSPECTS.values(), key=lambda one: one.stage != "reduce"):
            pipeline = suspect.pipeline
            if (pipeline.reduce or pipeline.store) and _same(found, _summed(pipeline, parts)):
                return Seen(suspect.class_, suspect.stage, suspect.statement, suspect.id)
        if bool(found.isnan().all()):
            return Seen("partials", "reduce", "the reduction reads a slot behind the last partial")
        return Seen("partials", "reduce", "the reduction does not give the sum of its partials")
    ragged = _parts(3, 3, 144)
    with GuardedAllocations() as allocations:
        found = reduce_partials(ragged.to(device)).cpu()
    if allocations.overruns() or not _same(found, _summed(RIGHT, ragged)):
        return Seen("n-tail", "reduce", "the reduction goes wrong where N is no multiple of its 256 columns")
    apart = torch.full((3, 4, 160), float("nan"))
    apart[:, :3, :144] = ragged
    if not _same(reduce_partials(apart.to(device)[:, :3, :144]).cpu(), _summed(RIGHT, ragged)):
        return Seen("strides", "reduce", "partials that are a part of a larger buffer are read in the wrong place")
    wide = torch.zeros(3, 200, dtype=torch.bfloat16, device=device)
    found = reduce_partials(ragged.to(device), out=wide[:, 8:152]).cpu()
    if not _same(found, _summed(RIGHT, ragged)) or bool(wide[:, :8].any()) or bool(wide[:, 152:].any()):
        return Seen("strides", "reduce", "the reduction writes an output of another pitch in the wrong place")
    return None


def _summed(pipeline: Pipeline, parts: torch.Tensor) -> torch.Tensor:
    from mxassay.reference import round_to_bfloat16

    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    total = pipeline.reduce(parts) if pipeline.reduce else total
    return pipeline.store(total) if pipeline.store else round_to_bfloat16(total.double())


def _same(found: torch.Tensor, right: torch.Tensor) -> bool:
    differs = found.contiguous().view(torch.int16) != right.contiguous().view(torch.int16)
    return not bool((differs & ~(found.isnan() & right.isnan())).any())


def _slots(kernel: "KernelUnderTest") -> Seen | None:
    """Each split writes its slot, once, in float32."""
    from mxassay.optimized import Plan, Workspace, matmul

    class Kept(Workspace):
        kept: torch.Tensor

        def partials(self, splits: int, m: int, n: int, device: torch.device) -> torch.Tensor:
            self.kept = super().partials(splits, m, n, device).fill_(float("nan"))
            return self.kept

    # A product whose partials need more bits than bfloat16 has: 257 in each split.
    k, device = 1024, kernel.tensors_on
    a = torch.ones(1, k, dtype=torch.bfloat16, device=device)
    a[:, ::256] = 2
    weights = torch.full((16, k // 2), 0x22, dtype=torch.uint8, device=device)
    scales = torch.full((256, k // 32), 127, dtype=torch.uint8, device=device)
    workspace = Kept()
    matmul(a, weights, scales, plan=Plan(tile_m=16, tile_n=32, tile_k=256, splits=4), workspace=workspace)
    kept = workspace.kept.cpu()
    if kept.isnan().any():
        return Seen("race", "store", "some split does not write its slot of the partials")
    if kept.shape[0] == 4 and not bool((kept == 257.0).all()):
        if bool((kept == kept.bfloat16().float()).all()):
            return Seen("precision", "store", "partials are rounded before they are stored")
        return Seen("split-span", "split-k", "a partial is not the sum of its own span")
    return None


def _pitch(kernel: "KernelUnderTest") -> Seen | None:
    """An output that is a part of a wider buffer, with and without splits."""
    from mxassay.optimized import Plan, matmul

    device = kernel.tensors_on
    a = torch.arange(1, 6, dtype=torch.bfloat16, device=device).unsqueeze(1).expand(5, 512).contiguous()
    weights = torch.full((16, 256), 0x22, dtype=torch.uint8, device=device)
    scales = torch.full((256, 16), 127, dtype=torch.uint8, device=device)
    for splits, stage in ((1, "store"), (2, "reduce")):
        plan = Plan(tile_m=16, tile_n=32, tile_k=256, splits=splits)
        usual = matmul(a, weights, scales, plan=plan)
        wide = torch.full((5, 40), -1.0, dtype=torch.bfloat16, device=device)
        matmul(a, weights, scales, plan=plan, out=wide[:, 8:24])
        beside = torch.cat((wide[:, :8], wide[:, 24:]), dim=1)
        if not _same(wide[:, 8:24].cpu(), usual.cpu()) or bool((beside != -1).any()):
            return Seen("strides", stage, "an output of another pitch is written in the wrong place")
    return None


STAGES: tuple[Exam, ...] = (
    Exam("quantizer", "the quantizer gives the dialect's bytes, for every tile and any strides", _quantizer,
         ("scale-rule", "block-quantization", "ratio-sweep", "block-locality")),
    Exam("conversion", "a pair becomes the dialect's codes under any scale, its own or not", _conversion,
         ("conversion-alone",)),
    Exam("reduction", "the reduction adds in float32 and rounds once, for every tail and any strides", _reduction,
         ("reduce-alone", "partials-sum")),
    Exam("output-pitch", "an output of any pitch is written where it lies", _pitch,
         ("entry-points-agree", "views", "gemm-certified")),
    Exam("slots", "each split writes its own slot of the partials", _slots, ("partials-sum",)),
)  # fmt: skip
"""In the order in which they are worth the time."""
