"""Who uses each layout, and what they call it."""

from chapters.statement import Statement
from mxassay.layouts import LAYOUTS

_EMULATED = Statement(
    "certain",
    "AMD's prebuilt f4gemm kernels and what Triton 3.9 compiles for gfx950 give bit-exact products on an emulated "
    "card that uses these maps.",
    "gfx950",
    "tests",
)

USERS: dict[str, tuple[Statement, ...]] = {
    "PACKING": (
        Statement("certain", "PyTorch: dtype `float4_e2m1fn_x2`, one byte for two codes.", "pytorch"),
        Statement("certain", "aiter: `fp4x2`, made by `pack_uint4`.", "aiter-fp4"),
        Statement("certain", "Triton: `e2m1` operands of `tl.dot_scaled`, packed along K.", "triton-tutorial"),
        Statement("certain", "The contest: `B_q`.", "contest"),
        Statement(
            "certain", "The hardware: `v_cvt_scalef32_pk_fp4_*` writes element 0 to bits 3:0 of the byte.", "isa"
        ),
    ),
    "WEIGHT_PRESHUFFLE": (
        Statement(
            "certain", "aiter: `shuffle_weight(w, layout=(16, 16))`; kernels say `bpreshuffle`.", "aiter-shuffle"
        ),
        Statement(
            "certain",
            "AMD's f4gemm code objects named `BpreShuffle` read it.",
            "aiter-f4gemm",
            "run by the tests of hosting/",
        ),
        Statement("certain", "The contest: `B_shuffle`.", "contest"),
        Statement(
            "inferred",
            "Composable Kernel: the flatmm weight shuffle, N0 × K0 × KLane 4 × NLane 16 × KPack 16 bytes. It names the "
            "same order wherever K is a multiple of 128, since 4 lanes of 16 bytes are two of our k tiles.",
            "ck",
        ),
        Statement(
            "inferred",
            "Modular's Mojo kernels: `Shuffler.preshuffle_b_5d`, with Composable Kernel's five factors.",
            "modular",
        ),
        Statement(
            "unknown",
            "hipBLASLt: matrix order `HIPBLASLT_ORDER_COL16_4R32` for FP4. Read like its siblings (16 columns, four "
            "runs of 32 rows) it is this order; the header's own comment speaks of 32 columns.",
            "hipblaslt",
        ),
        Statement("certain", "Triton's tutorial leaves the weights row-major.", "triton-tutorial"),
    ),
    "SCALE_SHUFFLE": (
        Statement("certain", "aiter: `e8m0_shuffle`, which is `shuffle_scale`.", "aiter-shuffle"),
        Statement(
            "certain",
            "AMD's f4gemm code objects read both scale tables in it.",
            "aiter-f4gemm",
            "run by the tests of hosting/",
        ),
        Statement("certain", "The contest: `B_scale_sh`.", "contest"),
        Statement(
            "certain",
            "Triton's tutorial: `shuffle_scales_cdna4(scales, mfma_nonkdim=16)`, seen as a tensor of R/32 rows. With "
            "`mfma_nonkdim=32` it makes another order, which is not this layout.",
            "triton-tutorial",
        ),
        Statement(
            "certain",
            "triton_kernels: `CDNA4MXScaleLayout`, which pads rows to 32 instead of 256 and stores the transposed "
            "view.",
            "triton-kernels",
        ),
        Statement(
            "certain",
            "hipBLASLt: scale mode `HIPBLASLT_MATMUL_MATRIX_SCALE_BLK32_UE8M0_32_8_EXT`. It is not "
            "the mode `…_VEC32_UE8M0`, which its header describes without a swizzle.",
            "xla",
            "SwizzleHipblasLtScale32x8 and its test",
        ),
        Statement("certain", "Composable Kernel: `preShuffleScaleBuffer`, with packs of 2 × 2.", "ck"),
        Statement("inferred", "Modular's Mojo kernels: `Shuffler.preshuffle_scale_4d`.", "modular"),
    ),
}


def triton_name(name: str) -> str:
    """What Triton's intermediate language calls a register map, as it prints it."""
    _, shape, operand = name.split("_")
    instruction = f"instrShape = [{shape.lower().replace('x', ', ')}]"
    if operand in ("A", "B"):
        return f"#ttg.dot_op<{{opIdx = {'AB'.index(operand)}, parent = #mma, kWidth = 16}}>"
    return f"lane = {_lane_bases(name)}" if operand == "SCALE" else instruction


def _lane_bases(name: str) -> list[list[int]]:
    """The coordinates that each bit of the lane number adds: Triton's linear layouts say it so."""
    bound = LAYOUTS[name].bind(LAYOUTS[name].fixed_shape or ())
    return [list(bound.coords(1 << bit)) for bit in range(6)]


def _register_map(name: str) -> tuple[Statement, ...]:
    _, shape, operand = name.split("_")
    shape = shape.lower()
    words = triton_name(name)
    mma = f"`#ttg.amd_mfma<{{version = 4, {triton_name(f'MFMA_{shape.upper()}_D')}, …}}>`"
    triton = {
        "A": f"Triton: `{words}`, where `#mma` is {mma}.",
        "B": f"Triton: `{words}`, where `#mma` is {mma}.",
        "SCALE": f"Triton: `#ttg.linear<{{…, {words}, …}}>`, the (row, block) that each bit of the lane number adds.",
        "D": f"Triton: {mma}. With `isTransposed = true`, its usual choice, it exchanges A and B.",
    }[operand]
    intrinsic = f"llvm.amdgcn.mfma.scale.f32.{shape}.f8f6f4"
    builtin = f"__builtin_amdgcn_mfma_scale_f32_{shape}_f8f6f4"
    return (
        Statement("certain", f"The instruction `v_mfma_scale_f32_{shape}_f8f6f4`, whoever issues it.", "isa"),
        Statement("certain", triton, "triton", "compiled for gfx950 and compared by the tests of docs/"),
        Statement("certain", f"LLVM: `{intrinsic}`.", "llvm-intrinsics"),
        Statement("certain", f"HIP and Composable Kernel: `{builtin}`.", "ck"),
        _EMULATED,
    )


def users(name: str) -> tuple[Statement, ...]:
    """The statements for the layout of that name."""
    return USERS[name] if name in USERS else _register_map(name)
