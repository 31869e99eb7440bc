"""The kernel under test as the suite sees it: what it takes, how to call it, and what a call brought."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import currently_in_test_context, reject

from mxassay.arenas import Arena, GuardedAllocations
from mxassay.errors import ContractError, MxassayError, UnsupportedError
from mxassay.kernels import GemmArguments, Kernel, Shape
from mxassay.layouts import SCALE_SHUFFLE
from mxassay.properties.checks import PropertyError, assert_left_alone, violation
from mxassay.properties.claims import running
from mxassay.properties.entries import ENTRIES
from mxassay.properties.operands import Operands
from mxassay.properties.reading import ReadsWell


@dataclass(frozen=True)
class Contract:
    """Which shapes a kernel takes: M, N and K must be positive multiples of these. `shapes`: those that it treats
    apart, with plans or kernels of their own, which a lattice would miss."""

    m: int = 1
    n: int = 16
    k: int = 64
    shapes: tuple[Shape, ...] = ()

    @property
    def multiples(self) -> Shape:
        """As a shape."""
        return self.m, self.n, self.k

    def admits(self, shape: Shape) -> bool:
        """Whether the shape is legal.

        >>> Contract(k=256).admits((1, 16, 320))
        False
        """
        return all(size > 0 and size % multiple == 0 for size, multiple in zip(shape, self.multiples, strict=True))

    def fitted(self, shape: Shape) -> Shape:
        """The shape, each size rounded up to what is legal.

        >>> Contract(k=256).fitted((1, 16, 320))
        (1, 16, 512)
        """
        m, n, k = (-(-size // multiple) * multiple for size, multiple in zip(shape, self.multiples, strict=True))
        return m, n, k


@dataclass(frozen=True, repr=False)
class Launch(ReadsWell):
    """How to call: the entry point and the plan, both of our own kernel alone."""

    plan: Any = None
    entry: str = "matmul"

    def __repr__(self) -> str:
        plan = self.plan.words if self.plan is not None else "its own plan"
        return f"<{self.entry}, {plan}>"


@dataclass(frozen=True)
class Placement:
    """Where operands lie. `padding` fills the padding of the scale table, `view` names the strides of A (see VIEWS)."""

    padding: int = 0xFF
    view: str = "contiguous"


def viewed(a: torch.Tensor, view: str) -> torch.Tensor:
    """`a` with the strides that `view` names, the memory between its elements NaN.

    >>> viewed(torch.ones(2, 4), "transposed").stride()
    (1, 2)
    """
    m, k = a.shape
    nan = float("nan")
    if view == "contiguous":
        return a.contiguous()
    if view == "transposed":
        return a.t().contiguous().t()
    row, column, first = VIEWS[view]
    whole = torch.full((m * row + 1, (k + first + 16) * column), nan, dtype=a.dtype)
    part = whole[: m * row : row, first * column : (first + k) * column : column]
    return part.copy_(a)


# Rows of the buffer for each row of A, elements for each k, and columns in front of the first.
VIEWS: dict[str, tuple[int, int, int]] = {
    "contiguous": (1, 1, 0),
    "transposed": (1, 1, 0),
    "columns of a wider buffer": (1, 1, 16),
    "columns that start at an odd place": (1, 1, 3),
    "every third row": (3, 1, 0),
    "every other element": (1, 2, 0),
}


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(ReadsWell):
    """What a call brought: `out` on the CPU, and the call itself."""

    out: torch.Tensor
    operands: Operands
    launch: Launch
    placement: Placement
    kernel: "KernelUnderTest"

    @property
    def words(self) -> str:
        """The call in one line."""
        return _call_words(self.kernel, self.operands, self.launch, self.placement)


@dataclass(frozen=True, eq=False, repr=False)
class KernelUnderTest(ReadsWell):
    """A kernel, the device it runs on, and its contract.

    Attributes:
        kernel: as the front door opened it.
        device: name of the open device.
        tensors_on: the torch device on which its inputs lie.
        contract: the shapes it takes.
        own: whether it is our own kernel, with plans and several entry points.
    """

    kernel: Kernel
    device: str
    tensors_on: str
    contract: Contract = field(default_factory=Contract)
    own: bool = False

    @property
    def full_range(self) -> bool:
        """Whether every scale byte is exact: not where Triton widens code times scale to bfloat16."""
        return self.device in ("emulated", "mi355x")

    @property
    def slow(self) -> bool:
        """Whether sweeps must leave out a part: Triton's interpreter takes a tenth of a second for each tile."""
        return self.device == "interpreter"

    def run(
        self,
        operands: Operands,
        launch: Launch | None = None,
        placement: Placement | None = None,
        stored: tuple[torch.Tensor, torch.Tensor] | None = None,
        guarded: bool = True,
    ) -> Outcome:
        """Call the kernel once, with every buffer in an arena, and see that it left alone what it must.

        `stored`: preshuffled weights and shuffled scales, byte by byte, instead of those that `operands` imply. Where
        the kernel is not ours and refuses, the example is rejected: the shape is outside its contract. Without
        `guarded` what the kernel allocates is not poisoned: poison would count as written where someone watches for
        undefined memory.

        Raises:
            PropertyError: an input or a byte around a buffer was written.
        """
        launch, placement = launch or Launch(), placement or Placement()
        given = {
            "a": viewed(operands.a, placement.view),
            "b": operands.weights,
            "b_packed": operands.codes,
            "b_preshuffled": stored[0] if stored else operands.preshuffled,
            "b_scales_shuffled": stored[1] if stored else SCALE_SHUFFLE.apply(operands.scales, fill=placement.padding),
        }
        arenas = [Arena(name, tensor, self.tensors_on, fill=True) for name, tensor in given.items()]
        arguments = GemmArguments(**{arena.name: arena.tensor for arena in arenas})
        allocations = GuardedAllocations()
        call = _call_words(self, operands, launch, placement)
        running.call = operands, launch, placement, None
        try:
            with allocations if guarded else nullcontext():
                out = self.call(arguments, launch)
                if out.is_cuda:
                    torch.cuda.synchronize()
        except (ContractError, UnsupportedError) as error:
            if not self.own:
                _outside_the_contract(str(error))
            raise violation(f"a legal call must not be refused, but was: {error}", case=call) from error
        except PropertyError:
            raise
        except Exception as error:
            raise violation(f"the kernel must run, not raise {type(error).__name__}: {error}", case=call) from error
        outcome = Outcome(out.detach().cpu(), operands, launch, placement, self)
        running.call = operands, launch, placement, outcome.out
        assert_left_alone(arenas, allocations, outcome)
        return outcome

    def __repr__(self) -> str:
        return f"<{self.kernel.name} on {self.device}>"

    def call(self, x: GemmArguments, launch: Launch) -> torch.Tensor:
        """Call the kernel on tensors as they are, and return what it returns."""
        if self.own:
            return ENTRIES[launch.entry](x, launch.plan)
        return self.kernel.call(x, launch.plan).out


def _call_words(kernel: KernelUnderTest, operands: Operands, launch: Launch, placement: Placement) -> str:
    how = f", {launch!r}" if kernel.own else ""
    where = "" if placement == Placement() else f", {placement}"
    return f"{operands!r}{how}{where}"


def _outside_the_contract(why: str) -> None:
    running.refusal = why
    if currently_in_test_context():
        reject()
    pytest.skip(f"the kernel refuses: {why}")


_opened: list[KernelUnderTest] = []


def put_under_test(kernel: KernelUnderTest) -> None:
    """Make `kernel` the one that strategies and checks ask for. A process tests one kernel, as it has one device."""
    _opened[:] = [kernel]


def under_test() -> KernelUnderTest:
    """The kernel that the session tests.

    Raises MxassayError before the fixture `mx_kernel` has opened one.
    """
    if not _opened:
        raise MxassayError("a kernel must be under test before examples are drawn; ask for the fixture mx_kernel")
    return _opened[0]
