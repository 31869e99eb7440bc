"""What a statement may cite: each source with an address where a reader can open it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """`title` as it appears in the text, `url` where it is, `what` it is good for."""

    title: str
    url: str
    what: str


_AITER = "https://github.com/ROCm/aiter/blob/e4048607a535ace3a2b51ded31b1c8c2d45c0879"
_HERE = "the source tree of mxassay"

SOURCES: dict[str, Source] = {
    "ocp": Source(
        "OCP MX specification 1.0",
        "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf",
        "The formats E2M1 and E8M0, the block of 32, what conversion must keep.",
    ),
    "isa": Source(
        "AMD CDNA4 ISA",
        "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/instruction-set-architectures/"
        "amd-instinct-cdna4-instruction-set-architecture.pdf",
        "Instructions, their operands, register layouts and pseudocode.",
    ),
    "hazards": Source(
        "LLVM pull request 117844",
        "https://github.com/llvm/llvm-project/pull/117844",
        "AMD's notes on wait states of gfx950; 118589 and 140218 continue it.",
    ),
    "llvm": Source(
        "LLVM GCNHazardRecognizer.cpp",
        "https://github.com/llvm/llvm-project/blob/main/llvm/lib/Target/AMDGPU/GCNHazardRecognizer.cpp",
        "Where the compiler inserts wait states.",
    ),
    "llvm-intrinsics": Source(
        "LLVM IntrinsicsAMDGPU.td",
        "https://github.com/llvm/llvm-project/blob/main/llvm/include/llvm/IR/IntrinsicsAMDGPU.td",
        "The compiler's names of the instructions.",
    ),
    "hip": Source(
        "HIP FP4 header",
        "https://github.com/ROCm/clr/blob/amd-staging/hipamd/include/hip/amd_detail/amd_hip_fp4.h",
        "AMD's conversion in software, on the host.",
    ),
    "ck": Source(
        "Composable Kernel",
        "https://github.com/ROCm/composable_kernel",
        "AMD's C++ kernels: preShuffleScaleBuffer and the flatmm weight shuffle for gfx950.",
    ),
    "rocjitsu": Source(
        "rocjitsu",
        "https://github.com/ROCm/rocm-systems",
        "AMD's emulator, which lists gfx950 as beta.",
    ),
    "hipblaslt": Source(
        "hipBLASLt",
        "https://github.com/ROCm/rocm-libraries/blob/develop/projects/hipblaslt/library/include/hipblaslt/hipblaslt.h",
        "Scale modes and matrix orders of AMD's BLAS library.",
    ),
    "xla": Source(
        "ROCm/xla",
        "https://github.com/ROCm/xla/blob/d836321e8cdfc8ecd086091b6dd44e9d2a301a75/xla/backends/gpu/autotuner/"
        "hipblaslt_scale_utils.cc",
        "How XLA prepares scales for hipBLASLt, with the byte order in its test.",
    ),
    "aiter-shuffle": Source(
        "aiter ops/shuffle.py", f"{_AITER}/aiter/ops/shuffle.py", "shuffle_weight and shuffle_scale of AMD's aiter."
    ),
    "aiter-fp4": Source(
        "aiter fp4_utils.py",
        f"{_AITER}/aiter/utility/fp4_utils.py",
        "e8m0_shuffle, packing, the scale rules on the host.",
    ),
    "aiter-mx": Source(
        "aiter mx_types.py", f"{_AITER}/aiter/utility/mx_types.py", "The names of aiter's rounding modes, its default."
    ),
    "aiter-quant": Source(
        "aiter Triton quant.py",
        f"{_AITER}/aiter/ops/triton/_triton_kernels/quant/quant.py",
        "_mxfp4_quant_op, the rule EVEN on the device.",
    ),
    "aiter-quant-hip": Source(
        "aiter quant_mxfp4.cu",
        f"{_AITER}/csrc/kernels/quant_mxfp4.cu",
        "A quantizer in HIP, with the conversion instruction.",
    ),
    "aiter-f4gemm": Source(
        "aiter f4gemm",
        "https://github.com/ROCm/aiter/tree/e4048607a535ace3a2b51ded31b1c8c2d45c0879/hsa/gfx950/f4gemm",
        "AMD's prebuilt gfx950 kernels and the table that chooses among them.",
    ),
    "triton-tutorial": Source(
        "Triton tutorial 10",
        "https://triton-lang.org/main/getting-started/tutorials/10-block-scaled-matmul.html",
        "tl.dot_scaled with shuffled scales on CDNA4.",
    ),
    "triton": Source(
        "Triton TritonGPUAttrDefs.td",
        "https://github.com/triton-lang/triton/blob/main/include/triton/Dialect/TritonGPU/IR/TritonGPUAttrDefs.td",
        "The layouts of Triton's intermediate language, amd_mfma and linear among them.",
    ),
    "triton-kernels": Source(
        "triton_kernels cdna4_scale.py",
        "https://github.com/triton-lang/triton/blob/5896368e186b46fcab4b1e553593e89af6bbfec2/python/triton_kernels/"
        "triton_kernels/tensor_details/layout_details/cdna4_scale.py",
        "CDNA4MXScaleLayout.",
    ),
    "modular": Source(
        "Modular mxfp4_preshuffle_layouts",
        "https://docs.modular.com/max/api/kernels/linalg/matmul/gpu/amd/mxfp4_preshuffle_layouts/",
        "Mojo's shuffles for CDNA4.",
    ),
    "contest": Source(
        "GPU MODE amd-mxfp4-mm",
        "https://github.com/gpu-mode/reference-kernels/tree/9361aad4f22df3057bd2b439f3ef16566e83bf88/problems/"
        "amd_202602/mxfp4-mm",
        "The contest: its inputs, shapes and checker.",
    ),
    "torchao": Source(
        "torchao mx_tensor.py",
        "https://github.com/pytorch/ao/blob/main/torchao/prototype/mx_formats/mx_tensor.py",
        "to_mx, whose scale rules three dialects follow.",
    ),
    "ml-dtypes": Source(
        "ml_dtypes", "https://github.com/jax-ml/ml_dtypes", "float4_e2m1fn and float8_e8m0fnu for numpy."
    ),
    "pytorch": Source(
        "PyTorch float4_e2m1fn_x2",
        "https://github.com/pytorch/pytorch/blob/main/torch/headeronly/util/Float4_e2m1fn_x2.h",
        "The dtype of packed codes.",
    ),
    "cublas": Source(
        "cuBLAS block scaling",
        "https://docs.nvidia.com/cuda/cublas/index.html#d-block-scaling-for-fp8-and-fp4-data-types",
        "NVIDIA's rule for scales.",
    ),
    "mma-sim": Source(
        "MMA-Sim",
        "https://arxiv.org/abs/2511.10909",
        "How matrix units up to MI300X were measured to add.",
    ),
    "ieee": Source("IEEE 754-2019", "https://doi.org/10.1109/IEEESTD.2019.8766229", "Rounding and the sign of zero."),
    "certificate": Source(
        "reference/exactness.py", "", f"The proof of the certificate and of the bound, in {_HERE}; its tests try both."
    ),
    "layouts": Source("layouts/", "", f"The declarations that these pages are made from, in {_HERE}."),
    "reference": Source("reference/", "", f"Formats, dialects and the model of the conversion, in {_HERE}."),
    "gfx950": Source("gfx950/", "", f"The emulated card, in {_HERE}; `mxassay isa` prints what it is sure of."),
}


def link(key: str, where: str = "") -> str:
    """A Markdown reference to the entry of the page of sources; `where` says what part of it."""
    source = SOURCES[key]
    shown = f"[{source.title}](sources.md#{key})"
    return f"{shown}, {where}" if where else shown


def page() -> str:
    """spec/sources.md."""
    lines = ["# Sources", "", "What the statements of this specification rest on, and where to open it.", ""]
    for key, source in SOURCES.items():
        name = f"[{source.title}]({source.url})" if source.url else f"`{source.title}`"
        lines += [f"({key})=", f"## {source.title}", "", f"{name}. {source.what}", ""]
    return "\n".join(lines).rstrip() + "\n"
