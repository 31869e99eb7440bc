"""What a worker does with a job. Engines call this in processes of their own."""

import os
from contextlib import ExitStack
from typing import Any

__all__ = ["died", "do"]

_opened: dict[tuple[object, ...], Any] = {}
_stack = ExitStack()


def do(wire: dict[str, Any]) -> dict[str, Any]:
    """Run one job (`Job.as_wire`) and return its `CaseRecord` as plain types, and the worker's process id.

    A device and a kernel stay open in the process for the jobs after. Whatever the kernel does becomes a verdict; what
    keeps it from being loaded is UNSUPPORTED.
    """
    from mxassay.campaign.job import Job
    from mxassay.cases import Case
    from mxassay.checking import check_case
    from mxassay.errors import MxassayError

    job = Job.from_wire(wire)
    try:
        device, kernel = _ready(job)
    except MxassayError as error:
        return _not_run(job, "UNSUPPORTED", str(error))
    plan = None
    if job.plan is not None:
        from mxassay.optimized import Plan

        plan = Plan(**dict(job.plan))  # type: ignore[arg-type]
    try:
        record = check_case(kernel, Case(job.shape, job.seed, job.dialect, plan), device)
    except MxassayError as error:
        return _not_run(job, "UNSUPPORTED", str(error))
    return {**record.as_json(), "worker": os.getpid()}


def died(job: Any, times: int) -> dict[str, Any]:
    """The outcome of a job whose worker died, again and again."""
    return _not_run(job, "ERROR", f"a worker must survive the job, not die of it {times} times")


def _not_run(job: Any, verdict: str, message: str) -> dict[str, Any]:
    return {
        "shape": list(job.shape), "kernel": job.spec or "mxassay.optimized:matmul", "device": job.device,
        "property": "gemm-agreement", "plan": job.plan_words, "verdict": verdict, "outputs": 0, "bit_differences": 0,
        "seconds": 0.0, "compile_seconds": 0.0, "dialect": job.dialect, "seed": job.seed, "message": message,
        "worker": os.getpid(),
    }  # fmt: skip


def _ready(job: Any) -> tuple[Any, Any]:
    from mxassay.devices import device
    from mxassay.loading import Request, open_kernels

    chosen = _opened.get((job.device,))
    if chosen is None:
        chosen = _opened[job.device,] = device(job.device)
        _stack.enter_context(chosen.open())
    key = (job.device, job.spec, job.abi, job.aiter, job.dialect)
    kernel = _opened.get(key)
    if kernel is None:
        request = Request(job.spec, job.abi, job.dialect, job.device, job.aiter)
        kernel = _opened[key] = _stack.enter_context(open_kernels(request))[0]
    return chosen, kernel
