"""Triton kernels that copy an output into place, right or wrong in one way."""

import torch
import triton
import triton.language as tl

_TILE = 256


@triton.jit
def copy_right(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def copy_twice(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=(at < n) & (at % 7 == 3))


@triton.jit
def copy_all_but_the_last(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n - 1)


@triton.jit
def copy_of_memory_nobody_wrote(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    value = tl.load(x + at, mask=at < n)
    garbage = tl.load(spare + at, mask=at < n)
    tl.store(out + at, tl.where(garbage == 1.0, garbage, value), mask=at < n)


@triton.jit
def copy_of_a_register_nobody_wrote(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    value = tl.load(x + at, mask=at < n)
    garbage = tl.inline_asm_elementwise(
        asm="v_mov_b32 $0, v200", constraints="=v,v", args=[at], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out + at, tl.where(garbage == 0, value, 1.0), mask=at < n)


@triton.jit
def copy_past_the_end(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at, mask=at < n + 8), mask=at < n)


@triton.jit
def copy_without_waiting(x, out, spare, n, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    value = tl.load(x + at, mask=at < n)
    small = tl.inline_asm_elementwise(
        asm="v_cvt_scalef32_pk_fp4_bf16 $0, $1, $1\nv_and_b32 $0, 0xff, $0",
        constraints="=&v,v", args=[at], dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(out + at, tl.where(small == 999, 1.0, value), mask=at < n)


KERNELS = {
    "right": copy_right,
    "twice": copy_twice,
    "all but the last": copy_all_but_the_last,
    "of memory nobody wrote": copy_of_memory_nobody_wrote,
    "of a register nobody wrote": copy_of_a_register_nobody_wrote,
    "past the end": copy_past_the_end,
    "without waiting": copy_without_waiting,
}


def copy_with(how, product):
    """A function of GemmArguments: `product`, then the copy."""

    def call(x):
        source = product(x)
        n = source.numel()
        out, spare = torch.empty(source.shape, dtype=torch.bfloat16), torch.empty(n, dtype=torch.bfloat16)
        KERNELS[how][(triton.cdiv(n, _TILE),)](source, out, spare, n, TILE=_TILE)
        return out

    return call
