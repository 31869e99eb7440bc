"""A small stand-in for an aiter checkout, written here: the same folders and names, none of its code."""

import os
from pathlib import Path

import pytest

AITER = os.environ.get("MXASSAY_AITER")

FILES = {
    "aiter/__init__.py": """
import os
TRITON_ONLY = os.getenv("AITER_TRITON_ONLY") == "1"
if not TRITON_ONLY:
    from .jit import core as core
    from .utility import dtypes as dtypes
    from .ops.enum import *
    from .ops.mixed import *
    from .ops.gemm_op_a4w4 import *
    from .ops.needs_more import *
from .ops.triton import early  # reads aiter.dtypes while aiter is still loading, as the real one does
""",
    "aiter/jit/__init__.py": "",
    "aiter/jit/core.py": """
import chip_info
def compile_ops(*args, **kwargs):
    raise AssertionError("the original must not be reached")
""",
    "aiter/jit/utils/chip_info.py": """
import os, subprocess
def _run(tool):
    return subprocess.run([os.path.join(os.environ["ROCM_HOME"], "bin", tool)], capture_output=True, text=True).stdout
GFX = next(line.split()[-1] for line in _run("rocminfo").splitlines() if "Name:" in line)
UNITS = next(line.split()[-1] for line in _run("rocminfo").splitlines() if "Compute Unit" in line)
HIP = _run("hipconfig").strip()
""",
    "aiter/utility/__init__.py": "",
    "aiter/utility/dtypes.py": "from ..jit import core\nfp4x2 = 'fp4x2'\n",
    "aiter/ops/__init__.py": "",
    "aiter/ops/enum.py": """
from ..jit.core import compile_ops
@compile_ops("module_aiter_core", "QuantType")
def _QuantType(dummy): ...
QuantType = type(_QuantType(0))
""",
    "aiter/ops/mixed.py": """
from ..jit.core import compile_ops
from aiter import dtypes
@compile_ops("module_norm", fc_name="rms")
def rms_norm(x): ...
@compile_ops("module_gemm_common", fc_name="getPaddedM", ffi_type="ctypes")
def get_padded_m(M, N, K, gl): ...
def pure(x): return x + 1
CONSTANT = 7
""",
    "aiter/ops/gemm_op_a4w4.py": "raise AssertionError('the original must not be loaded')\ndef gemm_a4w4(): ...\n",
    "aiter/ops/needs_more.py": "import a_package_that_nobody_has\ndef needs_more(): ...\n",
    "aiter/ops/triton/__init__.py": "",
    "aiter/ops/triton/early.py": "import aiter\nseen = aiter.dtypes.fp4x2\n",
    "aiter/ops/triton/gemm/__init__.py": "",
    "aiter/ops/triton/gemm/basic/__init__.py": "",
    "aiter/ops/triton/gemm/basic/gemm_x.py": "VALUE = 'public'\n",
    "aiter/ops/triton/_triton_kernels/gemm/basic/gemm_x.py": "VALUE = 'private'\n",
    "aiter/ops/triton/attention/twice.py": "",
    "aiter/ops/triton/moe/twice.py": "",
    "hsa/gfx950/f4gemm/f4gemm_bf16_per1x32Fp4.csv": """\
tile_M,tile_N,splitK,bpreshuffle,knl_name,co_name
64,128,0,1,_ZN5aiter1aE,f4gemm_BpreShuffle_64x128.co
256,256,1,1,_ZN5aiter1bE,f4gemm_BpreShuffle_256x256.co
256,256,0,0,_ZN5aiter1cE,f4gemm_noBpreShuffle_256x256.co
128,512,0,1,_ZN5aiter1dE,f4gemm_BpreShuffle_128x512.co
""",
    "aiter/configs/a4w4_blockscale_tuned_gemm.csv": """\
gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName
gfx950,256,4,256,512,1,0,5.0,_ZN5aiter1aE
gfx950,256,512,128,512,1,0,5.0,a4w4_blockscale_compiled
gfx942,256,8,8,512,1,0,5.0,_ZN5aiter1aE
gfx950,80,8,8,512,1,0,5.0,_ZN5aiter1aE
""",
    "aiter/configs/model_configs/m_a4w4_blockscale_tuned_gemm.csv": """\
gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName
gfx950,256,32,512,512,1,1,5.0,_ZN5aiter1bE
gfx950,256,4,256,512,1,0,5.0,_ZN5aiter1bE
""",
    "aiter/configs/model_configs/m_a4w4_blockscale_untuned_gemm.csv": "M,N,K\n1,2,3\n",
}


@pytest.fixture
def fake_checkout(tmp_path):
    """The root of a stand-in checkout."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.fixture
def real_checkout():
    """A real aiter checkout, where the environment names one."""
    if not AITER:
        pytest.skip("set MXASSAY_AITER to the root of an aiter checkout")
    return Path(AITER)
