"""What the model of time takes for granted: every number with its unit, where it comes from and how sure it is.

certain: stated by AMD, or following from what AMD states. inferred: measured or stated for a near relative, or drawn
from published timings. unknown: nobody says; a declared policy of ours.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["CARD", "Assumption", "Card"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """One number. `how`: "certain", "inferred" or "unknown"."""

    value: float
    unit: str
    how: str
    source: str


_DATA_SHEET = "AMD Instinct MI355X data sheet"
_TUNED = "aiter, configs/a4w4_blockscale_tuned_gemm.csv (times of prebuilt kernels on an MI355X)"
_MI308X = "github.com/tingqli/pyhip docs/mem_latency.md: measured with s_memtime on MI308X (CDNA3)"
_LLVM_TRACES = "LLVM PR #233721: rules fitted to thread traces taken on MI350X"


@dataclass(frozen=True)
class Card:
    """An MI355X as the model sees it. `but` changes numbers; `rows` lists them for people and documents."""

    clock: Assumption = Assumption(2.4e9, "Hz", "certain", f"{_DATA_SHEET}: peak engine clock; never below it here")
    compute_units: Assumption = Assumption(256, "", "certain", f"{_DATA_SHEET}; ROCm, AMD GPU specifications")
    dies: Assumption = Assumption(8, "XCDs", "certain", f"{_DATA_SHEET}; 32 compute units each")
    simds: Assumption = Assumption(4, "per CU", "certain", "ROCm Compute Profiler, Pipeline descriptions: VALU")
    issue: Assumption = Assumption(
        4, "cycles", "certain",
        "ROCm Compute Profiler, Pipeline descriptions: 64 lanes on 16-wide SIMDs; a wave issues once in 4 cycles",
    )  # fmt: skip
    slow_vector: Assumption = Assumption(
        16,
        "cycles",
        "inferred",
        "LLVM SISchedule.td: WriteTrans32, WriteQuarterRate32 (transcendentals, 32-bit multiply)",
    )
    conversion: Assumption = Assumption(
        4,
        "cycles",
        "unknown",
        "v_cvt_scalef32_*: no public figure; taken as full rate, LLVM's default",
    )
    after_matrix: Assumption = Assumption(
        8, "cycles", "inferred", f"{_LLVM_TRACES}: the next VALU issues 1 + (16 bytes of source) / 16 slots later"
    )
    fp4_flops: Assumption = Assumption(
        4096, "FLOP/cycle/SIMD", "certain", f"{_DATA_SHEET}: 10.07 PFLOP/s MXFP4 and MXFP6, dense; so 16 or 32 cycles"
    )
    fp8_flops: Assumption = Assumption(2048, "FLOP/cycle/SIMD", "certain", f"{_DATA_SHEET}: 5.03 PFLOP/s FP8 and INT8")
    half_flops: Assumption = Assumption(1024, "FLOP/cycle/SIMD", "certain", f"{_DATA_SHEET}: 2.5 PFLOP/s FP16, BF16")
    single_flops: Assumption = Assumption(64, "FLOP/cycle/SIMD", "certain", f"{_DATA_SHEET}: 157.3 TFLOP/s FP32 matrix")
    double_flops: Assumption = Assumption(32, "FLOP/cycle/SIMD", "certain", f"{_DATA_SHEET}: 78.6 TFLOP/s FP64 matrix")
    memory_latency: Assumption = Assumption(
        800, "cycles", "inferred",
        f"{_MI308X}: 500 to 800; and {_TUNED}: 0.32 us a step of K where few workgroups run. Cold memory: caches are "
        "flushed between the repeats of the contest and of aiter",
    )  # fmt: skip
    scalar_latency: Assumption = Assumption(
        800, "cycles", "unknown", "a scalar load of kernel arguments nobody has read before; taken as cold memory too"
    )
    preload: Assumption = Assumption(
        256, "B", "inferred",
        "LLVM AMDGPUUsage, \"Preloaded Kernel Arguments\": firmware that can skips the 256 bytes that load what it put "
        "into SGPRs. ROCm/hipBLASLt #1912 turned it on for gfx950, and ROCm's blit kernels use it there "
        "(ROCm/rocm-systems #10146, which suspects a fault of it). 0: no kernel is entered so",
    )  # fmt: skip
    lds_latency: Assumption = Assumption(64, "cycles", "inferred", f"{_MI308X}: 64 for 16 bytes a lane, 52 for 4")
    barrier: Assumption = Assumption(0, "cycles", "unknown", "beyond waiting for the last wave")
    lds_bytes: Assumption = Assumption(
        256,
        "B/cycle/CU",
        "inferred",
        "Chips and Cheese, AMD's CDNA 4 Architecture Announcement: doubled",
    )
    l1_bytes: Assumption = Assumption(64, "B/cycle/CU", "inferred", "AMD CDNA 3 white paper; CDNA 4 is said to keep it")
    l2_bytes: Assumption = Assumption(
        2048, "B/cycle/XCD", "inferred", "AMD CDNA 3 white paper: 16 channels of 128 bytes; CDNA 4 is said to keep it"
    )
    fabric_bytes: Assumption = Assumption(
        17.2e12, "B/s", "inferred", "AMD CDNA 3 white paper: peak of the Infinity Cache of MI300X; CDNA 4 says more"
    )
    memory_bytes: Assumption = Assumption(
        6.15e12, "B/s", "inferred", f"{_TUNED}: the best of its rows, (32, 106496, 16384), of 8 TB/s on the data sheet"
    )
    launch: Assumption = Assumption(
        2.2e-6, "s", "inferred",
        "aiter, flydsl/kernels/fused_compress_attn.py: \"~2.2us launch floor\" a dispatch on MI355X; "
        f"{_TUNED}: no row below 3.5 us",
    )  # fmt: skip

    def __getitem__(self, name: str) -> float:
        found: Assumption = getattr(self, name)
        return found.value

    def but(self, **values: float) -> "Card":
        """This card with other numbers, marked as the caller's."""
        changed = {
            name: replace(getattr(self, name), value=value, how="inferred", source="chosen by the caller")
            for name, value in values.items()
        }
        return replace(self, **changed)

    def rows(self) -> list[dict[str, Any]]:
        """Name, value, unit, how and source of every assumption."""
        found = []
        for field in fields(self):
            entry: Assumption = getattr(self, field.name)
            found.append({
                "name": field.name, "value": entry.value, "unit": entry.unit, "how": entry.how, "source": entry.source,
            })  # fmt: skip
        return found


CARD = Card()

NOT_MODELLED = (
    "misses of the instruction cache (a kernel of some kilobytes is fetched cold by every CU)",
    "address translation",
    "clocks below the peak under power limits",
    "the time between two launches of one call beyond the launch floor",
    "contention inside a bound other than by adding up its work; atomics on one address, one after another",
    "what is set up once and kept for later calls, such as counters",
)
"""What happens on a card and is in no number here."""
