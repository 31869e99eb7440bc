"""Opening the kernel of a failure again, here or on another device."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from mxassay.devices import device
from mxassay.errors import ContractError
from mxassay.loading import Request, open_kernels

if TYPE_CHECKING:
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.failure import Subject


@contextmanager
def opened(subject: "Subject", dialect: str = "even", on: str | None = None) -> "Iterator[KernelUnderTest]":
    """The kernel of `subject` on its device, or on the device `on`, as the one under test of this process.

    Raises ContractError where the subject names several kernels; UnsupportedError where the kernel or the device
    can't be used here.
    """
    chosen = device(on or subject.device)
    with ExitStack() as stack:
        stack.enter_context(chosen.open())
        if chosen.name == "emulated":
            import tinygrad.renderer.amd  # noqa: F401  # raises the recursion limit when it is first imported
        request = Request(
            spec=subject.spec,
            abi=subject.abi,
            dialect=dialect,
            device=chosen.name,
            aiter=subject.aiter,
            tile=subject.tile,
        )
        kernels = stack.enter_context(open_kernels(request))
        if len(kernels) != 1:
            raise ContractError(f"one kernel must be named, not {len(kernels)}; give the path of one code object")
        from mxassay.properties.kernel import KernelUnderTest, put_under_test

        own = subject.spec is None and subject.abi == "mxfp4-gemm"
        found = KernelUnderTest(kernels[0], chosen.name, chosen.tensors_on, own=own)
        put_under_test(found)
        yield found
