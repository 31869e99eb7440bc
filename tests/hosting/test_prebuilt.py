"""The launch of aiter's prebuilt kernels: tile, grid, kernarg, contract, and the choice of a kernel."""

import struct
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mxassay.errors import ContractError, UnsupportedError
from mxassay.hosting import prebuilt
from mxassay.hosting.prebuilt_choice import PrebuiltKernels, padded_m


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co", (32, 128)),
        ("hsa/gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256.co", (256, 256)),
        ("_ZN5aiter42f4gemm_bf16_per1x32Fp4_BpreShuffle_64x1024E", (64, 1024)),
        ("mine_16x64.hsaco", (16, 64)),
    ],
)
def test_tile_from_the_name(name, tile):
    assert prebuilt.tile_of(name) == tile


@pytest.mark.parametrize("name", ["f4gemm_bf16_per1x32Fp4.co", "32x128_mine.co", "kernel.co"])
def test_a_name_without_a_tile_is_refused(name):
    message = (
        rf"^the name of a prebuilt kernel must end in its tile, as in _32x128\.co, not {name}; "
        r"give the tile: --tile 32x128$"
    )
    with pytest.raises(ContractError, match=message):
        prebuilt.tile_of(name)


def test_plain_weights_are_told_by_the_name():
    assert prebuilt.takes_preshuffled_weights("a/f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128.co")
    assert not prebuilt.takes_preshuffled_weights("BpreShuffle/f4gemm_bf16_per1x32Fp4_noBpreShuffle_256x256.co")


@pytest.mark.parametrize(
    ("shape", "tile", "split", "grid"),
    [
        ((4, 2880, 512), (32, 128), 0, (23, 1, 1)),
        ((33, 2880, 512), (32, 128), 0, (23, 2, 1)),
        ((256, 512, 7168), (128, 512), 2, (1, 2, 4)),
        ((16, 128, 768), (32, 128), 1, (1, 1, 2)),  # 384 of K a split, rounded up to 512
        ((16, 128, 512), (32, 128), 2, (1, 1, 2)),  # 128 a split, rounded up to 256: two are enough
    ],
)
def test_grid(shape, tile, split, grid):
    assert prebuilt.grid_of(*shape, tile, split) == grid


@given(
    st.integers(1, 600), st.integers(1, 5000), st.integers(1, 64), st.sampled_from([(32, 128), (256, 256), (96, 640)])
)
def test_the_grid_covers_every_output_once(m, n, k_blocks, tile):
    x, y, z = prebuilt.grid_of(m, n, 32 * k_blocks, tile)
    assert (x - 1) * tile[1] < n <= x * tile[1]
    assert (y - 1) * tile[0] < m <= y * tile[0]
    assert z == 1


def _problem(m=5, n=32, k=512, split=0, bias=None):
    groups = -(-k // 256) * 8
    return prebuilt.Problem(
        a=torch.zeros(m, k // 2, dtype=torch.uint8),
        a_scales=torch.zeros(256, groups, dtype=torch.uint8),
        b=torch.zeros(n, k // 2, dtype=torch.uint8),
        b_scales=torch.zeros(256, groups, dtype=torch.uint8),
        out=torch.zeros(32, n, dtype=torch.bfloat16),
        bias=bias,
        alpha=1.5,
        beta=-2.0,
        log2_k_split=split,
    )


def test_kernarg_byte_by_byte():
    """Against the layout of aiter's KernelArgs, written out by hand: 16-byte slots, the value at the head of each."""
    problem = _problem(split=3)
    kernarg = prebuilt.kernarg_of(problem, lambda tensor: tensor.data_ptr())
    assert len(kernarg) == 384
    slots = [kernarg[offset : offset + 16] for offset in range(0, 384, 16)]
    tensors = [problem.out, None, problem.a, problem.b]
    expected = [struct.pack("<Q", 0 if tensor is None else tensor.data_ptr()) for tensor in tensors]
    expected += [struct.pack("<f", 1.5), struct.pack("<f", -2.0)]
    expected += [struct.pack("<I", stride) for stride in (32, 0, 32, 0, 512, 0, 512, 0)]  # D, C, A, B
    expected += [struct.pack("<I", size) for size in (5, 32, 512)]
    expected += [struct.pack("<Q", tensor.data_ptr()) for tensor in (problem.a_scales, problem.b_scales)]
    expected += [struct.pack("<I", stride) for stride in (16, 0, 16, 0)]
    expected += [struct.pack("<i", 3)]
    assert slots == [value.ljust(16, b"\0") for value in expected]


def _code(arguments):
    args = tuple(SimpleNamespace(name=name, offset=offset, hidden=False) for name, offset in arguments)
    return SimpleNamespace(kernel=lambda: SimpleNamespace(args=args))


def test_arguments_follow_the_metadata_with_its_padding():
    problem = _problem()
    code = _code([("D", 0), ("pad", 8), ("C", 16), ("pad", 24), ("alpha", 64), ("Kdim", 256)])
    prebuilt.require_a4w4(code)
    assert prebuilt.launch_arguments(code, problem)[1:] == [0, 0, 0, 1.5, 512]
    assert prebuilt.launch_arguments(code, problem)[0] is problem.out


def test_without_metadata_every_field_is_placed():
    triples = prebuilt.launch_arguments(_code([]), _problem())
    assert [(offset, size) for offset, _, size in triples] == [
        (offset, {"q": 8, "f": 4, "I": 4, "i": 4}[form]) for offset, form in prebuilt.FIELDS.values()
    ]


@pytest.mark.parametrize(("name", "offset"), [("A", 48), ("ptr_X", 0)])
def test_other_arguments_are_refused(name, offset):
    with pytest.raises(UnsupportedError, match=rf"not {name} at byte {offset}; is it an f4gemm kernel of gfx950\?$"):
        prebuilt.require_a4w4(_code([(name, offset)]))


@pytest.fixture
def launched(monkeypatch):
    calls = []
    monkeypatch.setattr("mxassay.gfx950.codeobject.load_code_object", lambda path: _code([("D", 0), ("Mdim", 224)]))
    monkeypatch.setattr("mxassay.gfx950.launcher.launch", lambda *args: calls.append(args))
    return calls


def _call(problem, **more):
    p = problem
    return prebuilt.run_a4w4("f4gemm_BpreShuffle_32x128.co", p.a, p.a_scales, p.b, p.b_scales, **more)


def test_run_launches_256_threads_over_the_grid_and_cuts_the_padding(launched):
    out = _call(_problem(m=33, n=160))
    [(_, grid, block, arguments)] = launched
    assert (grid, block) == ((2, 2, 1), (256, 1, 1))
    assert (arguments[0].shape, arguments[1]) == ((64, 160), 33)  # rows padded to 32
    assert out.shape == (33, 160)
    assert out.data_ptr() == arguments[0].data_ptr()


def test_a_split_starts_from_zero(launched):
    out = torch.full((32, 32), float("nan"), dtype=torch.bfloat16)
    assert _call(_problem(), out=out, log2_k_split=1).eq(0).all()


def test_an_explicit_tile_wins(launched):
    _call(_problem(n=160), tile=(32, 64))
    assert launched[0][1] == (3, 1, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": torch.zeros(5, 250, dtype=torch.uint8)}, r"^K must be a multiple of 32, not 500$"),
        ({"a": torch.zeros(5, 256, dtype=torch.int16)}, r"^a must be a contiguous matrix of bytes, not torch\.int16"),
        ({"a": torch.zeros(256, 5, dtype=torch.uint8).T}, r"^a must be a contiguous matrix of bytes"),
        ({"b": torch.zeros(32, 128, dtype=torch.uint8)}, r"^b must have shape \(32, 256\) or more, not \(32, 128\)$"),
        ({"a_scales": torch.zeros(5, 16, dtype=torch.uint8)}, r"^a_scales must have shape \(256, 16\) or more, not"),
        ({"b_scales": torch.zeros(256, 8, dtype=torch.uint8)}, r"^b_scales must have shape \(256, 16\) or more, not"),
    ],
)
def test_contract_of_the_operands(launched, change, message):
    problem = _problem()
    for name, tensor in change.items():
        object.__setattr__(problem, name, tensor)
    with pytest.raises(ContractError, match=message):
        _call(problem)
    assert not launched


def test_contract_of_the_output_and_the_split(launched):
    with pytest.raises(ContractError, match=r"^out must be torch\.bfloat16 of shape \(32, 32\) with unit stride, not"):
        _call(_problem(), out=torch.zeros(5, 32, dtype=torch.bfloat16))
    with pytest.raises(ContractError, match=r"^K must be a multiple of the number of splits, not 512 for 1024$"):
        _call(_problem(), log2_k_split=10)


@given(st.integers(1, 20000), st.integers(1, 10000))
@example(256, 1)
@example(257, 1)
@example(8193, 4097)
@example(8193, 4096)
def test_padded_m(m, n):
    step = 16 if m <= 256 else 32 if m <= 1024 else 64 if m <= 4096 else 128
    fine = padded_m(m, n, 512, 0)
    assert fine % step == 0
    assert 0 <= fine - m < step
    coarse = padded_m(m, n, 512, 1)
    if m > 8192 and n > 4096:
        assert coarse == 8192
    else:
        assert coarse & (coarse - 1) == 0
        assert coarse // 2 < m <= coarse
    assert padded_m(m, n, 512, 2) == m


def test_the_table_chooses_then_a_rounded_m_then_the_tiles(fake_checkout):
    kernels = PrebuiltKernels(fake_checkout)
    exact = kernels.choose(4, 256, 512)
    assert (exact.kernel.tile, exact.reason, exact.log2_k_split) == ((64, 128), "table", 0)
    assert exact.kernel.path == fake_checkout / "hsa/gfx950/f4gemm/f4gemm_BpreShuffle_64x128.co"
    assert kernels.choose(30, 512, 512).kernel.tile == (256, 256)  # the row for M=32
    assert kernels.choose(30, 512, 512).log2_k_split == 1
    scored = kernels.choose(64, 1 << 16, 512)  # 512 tiles of 64x128 take two rounds, 256 of 256x256 take one
    assert (scored.kernel.tile, scored.reason) == ((256, 256), "score")


def test_rows_of_other_cards_do_not_count(fake_checkout):
    assert PrebuiltKernels(fake_checkout).tuned_row(8, 8, 512) is None


def test_a_compiled_row_falls_back_to_the_tiles(fake_checkout):
    choice = PrebuiltKernels(fake_checkout).choose(512, 128, 512)
    assert choice.reason == "score"
    assert choice.kernel.preshuffled


def test_plain_weights_choose_a_plain_kernel(fake_checkout):
    assert not PrebuiltKernels(fake_checkout).choose(4, 256, 512, preshuffled=False).kernel.preshuffled


def test_a_split_needs_a_kernel_that_splits(fake_checkout):
    kernels = PrebuiltKernels(fake_checkout)
    assert kernels.best_tile(4, 256, 512, preshuffled=True, log2_k_split=1).kernel.splits_k
    with pytest.raises(UnsupportedError, match=r"^a prebuilt kernel must exist for preshuffled=False, 2\*\*1 splits"):
        kernels.best_tile(4, 256, 512, preshuffled=False, log2_k_split=1)


def test_an_unlisted_kernel_is_refused(fake_checkout):
    with pytest.raises(
        UnsupportedError, match=r"^a prebuilt kernel must be listed in hsa/.* not be _ZN5aiter9nonsenseE$"
    ):
        PrebuiltKernels(fake_checkout).by_name("_ZN5aiter9nonsenseE")


def test_a_checkout_without_code_objects_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"^an aiter checkout must hold hsa/gfx950/f4gemm/.*; fetch it whole$"):
        PrebuiltKernels(tmp_path)
