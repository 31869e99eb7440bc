"""Another Triton compiles the failing call: MXASSAY_OTHER_TRITON names it, a folder that
`pip install --target DIR --no-deps triton==VERSION` filled, or a Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxassay.elsewhere import OtherTriton
from mxassay.errors import UnsupportedError
from mxassay.properties.faults import planted
from mxassay.properties.faults.tree import snapshot
from mxassay.triage.compilations import STAGES

OTHER = os.environ.get("MXASSAY_OTHER_TRITON")


def test_what_holds_no_triton_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match=r"^the other Triton must be a folder that holds triton, or a Python"):
        OtherTriton(tmp_path)


@pytest.mark.skipif(not OTHER, reason="no other Triton is given: MXASSAY_OTHER_TRITON=DIR")
def test_a_product_that_only_one_triton_gets_wrong_names_where_they_part(tmp_path):
    """Without an early clobber the registers decide, which versions choose differently: 3.9.0 is wrong, and 3.7.1;
    3.8.0 is right. Their source and its layouts are the same: they part at LLVM's IR."""
    import triton

    chosen = next(entry for entry in planted() if entry.id == "early-clobber-missing")
    tree = snapshot(tmp_path / "original").planted(chosen, tmp_path / "planted")
    environment = os.environ | {"PYTHONPATH": str(tree.root / "src"), "TRITON_CACHE_DIR": str(tmp_path / "compiled")}
    environment.pop("TRITON_INTERPRET", None)
    script = Path(__file__).with_name("transposed_kernel.py")
    done = subprocess.run(
        [sys.executable, str(script), str(OTHER)],
        capture_output=True, text=True, env=environment, check=True, cwd=tree.root,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    there = found["there"]
    assert there["version"] != triton.__version__
    assert there["kernels"] == ["fused_gemm_kernel", "reduce_kernel"]
    if triton.__version__ != "3.9.0":
        pytest.skip(f"measured with Triton 3.9.0, not {triton.__version__}")
    assert found["fails"]
    assert found["culprit"] == "compiler"
    if there["fails"]:
        assert f"; wrong with Triton {there['version']} too" in found["statement"]
    else:
        assert found["passing"] == f"Triton {there['version']}"
        assert found["compiler_stage"] in STAGES
    if there["version"] in ("3.7.1", "3.8.0"):
        assert there["fails"] == (there["version"] == "3.7.1")
        assert there["fails"] or found["compiler_stage"] == "llir"
