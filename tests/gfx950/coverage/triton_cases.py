"""What to launch: inputs for each kernel of `coverage_kernels`, and what torch computes for the same inputs.

`within` is a bound relative to the largest value, from the arithmetic of the case; None asks for equal bits.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import coverage_kernels as kernels
import torch

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I8, I16, I32, I64, U8 = torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8
ULP = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23, F64: 2.0**-52}
FP8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Case:
    """`make` gives the tensors and numbers by parameter; `want` the outputs by parameter, from the same."""

    label: str
    kernel: Any
    grid: tuple[int, ...]
    make: Callable[[], dict[str, Any]]
    want: Callable[[dict[str, Any]], dict[str, torch.Tensor]]
    within: float | None = None
    options: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.label


def numbers(shape: Any, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normal numbers, or integers over the whole of an integer type's range, zero left out."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=F64).to(dtype)
    info = torch.iinfo(dtype)
    size = (shape,) if isinstance(shape, int) else shape
    drawn = torch.randint(max(info.min, -(2**62)), min(info.max, 2**62), size, generator=generator)
    return torch.where(drawn == 0, 1, drawn).to(dtype)


N, BLOCK = 1000, 256
GRID = (4,)


def pointwise(label: str, kernel: Any, dtype: torch.dtype, f: Callable, within: float | None, **constants: Any) -> Case:
    """Two inputs of a type, one output of it."""

    def make() -> dict[str, Any]:
        return {
            "x": numbers(N, dtype), "y": numbers(N, dtype, 1), "out": torch.zeros(N, dtype=dtype), "n": N,
            "BLOCK": BLOCK, **constants,
        }  # fmt: skip

    return Case(label, kernel, GRID, make, lambda args: {"out": f(args["x"], args["y"]).to(dtype)}, within)


def operators() -> Iterator[Case]:
    for dtype in (F16, BF16, F32, F64, I8, I16, I32, I64, U8):
        name = str(dtype).removeprefix("torch.")
        yield pointwise(f"add {name}", kernels.add, dtype, torch.add, None)
        both: dict[str, Callable] = {
            "mul": torch.mul, "sub": torch.sub, "min": torch.minimum, "max": torch.maximum,
            "less": lambda a, b: torch.where(a < b, a, b - a),
        }  # fmt: skip
        for kind, f in both.items():
            yield pointwise(f"{kind} {name}", kernels.arithmetic, dtype, f, None, KIND=kind)
        if dtype.is_floating_point:
            yield pointwise(
                f"div {name}", kernels.arithmetic, dtype, lambda a, b: a.to(F64) / b.to(F64), 2 * ULP[dtype], KIND="div"
            )
            yield pointwise(
                f"fma {name}", kernels.arithmetic, dtype, lambda a, b: a.to(F64) * b.to(F64) + a.to(F64),
                2 * ULP[dtype],
                KIND="fma",
            )  # fmt: skip
            yield pointwise(
                f"clamp {name}", kernels.arithmetic, dtype, lambda a, b: a.clamp(-0.5, 0.75), None, KIND="clamp"
            )
        else:
            whole: dict[str, Callable] = {
                "floordiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "mod": torch.fmod,
                "shl": lambda a, b: a << (b & 7), "shr": lambda a, b: a >> (b & 7),
                "bits": lambda a, b: (a & b) ^ (~a | b),
            }  # fmt: skip
            for kind, f in whole.items():
                yield pointwise(f"{kind} {name}", kernels.arithmetic, dtype, f, None, KIND=kind)


def conversions() -> Iterator[Case]:
    types = (F16, BF16, F32, F64, I8, I16, I32, I64, U8, FP8)
    for source in types:
        for target in types:
            if F32 not in (source, target) and abs(types.index(source) - types.index(target)) != 1:
                continue
            whole = not (source.is_floating_point and target.is_floating_point)
            if source == target or {source, target} == {F64, FP8} or (whole and FP8 in (source, target)):
                continue
            small = not target.is_floating_point or target == FP8

            def make(source: Any = source, target: Any = target, small: bool = small) -> dict[str, Any]:
                x = numbers(N, F32) * 20 if small or source == FP8 else numbers(N, source)
                if small and target == U8:
                    x = x.abs()
                return {"x": x.to(source), "out": torch.zeros(N, dtype=target), "n": N, "BLOCK": BLOCK}

            names = [str(dtype).removeprefix("torch.") for dtype in (source, target)]
            yield Case(
                f"{names[0]} to {names[1]}", kernels.convert, GRID, make,
                lambda args: {"out": args["x"].to(args["out"].dtype)}, None,
            )  # fmt: skip


ELEMENTARY: dict[str, tuple[Callable, Callable]] = {
    "exp": (torch.exp, lambda x: x), "exp2": (torch.exp2, lambda x: x), "log": (torch.log, torch.abs),
    "log2": (torch.log2, torch.abs), "sqrt": (torch.sqrt, torch.abs), "rsqrt": (torch.rsqrt, torch.abs),
    "sin": (torch.sin, lambda x: 3 * x), "cos": (torch.cos, lambda x: 3 * x), "erf": (torch.erf, lambda x: x),
    "floor": (torch.floor, lambda x: 9 * x), "ceil": (torch.ceil, lambda x: 9 * x), "abs": (torch.abs, lambda x: x),
    "tanh": (torch.tanh, lambda x: x), "rint": (torch.round, lambda x: 9 * x), "log1p": (torch.log1p, torch.abs),
    "expm1": (torch.expm1, lambda x: x), "atan": (torch.atan, lambda x: x),
    "erfc": (torch.erfc, lambda x: x),
    "trunc": (torch.trunc, lambda x: 9 * x),
}  # fmt: skip


def functions() -> Iterator[Case]:
    for dtype in (F32, F64):
        for kind, (f, prepare) in ELEMENTARY.items():

            def make(kind: str = kind, prepare: Callable = prepare, dtype: Any = dtype) -> dict[str, Any]:
                x = prepare(numbers(N, dtype))
                return {"x": x, "out": torch.zeros(N, dtype=dtype), "n": N, "KIND": kind, "BLOCK": BLOCK}

            yield Case(
                f"{kind} {str(dtype).removeprefix('torch.')}", kernels.elementary, GRID, make,
                lambda args, f=f: {"out": f(args["x"].to(F64)).to(args["x"].dtype)}, 8 * ULP[dtype],
            )  # fmt: skip
    # Fusing multiplications and additions across __ocml_sin_f64's double-double arithmetic breaks it, on any card.
    large = torch.cat([numbers(500, F64) * 1e5, numbers(500, F64, 1) * 2.0**400])
    for kind in ("sin", "cos"):
        yield Case(
            f"{kind} of large float64", kernels.elementary, GRID,
            lambda kind=kind: {"x": large, "out": torch.zeros(N, dtype=F64), "n": N, "KIND": kind, "BLOCK": BLOCK},
            lambda args: {"out": torch.tensor([getattr(math, args["KIND"])(x) for x in args["x"].tolist()], dtype=F64)},
            4 * ULP[F64], {"enable_fp_fusion": False},
        )  # fmt: skip


def rows() -> Iterator[Case]:
    yield Case(
        "softmax", kernels.softmax, (5,),
        lambda: {"x": numbers((5, 700), F32), "out": torch.zeros(5, 700), "stride": 700, "n": 700, "BLOCK": 1024},
        lambda args: {"out": torch.softmax(args["x"], 1)}, 16 * ULP[F32],
    )  # fmt: skip
    for dtype in (F32, F16):

        def make(dtype: Any = dtype) -> dict[str, Any]:
            return {
                "x": numbers((6, 200), dtype), "w": numbers(200, dtype, 1), "b": numbers(200, dtype, 2),
                "out": torch.zeros((6, 200), dtype=dtype), "mean": torch.zeros(6), "rstd": torch.zeros(6), "n": 200,
                "EPS": 1e-5, "BLOCK": 256,
            }  # fmt: skip

        yield Case(
            f"layer norm {str(dtype).removeprefix('torch.')}", kernels.layer_norm, (6,), make,
            lambda args: {"out": _normalised(args["x"], args["w"], args["b"])}, 4 * ULP[dtype],
        )  # fmt: skip

    def backward() -> dict[str, Any]:
        x = numbers((6, 200), F32)
        mean, var = x.mean(1), x.var(1, unbiased=False)
        return {
            "dy": numbers((6, 200), F32, 3), "x": x, "w": numbers(200, F32, 1), "mean": mean,
            "rstd": (var + 1e-5).rsqrt(),
            "dx": torch.zeros(6, 200), "dw": torch.zeros(200), "n": 200, "BLOCK": 256,
        }  # fmt: skip

    def backward_wanted(args: dict[str, Any]) -> dict[str, torch.Tensor]:
        x, w = args["x"].clone().requires_grad_(), args["w"].clone().requires_grad_()
        torch.nn.functional.layer_norm(x, (200,), w).backward(args["dy"])
        return {"dx": x.grad, "dw": w.grad}

    yield Case("layer norm backward", kernels.layer_norm_backward, (6,), backward, backward_wanted, 64 * ULP[F32])
    yield Case(
        "64-bit rows", kernels.gather_rows, (7,),
        lambda: {
            "x": numbers((9, 100), F32), "index": torch.tensor([3, 0, 8, 8, 1, 5, 2]), "out": torch.zeros(7, 100),
            "width": 100, "BLOCK": 128,
        },
        lambda args: {"out": args["x"][args["index"]]},
    )  # fmt: skip
    yield Case(
        "transpose", kernels.transposed, (1,),
        lambda: {"x": numbers((64, 64), F16), "out": torch.zeros((64, 64), dtype=F16), "N": 64},
        lambda args: {"out": args["x"].T.contiguous()},
    )  # fmt: skip
    yield Case(
        "loop", kernels.loop, GRID,
        lambda: {"x": numbers(N, F32), "out": torch.zeros(N), "n": N, "steps": 5, "BLOCK": BLOCK},
        _looped, 8 * ULP[F32],
    )  # fmt: skip


def _normalised(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x.float(), w.shape, w.float(), b.float()).to(x.dtype)


def _looped(args: dict[str, Any]) -> dict[str, torch.Tensor]:
    a = args["x"].to(F64)
    for _ in range(args["steps"]):
        a = torch.where(a > 0, a * a, a * 0.5) - 0.25
    return {"out": a.to(F32)}


def products() -> Iterator[Case]:
    for dtype, out, options in (
        (F16, F32, {}), (BF16, F32, {}), (F32, F32, {}), (I8, I32, {}), (FP8, F32, {}),
        (F16, F16, {"matrix_instr_nonkdim": 32}),
    ):  # fmt: skip

        def make(dtype: Any = dtype, out: Any = out) -> dict[str, Any]:
            a, b = numbers((50, 100), F32), numbers((100, 70), F32, 1)
            if dtype == I8:
                a, b = a * 30, b * 30
            return {
                "a": a.to(dtype), "b": b.to(dtype), "c": torch.zeros((50, 70), dtype=out), "M": 50, "N": 70, "K": 100,
                "BM": 64, "BN": 64, "BK": 64,
            }  # fmt: skip

        yield Case(
            f"matmul {str(dtype).removeprefix('torch.')}{' of 32x32' if options else ''}", kernels.matmul, (1, 2), make,
            lambda args: {"c": (args["a"].to(F64) @ args["b"].to(F64)).to(args["c"].dtype)},
            None if dtype == I8 else 2.0**-10 if out == F16 else 2.0**-18, options,
        )  # fmt: skip

    def attended(args: dict[str, Any]) -> dict[str, torch.Tensor]:
        q, k, v = (args[name].to(F64) for name in "qkv")
        scores = q @ k.T * args["SCALE"] * math.log(2) + torch.full((128, 128), -math.inf, dtype=F64).triu(1)
        return {"out": (torch.softmax(scores, 1) @ v).to(args["out"].dtype)}

    yield Case(
        "attention", kernels.attention, (2,),
        lambda: {
            "q": numbers((128, 64), F16), "k": numbers((128, 64), F16, 1), "v": numbers((128, 64), F16, 2),
            "out": torch.zeros((128, 64), dtype=F16), "n": 128, "SCALE": 0.18, "D": 64, "BM": 64, "BN": 32,
        },
        attended, 2.0**-9,
    )  # fmt: skip


def _scanned(x: torch.Tensor) -> torch.Tensor:
    columns = [x[:, 0]]
    for column in x.T[1:]:
        columns.append(columns[-1] + column + columns[-1] * column)
    return torch.stack(columns, 1)


REDUCTIONS: dict[str, Callable] = {
    "sort": lambda x: x.sort(1).values, "cumsum": lambda x: x.cumsum(1), "flip": lambda x: x.flip(1),
    "topk": lambda x: x.topk(8, 1).values, "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(1),
    "sum": lambda x: x.sum(1), "max": lambda x: x.amax(1), "min": lambda x: x.amin(1),
    "cumprod": lambda x: x.cumprod(1),
}  # fmt: skip


def reductions() -> Iterator[Case]:
    for dtype in (F32, F16, I32, I64, I16, F64):
        for kind, f in REDUCTIONS.items():
            if kind == "cumprod" and dtype != F64:
                continue

            def make(kind: str = kind, f: Callable = f, dtype: Any = dtype) -> dict[str, Any]:
                x = numbers((4, 128), dtype)
                shape = f(x).shape
                out = I32 if kind.startswith("arg") else dtype
                return {"x": x, "out": torch.zeros(shape, dtype=out), "KIND": kind, "ROWS": 4, "BLOCK": 128}

            exact = not dtype.is_floating_point or kind not in ("sum", "cumsum", "cumprod")
            yield Case(
                f"{kind} {str(dtype).removeprefix('torch.')}", kernels.reduction, (1,), make,
                lambda args, f=f: {"out": f(args["x"]).to(args["out"].dtype)}, None if exact else 64 * ULP[dtype],
            )  # fmt: skip
    for kind in ("scan", "xor"):
        yield Case(
            kind, kernels.reduction, (1,),
            lambda kind=kind: {
                "x": numbers((4, 128), I32), "out": torch.zeros((4, 128) if kind == "scan" else 4, dtype=I32),
                "KIND": kind, "ROWS": 4, "BLOCK": 128,
            },
            lambda args: {"out": _scanned(args["x"]) if args["KIND"] == "scan" else _xored(args["x"])},
        )  # fmt: skip
    yield Case(
        "histogram", kernels.histogram, (1,),
        lambda: {"x": numbers(512, I32) & 63, "out": torch.zeros(64, dtype=I32), "n": 512, "BINS": 64, "BLOCK": 512},
        lambda args: {"out": torch.bincount(args["x"], minlength=64).to(I32)},
    )  # fmt: skip


def _xored(x: torch.Tensor) -> torch.Tensor:
    total = x[:, 0].clone()
    for column in x.T[1:]:
        total ^= column
    return total


def philox(seed: int, counter: int) -> int:
    """The first word of Philox 4x32-10 (Salmon et al., 2011, "Parallel random numbers: as easy as 1, 2, 3")."""
    word = (1 << 32) - 1
    c, k = [counter, 0, 0, 0], [seed & word, seed >> 32]
    for _ in range(10):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [second >> 32 ^ c[1] ^ k[0], second & word, first >> 32 ^ c[3] ^ k[1], first & word]
        k = [k[0] + 0x9E3779B9 & word, k[1] + 0xBB67AE85 & word]
    return c[0]


def _uniform(seed: int) -> torch.Tensor:
    """Triton's `rand`: the word as an int32, its magnitude scaled to [0, 1)."""
    words = torch.tensor([philox(seed, i) for i in range(N)], dtype=I64)
    signed = torch.where(words >= 2**31, 2**32 - 1 - words, words)
    return signed.to(F32) * torch.tensor(4.6566127342e-10, dtype=F32)


def random_numbers() -> Iterator[Case]:
    yield Case(
        "rand", kernels.uniforms, GRID, lambda: {"out": torch.zeros(N), "n": N, "seed": 1234567, "BLOCK": BLOCK},
        lambda args: {"out": _uniform(args["seed"])},
    )  # fmt: skip
    yield Case(
        "dropout", kernels.dropout, GRID,
        lambda: {"x": numbers(N, F32), "out": torch.zeros(N), "n": N, "p": 0.25, "seed": 99, "BLOCK": BLOCK},
        lambda args: {"out": torch.where(_uniform(99) > 0.25, args["x"] / 0.75, 0.0)}, 2 * ULP[F32],
    )  # fmt: skip


def gathered_atomics() -> Iterator[Case]:
    for dtype in (I32, I64, F32):
        for kind in ("add", "max", "min", "xor"):
            if kind == "xor" and dtype == F32:
                continue

            def make(kind: str = kind, dtype: Any = dtype) -> dict[str, Any]:
                x = numbers(N, F32).mul(100).to(dtype)
                return {"x": x, "out": torch.zeros(16, dtype=dtype), "n": N, "KIND": kind, "BLOCK": BLOCK}

            yield Case(
                f"atomic {kind} {str(dtype).removeprefix('torch.')}", kernels.atomics, GRID, make,
                lambda args: {"out": _gathered(args["x"], args["KIND"])}, 64 * ULP[F32] if dtype == F32 else None,
            )  # fmt: skip


def _gathered(x: torch.Tensor, kind: str) -> torch.Tensor:
    out = torch.zeros(16, dtype=x.dtype)
    for i, value in enumerate(x):
        at = i % 16
        out[at] = {
            "add": lambda a, b: a + b, "max": torch.maximum, "min": torch.minimum, "xor": lambda a, b: a ^ b,
        }[kind](out[at], value)  # fmt: skip
    return out


def every_case() -> list[Case]:
    made = (
        operators(),
        conversions(),
        functions(),
        rows(),
        products(),
        reductions(),
        random_numbers(),
        gathered_atomics(),
    )
    return [case for group in made for case in group]
