"""What the gfx950 figures are made of: counts of our kernel, a contest entry without aiter, the sweep."""

import pytest

from mxassay.errors import MxassayError, UnsupportedError
from mxassay.figures import conversion_sweep
from mxassay.figures.figure import Wish
from mxassay.figures.kernels_on_gfx950 import measure
from mxassay.figures.rivals import Rival, contest_entry
from mxassay.figures.watched import watch
from mxassay.optimized import matmul

SMALL = (4, 64, 256)

ENTRY = """a saved entry

#!POPCORN leaderboard amd-mxfp4-mm
import aiter
from aiter.ops.gemm_op_a4w4 import get_GEMM_config
from aiter.utility import dtypes
from task import input_t
from mxassay.optimized import matmul, Plan

get_GEMM_config.gemm_dict[1] = 2
get_GEMM_config.cache_clear()

def custom_kernel(data):
    a, b, b_q, weights, scales = data
    return matmul(a, weights, scales, plan=Plan(tile_m=4, tile_n=32, tile_k=256))
"""


def own(x):
    return matmul(x.a, x.b_preshuffled, x.b_scales_shuffled)


def test_a_right_kernel_is_counted_and_modelled():
    found = watch(own, SMALL)
    assert found.wrong == 0
    (row,) = found.rows("ours")
    # Two MFMA deep, four columns of tiles of 16; each wave multiplies its own column.
    assert row["instructions"]["mfma"] == 2 * 4
    assert row["waves"] == 4 * row["groups"]
    assert row["spills"] == 0
    assert row["loaded_per_needed"] >= 1
    assert found.vector_per_matrix == row["instructions"]["valu"] / 8
    assert 2.2 < row["modelled_us"] < 20
    assert found.seconds * 1e6 == pytest.approx(row["modelled_us"], abs=1e-3)
    assert set(row["bounds_us"]) >= {"wave", "vector", "matrix", "lds", "memory"}


def test_a_wrong_kernel_is_seen():
    def wrong(x):
        out = own(x)
        out[0, 0] = float("nan")
        return out

    assert watch(wrong, SMALL).wrong == 1


def test_a_contest_entry_loads_without_aiter(tmp_path):
    import sys

    file = tmp_path / "entry.txt"
    file.write_text(ENTRY)
    before = sys.modules.get("aiter")
    with contest_entry(file) as rival:
        assert sys.modules.get("aiter") is before
        found = watch(rival.call, SMALL)
    assert found.wrong == 0
    assert found.work[0].groups == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [("import no_such_module_here", "no_such_module_here"), ("x = 1", "custom_kernel"), (None, "must be a file")],
)
def test_an_entry_that_does_not_load_is_refused(tmp_path, text, words):
    file = tmp_path / "entry.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UnsupportedError, match=words), contest_entry(file):
        pass


def test_bars_come_from_the_seed_of_the_same_run(monkeypatch, tmp_path):
    monkeypatch.setattr("mxassay.optimized.LEADERBOARD", (SMALL, (5, 64, 256)))
    file = tmp_path / "entry.py"
    file.write_text(ENTRY)
    measured = measure(Wish(seed_kernel=str(file)))
    by_id = {figure.id: figure for figure in measured.figures}
    counted, timed = by_id["4,64,256 vector ALU per MFMA"], by_id["4,64,256 modelled time"]
    assert counted.bar == pytest.approx(0.6 * counted.value / counted.ratio)
    assert timed.bar == pytest.approx(timed.value / timed.ratio)
    assert by_id["modelled time over the seed's"].low <= timed.ratio <= by_id["modelled time over the seed's"].high
    assert by_id["wrong outputs, six shapes"].holds
    kernels = [row["kernel"] for row in measured.table if "kernel" in row]
    assert kernels == ["ours", "ours", "seed", "seed"]
    assert any(row.get("assumption") == "memory_latency" for row in measured.table)


def test_the_sweep_compares_every_code(monkeypatch):
    assert conversion_sweep.sweep() == 65_536 * 254
    from mxassay.reference import formats

    right = formats.encode
    monkeypatch.setattr(formats, "encode", lambda *x: right(*x) ^ (right(*x) == 3).byte())
    with pytest.raises(MxassayError, match="must equal the reference"):
        conversion_sweep.sweep()


def test_a_rival_says_whether_it_quantizes():
    assert Rival("seed", own).fused
