"""The address formulas once more, written by hand for each layout; they share nothing with the declarations."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from mxassay.layouts import LAYOUTS, BoundLayout


@dataclass(frozen=True)
class Case:
    """One layout at one shape, with the padded shape and every place number as the vendor's text gives them."""

    name: str
    shape: tuple[int, ...]
    padded_shape: tuple[int, ...]
    places: Callable[..., dict[str, np.ndarray]]

    @property
    def bound(self) -> BoundLayout:
        return LAYOUTS[self.name].bind(self.shape)

    def numbers(self) -> dict[str, np.ndarray]:
        return self.places(*np.indices(self.padded_shape), *self.padded_shape[-2:])

    def offsets(self) -> np.ndarray:
        """The linear offset: the places one after the other, the last innermost."""
        total = np.zeros(self.padded_shape, dtype=np.int64)
        for name, numbers in self.numbers().items():
            total = total * SIZES.get((self.name, name), 1) + numbers
        return total


# How many values each inner place takes.
SIZES = {("PACKING", "nibble"): 2}
for _shape, _vgprs in (("16X16X128", 4), ("32X32X64", 16)):
    for _operand in "AB":
        SIZES[f"MFMA_{_shape}_{_operand}", "vgpr"] = 4
        SIZES[f"MFMA_{_shape}_{_operand}", "nibble"] = 8
    SIZES[f"MFMA_{_shape}_D", "vgpr"] = _vgprs


def packing(k, K):
    return {"byte": k // 2, "nibble": k % 2}


def packing_rows(row, k, R, K):
    return {"byte": row * (K // 2) + k // 2, "nibble": k % 2}


def packing_planes(plane, row, k, R, K):
    return {"byte": (plane * R + row) * (K // 2) + k // 2, "nibble": k % 2}


def weight(n, kb, N, KB):
    return {"offset": (n // 16) * 16 * KB + (kb // 32) * 512 + ((kb % 32) // 16) * 256 + (n % 16) * 16 + kb % 16}


def expert_weight(expert, n, kb, N, KB):
    return {"offset": expert * N * KB + weight(n, kb, N, KB)["offset"]}


def scale(r, g, Rp, Gp):
    return {
        "offset": (r // 32) * 32 * Gp
        + (g // 8) * 256
        + (g % 4) * 64
        + (r % 16) * 4
        + ((g % 8) // 4) * 2
        + (r % 32) // 16
    }


def operand_16(row, k, *_):
    return {"lane": row + 16 * (k // 32), "vgpr": (k % 32) // 8, "nibble": k % 8}


def operand_32(row, k, *_):
    return {"lane": row + 32 * (k // 32), "vgpr": (k % 32) // 8, "nibble": k % 8}


def scale_16(row, block, *_):
    return {"lane": row + 16 * block}


def scale_32(row, block, *_):
    return {"lane": row + 32 * block}


def result_16(i, j, *_):
    return {"lane": j + 16 * (i // 4), "vgpr": i % 4}


def result_32(i, j, *_):
    return {"lane": j + 32 * ((i // 4) % 2), "vgpr": 4 * (i // 8) + i % 4}


CASES = [
    Case("PACKING", (2,), (2,), packing),
    Case("PACKING", (96,), (96,), packing),
    Case("PACKING", (5, 64), (5, 64), packing_rows),
    Case("PACKING", (3, 4, 10), (3, 4, 10), packing_planes),
    Case("WEIGHT_PRESHUFFLE", (16, 32), (16, 32), weight),
    Case("WEIGHT_PRESHUFFLE", (16, 96), (16, 96), weight),
    Case("WEIGHT_PRESHUFFLE", (48, 32), (48, 32), weight),
    Case("WEIGHT_PRESHUFFLE", (80, 224), (80, 224), weight),
    Case("WEIGHT_PRESHUFFLE", (3, 32, 64), (3, 32, 64), expert_weight),
    Case("SCALE_SHUFFLE", (1, 1), (256, 8), scale),
    Case("SCALE_SHUFFLE", (4, 16), (256, 16), scale),
    Case("SCALE_SHUFFLE", (255, 7), (256, 8), scale),
    Case("SCALE_SHUFFLE", (256, 8), (256, 8), scale),
    Case("SCALE_SHUFFLE", (257, 9), (512, 16), scale),
    Case("SCALE_SHUFFLE", (300, 36), (512, 40), scale),
    Case("MFMA_16X16X128_A", (16, 128), (16, 128), operand_16),
    Case("MFMA_16X16X128_B", (16, 128), (16, 128), operand_16),
    Case("MFMA_16X16X128_SCALE", (16, 4), (16, 4), scale_16),
    Case("MFMA_16X16X128_D", (16, 16), (16, 16), result_16),
    Case("MFMA_32X32X64_A", (32, 64), (32, 64), operand_32),
    Case("MFMA_32X32X64_B", (32, 64), (32, 64), operand_32),
    Case("MFMA_32X32X64_SCALE", (32, 2), (32, 2), scale_32),
    Case("MFMA_32X32X64_D", (32, 32), (32, 32), result_32),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.name}-{'x'.join(map(str, case.shape))}")
def case(request) -> Case:
    return request.param


@pytest.fixture(scope="session")
def covered() -> set[str]:
    """The names of the layouts that have a formula by hand."""
    return {case.name for case in CASES}


@pytest.fixture(scope="session")
def by_hand() -> Callable[[str, tuple[int, ...], tuple[int, ...]], Case]:
    """Makes the case of a layout at any shape, with its formula by hand for that rank."""
    formulas = {(case.name, len(case.shape)): case.places for case in CASES}

    def make(name, shape, padded_shape):
        return Case(name, shape, padded_shape, formulas[name, len(shape)])

    return make
