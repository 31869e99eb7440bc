"""The kernels for NVIDIA Hopper, which no other device runs."""

from typing import Any

import pytest

from mxassay.properties.checks import assert_product, assert_same_bits, violation
from mxassay.properties.claims import claim
from mxassay.properties.kernel import KernelUnderTest, Launch
from mxassay.properties.strategies.blocks import SPECIAL, fits_bfloat16, turning_blocks
from mxassay.properties.strategies.matrices import ramped, rows_of_blocks

# Few tokens: tails of M, N and K, one step and two, splits. Many: one and several loads of weights, more chunks than
# stages, splits. Then shapes of the contest, whose tiles stand in a table.
_SHAPES = (
    (1, 16, 64), (5, 48, 320), (17, 80, 576), (3, 112, 3648), (13, 64, 8192), (9, 144, 4160),
    (50, 64, 512), (40, 128, 1024), (64, 192, 2560), (33, 64, 4096), (40, 64, 768),
    (8, 2112, 7168), (32, 2880, 512), (64, 3072, 1536), (256, 3072, 1536), (256, 2880, 512),
)  # fmt: skip
_OF_A_TABLE = 11


@claim("hopper-by-hand")
@pytest.mark.parametrize("data", ["ramped", "sharp", "special", "sweep"])
@pytest.mark.parametrize("case", range(len(_SHAPES)))
def test_the_kernels_for_hopper(mx_kernel: KernelUnderTest, case: int, data: str) -> None:
    from mxassay.optimized import Plan, hopper

    shape = _SHAPES[case]
    if data == "ramped":
        operands = ramped(shape, case)
    elif data == "sweep":
        operands = ramped(shape, case, start=1 + 40 * case % 240, sweep_rows=case % 2 == 1)
    else:
        special = [[block] for block in SPECIAL.values() if fits_bfloat16(block)]
        rows = turning_blocks() if data == "sharp" else special
        at = 7 * case % len(rows)  # M may be less than all of them
        operands = rows_of_blocks([*rows[at:], *rows[:at]], shape, f"{data} blocks")
    plan = Plan(tile_m=16, tile_n=64, tile_k=256, num_warps=2, direct=True) if case < _OF_A_TABLE else None
    taken: list[bool] = []
    launch_on_hopper = hopper.launch_on_hopper

    def told(*arguments: Any) -> bool:
        taken.append(launch_on_hopper(*arguments))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hopper, "launch_on_hopper", told)
        first = mx_kernel.run(operands, Launch(plan))
        assert_product(first)
        again = mx_kernel.run(operands, Launch(plan, "matmul(out=columns of a wider buffer)"))
    assert_same_bits(again.out, first.out, ("row", "column"), case=again.words)
    if taken != [True, True]:
        raise violation("the kernels for Hopper must take a launch that suits them, but did not", case=first.words)
