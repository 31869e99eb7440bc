"""The main job: run a kernel on cases and hold every output bit against the reference."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mxassay.cases import Case, Problem, build
from mxassay.devices import Device
from mxassay.errors import ContractError, MxassayError, UnsupportedError, called_from
from mxassay.kernels import Kernel
from mxassay.verdicts import CaseRecord, Verdict, WrongElement

if TYPE_CHECKING:
    import torch

PROPERTY = "gemm-agreement"
STATEMENT = (
    "Every output is the exact sum of dequantized products, rounded once to bfloat16:",
    "bit for bit where the exactness certificate holds, within the derived bound elsewhere.",
)


def check_case(kernel: Kernel, case: Case, device: Device) -> CaseRecord:
    """Run `kernel` once on `case` and judge it. Never raises for what the kernel does.

    Besides the outputs: inputs must be unchanged, and so must the bytes around every input and around every tensor
    that the kernel makes through torch; memory it makes is NaN before it writes there.

    Args:
        kernel: the kernel under test.
        case: the inputs, as a shape and a seed.
        device: must be open.
    """
    record = _record(kernel, case, device)
    from mxassay.arenas import GuardedAllocations

    problem = build(case, device.tensors_on)
    clock = _Clock()
    allocations = GuardedAllocations()
    try:
        with allocations, clock.running():
            returned = kernel.call(problem.arguments, case.plan)
            if getattr(returned.out, "is_cuda", False):
                import torch

                torch.cuda.synchronize()
    except (ContractError, UnsupportedError) as error:
        return replace(record, verdict=Verdict.UNSUPPORTED, message=str(error), **clock.seconds())
    except MxassayError as error:  # its text says where already
        return replace(record, verdict=Verdict.ERROR, message=str(error), **clock.seconds())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a kernel that exits has not passed
        message = f"the kernel raised {type(error).__name__}: {error}\n{called_from(error)}"
        return replace(record, verdict=Verdict.ERROR, message=message, **clock.seconds())
    clock.compiling += returned.compile_seconds
    record = _judge(record, problem, returned.out)
    strays = [f"{name}: written" for name in problem.changed()]
    strays += [f"around {name}: written" for name in allocations.overruns()]
    if strays:
        message = f"inputs, and the bytes around every buffer, must be left alone, not {'; '.join(strays)}"
        record = replace(record, verdict=Verdict.FAIL, message=message)
    return replace(record, **clock.seconds())


def refused(kernel: Kernel, case: Case, device: Device, why: str) -> CaseRecord:
    """The record of a case that the kernel says it does not take; nothing runs."""
    return replace(_record(kernel, case, device), verdict=Verdict.UNSUPPORTED, message=why)


def _record(kernel: Kernel, case: Case, device: Device) -> CaseRecord:
    return CaseRecord(
        shape=case.shape,
        kernel=kernel.name,
        device=device.name,
        property=PROPERTY,
        plan=case.plan_text,
        verdict=Verdict.PASS,
        reduced_from=case.reduced_from,
        dialect=case.dialect,
        seed=case.seed,
        replay=_replay(kernel, case, device),
    )


def _judge(record: CaseRecord, problem: Problem, out: "torch.Tensor") -> CaseRecord:

    expectation = problem.expectation
    record = replace(record, outputs=expectation.exact.numel(), certified=int(expectation.certified.sum()))
    want = f"a dense torch.bfloat16 tensor of shape {tuple(expectation.exact.shape)}"
    got = _unlike(out, expectation.exact)
    if got is not None:
        return replace(record, verdict=Verdict.FAIL, message=f"the output must be {want}, not {got}")
    out = out.detach().resolve_neg().cpu()
    wrong = expectation.wrong(out)
    differences = int(wrong.sum())
    if differences:
        return replace(
            record,
            verdict=Verdict.FAIL,
            bit_differences=differences,
            first_wrong=wrong_element(out, expectation, wrong),
        )
    return record


def _unlike(out: Any, expected: "torch.Tensor") -> str | None:
    """What `out` is, where it is no tensor of values like `expected`."""
    import torch

    if not isinstance(out, torch.Tensor):
        return f"a {type(out).__name__}"
    if out.layout != torch.strided or out.device.type == "meta":
        return f"a {out.layout} tensor on {out.device}"
    if out.shape != expected.shape or out.dtype != torch.bfloat16:
        return f"{out.dtype} of shape {tuple(out.shape)}"
    return None


def wrong_element(out: "torch.Tensor", expectation: Any, wrong: "torch.Tensor") -> WrongElement:
    """The first output where `wrong`, bool (M, N), is set, beside what `expectation` demands."""
    i, j = (int(x) for x in wrong.nonzero()[0])
    return WrongElement(
        index=(i, j),
        got=float(out[i, j]),
        got_hex=bf16_hex(out[i, j]),
        expected=float(expectation.exact[i, j]),
        expected_hex=bf16_hex(expectation.exact[i, j]),
        lower_hex=bf16_hex(expectation.lower[i, j]),
        upper_hex=bf16_hex(expectation.upper[i, j]),
        certified=bool(expectation.certified[i, j]),
    )


def bf16_hex(value: "torch.Tensor") -> str:
    """The bits of one bfloat16 as 0x and four digits."""
    import torch

    return f"0x{int(value.reshape(1).view(torch.int16)) & 0xFFFF:04X}"


def _replay(kernel: Kernel, case: Case, device: Device) -> str:
    m, n, k = case.reduced_from or case.shape
    words = ["mxassay check", *([kernel.words] if kernel.words else []), f"--shapes {m},{n},{k}"]
    words += [f"--device {device.name}", f"--seed {case.seed}"]
    if kernel.dialect != "even":
        words.append(f"--dialect {kernel.dialect}")
    return " ".join(words)


@dataclass
class _Clock:
    """Wall time of a call, with the time Triton spent compiling taken out and told apart."""

    total: float = 0.0
    compiling: float = 0.0
    _microseconds: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        from triton import knobs

        before = knobs.compilation.listener

        def listen(**event: Any) -> None:
            self._microseconds.append(event["times"].total)
            if before is not None:
                before(**event)

        knobs.compilation.listener = listen
        start = time.perf_counter()
        try:
            yield
        finally:
            self.total = time.perf_counter() - start
            self.compiling = sum(self._microseconds) / 1e6
            knobs.compilation.listener = before

    def seconds(self) -> dict[str, Any]:
        return {"seconds": max(self.total - self.compiling, 0.0), "compile_seconds": self.compiling}
