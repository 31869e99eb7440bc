"""One call as a kernel sees it: how the plan cuts the product, and what stands at every address."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.properties.kernel import Launch, Placement, viewed
from mxassay.properties.operands import Operands
from mxassay.triage.failure import Failure

POISON = 0xFF
"""What stands beside every buffer while mxassay runs a kernel."""

_SMALLEST_TILE_K = 128
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Cut:
    """K in `count` ranges of `span`, in steps of `tile_k`."""

    span: int
    tile_k: int
    count: int


def right_cut(k: int, tile_k: int, splits: int) -> Cut:
    """How a plan's wish for splits is fitted to K, written out once more: whole steps, no empty range.

    >>> right_cut(576, 256, 8)
    Cut(span=256, tile_k=256, count=3)
    """
    while tile_k // 2 >= max(k, _SMALLEST_TILE_K):
        tile_k //= 2
    steps = -(-k // tile_k)
    each = -(-steps // min(splits, steps))
    return Cut(each * tile_k, tile_k, -(-steps // each))


@dataclass(frozen=True)
class Geometry:
    """The plan of a call. `splits` is the wish; `linear` tells whether weights are read row-major."""

    tile_m: int = 16
    tile_n: int = 32
    tile_k: int = 256
    group_m: int = 1
    splits: int = 1
    linear: bool = False


@dataclass(frozen=True, eq=False)
class Scene:
    """A call and its geometry. Buffers stand among bytes of POISON."""

    operands: Operands
    geometry: Geometry
    placement: Placement
    entry: str = "matmul"
    _kept: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, key: tuple[object, ...], compute: Callable[[], _Found]) -> _Found:
        """`compute()`, kept for the stages in `key`: most suspects share most stages."""
        if key not in self._kept:
            self._kept[key] = compute()
        found: _Found = self._kept[key]
        return found

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.operands.shape

    @cached_property
    def cut(self) -> Cut:
        """The right cut."""
        return right_cut(self.shape[2], self.geometry.tile_k, self.geometry.splits)

    @cached_property
    def activations(self) -> torch.Tensor:
        """A as it lies in memory."""
        return viewed(self.operands.a, self.placement.view)

    @cached_property
    def activation_words(self) -> torch.Tensor:
        """int64: the 16-bit words of A's storage."""
        whole = self.activations
        flat = torch.empty(0, dtype=torch.bfloat16).set_(whole.untyped_storage())
        return flat.view(torch.int16).long() & 0xFFFF

    @cached_property
    def weight_bytes(self) -> torch.Tensor:
        """int64: packed codes in storage order, preshuffled or linear."""
        codes = self.operands.codes
        return (codes if self.geometry.linear else WEIGHT_PRESHUFFLE.apply(codes)).flatten().long()

    @cached_property
    def scale_bytes(self) -> torch.Tensor:
        """int64: scale bytes in storage order, shuffled with padding or linear."""
        scales = self.operands.scales
        stored = scales if self.geometry.linear else SCALE_SHUFFLE.apply(scales, fill=self.placement.padding)
        return stored.flatten().long()

    @cached_property
    def scale_stride(self) -> int:
        """Bytes of one stored row of scales."""
        groups = self.shape[2] // 32
        return groups if self.geometry.linear else -(-groups // 8) * 8


def read(memory: torch.Tensor, address: torch.Tensor, beside: int = POISON) -> torch.Tensor:
    """What stands at `address` (int64, any shape) of `memory` (int64, flat); `beside` outside of it."""
    inside = (address >= 0) & (address < len(memory))
    return torch.where(inside, memory[address.clamp(0, max(len(memory) - 1, 0))], beside)


def geometry_of(launch: Launch, shape: tuple[int, int, int], own: bool) -> tuple[Geometry, ...]:
    """The geometry of a call of our own kernel; for another one, those that are worth a try."""
    if not own:
        return tuple(Geometry(16, 128, tile_k, splits=splits) for tile_k in (256, 128, 512) for splits in (1, 2, 4))
    plan: Any = launch.plan
    if plan is None or launch.entry == "custom_kernel":
        from mxassay.optimized import plan_for

        plan = plan_for(*shape)
    linear = plan.linear or launch.entry == "matmul_prepared"
    return (Geometry(plan.tile_m, plan.tile_n, plan.tile_k, plan.group_m, plan.splits, linear),)


def scenes_of(failure: Failure) -> tuple[Scene, ...]:
    """The call of a failure as scenes: one, or for a kernel whose plan is unknown one for each guess."""
    own = failure.subject.spec is None and failure.subject.abi == "mxfp4-gemm"
    guesses = geometry_of(failure.launch, failure.operands.shape, own)
    return tuple(Scene(failure.operands, guess, failure.placement, failure.launch.entry) for guess in guesses)
