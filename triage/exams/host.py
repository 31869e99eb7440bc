"""Exams of what runs on the host: the cut of K, plans, tile maps, prepared weights, workspaces."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from mxassay.triage.exams.exam import Exam, Seen
from mxassay.triage.suspects import coverage
from mxassay.triage.suspects.scene import right_cut

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest

_DEPTHS = (64, 128, 192, 256, 320, 576, 1088, 2112, 7168)
_TILES = (64, 128, 256, 512, 1024)
_COUNTS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 64)


def _cut(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Plan, reconcile
    from mxassay.optimized.device import current_target

    for k in _DEPTHS:
        for tile_k in _TILES:
            for splits in _COUNTS:
                found, right = reconcile(k, tile_k, splits), right_cut(k, tile_k, splits)
                if (found.span, found.tile_k, found.count) != (right.span, right.tile_k, right.count):
                    words = f"K={k} in steps of {tile_k}, {splits} splits: {found}, not {right}"
                    return Seen("split-span", "split-k", f"K is cut wrongly: {words}")
    if kernel.device != "emulated":
        return None
    for splits in (1, 2, 3):
        plan = Plan(tile_m=16, tile_n=32, tile_k=256, splits=splits)
        used = current_target().split_k(1088, plan)
        if used.count != right_cut(1088, 256, splits).count:
            words = f"a plan with splits={splits} runs with {used.count} for K=1088"
            return Seen("plan-lookup", "plan", f"the wish for splits is not applied: {words}")
    return None


def _plans(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.errors import MxassayError
    from mxassay.optimized import plan_for
    from mxassay.optimized.plans import _TABLE

    for m in (1, 2, 3, 5, 17, 33, 64, 65, 600, 4096, 20000):
        for n in (16, 48, 272, 4096, 70000):
            for k in (64, 320, 1088, 7168):
                try:
                    plan = plan_for(m, n, k)
                except MxassayError as error:
                    return Seen("plan-lookup", "plan", f"no plan for M={m} N={n} K={k}: {error}")
                if plan.splits < 1:
                    return Seen("plan-lookup", "plan", f"the plan for M={m} N={n} K={k} has no split")
    for shape, kept in _TABLE.items():
        if plan_for(*shape) != kept:
            words = "M={} N={} K={}".format(*shape)
            return Seen("plan-lookup", "plan", f"the table's plan for {words} is not used")
    return None


def _plan_followed(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Plan, Workspace, matmul

    class Counting(Workspace):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[int] = []

        def partials(self, splits: int, m: int, n: int, device: torch.device) -> torch.Tensor:
            self.asked.append(splits)
            return super().partials(splits, m, n, device)

    a = torch.ones(1, 512, dtype=torch.bfloat16, device=kernel.tensors_on)
    weights = torch.zeros(16, 256, dtype=torch.uint8, device=kernel.tensors_on)
    scales = torch.full((256, 16), 127, dtype=torch.uint8, device=kernel.tensors_on)
    workspace = Counting()
    matmul(a, weights, scales, plan=Plan(tile_m=16, tile_n=32, tile_k=256, splits=2), workspace=workspace)
    if workspace.asked != [2]:
        return Seen("plan-lookup", "plan", f"a plan with 2 splits runs with partials of {workspace.asked or 'none'}")
    return None


def _by_hand(kernel: "KernelUnderTest") -> Seen | None:
    """The kernel with layouts by hand reads whole steps of K, without a mask."""
    from mxassay.optimized import Plan, reconcile
    from mxassay.optimized.direct_gemm import fits

    for k, splits in ((256, 1), (768, 3), (320, 1), (1088, 2), (1280, 3)):
        plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, splits=splits, direct=True)
        a, out = torch.zeros(16, k, dtype=torch.bfloat16), torch.zeros(16, 64, dtype=torch.bfloat16)
        weights, scales = (torch.zeros(64, size, dtype=torch.uint8) for size in (k // 2, k // 32))
        whole = k % (256 * splits) == 0
        if fits(a, weights, scales, out, plan, reconcile(k, 256, splits)) != whole:
            words = "takes a K that ends inside a step" if not whole else "refuses whole steps"
            return Seen("k-tail", "launch", f"the kernel with layouts by hand {words}: K={k} in {splits} splits")
    return None


def _tile_maps(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized.tile_map import grouped_order_py, xcd_remap_py

    for total in (1, 2, 7, 8, 9, 13, 16, 31, 64, 333):
        found = [xcd_remap_py(pid, total) for pid in range(total)]
        if found != [coverage.remap(pid, total) for pid in range(total)]:
            return Seen("tile-map", "tile-map", f"the twin of the spread over the dies is wrong for {total} workgroups")
    for tiles_m, tiles_n in ((1, 1), (3, 2), (9, 5), (5, 9), (17, 3)):
        for group_m in (1, 2, 3, 4, 8):
            right = [coverage.grouped(tile, tiles_m, tiles_n, group_m) for tile in range(tiles_m * tiles_n)]
            twin = [grouped_order_py(tile, tiles_m, tiles_n, group_m) for tile in range(len(right))]
            if twin != right:
                words = f"{tiles_m} x {tiles_n} tiles in bands of {group_m}"
                return Seen("tile-map", "tile-map", f"the twin of the grouped order is wrong for {words}")
    return None


def _tile_kernels(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.properties.tile_map_kernels import ordered, remapped

    totals = [1, 7, 8, 13, 33, 333]
    found = remapped(totals, kernel.tensors_on)
    for row, total in enumerate(totals):
        if found[row, :total].tolist() != [coverage.remap(pid, total) for pid in range(total)]:
            return Seen("tile-map", "tile-map", f"{total} workgroups are not spread over the dies as they must be")
    grids = [(1, 3), (5, 3), (9, 5), (3, 7)]
    found = ordered(grids, 4, kernel.tensors_on)
    for row, (tiles_m, tiles_n) in enumerate(grids):
        right = [coverage.grouped(tile, tiles_m, tiles_n, 4) for tile in range(tiles_m * tiles_n)]
        if found[row, : len(right)].tolist() != [m * tiles_n + n for m, n in right]:
            return Seen("tile-map", "tile-map", f"{tiles_m} x {tiles_n} tiles in bands of 4 come in another order")
    return None


def _stored(n: int, k: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes that tell their addresses apart: preshuffled weights and shuffled scales, with no meaning."""
    weights = (torch.arange(n * (k // 2)) * 37 % 251).to(torch.uint8).view(n, k // 2)
    groups = -(-(k // 32) // 8) * 8
    rows = -(-n // 256) * 256
    scales = (torch.arange(rows * groups) * 41 % 241 + 3).to(torch.uint8).view(rows, groups)
    return weights.to(device), scales.to(device)


def _prepared(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import prepare

    for n, k in ((16, 64), (48, 320)):
        weights, scales = _stored(n, k, kernel.tensors_on)
        found = prepare(weights, scales)
        half = k // 2
        row, byte = torch.arange(n).unsqueeze(1), torch.arange(half)
        place = row // 16 * 16 * half + byte // 32 * 512 + byte % 32 // 16 * 256 + row % 16 * 16 + byte % 16
        if not torch.equal(found.packed.cpu(), weights.cpu().flatten()[place]):
            return Seen("weight-order", "prepare", f"prepared weights of N={n} K={k} are out of order")
        group, width = torch.arange(k // 32), scales.shape[1]
        place = row // 32 * 32 * width + group // 8 * 256 + group % 4 * 64 + row % 16 * 4
        place = place + group % 8 // 4 * 2 + row % 32 // 16
        if not torch.equal(found.scales.cpu(), scales.cpu().flatten()[place]):
            return Seen("scale-order", "prepare", f"prepared scales of N={n} K={k} are out of order")
    return None


def _kept(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Workspace, prepare

    weights, scales = _stored(32, 320, kernel.tensors_on)
    workspace = Workspace()
    first = workspace.prepared(weights, scales)

    def stale(when: str) -> Seen | None:
        found, right = workspace.prepared(weights, scales), prepare(weights, scales)
        if torch.equal(found.packed, right.packed) and torch.equal(found.scales, right.scales):
            return None
        return Seen("cache-key", "workspace", f"a workspace gives stale weights: {when}")

    def cleared() -> None:
        workspace.clear()
        weights.bitwise_xor_(3)

    changes: tuple[tuple[str, Callable[[], object]], ...] = (
        ("the same tensors", lambda: None),
        ("codes changed in place", lambda: weights.bitwise_xor_(1)),
        ("scales changed in place", lambda: scales.bitwise_xor_(1)),
        ("after clear()", cleared),
    )
    for when, change in changes:
        change()
        seen = stale(when)
        if seen:
            return seen
    weights, scales = weights + 1, scales ^ 1
    seen = stale("other tensors of the same shape")
    if seen:
        return seen
    first = workspace.prepared(weights, scales)
    weights, scales = weights.clone(), scales.clone()
    if workspace.prepared(weights, scales) is not first:
        return Seen("cache-key", "workspace", "a workspace never finds the weights that it keeps")
    weights, scales = _stored(16, 64, kernel.tensors_on)
    return stale("weights of another shape")


def _partials_apart(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Workspace

    workspace = Workspace()
    device = torch.device(kernel.tensors_on)
    held = [workspace.partials(*asked, device) for asked in ((2, 3, 16), (2, 3, 16), (4, 5, 48))]
    if [tuple(tensor.shape) for tensor in held] != [(2, 3, 16), (2, 3, 16), (4, 5, 48)]:
        return Seen("stale-buffers", "workspace", "one buffer of partials serves every shape")
    if len({tensor.untyped_storage().data_ptr() for tensor in held}) < len(held):
        return Seen("stale-buffers", "workspace", "two calls share their partials")
    return None


def _results(kernel: "KernelUnderTest") -> Seen | None:
    from mxassay.optimized import Plan, matmul, quantize, reduce_partials

    weights, _ = _stored(16, 320, kernel.tensors_on)
    scales = torch.full((256, 16), 127, dtype=torch.uint8, device=kernel.tensors_on)
    whole = Plan(tile_m=16, tile_n=32, tile_k=256)

    def ones(value: float) -> torch.Tensor:
        return torch.full((3, 320), value, dtype=torch.bfloat16, device=kernel.tensors_on)

    def parts(value: float) -> torch.Tensor:
        return torch.full((2, 3, 16), value, device=kernel.tensors_on)

    calls: dict[str, Callable[[float], Any]] = {
        "matmul": lambda value: (matmul(ones(value), weights, scales, plan=whole),),
        "matmul in splits": lambda value: (matmul(ones(value), weights, scales, plan=replace(whole, splits=2)),),
        "quantize": lambda value: quantize(ones(value)),
        "reduce_partials": lambda value: (reduce_partials(parts(value)),),
    }
    for name, call in calls.items():
        held = call(1.0)
        before = [tensor.clone() for tensor in held]
        call(24.0)
        for tensor, kept in zip(held, before, strict=True):
            if not torch.equal(tensor.view(torch.uint8), kept.view(torch.uint8)):
                return Seen("stale-buffers", "workspace", f"a later call overwrites an earlier result of {name}")
    out = torch.zeros(3, 16, dtype=torch.bfloat16, device=kernel.tensors_on)
    writers: dict[str, Callable[[], Any]] = {
        "matmul(out=)": lambda: matmul(ones(1.0), weights, scales, plan=whole, out=out),
        "matmul(out=) in splits": lambda: matmul(ones(1.0), weights, scales, plan=replace(whole, splits=2), out=out),
        "reduce_partials(out=)": lambda: reduce_partials(parts(1.0), out=out),
    }
    for name, write in writers.items():
        version = out._version
        write()
        if out._version == version:
            return Seen("stale-buffers", "workspace", f"torch does not learn that {name} wrote")
    return None


HOST: tuple[Exam, ...] = (
    Exam("cut-of-k", "K is cut into whole steps, each k in one split, none empty", _cut,
         ("splits-cover", "partials-sum", "each-k-once"), launches=False),
    Exam("plans-of-shapes", "every legal shape has a legal plan, and the table is used", _plans,
         ("plans-of-shapes",), launches=False),
    Exam("whole-steps-by-hand", "the kernel with layouts by hand gets whole steps of K", _by_hand,
         ("operands-of-the-mfma", "layouts-by-hand"), launches=False),
    Exam("tile-map-twins", "the twins of the tile maps give each tile once, in the declared order", _tile_maps,
         ("xcd-remap", "grouped-order"), launches=False),
    Exam("prepared-weights", "prepared weights are the stored ones in row-major order", _prepared,
         ("entry-points-agree",), launches=False),
    Exam("kept-weights", "a workspace gives the weights that were passed", _kept,
         ("calls-in-sequence", "kept-weights"), launches=False),
    Exam("partials-apart", "calls that share a workspace have partials of their own", _partials_apart,
         ("calls-in-sequence", "partials-apart"), launches=False),
    Exam("plan-followed", "a given plan is the plan that runs", _plan_followed, ("partials-sum", "plans-agree")),
    Exam("results-apart", "results are the caller's own, and torch learns of writes", _results,
         ("calls-in-sequence", "results-apart", "writes-noted")),
    Exam("tile-map-kernels", "the tile maps give each tile once, in the declared order", _tile_kernels,
         ("xcd-remap", "grouped-order")),
)  # fmt: skip
"""In the order in which they are worth the time."""
