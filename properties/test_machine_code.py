"""Machine code: inline assembly, which the compiler copies without understanding it, by itself."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from mxassay.errors import UnsupportedError
from mxassay.properties.checks import assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.strategies.matrices import ramped
from mxassay.properties.strategies.plans import plan
from mxassay.reference import cvt_scalef32_pk_fp4_bf16

_STATEMENT = re.compile(r'asm (?:sideeffect )?(?:alignstack )?"([^"]*)", "([^"]*)"')
_OPERAND = re.compile(r"\$(\d+)")
# What the compiler may put right behind a statement, in view of a result in v{0}: it sees no reason to wait.
_BEHIND = (
    "v_mfma_scale_f32_16x16x128_f8f6f4 v[64:67], v[{0}:{1}], v[80:83], v[64:67], v100, v101 cbsz:4 blgp:4",
    "v_add_u32 v60, v{0}, v61",
    "ds_write_b8 v62, v{0}",
    "global_store_dword v[62:63], v{0}, off",
)


@dataclass(frozen=True)
class Statement:
    """An inline assembly statement of LLVM IR: `lines` with operands $0, $1, ..., the results first."""

    lines: tuple[str, ...]
    constraints: tuple[str, ...]

    @property
    def results(self) -> int:
        """How many results there are."""
        return sum(one.startswith("=") for one in self.constraints)

    def in_registers(self) -> list[str]:
        """Its lines with result i in v{8 + 4 i}, and the inputs behind the results, four registers apart too."""
        return [_OPERAND.sub(lambda found: f"v{8 + 4 * int(found[1])}", line) for line in self.lines]


def statements(ir: str) -> Iterator[Statement]:
    """Every statement with a result in the LLVM IR of a kernel.

    Raises UnsupportedError where an operand is no 32-bit VGPR.
    """
    for text, constraints in _STATEMENT.findall(ir):
        plain = re.sub(r"\\([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
        operands = tuple(one for one in constraints.split(",") if not one.startswith("~"))
        if not any(one.startswith("=") for one in operands):
            continue
        if any(one.lstrip("=&") != "v" for one in operands):
            raise UnsupportedError(f"operands of inline assembly must be VGPRs, not {constraints}: {plain}")
        yield Statement(tuple(line.strip() for line in plain.splitlines() if line.strip()), operands)


# Kernels of our own that quantize, and so convert. Layouts by hand stand in this row of PLANS.
_CONVERTING = ("fused_gemm_kernel", "direct_gemm_kernel", "quantize_kernel")
_BY_HAND = 10


def own_functions() -> Iterator[tuple[str, Any]]:
    """Every function of ours that Triton compiles, by name: a rule's twins stand in several modules."""
    from triton.runtime import JITFunction

    for name, module in list(sys.modules.items()):
        if name.startswith("mxassay.optimized."):
            yield from ((key, value) for key, value in vars(module).items() if isinstance(value, JITFunction))


@claim("inline-assembly")
def test_inline_assembly_may_stand_anywhere(mx_kernel: KernelUnderTest) -> None:
    from mxassay.optimized import quantize

    operands = ramped((17, 32, 320), 0)
    for index in (0, 1):
        mx_kernel.run(operands, Launch(plan(index)))
    mx_kernel.run(ramped((17, 64, 512), 0), Launch(plan(_BY_HAND)))
    quantize(operands.a)
    found = {
        name: {
            statement
            for kernels, *_ in function.device_caches.values()
            for kernel in kernels.values()
            for statement in statements(kernel.asm["llir"])
        }
        for name, function in own_functions()
    }
    for name in _CONVERTING:
        if not found.get(name):
            raise violation(f"the conversion of {name} must be inline assembly on gfx950, but there is none")
    for statement in set.union(*found.values()):
        assert_keeps_inputs(statement)
        assert_waits(statement)


def assert_keeps_inputs(statement: Statement) -> None:
    """A result that is written before the last input is read must not share a register with an input (`=&v`).

    Raises PropertyError.
    """
    first_write: dict[int, int] = {}
    last_read = -1
    for number, line in enumerate(statement.lines):
        for position, found in enumerate(_OPERAND.finditer(line)):
            operand = int(found[1])
            if position == 0 and operand < statement.results:
                first_write.setdefault(operand, number)
            elif operand >= statement.results:
                last_read = number
    for operand, number in first_write.items():
        if number < last_read and "&" not in statement.constraints[operand]:
            raise violation(
                f"result ${operand} must be an early clobber, =&v: line {number + 1} writes it, and line "
                f"{last_read + 1} still reads an input, which may lie in the same register",
                case="\n".join(statement.lines),
            )


def assert_waits(statement: Statement) -> None:
    """Neither inside nor right behind the statement does an instruction come too early.

    Raises PropertyError.
    """
    from mxassay.gfx950.assembler import KernelText, assemble, module
    from mxassay.gfx950.codeobject import load_code_object
    from mxassay.gfx950.hazards import hazards_of

    # Only codes and scales are operands of the matrix units; what leads to them is read by other instructions.
    readers = _BEHIND if any("_cvt_" in line for line in statement.lines) else _BEHIND[1:]
    behind = [text.format(8 + 4 * i, 11 + 4 * i) for i in range(statement.results) for text in readers]
    texts = [
        KernelText(f"behind_{number}", "\n".join((*statement.in_registers(), line)))
        for number, line in enumerate(behind)
    ]
    code = load_code_object(assemble(module(*texts)))
    for text in texts:
        hazards = hazards_of(code.kernel(text.name), code)
        if hazards:
            raise violation(f"an instruction comes too early: {hazards[0]}", case=text.body)


@claim("conversion-alone")
@pytest.mark.parametrize("size", [256, 512, 1024, 2048])
def test_each_pair_has_its_own_scale(mx_kernel: KernelUnderTest, size: int) -> None:
    from mxassay.optimized.device import current_target
    from mxassay.properties.conversion_kernels import converted

    generator = torch.Generator().manual_seed(size)
    scales = torch.randint(0, 255, (2 * size,), generator=generator)
    # Exponents around that of the scale, so that every code occurs; any sign and mantissa.
    fields = (scales.unsqueeze(1) + torch.randint(-4, 4, (2 * size, 2), generator=generator)).clamp(0, 254)
    bits = fields << 7 | torch.randint(0, 128, (2 * size, 2), generator=generator)
    bits |= torch.randint(0, 2, (2 * size, 2), generator=generator) << 15
    pairs = (bits[:, 0] | bits[:, 1] << 16).to(torch.int32)
    device = mx_kernel.tensors_on
    found = converted(pairs.to(device), scales.to(device), size, current_target().use_asm)
    expected = cvt_scalef32_pk_fp4_bf16(pairs, (scales << 23).clamp(min=0x400000).to(torch.int32), 0)
    assert_same_bits(
        found, (expected & 0xFF).to(torch.uint8), ("pair",), case=f"{size} pairs a workgroup, random scales"
    )
