"""The words of every refusal, in full."""

import re

import numpy as np
import pytest
import torch

from mxassay.errors import ContractError
from mxassay.layouts import (
    MFMA_16X16X128_A,
    MFMA_16X16X128_D,
    PACKING,
    SCALE_SHUFFLE,
    WEIGHT_PRESHUFFLE,
    LayoutError,
    explain,
)


def refuses(words):
    return pytest.raises(LayoutError, match=f"^{re.escape(words)}$")


def test_a_layout_error_is_a_contract_error():
    assert issubclass(LayoutError, ContractError)


@pytest.mark.parametrize(
    ("layout", "shape", "words"),
    [
        (
            WEIGHT_PRESHUFFLE,
            (2890, 256),
            "WEIGHT_PRESHUFFLE: axis n must be a multiple of 16, not 2890; pad N to 2896",
        ),
        (
            WEIGHT_PRESHUFFLE,
            (2880, 240),
            "WEIGHT_PRESHUFFLE: axis kb must be a multiple of 32, not 240; pad KB to 256",
        ),
        (
            WEIGHT_PRESHUFFLE,
            (8, 1, 32),
            "WEIGHT_PRESHUFFLE: axis n must be a multiple of 16, not 1; pad N to 16",
        ),
        (
            WEIGHT_PRESHUFFLE,
            (32,),
            "WEIGHT_PRESHUFFLE: shape must be (..., N, KB), not (32,); pass at least 2 dimensions",
        ),
        (PACKING, (4, 33), "PACKING: axis k must be a multiple of 2, not 33; pad K to 34"),
        (PACKING, (), "PACKING: shape must be (..., K), not (); pass at least 1 dimension"),
        (SCALE_SHUFFLE, (1, 4, 8), "SCALE_SHUFFLE: shape must be (R, G), not (1, 4, 8); pass 2 dimensions"),
        (SCALE_SHUFFLE, (4, -8), "SCALE_SHUFFLE: every extent must be 0 or more, not -8 in (4, -8)"),
        (SCALE_SHUFFLE, (4.5, 8), "SCALE_SHUFFLE: shape must be a sequence of integers, not (4.5, 8)"),
        (
            MFMA_16X16X128_A,
            (16, 64),
            "MFMA_16X16X128_A: axis k must be 128, not 64; this layout exists for shape (16, 128) alone",
        ),
        (
            MFMA_16X16X128_D,
            (32, 16),
            "MFMA_16X16X128_D: axis i must be 16, not 32; this layout exists for shape (16, 16) alone",
        ),
    ],
)
def test_shapes(layout, shape, words):
    with refuses(words):
        layout.bind(shape)


def test_apply_refuses_a_bad_shape_like_bind():
    with refuses("WEIGHT_PRESHUFFLE: axis n must be a multiple of 16, not 17; pad N to 32"):
        WEIGHT_PRESHUFFLE.apply(torch.zeros(17, 32, dtype=torch.uint8))


def test_invert_refuses_a_bad_shape():
    with refuses("WEIGHT_PRESHUFFLE: axis kb must be a multiple of 32, not 33; pad KB to 64"):
        WEIGHT_PRESHUFFLE.invert(torch.zeros(16, 33, dtype=torch.uint8))
    with refuses("PACKING: shape must be (..., K), not (); pass at least 1 dimension"):
        PACKING.invert(torch.tensor(0, dtype=torch.uint8))


@pytest.mark.parametrize("extra", [0, 1])
def test_every_extent_around_a_multiple(extra):
    for n in range(16 * 3 + 1):
        if n % 16:
            with refuses(f"WEIGHT_PRESHUFFLE: axis n must be a multiple of 16, not {n}; pad N to {(n // 16 + 1) * 16}"):
                WEIGHT_PRESHUFFLE.bind((n, 32 * extra))
        else:
            assert WEIGHT_PRESHUFFLE.bind((n, 32 * extra)).shape == (n, 32 * extra)


def test_tensor_of_another_shape():
    bound = SCALE_SHUFFLE.bind((4, 8))
    with refuses("SCALE_SHUFFLE: tensor must have shape (4, 8), not (4, 9); bind the shape that it has"):
        bound.apply(torch.zeros(4, 9, dtype=torch.uint8))
    with refuses("SCALE_SHUFFLE: tensor must have shape (256, 8), not (4, 8); bind the shape that it has"):
        bound.invert(torch.zeros(4, 8, dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_wide_dtypes_are_refused_by_byte_layouts(dtype):
    width = dtype.itemsize
    words = f"WEIGHT_PRESHUFFLE: dtype must be a one-byte type, not {dtype} ({width} bytes); view it, don't convert it"
    with refuses(words):
        WEIGHT_PRESHUFFLE.apply(torch.zeros(16, 32, dtype=dtype))
    with refuses(words):
        WEIGHT_PRESHUFFLE.invert(torch.zeros(16, 32, dtype=dtype))


def test_narrow_dtypes_are_refused_by_float32_layouts():
    with refuses(
        "MFMA_16X16X128_D: dtype must be a 4-byte type, not torch.bfloat16 (2 bytes); view it, don't convert it"
    ):
        MFMA_16X16X128_D.apply(torch.zeros(16, 16, dtype=torch.bfloat16))


def test_codes_are_uint8_below_16():
    with refuses("PACKING: codes must be torch.uint8, not torch.int8; pass one 4-bit code in each byte"):
        PACKING.apply(torch.zeros(2, dtype=torch.int8))
    with refuses("PACKING: codes must be 0..15, not 16; this tensor may be packed already"):
        PACKING.apply(torch.tensor([3, 16], dtype=torch.uint8))
    assert PACKING.apply(torch.tensor([15, 15], dtype=torch.uint8)).tolist() == [255]


def test_fill_is_a_raw_element():
    with refuses("SCALE_SHUFFLE: fill must be in range(256), not 256"):
        SCALE_SHUFFLE.apply(torch.zeros(4, 8, dtype=torch.uint8), fill=256)
    with refuses("SCALE_SHUFFLE: fill must be in range(256), not -1"):
        SCALE_SHUFFLE.apply(torch.zeros(4, 8, dtype=torch.uint8), fill=-1)
    with refuses("SCALE_SHUFFLE: fill must be an integer, not 0.5"):
        SCALE_SHUFFLE.apply(torch.zeros(4, 8, dtype=torch.uint8), fill=0.5)


def test_what_is_no_dense_tensor():
    with refuses("SCALE_SHUFFLE: tensor must be a torch.Tensor, not numpy.ndarray; use torch.as_tensor"):
        SCALE_SHUFFLE.apply(np.zeros((4, 8), dtype=np.uint8))
    with refuses("SCALE_SHUFFLE: tensor must be a torch.Tensor, not list; use torch.as_tensor"):
        SCALE_SHUFFLE.invert([[0]])
    with refuses("SCALE_SHUFFLE: tensor must be dense, not torch.sparse_coo; call to_dense() first"):
        SCALE_SHUFFLE.apply(torch.zeros(4, 8, dtype=torch.uint8).to_sparse())


@pytest.mark.parametrize(
    ("coords", "words"),
    [
        ((256, 0), "SCALE_SHUFFLE: coordinate r must be in range(256), not 256"),
        ((0, 16), "SCALE_SHUFFLE: coordinate g must be in range(16), not 16"),
        ((-1, 0), "SCALE_SHUFFLE: coordinate r must be in range(256), not -1"),
        ((0, 1.0), "SCALE_SHUFFLE: coordinate g must be an integer, not 1.0"),
        ((0,), "SCALE_SHUFFLE: coordinates must be 2 numbers (R, G), not 1 (0)"),
        ((0, 1, 2), "SCALE_SHUFFLE: coordinates must be 2 numbers (R, G), not 3 (0, 1, 2)"),
    ],
)
def test_coordinates(coords, words):
    bound = SCALE_SHUFFLE.bind((4, 9))
    for ask in (bound.offset, bound.place, bound.is_padding):
        with refuses(words):
            ask(coords)


def test_leading_coordinates_are_checked_too():
    with refuses("WEIGHT_PRESHUFFLE: coordinate of dimension 0 must be in range(3), not 3"):
        WEIGHT_PRESHUFFLE.bind((3, 16, 32)).offset((3, 0, 0))


@pytest.mark.parametrize("offset", [-1, 4096])
def test_offsets(offset):
    with refuses(f"SCALE_SHUFFLE: offset must be in range(4096), not {offset}"):
        SCALE_SHUFFLE.bind((4, 9)).coords(offset)


def test_numpy_and_torch_integers_are_integers():
    bound = SCALE_SHUFFLE.bind((np.int64(4), 9))
    assert bound.shape == (4, 9)
    assert bound.offset((np.int32(1), torch.tensor(9))) == 324


def test_places_by_name():
    bound = MFMA_16X16X128_A.bind((16, 128))
    with refuses("MFMA_16X16X128_A: places must be lane, vgpr, nibble, not lane"):
        bound.at(lane=0)
    with refuses("MFMA_16X16X128_A: places must be lane, vgpr, nibble, not none"):
        bound.at()
    with refuses("MFMA_16X16X128_A: lane must be in range(64), not 64"):
        bound.at(lane=64, vgpr=0, nibble=0)
    with refuses("MFMA_16X16X128_A: place must be one of ['lane', 'vgpr', 'nibble'], not 'byte'"):
        bound.offsets("byte")
    with refuses("MFMA_16X16X128_A: place must be one of ['lane', 'vgpr', 'nibble'], not 'byte'"):
        MFMA_16X16X128_A.formula("byte")


def test_explaining_coordinates_of_the_wrong_rank():
    with refuses("WEIGHT_PRESHUFFLE: coordinates must be (..., N, KB), not (5,)"):
        explain(WEIGHT_PRESHUFFLE, None, (5,))
    with refuses("SCALE_SHUFFLE: coordinates must be (R, G), not (1, 2, 3)"):
        explain(SCALE_SHUFFLE, None, (1, 2, 3))
