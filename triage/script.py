"""A failing call as a Python script that stands alone: it builds the inputs, runs the kernel, and asserts."""

import torch

from mxassay.layouts import SCALE_SHUFFLE, WEIGHT_PRESHUFFLE
from mxassay.triage.failure import Failure
from mxassay.triage.rerun import malformed, wrong_outputs

_MOST_LISTED = 96

_HEAD = '''"""{title}

Needs torch and what the kernel itself imports{extra}. Exits with an AssertionError while the fault is there.
"""

import base64
import zlib

import torch
{imports}
M, N, K = {shape}


def sparse(shape, dtype, fill, at):
    """A tensor of `fill` but for the (row, column, bits) of `at`."""
    raw = torch.full(shape, fill, dtype=torch.int32)
    for row, column, bits in at:
        raw[row, column] = bits
    return raw.to(torch.int16).view(torch.bfloat16) if dtype is torch.bfloat16 else raw.to(dtype)


def dense(shape, dtype, text):
    """A tensor of compressed bytes."""
    data = bytearray(zlib.decompress(base64.b64decode(text)))
    return torch.frombuffer(data, dtype=dtype).reshape(shape).clone()

'''


def to_script(failure: Failure) -> str:
    """The text of a script for the call of `failure`.

    It holds the activations, the weights as the kernel reads them, and the outputs that must come out where the
    certificate holds (elsewhere the bound), all worked out here: of mxassay it needs nothing but a device to run on,
    and our own kernel where that is the one that failed.
    """
    operands, subject = failure.operands, failure.subject
    m, n, k = operands.shape
    own = subject.spec is None
    expectation = operands.expectation
    imports, call = _kernel(failure)
    extra = ", and mxassay for the kernel and the emulated card" if own or subject.device == "emulated" else ""
    title = f"{failure.property}: {_title(failure)}".replace('"""', "'''")
    parts = [
        _HEAD.format(title=title, extra=extra, imports=imports, shape=(m, n, k)),
        f"# Activations, bfloat16 (M, K). Dialect {operands.dialect}.\na = {_tensor(operands.a)}\n",
        "# Packed E2M1 codes of W in the (16, 16) preshuffle, and its E8M0 scales in the e8m0 shuffle.\n",
        f"weights = {_tensor(WEIGHT_PRESHUFFLE.apply(operands.codes))}\n",
        f"scales = {_tensor(SCALE_SHUFFLE.apply(operands.scales, fill=failure.placement.padding))}\n",
        "# The least and the largest admissible output: equal where every order of summation gives the same bits.\n",
        f"lower = {_tensor(expectation.lower)}\nupper = {_tensor(expectation.upper)}\n",
        call,
        _ASSERTS,
    ]
    return "".join(parts)


_ASSERTS = """
right = torch.where(lower.isnan(), out.isnan(), (out.float() >= lower.float()) & (out.float() <= upper.float()))
wrong = (~right).nonzero().tolist()
assert not wrong, "\\n".join(
    [f"{len(wrong)} of {M * N} outputs are wrong"]
    + [f"out[{i}, {j}] is {out[i, j].item()!r}, not {lower[i, j].item()!r}" for i, j in wrong[:8]]
)
print(f"all {M * N} outputs are right")
"""


def _title(failure: Failure) -> str:
    if failure.out is None or malformed(failure):
        return failure.error or "the output has another form"
    wrong = int(wrong_outputs(failure).sum())
    return f"{wrong} of {failure.out.numel()} outputs are wrong"


def _kernel(failure: Failure) -> tuple[str, str]:
    """Imports, and the lines that set `out`."""
    subject = failure.subject
    emulated = subject.device == "emulated"
    imports = "\nfrom mxassay.gfx950 import emulated\n" if emulated else ""
    lines = []
    if failure.placement.view != "contiguous":
        imports += "from mxassay.properties.kernel import viewed\n"
        lines.append(f"a = viewed(a, {failure.placement.view!r})")
    device = "cpu" if emulated or subject.device == "interpreter" else "cuda"
    if device != "cpu":
        lines.append("a, weights, scales = a.cuda(), weights.cuda(), scales.cuda()")
    what, call = _call(failure)
    body = f"from {what[0]} import {what[1]}" if what[0] else ""
    if emulated:
        inner = "\n".join(f"    {line}" for line in (body, f"out = {call}.cpu()") if line)
        return imports, "\n" + "\n".join([*lines, "with emulated():", inner]) + "\n"
    return imports, "\n" + "\n".join([*lines, body, f"out = {call}.cpu()"]) + "\n"


def _call(failure: Failure) -> tuple[tuple[str, str], str]:
    """What to import, and the call."""
    subject, launch = failure.subject, failure.launch
    if subject.spec is None:
        plan = f"Plan({_fields(launch.plan)})" if launch.plan is not None else "None"
        if launch.entry == "matmul_prepared":
            names = "Plan, matmul_prepared, prepare"
            return ("mxassay.optimized", names), f"matmul_prepared(a, prepare(weights, scales), plan={plan})"
        return ("mxassay.optimized", "Plan, matmul"), f"matmul(a, weights, scales, plan={plan})"
    if subject.abi == "aiter-a4w4":
        loading = ("mxassay.loading", "Request, open_kernels")
        return loading, f"run_code_object({subject.spec!r})  # see mxassay replay: a code object has no Python call\n"
    where, _, name = subject.spec.partition(":")
    if where.endswith(".py"):
        loader = f'__import__("runpy").run_path({where!r})[{name or "custom_kernel"!r}]'
        given = "(a, None, None, weights, scales)" if subject.abi == "gpumode" else "a, weights, scales"
        return ("", ""), f"{loader}({given})"
    return (where, name), f"{name}(a, weights, scales)"


def _fields(plan: object) -> str:
    from dataclasses import MISSING, fields

    return ", ".join(
        f"{field.name}={getattr(plan, field.name)!r}"
        for field in fields(plan)  # type: ignore[arg-type]
        if field.default is MISSING or getattr(plan, field.name) != field.default
    )


def _tensor(tensor: torch.Tensor) -> str:
    floats = tensor.dtype == torch.bfloat16
    dtype = "torch.bfloat16" if floats else "torch.uint8"
    raw = tensor.contiguous().view(torch.int16).int() & 0xFFFF if floats else tensor.int()
    fill = int(raw.flatten().mode().values)
    others = (raw != fill).nonzero()
    if len(others) > _MOST_LISTED:
        import base64
        import zlib

        data = raw.to(torch.int16 if floats else torch.uint8).numpy().tobytes()
        text = base64.b64encode(zlib.compress(data, 9)).decode()
        return f'dense({tuple(tensor.shape)}, {dtype}, "{text}")'
    at = ", ".join(f"({int(i)}, {int(j)}, 0x{int(raw[i, j]):X})" for i, j in others)
    return f"sparse({tuple(tensor.shape)}, {dtype}, 0x{fill:X}, [{at}])"
