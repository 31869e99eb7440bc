"""Triton kernels that bring MFMA of each speed, DPP, permlane, transcendentals, division, LDS and FP8 casts."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) + 1.0, mask=at < n)


@triton.jit
def softmax(x, y, n, B: tl.constexpr):
    row, at = tl.program_id(1), tl.arange(0, B)
    value = tl.load(x + row * n + at, mask=at < n, other=float("-inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def cast(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


@triton.jit
def mixed(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + at, mask=at < n, other=0.0)
    b = tl.load(y + at, mask=at < n, other=1)
    value = tl.cumsum(a, 0) + tl.sort(a) + ((b * 7) // (b + 3) + b % 5).to(tl.float32) + tl.sqrt(a) + tl.log(a)
    tl.store(z + at, value + tl.div_rn(a, b.to(tl.float32)), mask=at < n)


@triton.jit
def gemm(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        total = tl.dot(x, y, total)
    total = total / (1 + tl.exp(-total))
    tl.store(c + rm[:, None] * N + rn[None, :], total.to(tl.bfloat16))


@triton.jit
def scaled_gemm(
    a, b, sa, sb, c, N, K, F: tl.constexpr, P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk, rs = tl.arange(0, BK // P), tl.arange(0, BK // 32)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K // BK):
        x = tl.load(a + rm[:, None] * (K // P) + (k * (BK // P) + rk)[None, :])
        y = tl.load(b + rn[None, :] * (K // P) + (k * (BK // P) + rk)[:, None])
        s = tl.load(sa + rm[:, None] * (K // 32) + (k * (BK // 32) + rs)[None, :])
        t = tl.load(sb + rn[:, None] * (K // 32) + (k * (BK // 32) + rs)[None, :])
        total = tl.dot_scaled(x, s, F, y, t, F, total)
    tl.store(c + rm[:, None] * N + rn[None, :], total.to(tl.bfloat16))


_GEMM = {"N": "i32", "K": "i32"}
_TILE = {"BM": 64, "BN": 64, "BK": 64}


def _gemm(dtype, tile, **options):
    return gemm, {"a": "*" + dtype, "b": "*" + dtype, "c": "*bf16"} | _GEMM, tile, options


def _scaled(form, dtype, packed, **options):
    types = {"a": "*" + dtype, "b": "*" + dtype, "sa": "*u8", "sb": "*u8", "c": "*bf16"} | _GEMM
    return scaled_gemm, types, {"F": form, "P": packed, "BM": 64, "BN": 64, "BK": 256}, options


# name -> (function, argument types, constants, options)
KERNELS = {
    "add": (add, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"B": 1024}, {}),
    "softmax": (softmax, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"B": 1024}, {}),
    "mixed": (mixed, {"x": "*fp32", "y": "*i32", "z": "*fp32", "n": "i32"}, {"B": 256}, {}),
    "cast_fp8": (cast, {"x": "*fp32", "y": "*fp8e4nv"}, {"B": 1024}, {}),
    "cast_bf8": (cast, {"x": "*bf16", "y": "*fp8e5"}, {"B": 1024}, {}),
    "gemm_bf16_16": _gemm("bf16", _TILE, matrix_instr_nonkdim=16),
    "gemm_bf16_32": _gemm("bf16", _TILE, matrix_instr_nonkdim=32),
    "gemm_fp32": _gemm("fp32", _TILE, num_warps=8),
    "gemm_fp8": _gemm("fp8e4nv", _TILE | {"BK": 128}),
    "scaled_fp4_16": _scaled("e2m1", "u8", 2, matrix_instr_nonkdim=16),
    "scaled_fp4_32": _scaled("e2m1", "u8", 2, matrix_instr_nonkdim=32),
    "scaled_fp8_32": _scaled("e4m3", "fp8e4nv", 1, matrix_instr_nonkdim=32, num_warps=2),
}
