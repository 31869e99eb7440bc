"""Launch plans: what a plan says, the table for the contest's shapes, and the rule for every other shape."""

from dataclasses import MISSING, dataclass, fields

from mxassay.errors import ContractError

Shape = tuple[int, int, int]  # (M, N, K)

LEADERBOARD: tuple[Shape, ...] = (
    (4, 2880, 512),
    (16, 2112, 7168),
    (32, 4096, 512),
    (32, 2880, 512),
    (64, 7168, 2048),
    (256, 3072, 1536),
)
"""The benchmark shapes of the GPU MODE contest "amd-mxfp4-mm"."""

TEST_SHAPES: tuple[Shape, ...] = ((8, 2112, 7168), (16, 3072, 1536), (64, 3072, 1536), (256, 2880, 512))
"""The shapes on which that contest checks results."""

COMPUTE_UNITS = 256  # AMD Instinct MI355X data sheet


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one GEMM is launched. A plan holds no shape: every legal plan is right for every legal shape.

    tile_m, tile_n, tile_k: output tile and depth of one step, powers of two. With preshuffled weights, scales are read
        by wide loads when tile_n % 32 == 0 and tile_k % 256 == 0, and gathered otherwise.
    group_m: rows of tiles in one band of the grouped order.
    splits: ranges of K wished for; `split_k.reconcile` fits it to K.
    num_warps, num_stages: as in Triton.
    waves_per_eu (0 = the compiler's choice), matrix_instr_nonkdim (16 or 32, the side of one MFMA): options of the HIP
        backend, without effect elsewhere. A tile_k of 64 needs the 32x32x64 MFMA, and counts as 128 on CUDA.
    linear: bring weights and scales into row-major order before the launch, instead of reading them preshuffled.
    direct: on gfx950, where the launch fits it, the kernel of `direct_gemm`: tile_m a multiple of 16, tile_n of 32 for
        each warp, tile_k of 256. On NVIDIA Hopper the kernels of `hopper`, with tiles of their own. Elsewhere, and for
        strided activations, the usual kernel with the same tiles.
    joined: that kernel sums its splits in the same launch, by the workgroup that comes last to a tile, in the order and
        so to the bits of the launch that does so otherwise: without `direct`, with more partials than registers, and
        while a graph is captured. Counters are kept between calls, see `arrivals`.

    What is refused would make Triton leave the scaled MFMA for bfloat16, whose range is too small for every scale, or
    would not fit in registers and LDS.

    Raises ContractError naming the field that is out of range.

    >>> Plan(tile_m=16, tile_n=128, tile_k=256, splits=3).splits
    3
    """

    tile_m: int
    tile_n: int
    tile_k: int
    group_m: int = 1
    splits: int = 1
    num_warps: int = 4
    num_stages: int = 2
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 16
    linear: bool = False
    direct: bool = False
    joined: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value, expected = getattr(self, field.name), bool if field.name in ("linear", "direct", "joined") else int
            if type(value) is not expected:
                raise ContractError(
                    f"Plan.{field.name} must be of type {expected.__name__}, not {type(value).__name__}"
                )
        for name, lowest, highest in _POWERS_OF_TWO:
            value = getattr(self, name)
            if not lowest <= value <= highest or value & (value - 1):
                raise ContractError(f"Plan.{name} must be a power of two in {lowest}..{highest}, not {value}")
        for name, lowest, highest in _RANGES:
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise ContractError(f"Plan.{name} must be in {lowest}..{highest}, not {value}")
        if self.matrix_instr_nonkdim not in (16, 32):
            raise ContractError(f"Plan.matrix_instr_nonkdim must be 16 or 32, not {self.matrix_instr_nonkdim}")
        if self.tile_k == 64 and self.matrix_instr_nonkdim != 32:
            raise ContractError("Plan.tile_k must be at least 128, not 64, unless matrix_instr_nonkdim is 32")
        if self.direct and (self.linear or self.tile_m < 16 or self.tile_n < 32 * self.num_warps or self.tile_k < 256):
            raise ContractError(
                "Plan.direct must go with preshuffled weights, tile_m of 16, tile_n of 32 for each warp and tile_k of "
                f"256 at least, not {self.words}"
            )
        for one, other, most in _AREAS:
            area = getattr(self, one) * getattr(self, other)
            if area > most:
                raise ContractError(
                    f"Plan.{one} * Plan.{other} must be at most {most}, not {area}; take a smaller tile"
                )

    @property
    def words(self) -> str:
        """The plan in a few words, for tables: what differs from the defaults.

        >>> Plan(tile_m=8, tile_n=128, tile_k=512, splits=7).words
        '8x128x512 splits=7'
        """
        changed = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if field.default is not MISSING and getattr(self, field.name) != field.default
        ]
        return " ".join([f"{self.tile_m}x{self.tile_n}x{self.tile_k}", *changed])


# tile_n: a stripe of the preshuffle has 16 rows. num_warps: Triton 3.9 uses no scaled MFMA with a single warp.
_POWERS_OF_TWO = (("tile_m", 1, 256), ("tile_n", 16, 256), ("tile_k", 64, 1024), ("num_warps", 2, 16))
_RANGES = (("group_m", 1, 1 << 16), ("splits", 1, 1 << 16), ("num_stages", 1, 4), ("waves_per_eu", 0, 8))
# The largest tiles that Triton 3.9 compiled for gfx950 without spills, with 8 warps and 2 stages.
_AREAS = (("tile_m", "tile_n", 1 << 15), ("tile_m", "tile_k", 1 << 15), ("tile_n", "tile_k", 1 << 17))

# By counts of executed instructions and the stated model of time (`mxassay bench gfx950`): at most half of the contest
# entry's vector ALU instructions an MFMA, and less modelled time on each shape. Nobody has timed it on an MI355X.
_TABLE: dict[Shape, Plan] = {
    (4, 2880, 512): Plan(tile_m=16, tile_n=128, tile_k=512, direct=True),
    (16, 2112, 7168): Plan(tile_m=16, tile_n=256, tile_k=512, splits=7, num_warps=8, direct=True, joined=True),
    (32, 4096, 512): Plan(tile_m=16, tile_n=128, tile_k=512, direct=True),
    (32, 2880, 512): Plan(tile_m=16, tile_n=128, tile_k=512, direct=True),
    (64, 7168, 2048): Plan(tile_m=16, tile_n=128, tile_k=512, waves_per_eu=1, direct=True),
    (256, 3072, 1536): Plan(tile_m=16, tile_n=256, tile_k=512, group_m=8, num_warps=8, direct=True),
    (8, 2112, 7168): Plan(tile_m=16, tile_n=256, tile_k=512, splits=7, num_warps=8, direct=True, joined=True),
    (16, 3072, 1536): Plan(tile_m=16, tile_n=128, tile_k=512, direct=True),
    (64, 3072, 1536): Plan(tile_m=16, tile_n=128, tile_k=512, group_m=4, direct=True),
    (256, 2880, 512): Plan(tile_m=16, tile_n=128, tile_k=512, group_m=8, direct=True),
}


def plan_for(m: int, n: int, k: int) -> Plan:
    """The plan for a shape: from the table, else by rule. Never fails on a legal shape (m >= 0, n >= 1, k >= 1).

    The rule: tiles as tall as M up to 64 rows; 128 columns, 64 when that would leave compute units idle; a depth of
    256; then as many splits of at least two steps as fill the compute units, at most 16.

    Raises ContractError on a negative or zero size.

    >>> plan_for(16, 2112, 7168).splits
    7
    >>> plan_for(1, 512, 16384)
    Plan(tile_m=4, tile_n=64, tile_k=256, group_m=1, splits=16, num_warps=4, num_stages=2, waves_per_eu=0, \
matrix_instr_nonkdim=16, linear=False, direct=False, joined=False)
    """
    for name, value, least in (("m", m, 0), ("n", n, 1), ("k", k, 1)):
        if value < least:
            raise ContractError(f"{name} must be at least {least}, not {value}")
    return _TABLE.get((m, n, k)) or _plan_by_rule(m, n, k)


def _plan_by_rule(m: int, n: int, k: int) -> Plan:
    tile_m = min(64, max(4, 1 << max(m - 1, 0).bit_length()))
    tile_n = 128
    tile_k = 256
    tiles_m = max(1, -(-m // tile_m))
    if tiles_m * -(-n // tile_n) < COMPUTE_UNITS:
        tile_n = 64
    tiles = tiles_m * -(-n // tile_n)
    steps = -(-k // tile_k)
    splits = max(1, min(COMPUTE_UNITS // tiles, steps // 2, 16))
    return Plan(tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, group_m=min(8, tiles_m), splits=splits)
